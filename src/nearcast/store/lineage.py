"""The numbers of a file's commits, so that a copy of it can follow.

Every commit has a position, which grows by one, and a mark, which is random: two files that have
the same position and mark have the same contents. The commits between two promotions are a term.
A file that was never copied by another server has no terms, and its commits are not counted.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

Rows = Sequence[Sequence[Any]]
Note = tuple[str, Rows]
"""The name of a statement, and the rows that it was executed with."""

_PUT = "INSERT OR REPLACE INTO about VALUES (?, ?)"
STATEMENTS = {"about": _PUT}


class PrimaryTerm(NamedTuple):
    """The commits of one primary, from `position` on; events and updates before it are counted."""

    number: int
    id: str
    position: int
    seq: int
    last: int


class HistoryEnd(NamedTuple):
    """A point in the history of a file, with the events and updates up to it."""

    position: int
    seq: int
    last: int


class NumberedCommit(NamedTuple):
    """A commit, with the statements that are not the effect of events."""

    position: int
    mark: str
    notes: list[Note]


class Lineage:
    """The commits of a file; used by the thread that uses its engine."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        commit: Callable[[], AbstractContextManager[None]],
        statements: Mapping[str, str],
    ) -> None:
        self._connection = connection
        self._commit = commit
        self._statements = dict(statements) | STATEMENTS
        self.recording = False
        self._commits: list[NumberedCommit] = []
        self._next: tuple[int, str] | None = None
        self._counted: tuple[int, str] | None = None  # by the open transaction
        self._begun: list[PrimaryTerm] | None = None
        self.reload()

    def reload(self) -> None:
        """Read what the file holds."""
        rows = self._connection.execute(
            "SELECT key, value FROM about WHERE key IN ('terms', 'position')"
        )
        found = dict(rows.fetchall())
        self.terms = [PrimaryTerm(*each) for each in json.loads(found.get("terms", "[]"))]
        place, _, self.mark = found.get("position", "0 ").partition(" ")
        self.position = int(place)
        self._notes: list[Note] = []
        self._counted = self._begun = None

    def run(self, name: str, rows: Iterable[Sequence[Any]]) -> int:
        """Execute a statement in the open transaction, and return how many rows it changed."""
        rows = list(rows)
        found = self._connection.executemany(self._statements[name], rows)
        if self.recording:
            self._notes.append((name, rows))
        return found.rowcount

    def count(self) -> None:
        """Count a commit, at the end of its transaction; it has its numbers once it is made."""
        if self._begun or self.terms:
            position, mark = self._next or (self.position + 1, secrets.token_hex(8))
            self._connection.execute(_PUT, ("position", f"{position} {mark}"))
            self._counted = position, mark

    def committed(self) -> None:
        """Note that the transaction was committed."""
        if self._counted is not None:
            self.position, self.mark = self._counted
        if self._begun is not None:
            self.terms = self._begun
        if self.recording and self.terms:
            self._commits.append(NumberedCommit(self.position, self.mark, self._notes))
        self._next = self._counted = self._begun = None
        self._notes = []

    def take(self) -> list[NumberedCommit]:
        """Return the commits since the last call, if they are recorded."""
        commits, self._commits = self._commits, []
        return commits

    def begin(self, number: int) -> None:
        """Begin a term; a file without one has its commits counted from now on."""
        self._next = None
        with self._commit():
            seq, last = self._connection.execute("SELECT seq, last_update FROM state").fetchone()
            term = PrimaryTerm(number, secrets.token_hex(8), self.position + 1, seq, last)
            self._begun = [*self.terms, term]
            self.run("about", [("terms", json.dumps(self._begun))])

    def expect(self, position: int, mark: str) -> None:
        """Give the next commit the numbers that it has in the file that this one follows."""
        self._next = (position, mark)

    def repeat(self, position: int, mark: str, notes: Iterable[Note]) -> None:
        """Make a commit of another file again: the one after the latest commit here."""
        with self._commit():
            self.expect(position, mark)
            for name, rows in notes:
                self.run(name, rows)
                if name == "about":
                    self._begun = [PrimaryTerm(*each) for each in json.loads(rows[0][1])]


def fork(
    own: Sequence[PrimaryTerm], end: HistoryEnd, theirs: Sequence[PrimaryTerm], position: int
) -> HistoryEnd | None:
    """Find where the history of another file, which ends at `position`, leaves one's own.

    None means that it does not: the other file is an earlier state of this one. The answer is the
    latest point that both have.
    """
    common = 0
    for one, other in zip(own, theirs, strict=False):
        if one.id != other.id:
            break
        common += 1
    if not common:
        return HistoryEnd(0, 0, 0)
    if common < len(own):
        end = HistoryEnd(own[common].position - 1, own[common].seq, own[common].last)
    if common < len(theirs) and theirs[common].position - 1 < end.position:
        end = HistoryEnd(theirs[common].position - 1, theirs[common].seq, theirs[common].last)
    if common == len(theirs) and position <= end.position:
        return None
    return end
