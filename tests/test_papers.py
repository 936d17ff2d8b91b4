"""The page about the papers names all their items, and code, tests and commands that exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from nearcast_lab.cli.bench import bench
from nearcast_lab.cli.experiment import experiment
from nearcast_lab.workloads.registry import WORKLOADS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "research" / "papers.md").read_text(encoding="utf-8")
KINDS = ("definition", "equation", "lemma", "theorem", "algorithm", "table", "figure")

COMMANDS = {
    *(f"bench {command.name}" for command in bench.registered_commands),
    *(f"experiment {command.name}" for command in experiment.registered_commands),
    *(f"generate {name}" for name in WORKLOADS),
}

# How many of each kind a paper has; of some kinds none are numbered.
ITEMS = {
    "Skype and DSkype": (12, 18, 7, 6, 4, 5, 26),
    "PS2Stream": (4, 0, 0, 2, 1, 0, 16),
    "AP-Tree": (2, 3, 0, 1, 4, 2, 17),
    "AP+-Tree": (1, 15, 0, 1, 8, 3, 27),
    "LFilter": (1, 4, 1, 3, 3, 1, 11),
}


def rows(paper: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {paper}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def named(item: str) -> list[tuple[str, int]]:
    """The numbered items of the first column, as in `definitions 6 to 8, equation 2`."""
    found = []
    for kind, numbers in re.findall(
        rf"\b({'|'.join(KINDS)})s? ((?:\d+(?: to | and |, (?=\d))?)+)", item.split(":")[0]
    ):
        for part in re.split(r", | and ", numbers.strip()):
            first, _, last = part.strip().partition(" to ")
            found += [(kind, n) for n in range(int(first), int(last or first) + 1)]
    return found


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_of_a_paper_is_on_the_page_once(paper: str) -> None:
    found = [one for row in rows(paper) for one in named(row[0])]
    expected = [
        (kind, n + 1) for kind, count in zip(KINDS, ITEMS[paper], strict=True) for n in range(count)
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("paper", ITEMS)
def test_code_that_is_named_can_be_imported(paper: str) -> None:
    for row in rows(paper):
        for path in re.findall(r"`(nearcast[\w.]+)`", row[1]):
            assert resolved(path) is not None, path
        assert row[1] == "-" or "`nearcast" in row[1], row


def resolved(path: str) -> object:
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            found = getattr(found, name)
        return found
    return None


@pytest.mark.parametrize("paper", ITEMS)
def test_tests_and_commands_that_are_named_exist(paper: str) -> None:
    for row in rows(paper):
        _, where, test, shown = row
        assert (where == "-") == (test == "-"), row
        if test != "-":
            assert (ROOT / "tests" / test.strip("`")).exists(), row
        assert shown == "-" or shown.strip("`") in COMMANDS, row
