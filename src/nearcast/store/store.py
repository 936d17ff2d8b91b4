"""The file of a durable engine: changes are committed before the call returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from nearcast.engine.changes import EngineChanges
from nearcast.engine.core import EventCore
from nearcast.engine.journal import KEYS_FOR, Clock
from nearcast.engine.settings import GivenSettings
from nearcast.errors import DamagedStoreError, InvalidValue, StoreError
from nearcast.store.backup import copy_file
from nearcast.store.connect import Reader, naming_file, open_writer, reading_file
from nearcast.store.lineage import Lineage
from nearcast.store.lock import FileLock
from nearcast.store.log import StoredLog
from nearcast.store.messages import MessageStore
from nearcast.store.restore import restore
from nearcast.store.settings import settle
from nearcast.store.snapshot import Snapshots
from nearcast.store.subscriptions import put_boxes, put_changes, row_of
from nearcast.store.sums import check_sums, mark_file, write_sums
from nearcast.store.wal import WriteAheadLog
from nearcast.store.webhooks import STATEMENTS, WebhookTable

RETAIN_SECONDS = 7 * 86_400.0
RETAIN_UPDATES = 10_000_000
_REMEMBER = {"remember": "INSERT OR REPLACE INTO remembered VALUES (?, ?, ?)"}
_MANY = 50_000  # as many subscriptions that change at once are not noted one by one


def open_store(
    path: str | Path,
    given: GivenSettings,
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
        self,
        path: Path,
        given: GivenSettings,
        clock: Clock,
        retain_seconds: float,
        retain_updates: int,
    ) -> None:
        self.path = path
        self._clock = clock
        self._lock = FileLock(path)
        self._reader = Reader(path)
        try:
            if not self._lock.is_new and path.exists() and not path.stat().st_size:
                raise DamagedStoreError(
                    f"{path}: is empty, and was not before: it is damaged; restore it from a "
                    "backup, or remove it to start over"
                )
            check_sums(path)
            self._connection = open_writer(path)
            self._wal = WriteAheadLog(path, self._connection)
            try:
                with naming_file(path), self._wal.transaction():
                    self.settings = settle(path, self._connection, given)
                with reading_file(path):
                    self.lineage = Lineage(
                        self._connection, self._transaction, _REMEMBER | STATEMENTS
                    )
                    self.webhooks = WebhookTable(
                        self._connection, self._transaction, self.lineage.run
                    )
                    self._messages = MessageStore(self._connection, self.settings.window)
                    self.log = StoredLog(
                        self._reader, self._connection, retain_seconds, retain_updates
                    )
                    self._snapshots = Snapshots(path, self._connection)
                    self.seq = self._read_seq()
            except BaseException:
                self._connection.close()
                self._wal.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._sound = True

    def _read_seq(self) -> int:
        return int(self._connection.execute("SELECT seq FROM state").fetchone()[0])

    def size(self) -> tuple[int, int]:
        """How many subscriptions and messages there are, counted up to what is many."""
        with naming_file(self.path):
            subscriptions, window, lasting = self._connection.execute(
                "SELECT (SELECT count(*) FROM (SELECT 1 FROM subscription LIMIT :most)),"
                " (SELECT coalesce(sum(count), 0) FROM window_chunk),"
                " (SELECT count(*) FROM (SELECT 1 FROM lasting LIMIT :most))",
                {"most": _MANY},
            ).fetchone()
        return int(subscriptions), int(window + lasting)

    @contextmanager
    def _transaction(self, *, counted: bool = True) -> Iterator[None]:
        """A transaction; after one that failed, what was read from the file is read again."""
        with naming_file(self.path):
            self._reload()
            self._sound = False
            with self._wal.transaction():
                yield
                if counted:
                    self.lineage.count()
        self._sound = True
        if counted:
            self.lineage.committed()

    def _reload(self) -> None:
        if not self._sound:
            self._messages.reload()
            self.log.reload()
            self._snapshots.reload()
            self.lineage.reload()
            self.seq = self._read_seq()
            self._sound = True

    def restore(self, core: EventCore) -> None:
        """Bring an engine's core, which is empty, to the state of the latest commit."""
        with reading_file(self.path):
            self._reload()
            self._messages.needed = restore(
                core, self._connection, self.settings.window, self._snapshots
            )

    def commit(self, core: EventCore, changes: EngineChanges, answers: Mapping[str, bytes]) -> None:
        """Write the changes of a call, and the answers to store with them, to the disk."""
        now = self._clock()
        with self._transaction():
            self._write(core, changes, now)
            self._remember(answers, now)
        self.seq = changes.seq
        self.log.commit(changes.updates)
        if self._snapshots.due(core):
            with suppress(StoreError):  # the changes are stored; a snapshot only saves time
                self._save_snapshot(core)

    def _save_snapshot(self, core: EventCore) -> None:
        """Write a snapshot of the index and make it current; the state must be as committed."""
        name = self._snapshots.save(core)
        if name is not None:
            with self._transaction(counted=False):
                self._snapshots.counts(name)
            self._snapshots.settled(name)

    def _write(self, core: EventCore, changes: EngineChanges, now: float) -> None:
        connection = self._connection
        self.webhooks.end(changes.ended)
        others = chain(changes.moved, *(ids.to_pylist() for ids in changes.added))
        changed = changes.subscriptions | {id: core.subscription(id) for id in others}
        if changed:
            rows = {
                id: None if one is None else row_of(one, core.attributes.end_of(id))
                for id, one in changed.items()
            }
            put_changes(connection, rows)
            if len(changed) < _MANY:
                self._snapshots.note(changed, len(changed))
            else:
                self._snapshots.forget(len(changed))
        for new in changes.boxes:
            put_boxes(connection, new)
            if len(new.ids) < _MANY:
                self._snapshots.note(new.ids.to_pylist(), len(new.ids))
            else:
                self._snapshots.forget(len(new.ids))
        self._messages.add(changes.messages)
        self._messages.withdraw(changes.withdrawn)
        if changes.now is not None:
            self._messages.prune(changes.now, core.oldest)
        self.log.write(changes.updates, now, changes.messages)
        connection.execute(
            "UPDATE state SET seq = ?, now = coalesce(?, now), last_update = ?, oldest = ?",
            (changes.seq, changes.now, changes.last, core.oldest),
        )

    def _remember(self, answers: Mapping[str, bytes], at: float) -> None:
        if answers:
            self.lineage.run("remember", [(key, answer, at) for key, answer in answers.items()])
            self._connection.execute(
                "DELETE FROM remembered WHERE at <= ?", (self._clock() - KEYS_FOR,)
            )

    def remember(self, key: str, answer: bytes, at: float | None) -> None:
        """Store an answer under an idempotency key."""
        with self._transaction():
            self._remember({key: answer}, self._clock() if at is None else at)

    def recall(self, key: str) -> bytes | None:
        """The answer under a key, for a day."""
        query = "SELECT answer FROM remembered WHERE key = ? AND at > ?"
        with naming_file(self.path):  # the writer's own connection: readers may be busy
            found = self._connection.execute(query, (key, self._clock() - KEYS_FOR)).fetchone()
        return None if found is None else bytes(found[0])

    def stored_bytes(self) -> int:
        """How many bytes of the file are in use: free pages, which are used next, do not count."""

        def pragma(name: str) -> int:
            return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

        with naming_file(self.path):
            return (pragma("page_count") - pragma("freelist_count")) * pragma("page_size")

    def frees_by(self, at: float) -> bool:
        """Whether an event of that time ends messages, or updates are past their time."""
        query = "SELECT EXISTS (SELECT 1 FROM lasting WHERE ends <= ?)"
        with naming_file(self.path):
            ends = bool(self._connection.execute(query, (at,)).fetchone()[0])
        return ends or self.log.is_due(self._clock())

    def backup(self, path: str | Path) -> None:
        """Write a copy of the state of the latest commit."""
        copy_file(self.path, Path(path))

    def close(self, core: EventCore | None) -> None:
        """Close the file; first write a snapshot if the next opening needs one."""
        self._reader.close()
        if core is not None and self._sound and self._snapshots.worth_closing_with(core):
            with suppress(StoreError):  # it only saves time
                self._save_snapshot(core)
        try:
            mark = None if core is None else self._mark()
            with naming_file(self.path):
                self._connection.close()
            if mark is not None:
                write_sums(self.path, mark)
        finally:
            self._wal.close()
            self._lock.release()

    def _mark(self) -> str | None:
        """Mark the file for its checksums, if it can still be written.

        One that could not be read gets none: it would pass for sound.
        """
        if self._sound:
            with suppress(sqlite3.Error, StoreError), self._transaction(counted=False):
                return mark_file(self._connection)
        return None
