"""The file of a durable engine: what a call changed is committed before the call returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nearcast.engine.changes import Changes
from nearcast.engine.core import Core
from nearcast.engine.journal import KEYS_FOR, Clock
from nearcast.engine.settings import Given
from nearcast.errors import InvalidValue
from nearcast.store.backup import copy_file
from nearcast.store.connect import open_writer, told, transaction
from nearcast.store.lock import FileLock
from nearcast.store.log import StoredLog
from nearcast.store.messages import Messages
from nearcast.store.restore import restore
from nearcast.store.settings import settle
from nearcast.store.subscriptions import put_boxes, put_changes

RETAIN_SECONDS = 7 * 86_400.0
RETAIN_UPDATES = 10_000_000


def open_store(
    path: str | Path,
    given: Given,
    clock: Clock,
    retain_seconds: float | None = None,
    retain_updates: int | None = None,
) -> Store:
    """Open the file of an engine, or make one."""
    seconds = RETAIN_SECONDS if retain_seconds is None else retain_seconds
    updates = RETAIN_UPDATES if retain_updates is None else retain_updates
    if not seconds > 0:
        raise InvalidValue("retain_seconds", retain_seconds, "a number of seconds above 0")
    if not updates >= 1:
        raise InvalidValue("retain_updates", retain_updates, "a whole number of at least 1")
    return Store(Path(path), given, clock, seconds, int(updates))


class Store:
    """Keeps the state of an engine in one SQLite file, which this process alone writes."""

    heals = True

    def __init__(
        self, path: Path, given: Given, clock: Clock, retain_seconds: float, retain_updates: int
    ) -> None:
        self.path = path
        self._clock = clock
        self._lock = FileLock(path)
        try:
            self._connection = open_writer(path)
            try:
                with told(path):
                    with transaction(self._connection):
                        self.settings = settle(path, self._connection, given)
                    self._messages = Messages(self._connection, self.settings.window)
                    self.log = StoredLog(path, self._connection, retain_seconds, retain_updates)
                    self.seq = self._read_seq()
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._sound = True

    def _read_seq(self) -> int:
        return int(self._connection.execute("SELECT seq FROM state").fetchone()[0])

    def restore(self, core: Core) -> None:
        """Bring an engine's core, which is empty, to the state of the latest commit."""
        with told(self.path):
            if not self._sound:
                self._messages.reload()
                self.log.reload()
                self.seq = self._read_seq()
                self._sound = True
            restore(core, self._connection)

    def commit(self, core: Core, changes: Changes, answers: Mapping[str, bytes]) -> None:
        """Write what a call changed, and the answers to remember with it, to the disk."""
        del core
        now = self._clock()
        self._sound = False
        with told(self.path), transaction(self._connection):
            self._write(changes, now)
            self._remember(answers, now)
        self._sound = True
        self.seq = changes.seq
        self.log.commit(changes.updates)

    def _write(self, changes: Changes, now: float) -> None:
        connection = self._connection
        if changes.subscriptions:
            put_changes(connection, changes.subscriptions)
        for new in changes.boxes:
            put_boxes(connection, new)
        self._messages.add(changes.messages)
        if changes.now is not None:
            self._messages.prune(changes.now)
        self.log.write(changes.updates, now)
        connection.execute(
            "UPDATE state SET seq = ?, now = coalesce(?, now), last_update = ?, points = ?",
            (changes.seq, changes.now, changes.last, self._messages.points),
        )

    def _remember(self, answers: Mapping[str, bytes], at: float) -> None:
        if answers:
            rows = [(key, answer, at) for key, answer in answers.items()]
            self._connection.executemany("INSERT OR REPLACE INTO remembered VALUES (?, ?, ?)", rows)
            self._connection.execute(
                "DELETE FROM remembered WHERE at <= ?", (self._clock() - KEYS_FOR,)
            )

    def remember(self, key: str, answer: bytes, at: float | None) -> None:
        """Keep an answer under an idempotency key."""
        with told(self.path), transaction(self._connection):
            self._remember({key: answer}, self._clock() if at is None else at)

    def recall(self, key: str) -> bytes | None:
        """The answer under a key, for a day."""
        with told(self.path):
            found = self._connection.execute(
                "SELECT answer FROM remembered WHERE key = ? AND at > ?",
                (key, self._clock() - KEYS_FOR),
            ).fetchone()
        return None if found is None else bytes(found[0])

    def backup(self, path: str | Path) -> None:
        """Write a copy of the state of the latest commit."""
        copy_file(self.path, Path(path))

    def close(self, core: Core | None) -> None:
        """Let go of the file."""
        del core
        self.log.close()
        try:
            with told(self.path):
                self._connection.close()
        finally:
            self._lock.release()
