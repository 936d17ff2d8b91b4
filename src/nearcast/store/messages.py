"""The messages that are still needed: the window in chunks, active messages also as rows.

A chunk goes when its last message has left the window, a row when its message has ended. What is
kept besides, at the old end of a chunk, does no harm: messages are taken in again in their order,
and leave the window as they did before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast.engine.changes import AcceptedMessage, PublishedColumns
from nearcast.events import Message
from nearcast.geo import Box
from nearcast.store.chunks import ChunkTable
from nearcast.store.packing import MESSAGES, decode_text, encode_text, unpack
from nearcast.topk import Window

if TYPE_CHECKING:
    from nearcast.arrays.types import Floats

_PUT_LASTING = "INSERT INTO lasting VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class MessageStore:
    """Writes messages to the file, and removes those that are no longer needed."""

    def __init__(self, connection: sqlite3.Connection, window: Window) -> None:
        self._connection = connection
        self._window = window
        self._chunks = ChunkTable(connection, "window_chunk", MESSAGES)
        self.reload()

    def reload(self) -> None:
        """Read what the file holds."""
        self._chunks.reload()
        found = self._connection.execute("SELECT points FROM state").fetchone()
        self.points = int(found[0])

    def add(self, accepted: Iterable[AcceptedMessage | PublishedColumns]) -> None:
        """Write messages in the order of their events."""
        single: list[AcceptedMessage] = []
        for item in accepted:
            if isinstance(item, AcceptedMessage):
                single.append(item)
            else:
                self._add_single(single)
                single = []
                self._add_columns(item)
        self._add_single(single)

    def _add_single(self, some: list[AcceptedMessage]) -> None:
        lasting = [_row(item) for item in some if item.message.ttl]
        if lasting:
            self._connection.executemany(_PUT_LASTING, lasting)
        points = [(item, item.message.point) for item in some if item.message.point is not None]
        if not points:
            return
        columns = [
            pa.array([item.seq for item, _ in points], pa.int64()),
            pa.array([item.message.id for item, _ in points], pa.string()),
            pa.array(
                [item.message.text.encode(errors="surrogatepass") for item, _ in points],
                pa.binary(),
            ),
            pa.array([point[0] for _, point in points], pa.float64()),
            pa.array([point[1] for _, point in points], pa.float64()),
            pa.array([item.at for item, _ in points], pa.float64()),
            pa.array([item.message.ttl for item, _ in points], pa.float64()),
        ]
        self._put(pa.RecordBatch.from_arrays(columns, schema=MESSAGES))

    def _add_columns(self, some: PublishedColumns) -> None:
        total = len(some.ids)
        ttl = np.zeros(total) if some.ttl is None else some.ttl
        if some.ttl is not None:
            self._connection.executemany(_PUT_LASTING, _rows(some, some.ttl))
        room = self._window.count or total
        skip = max(0, total - room)  # those before it have left the window already
        self.points += skip
        points = some.points[skip:]
        columns = [
            pa.array(np.arange(some.seq + skip, some.seq + total)),
            pa.array(some.ids[skip:], pa.string()),
            some.texts.slice(skip).cast(pa.binary()),
            pa.array(points[:, 0]),
            pa.array(points[:, 1]),
            pa.array(some.at[skip:]),
            pa.array(ttl[skip:]),
        ]
        self._put(pa.RecordBatch.from_arrays(columns, schema=MESSAGES))

    def _put(self, batch: pa.RecordBatch) -> None:
        self.points += len(batch)
        by_time = self._window.seconds is not None
        mark = batch.column("at")[len(batch) - 1].as_py() if by_time else float(self.points)
        self._chunks.put(batch.column("seq")[0].as_py(), batch, mark)

    def prune(self, now: float) -> None:
        """Remove messages that have left the window or have ended."""
        count, seconds = self._window.count, self._window.seconds
        left = now - seconds if seconds is not None else float(self.points - (count or 0))
        self._chunks.prune(lambda chunk: chunk.mark <= left)
        self._connection.execute("DELETE FROM lasting WHERE ends <= ?", (now,))


def _rows(some: PublishedColumns, ttl: Floats) -> Iterator[tuple[Any, ...]]:
    """The rows of those messages that are active."""
    active = np.flatnonzero(ttl)
    texts = some.texts.take(pa.array(active)).to_pylist()
    columns = (active, some.at[active], ttl[active], *some.points[active].T)
    for text, row, at, life, lon, lat in zip(
        texts, *(column.tolist() for column in columns), strict=True
    ):
        around = (None,) * 4
        yield (some.seq + row, some.ids[row], text, at, life, at + life, lon, lat, *around)


def _row(item: AcceptedMessage) -> tuple[Any, ...]:
    message, at = item.message, item.at
    box = message.region
    lon, lat = message.point or (None, None)
    around = (None,) * 4 if box is None else (box.west, box.south, box.east, box.north)
    text = encode_text(message.text)
    return (item.seq, message.id, text, at, message.ttl, at + message.ttl, lon, lat, *around)


def window_of(connection: sqlite3.Connection) -> list[pa.RecordBatch]:
    """The messages of the window, oldest first; before them perhaps some that have left it."""
    rows = connection.execute("SELECT size, data, checksum FROM window_chunk ORDER BY first")
    whole = pa.Table.from_batches([unpack(MESSAGES, *row) for row in rows], MESSAGES)
    batches: list[pa.RecordBatch] = whole.combine_chunks().to_batches()
    return batches


def messages_of(batch: pa.RecordBatch) -> Iterator[Message]:
    """The messages of a chunk."""
    columns = [column.to_pylist() for column in batch.columns[1:]]
    for id, text, lon, lat, at, ttl in zip(*columns, strict=True):
        yield Message(id, text.decode(errors="surrogatepass"), (lon, lat), at=at, ttl=ttl)


def columns_of(batch: pa.RecordBatch) -> PublishedColumns | None:
    """The messages of a chunk as columns, if each has an id and a text as others have them."""
    ids = batch.column("id").to_pylist()
    try:
        texts = batch.column("text").cast(pa.string())
    except pa.ArrowInvalid:
        return None
    if len(set(ids)) < len(ids):
        return None
    lons, lats, at, ttl = (batch.column(name).to_numpy() for name in ("lon", "lat", "at", "ttl"))
    return PublishedColumns(
        0, ids, texts, np.column_stack([lons, lats]), at, ttl if ttl.any() else None
    )


def lasting_of(connection: sqlite3.Connection) -> Iterator[tuple[int, Message]]:
    """The active messages, with the numbers of their events, oldest first."""
    rows = connection.execute(
        "SELECT seq, id, text, at, ttl, lon, lat, west, south, east, north FROM lasting "
        "ORDER BY seq"
    )
    for seq, id, text, at, ttl, lon, lat, *box in rows:
        point = None if lon is None else (lon, lat)
        region = Box(*box) if lon is None else None
        yield seq, Message(id, decode_text(text), point, region, at, ttl)
