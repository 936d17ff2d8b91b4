"""Property tests draw the same examples everywhere, and a search finds others and says which."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import searching

HERE = Path(__file__).parent
PROPERTIES = """
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule


@given(st.integers())
def test_numbers_are_small(number):
    assert number < 1000


@given(st.integers())
def test_numbers_are_numbers(number):
    assert isinstance(number, int)


class Counter(RuleBasedStateMachine):
    count = 0

    @rule()
    def up(self):
        self.count += 1
        assert self.count < 3


TestCounter = Counter.TestCase


def test_a_machine_that_is_made(run_machine):
    run_machine(Counter, examples=5, steps=5)


def test_no_property():
    raise AssertionError("ran all the same")
"""


drawn_here: set[int] = set()


def drawn() -> list[tuple[int, str]]:
    """What a property test draws."""
    found = []

    @settings(max_examples=300)
    @given(st.integers(), st.text())
    def note(number: int, text: str) -> None:
        found.append((number, text))

    note()
    return found


@settings(max_examples=10)
@given(number=st.integers())
def test_the_suite_draws_half_of_what_is_asked_for_and_a_search_more(
    number: int, pytestconfig: pytest.Config
) -> None:
    drawn_here.add(number)
    assert len(drawn_here) <= (50 if searching(pytestconfig) else 5)


def test_examples_do_not_depend_on_what_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sources have other constants; nor do they on the clock, or on the run before."""
    before = drawn()
    (tmp_path / "with_constants.py").write_text(
        f"NUMBERS = {[10**6 + n for n in range(99)]}\nTEXTS = {[f'text {n}' for n in range(99)]}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("with_constants")
    assert drawn() == before
    assert len(set(before)) > 200


def test_a_search_goes_on_and_tells_how_to_repeat_what_it_found(tmp_path: Path) -> None:
    for name in ("conftest.py", "helpers/examples.py", "soak/search.py"):
        copy = tmp_path / "tests" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((HERE / name).read_text())
    (tmp_path / "tests" / "test_properties.py").write_text(PROPERTIES)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\npythonpath = tests/helpers")
    search = [sys.executable, "tests/soak/search.py", "--rounds", "2", "-n", "1"]
    done = subprocess.run(search, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = done.stdout
    assert done.returncode == 1, said + done.stderr
    first, second = said.split("Round 2")
    assert "3 failed, 1 passed" in first
    assert "\n1 passed" in second
    assert said.endswith("3 found.\n")
    assert "number=1000" in said
    assert "ran all the same" not in said
    [again] = re.findall(r"^  (\S+ -m pytest .*numbers_are_small .*)$", said, re.MULTILINE)
    repeated = subprocess.run(
        shlex.split(again), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert repeated.returncode == 1
    assert "number=1000" in repeated.stdout
