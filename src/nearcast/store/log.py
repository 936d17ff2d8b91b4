"""The log of updates in the file, with the latest of them in memory too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.engine.changes import AcceptedMessage, PublishedColumns
from nearcast.engine.chunks import CHUNK_SCHEMA, as_columns
from nearcast.engine.update_log import ColumnRows, Entry, RecentUpdates, Rows, entries_of
from nearcast.events import LateBody
from nearcast.events.fields import ADD, CHANGE, REMOVE
from nearcast.store.bodies import BodyStore
from nearcast.store.chunks import ChunkSummary, ChunkTable
from nearcast.store.connect import Reader
from nearcast.store.packing import unpack

_BEYOND = 1 << 62  # no id and no number of an event is as large
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
    # Not at import: the first scalar makes pyarrow import pandas, where that is installed.
    add, remove, change = (pa.scalar(op, pa.int8()) for op in (ADD, REMOVE, CHANGE))
    columns[_OP] = pc.fill_null(pc.if_else(columns[_OP], add, remove), change)
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
        self._bodies = BodyStore(reader, connection)
        self.reload()

    def reload(self) -> None:
        """Read what the file holds."""
        self._chunks.reload()
        self._bodies.reload()
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
                batch = ColumnRows(_from_store(unpack(_STORED, *packed)))
                found += entries_of(first, batch, after, limit - len(found), subscription)
        # What memory has comes from there, with its bodies: `complete` adds them to the rest.
        found = [entry for entry in found if entry.id < recent.first]
        return found + recent.read(recent.first - 1, limit - len(found), subscription)

    def complete(self, entries: Sequence[Entry]) -> list[Entry]:
        """The same entries, each with the body and the `meta` that belong to it."""
        if not entries or entries[0].id >= self._recent.first:
            return list(entries)
        return self._bodies.complete(entries)

    def body(self, message: str) -> LateBody | None:
        """The latest body of a message that an update of the log has."""
        return self._recent.body(message) or self._bodies.body(message)

    def write(
        self,
        chunks: Sequence[Rows],
        now: float,
        messages: Iterable[AcceptedMessage | PublishedColumns],
    ) -> None:
        """Write updates, in the transaction that is open; `commit` follows when it is done.

        `messages` are those that their events published.
        """
        first = self.last + 1
        self._bodies.write(first, chunks, messages)
        for rows in chunks:
            self._chunks.put(first, _to_store(as_columns(rows)), now)
            first += len(rows)

        def done(chunk: ChunkSummary) -> bool:
            enough = first - (chunk.first + chunk.rows) >= self._updates
            return enough or chunk.mark <= now - self._seconds

        oldest = self._chunks.oldest
        self._chunks.prune(done)
        if self._chunks.oldest != oldest and oldest is not None:
            self._bodies.prune(*self._first_update())

    def is_due(self, now: float) -> bool:
        """Whether the oldest updates have been kept for long enough."""
        oldest = self._chunks.oldest
        return oldest is not None and oldest.mark <= now - self._seconds

    def _first_update(self) -> tuple[int, int]:
        """The id of the first update that is kept, and the number of its event."""
        query = "SELECT first, size, data, checksum FROM update_chunk ORDER BY first LIMIT 1"
        found = self._connection.execute(query).fetchone()
        if found is None:
            return _BEYOND, _BEYOND
        first, *packed = found
        return int(first), int(unpack(_STORED, *packed).column("seq")[0].as_py())

    def _first_kept(self) -> int:
        oldest = self._chunks.oldest
        return self.last + 1 if oldest is None else oldest.first

    def commit(self, chunks: Sequence[Rows]) -> None:
        """Make the written updates visible to readers."""
        self._recent.append(chunks)
        self._kept_from = self._first_kept()
