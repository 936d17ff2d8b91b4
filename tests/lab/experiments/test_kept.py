"""An experiment that was stopped goes on with the part that it was measuring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nearcast.errors import InvalidValue, SourceError
from nearcast_lab.experiments.boolean import run
from nearcast_lab.experiments.boolean.lab import BooleanScale, Lab
from nearcast_lab.experiments.kept import KeptParts
from nearcast_lab.report import claim, figure

ABOUT = {"sizes": (1, 2), "seed": 1}


def test_a_part_is_measured_once(tmp_path: Path) -> None:
    """A run that fails in its second part keeps the first; the next one measures the rest."""
    path, measured = tmp_path / "parts.json", []

    def part(name: str) -> dict[str, Any]:
        measured.append(name)
        if measured == ["a", "b"]:
            raise KeyboardInterrupt
        return {"name": name, "values": [1.5]}

    kept = KeptParts(path, ABOUT)
    assert kept.part("a", lambda: part("a")) == {"name": "a", "values": [1.5]}
    with pytest.raises(KeyboardInterrupt):
        kept.part("b", lambda: part("b"))
    again = KeptParts(path, ABOUT)
    found = [again.part(name, lambda name=name: part(name)) for name in ("a", "b")]  # type: ignore[misc]
    assert [one["name"] for one in found] == ["a", "b"]
    assert measured == ["a", "b", "b"]
    assert [each.name for each in tmp_path.iterdir()] == ["parts.json"]


def test_parts_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "parts.json"
    KeptParts(path, ABOUT).part("a", dict)
    with pytest.raises(InvalidValue, match="a file of the same seed, or a new one"):
        KeptParts(path, ABOUT | {"seed": 2})
    path.write_text("[]")
    with pytest.raises(SourceError, match="not a file of measured parts"):
        KeptParts(path, ABOUT)


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    assert KeptParts(None, ABOUT).part("a", lambda: {"a": 1}) == {"a": 1}
    assert list(tmp_path.iterdir()) == []


def test_the_report_on_boolean_subscriptions_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sections that were measured are not measured again, and their options are in the notes."""
    asked = []

    def section(lab: Lab) -> Any:
        asked.append("one")
        lab.make("ap-tree:cut=again", lab.world(20))
        return [figure("p", "1", "t", "x", [1], {"a": [1.0]})], [claim("p", "1", "x", "y", True)]

    monkeypatch.setattr(run, "SECTIONS", {"one": section})
    scale, path = BooleanScale("tiny", 20, (20,), 20, 1, 0.01), tmp_path / "parts.json"
    first = run.measure(scale, 1, lambda _: None, ("one",), path)
    label, _, options = first["notes"][-1].partition(": ")
    assert label == "ap-tree:cut=again"
    assert options.startswith("fanout=200, leaf_capacity=40, order=tf")
    assert {"cut=again", "history=20,000 messages"} <= set(options.split(", "))
    assert run.measure(scale, 1, lambda _: None, ("one",), path) == first
    assert asked == ["one"]
    with pytest.raises(InvalidValue, match="seed"):
        run.measure(scale, 2, lambda _: None, ("one",), path)
