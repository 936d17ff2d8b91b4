"""The log of updates in the file, with the latest of them in memory too."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.engine.chunks import CHUNK_SCHEMA, as_columns
from nearcast.engine.update_log import Entry, RecentUpdates, Rows, entries_of
from nearcast.events.fields import ADD, CHANGE, REMOVE
from nearcast.store.chunks import ChunkSummary, ChunkTable
from nearcast.store.connect import Reader
from nearcast.store.packing import unpack

_ADDED, _REMOVED, _CHANGED = (pa.scalar(op, pa.int8()) for op in (ADD, REMOVE, CHANGE))
_IN_MEMORY = 20_000  # listeners at most this far behind are served from memory

_OP = CHUNK_SCHEMA.get_field_index("op")
_STORED = CHUNK_SCHEMA.set(_OP, pa.field("added", pa.bool_()))
"""The columns of a chunk in the file, which has a truth value for the op; null is a change."""


def _to_store(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = rows.columns
    ops = columns[_OP]
    columns[_OP] = pc.if_else(
        pc.equal(ops, CHANGE), pa.scalar(None, pa.bool_()), pc.equal(ops, ADD)
    )
    return pa.RecordBatch.from_arrays(columns, schema=_STORED)


def _from_store(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = rows.columns
    columns[_OP] = pc.fill_null(pc.if_else(columns[_OP], _ADDED, _REMOVED), _CHANGED)
    return pa.RecordBatch.from_arrays(columns, schema=CHUNK_SCHEMA)


class StoredLog:
    """The stored log; it reads from its own connection, so readers do not block the writer."""

    def __init__(
        self, reader: Reader, connection: sqlite3.Connection, seconds: float, updates: int
    ) -> None:
        self._reader = reader
        self._connection = connection
        self._seconds, self._updates = seconds, updates
        self._chunks = ChunkTable(connection, "update_chunk", _STORED)
        self.reload()

    def reload(self) -> None:
        """Read what the file holds."""
        self._chunks.reload()
        last = self._connection.execute("SELECT last_update FROM state").fetchone()[0]
        self._recent = RecentUpdates(_IN_MEMORY, int(last))
        self._kept_from = self._first_kept()

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
        after = max(after, self._kept_from - 1)
        if after + 1 >= recent.first:
            return recent.read(after, limit, subscription)
        found: list[Entry] = []
        query = (
            "SELECT first, size, data, checksum FROM update_chunk WHERE first >= coalesce("
            "(SELECT max(first) FROM update_chunk WHERE first <= ?), 0) ORDER BY first"
        )
        with self._reader.rows(query, after + 1) as rows:
            for first, *packed in rows:
                if len(found) >= limit:
                    break
                batch = _from_store(unpack(_STORED, *packed))
                found += entries_of(first, batch, after, limit - len(found), subscription)
        return found

    def write(self, chunks: Sequence[Rows], now: float) -> None:
        """Write updates, in the transaction that is open; `commit` follows when it is done."""
        first = self.last + 1
        for rows in chunks:
            self._chunks.put(first, _to_store(as_columns(rows)), now)
            first += len(rows)

        def done(chunk: ChunkSummary) -> bool:
            enough = first - (chunk.first + chunk.rows) >= self._updates
            return enough or chunk.mark <= now - self._seconds

        self._chunks.prune(done)

    def _first_kept(self) -> int:
        oldest = self._chunks.oldest
        return self.last + 1 if oldest is None else oldest.first

    def commit(self, chunks: Sequence[Rows]) -> None:
        """Make the written updates visible to readers."""
        self._recent.append(chunks)
        self._kept_from = self._first_kept()
