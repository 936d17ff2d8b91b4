"""The log of updates in the file, with the latest of them in memory too."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from nearcast.engine.chunks import CHUNK_SCHEMA, as_columns
from nearcast.engine.update_log import Entry, RecentUpdates, Rows, entries_of
from nearcast.store.connect import open_reader, told
from nearcast.store.packing import pack, unpack

_PUT = "INSERT INTO update_chunk VALUES (?, ?, ?, ?, ?)"
_IN_MEMORY = 20_000  # listeners who are no further behind than this cost no reading of the file


class _Held(NamedTuple):
    first: int
    size: int
    written: float


class StoredLog:
    """Reads from its own connection, so that readers and the writer do not wait for each other."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, seconds: float, updates: int
    ) -> None:
        self._path = path
        self._connection = connection
        self._seconds, self._updates = seconds, updates
        self._reader: sqlite3.Connection | None = None
        self._reading = Lock()
        self.reload()

    def reload(self) -> None:
        """Take note of what the file holds."""
        rows = self._connection.execute(
            "SELECT first, count, written FROM update_chunk ORDER BY first"
        )
        self._held = deque(_Held(*row) for row in rows)
        last = self._connection.execute("SELECT last_update FROM state").fetchone()[0]
        self._recent = RecentUpdates(_IN_MEMORY, int(last))
        self._kept_from = self._held[0].first if self._held else int(last) + 1

    @property
    def first(self) -> int:
        """The smallest id that is still kept; `last + 1` if none is."""
        return self._kept_from

    @property
    def last(self) -> int:
        """The largest id that was ever given."""
        return self._recent.last

    def read(self, after: int, limit: int, subscription: str | None = None) -> list[Entry]:
        """The first `limit` updates with ids above `after`, of one subscription or of all."""
        recent = self._recent
        if after + 1 >= recent.first:
            return recent.read(after, limit, subscription)
        found: list[Entry] = []
        with self._reading, told(self._path):
            if self._reader is None:
                self._reader = open_reader(self._path)
            rows = self._reader.execute(
                "SELECT first, size, data FROM update_chunk WHERE first >= coalesce("
                "(SELECT max(first) FROM update_chunk WHERE first <= ?), 0) ORDER BY first",
                (after + 1,),
            )
            for first, size, data in rows:
                if len(found) >= limit:
                    break
                batch = unpack(CHUNK_SCHEMA, size, data)
                found += entries_of(first, batch, after, limit - len(found), subscription)
            rows.close()
        return found

    def write(self, chunks: Sequence[Rows], now: float) -> None:
        """Write updates, in the transaction that is open; `commit` follows when it is done."""
        first = self.last + 1
        for rows in chunks:
            batch = as_columns(rows)
            self._connection.execute(_PUT, (first, len(batch), now, *pack(batch)))
            self._held.append(_Held(first, len(batch), now))
            first += len(batch)
        self._prune(first - 1, now)

    def _prune(self, last: int, now: float) -> None:
        gone = []
        while self._held:
            first, size, written = self._held[0]
            enough = last - (first + size) + 1 >= self._updates
            if not enough and written > now - self._seconds:
                break
            gone.append((first,))
            self._held.popleft()
        if gone:
            self._connection.executemany("DELETE FROM update_chunk WHERE first = ?", gone)

    def commit(self, chunks: Sequence[Rows]) -> None:
        """Let readers see what was written."""
        self._recent.append(chunks)
        self._kept_from = self._held[0].first if self._held else self.last + 1

    def close(self) -> None:
        """Let go of the file."""
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
