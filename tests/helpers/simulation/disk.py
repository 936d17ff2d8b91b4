"""The disk of a simulated process: places to end at, commits that fail, and what is left then."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Protocol

from nearcast.store.wal import WriteAheadLog
from simulation.loops import current_loop, pause

_COMMIT_S = 0.004
_FULL = 2  # of the pragma: the disk confirms each commit
_CHANGES = {"os.rename", "os.remove", "os.link", "os.mkdir"}


class DiskUser(Protocol):
    """A process, as its disk sees it."""

    def crash(self) -> None:
        """End here."""
        ...


class SimulatedDisk:
    """A folder, and when its process dies or its writes fail: set by who makes trouble."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder = folder
        self.random = random
        self.dies_in = 0  # places from here; 0 for not at all
        self.tears = False  # whether the power goes with the process: what is not synced is lost
        self.fails = 0.0  # how many commits of all
        self.places = 0
        self._before: dict[Path, int] = {}  # how long logs were when they were last confirmed

    def point(self, user: DiskUser) -> None:
        """A place to end at."""
        self.places += 1
        if self.dies_in:
            self.dies_in -= 1
            if not self.dies_in:
                user.crash()

    def before_commit(self, log: Path) -> None:
        """Note where the log ends before a commit, or let it fail."""
        size = log.stat().st_size if log.exists() else 0
        self._before[log] = min(self._before.get(log, size), size)
        if self.fails and self.random.random() < self.fails:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            error.sqlite_errorname = "SQLITE_FULL"
            raise error

    def committed(self, log: Path) -> None:
        """Note that the disk has confirmed a commit: its process may say so from now on."""
        self._before.pop(log, None)

    def image(self, target: Path) -> None:
        """Copy what the disk has; with `tears`, some of a commit that was not confirmed is lost."""
        if target.exists():
            shutil.rmtree(target)
        self.folder.mkdir(exist_ok=True, parents=True)
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns("*-shm"))
        if self.tears:
            for log, size in self._before.items():
                copied = target / log.relative_to(self.folder)
                if copied.exists() and copied.stat().st_size > size:
                    os.truncate(copied, self.random.randint(size, copied.stat().st_size))
            unfinished = target / "role.json.unfinished"
            if unfinished.exists():
                os.truncate(unfinished, self.random.randint(0, unfinished.stat().st_size))


def current_user() -> Any:
    """The simulated process whose code runs, if any."""
    loop = current_loop()
    return getattr(loop, "user", None) if loop is not None and loop.alive else None


def _audit(event: str, _: tuple[Any, ...]) -> None:
    if event in _CHANGES:
        user = current_user()
        if user is not None:
            user.disk.point(user)


_audited: list[bool] = []


def watch_files() -> None:
    """Make every change to names of files a place to end at; once for this process."""
    if not _audited:
        _audited.append(True)
        sys.addaudithook(_audit)


_transaction = WriteAheadLog.transaction


@contextmanager
def simulated_transaction(self: WriteAheadLog) -> Iterator[None]:
    """A transaction that takes a while, and in which the process may end or the disk fail."""
    user = current_user()
    if user is None:
        with _transaction(self):
            yield
        return
    disk: SimulatedDisk = user.disk
    pause(_COMMIT_S)
    disk.point(user)
    with _transaction(self):
        yield
        disk.point(user)
        with suppress(FileNotFoundError):
            disk.before_commit(self._log)
    disk.point(user)  # written, and not confirmed yet
    if self._connection.execute("PRAGMA synchronous").fetchone()[0] >= _FULL:
        disk.committed(self._log)
    pause(_COMMIT_S)
    disk.point(user)  # confirmed, and nobody knows
