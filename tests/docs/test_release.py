"""The script that makes releases, as far as it can be tried without making one."""

from __future__ import annotations

import pytest

import release
from nearcast.cli.counts import counted

CHANGELOG = """# Changelog

## 0.3.0 (unreleased)

- Later.

## 0.2.0 (2027-01-31)

- One thing.
- Another.

## 0.1.0 (2026-12-01)

- The first.
"""


def test_the_notes_are_the_section_of_the_version() -> None:
    assert release.notes_of(CHANGELOG, "0.2.0") == "- One thing.\n- Another.\n"
    assert release.notes_of(CHANGELOG, "0.1.0") == "- The first.\n"


@pytest.mark.parametrize(
    ("version", "said"), [("0.3.0", "write the date"), ("0.2", "has no section"), ("9.9.9", "no s")]
)
def test_a_version_without_a_dated_section_is_refused(version: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        release.notes_of(CHANGELOG, version)


@pytest.mark.parametrize("given", [[], ["1"], ["1.0.0", "1.0.1"], ["99.0.0"]])
def test_anything_but_this_version_is_refused(given: list[str]) -> None:
    with pytest.raises(SystemExit):
        release.main([*given, "--dry-run"])


def test_counts_agree_with_their_nouns() -> None:
    assert [counted(n, "update") for n in (0, 1, 2, 2000)] == [
        *("0 updates", "1 update", "2 updates", "2,000 updates")
    ]
    assert counted(2, "batch") == "2 batches"
