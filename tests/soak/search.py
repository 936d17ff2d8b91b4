"""Search for examples that break a property, with fresh seeds, until the time is over.

    .venv/bin/python tests/soak/search.py --minutes 60 [folders, files and options for pytest]

A round runs every test that uses Hypothesis with another seed and `examples.TIMES` times as many
examples as `make test`. Whatever fails is made smaller, told, and left out of the rounds to come;
the others go on. In the end all that was found is told again, with the command that repeats it.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import sys
import time
from itertools import count
from typing import NamedTuple

import pytest

UNTIL = "NEARCAST_SEARCH_UNTIL"
"""The variable that tells processes when to end a round: `examples.UNTIL`."""


class Failure(NamedTuple):
    """A test that failed, with which seed, and what was said of it."""

    test: str
    seed: int
    report: str

    def told(self) -> str:
        """What broke, and how to see it again."""
        shown = re.search(r"^.*\b(Falsifying|Failing)\b.*\Z", self.report, re.DOTALL | re.MULTILINE)
        example = shown[0] if shown else "\n".join(self.report.splitlines()[-40:])
        python = os.path.relpath(sys.executable)
        again = [python, "-m", "pytest", self.test, "--hypothesis-profile=search"]
        return f"{example}\n\n  {shlex.join([*again, f'--hypothesis-seed={self.seed}'])}\n"


class Watch:
    """A plugin of pytest that notes what fails in a round."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.found: list[Failure] = []
        self.tests = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests += report.when == "call"
        if report.failed:
            said = [report.longreprtext, *(text for _, text in report.sections)]
            self.found.append(Failure(report.nodeid, self.seed, "\n".join(said)))


def search(minutes: float, rounds: int | None, arguments: list[str]) -> list[Failure]:
    """Run so many rounds, or as many as there is time for."""
    until = time.time() + 60 * minutes
    os.environ[UNTIL] = str(until)
    found: list[Failure] = []
    for number in count(1) if rounds is None else range(1, rounds + 1):
        watch = Watch(secrets.randbits(32))
        say(f"Round {number}, seed {watch.seed}: {(until - time.time()) / 60:.0f} min left.")
        pytest.main(
            [
                *("-q", "-n", "auto", "--dist", "worksteal", "--hypothesis-profile=search"),
                f"--hypothesis-seed={watch.seed}",
                *(f"--deselect={failure.test}" for failure in found),
                *arguments,
            ],
            plugins=[watch],
        )
        found += watch.found
        if time.time() > until or not watch.tests:
            break
    return found


def say(line: str) -> None:
    """Print a line at once, among those of pytest."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Search, and give 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60, help="how long (%(default)s)")
    parser.add_argument("--rounds", type=int, help="how many rounds at most")
    given, arguments = parser.parse_known_args()
    found = search(given.minutes, given.rounds, arguments)
    for failure in found:
        say(f"\n{failure.test}\n{failure.told()}")
    say(f"{len(found)} found." if found else "Nothing found.")
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main())
