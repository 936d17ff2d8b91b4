"""Defects that are put into a server on purpose, to see that the simulation finds them.

Each is a mistake that somebody could make, and that shows only when several things coincide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any
from unittest.mock import patch

from nearcast.server.feed import Piece, UpdateFeed
from nearcast.store.connect import Reader
from nearcast.store.wal import WriteAheadLog
from simulation.world import Run, run_seed


@contextmanager
def lost_at_a_crash() -> Iterator[None]:
    """The disk is not asked to keep a commit before it is acknowledged."""
    make = WriteAheadLog.__init__

    def hasty(self: WriteAheadLog, path: Path, connection: Connection) -> None:
        connection.execute("PRAGMA synchronous = NORMAL")
        make(self, path, connection)

    with patch.object(WriteAheadLog, "__init__", hasty):
        yield


@contextmanager
def heard_twice() -> Iterator[None]:
    """A listener's place is that of the first update it was given, not of the last.

    It goes back there when its queue overflows.
    """
    following = UpdateFeed.next

    async def forgetful(self: UpdateFeed, keep_alive_s: float) -> list[Piece] | None:
        found = await following(self, keep_alive_s)
        if found:
            self.place = found[0][0]
        return found

    with patch.object(UpdateFeed, "next", forgetful):
        yield


@contextmanager
def heard_by_another_tenant() -> Iterator[None]:
    """Idle connections for reading are kept together for all files, not for each."""
    make, idle = Reader.__init__, list[Any]()

    def shared(self: Reader, path: Any) -> None:
        make(self, path)
        self._idle = idle

    def close(self: Reader) -> None:
        self._closed = True

    with patch.object(Reader, "__init__", shared), patch.object(Reader, "close", close):
        try:
            yield
        finally:
            while idle:
                idle.pop().close()


DEFECTS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    lost_at_a_crash,
    heard_twice,
    heard_by_another_tenant,
)


def first_seed_that_finds(defect: Callable[[], AbstractContextManager[None]], most: int) -> Run:
    """The first run that breaks a promise while a server has a defect."""
    for seed in range(most):
        with defect():
            run = run_seed(seed)
        if run.violation is not None:
            return run
    raise AssertionError(f"{defect.__name__}: not found by {most} seeds")
