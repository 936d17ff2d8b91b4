"""A table of chunks: columns that are added at one end and removed at the other.

What comes in single events would leave as many chunks of one row. Small chunks that follow each
other are joined now and then, so that a row costs what its columns take.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from nearcast.store.packing import checksum, pack, unpack

_SMALL = 64  # rows; a chunk that has fewer will be joined with its neighbours
_TOGETHER = 256  # this many small chunks are merged into one
_LARGEST = 1 << 14


class ChunkSummary(NamedTuple):
    """A chunk without its columns: the number of its first row, its rows, and its mark."""

    first: int
    rows: int
    mark: float


class ChunkTable:
    """Writes chunks, in transactions that the caller opens.

    A chunk has the number of its first row, which grows, and a mark that does not decrease.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, schema: pa.Schema) -> None:
        self._connection = connection
        self._table = table
        self._schema = schema
        self.reload()

    def reload(self) -> None:
        """Read what the file holds."""
        self._tail: list[tuple[ChunkSummary, pa.RecordBatch]] = []
        self.oldest = self._find_oldest()
        self.rows = int(
            self._connection.execute(
                f"SELECT coalesce(sum(count), 0) FROM {self._table}"  # noqa: S608 - a name of ours
            ).fetchone()[0]
        )

    def read(self, first: int) -> pa.RecordBatch:
        """The columns of a chunk, by the number of its first row."""
        found = self._connection.execute(
            f"SELECT size, data, checksum FROM {self._table} WHERE first = ?",  # noqa: S608 - a name of ours
            (first,),
        ).fetchone()
        return unpack(self._schema, *found)

    def _find_oldest(self) -> ChunkSummary | None:
        found = self._connection.execute(
            f"SELECT first, count, mark FROM {self._table} ORDER BY first LIMIT 1"  # noqa: S608 - a name of ours
        ).fetchone()
        return None if found is None else ChunkSummary(*found)

    def put(self, first: int, batch: pa.RecordBatch, mark: float) -> None:
        """Add a chunk at the end."""
        self.rows += len(batch)
        for start in range(0, len(batch), _LARGEST):
            part = batch.slice(start, _LARGEST)
            self._insert(ChunkSummary(first + start, len(part), mark), part)
        if len(batch) >= _SMALL:
            self._tail.clear()
            return
        self._tail.append((ChunkSummary(first, len(batch), mark), batch))
        if len(self._tail) >= _TOGETHER:
            self._join()

    def _insert(self, kept: ChunkSummary, batch: pa.RecordBatch) -> None:
        size, data = pack(batch)
        self._connection.execute(
            f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608 - a name of ours
            (*kept, size, data, checksum(data)),
        )
        if self.oldest is None:
            self.oldest = kept

    def _join(self) -> None:
        """Merge the small chunks at the end into one."""
        chunks = [kept for kept, _ in self._tail]
        table = pa.Table.from_batches([batch for _, batch in self._tail], self._schema)
        whole, *more = table.combine_chunks().to_batches()
        self._tail.clear()
        if more:
            return  # together they exceed what 32 bits count
        span = (chunks[0].first, chunks[-1].first + chunks[-1].rows - 1)
        self._connection.execute(
            f"DELETE FROM {self._table} WHERE first BETWEEN ? AND ?",  # noqa: S608 - a name of ours
            span,
        )
        joined = ChunkSummary(chunks[0].first, len(whole), chunks[-1].mark)
        self._insert(joined, whole)
        if self.oldest is not None and self.oldest.first >= joined.first:
            self.oldest = joined

    def prune(self, done: Callable[[ChunkSummary], bool]) -> None:
        """Remove the oldest chunks, up to the first that is still needed."""
        while self.oldest is not None and done(self.oldest):
            self._connection.execute(
                f"DELETE FROM {self._table} WHERE first = ?",  # noqa: S608 - a name of ours
                (self.oldest.first,),
            )
            self.rows -= self.oldest.rows
            if self._tail and self._tail[0][0].first == self.oldest.first:
                self._tail.pop(0)
            self.oldest = self._find_oldest()

    def clear(self) -> None:
        """Remove all chunks."""
        self._connection.execute(f"DELETE FROM {self._table}")  # noqa: S608 - a name of ours
        self._tail.clear()
        self.oldest, self.rows = None, 0
