"""The messages that are still needed: the window in chunks, active messages also as rows.

A row goes when its message has ended or was withdrawn, a chunk when its last message has left the
window. What has left it is still in a chunk for a while; `window_of` tells it from the others:

- It was displaced: then it is older than all that are there, and the file names the oldest of them.
- It was replaced: then its id is there again, or is among those withdrawn.
- It was retracted: then its id is among those withdrawn.
- It has ended.

A window that is rarely full may have its oldest message for ever, and many later ones that are
gone: when they are the most, all chunks are written again without them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.engine.changes import AcceptedMessage, PublishedColumns, WithdrawnMessage
from nearcast.errors import DamagedStoreError
from nearcast.events import Message
from nearcast.events.carried import CarriedColumns
from nearcast.events.fields import CARRIED, carried_in
from nearcast.geo import Box, region_from_json, region_to_json
from nearcast.store.chunks import ChunkSummary, ChunkTable
from nearcast.store.packing import MESSAGES, decode_text, encode_text, unpack
from nearcast.topk import Window

if TYPE_CHECKING:
    from nearcast.arrays.types import Floats

_PUT_LASTING = "INSERT INTO lasting VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_WORTH_TIDYING = 1 << 14  # messages and withdrawals beyond twice as many as were needed


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
        found = self._connection.execute("SELECT count(*) FROM withdrawn").fetchone()
        self._withdrawals = int(found[0])
        self.needed = 0  # messages of the window, when they were last counted
        # The oldest chunk, its ids, and the first place that the oldest message can have there.
        self._first: tuple[ChunkSummary, pa.Array, int] | None = None

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
            *_carried(_columns_of([item.message for item, _ in points]), 0, len(points)),
        ]
        self._put(pa.RecordBatch.from_arrays(columns, schema=MESSAGES))

    def _add_columns(self, some: PublishedColumns) -> None:
        total, skip = len(some.ids), 0
        if some.ttl is not None:
            self._connection.executemany(_PUT_LASTING, _rows(some, some.ttl))
        elif self._window.count is not None:
            skip = max(0, total - self._window.count)  # those before it have left the window
        points = some.points[skip:]
        columns = [
            pa.array(np.arange(some.seq + skip, some.seq + total)),
            pa.array(some.ids[skip:], pa.string()),
            some.texts.slice(skip).cast(pa.binary()),
            pa.array(points[:, 0]),
            pa.array(points[:, 1]),
            pa.array(some.at[skip:]),
            pa.array(np.zeros(total - skip) if some.ttl is None else some.ttl),
            *_carried(some.carried, skip, total),
        ]
        self._put(pa.RecordBatch.from_arrays(columns, schema=MESSAGES))

    def _put(self, batch: pa.RecordBatch) -> None:
        mark = batch.column("at")[len(batch) - 1].as_py()
        self._chunks.put(batch.column("seq")[0].as_py(), batch, mark)

    def withdraw(self, some: list[WithdrawnMessage]) -> None:
        """Write that messages were retracted or replaced, after all messages were added."""
        if not some:
            return
        active = [(each.id, each.seq) for each in some]
        self._connection.executemany("DELETE FROM lasting WHERE id = ? AND seq < ?", active)
        rows = [(each.seq, each.id) for each in some if not each.in_place]
        self._connection.executemany("INSERT INTO withdrawn VALUES (?, ?)", rows)
        self._withdrawals += len(rows)

    def prune(self, now: float, oldest: str | None) -> None:
        """Remove messages that are no longer needed; `oldest` is the oldest of the window."""
        self._connection.execute("DELETE FROM lasting WHERE ends <= ?", (now,))
        self._chunks.prune(lambda chunk: oldest is None or not self._has(chunk, oldest))
        if self._withdrawals:
            first = self._chunks.oldest
            self._forget_withdrawals(now_first=None if first is None else first.first)
        if self._chunks.rows + self._withdrawals > 2 * self.needed + _WORTH_TIDYING:
            self._tidy(now, oldest)

    def _has(self, chunk: ChunkSummary, id: str) -> bool:
        if self._first is None or self._first[0] != chunk:
            self._first = chunk, self._chunks.read(chunk.first).column("id"), 0
        _, ids, start = self._first
        same = pc.equal(ids.slice(start), id).to_numpy(zero_copy_only=False)
        self._first = chunk, ids, start + int(same.argmax())
        return bool(same.any())

    def _forget_withdrawals(self, now_first: int | None) -> None:
        """Remove those that are older than all messages in chunks."""
        if now_first is None:
            self._connection.execute("DELETE FROM withdrawn")
            self._withdrawals = 0
        else:
            gone = self._connection.execute("DELETE FROM withdrawn WHERE seq < ?", (now_first,))
            self._withdrawals -= gone.rowcount

    def _tidy(self, now: float, oldest: str | None) -> None:
        """Write the messages of the window again, without what has left it."""
        whole = _stored(self._connection)
        needed = whole.filter(_in_window(self._connection, whole, self._window, now, oldest))
        self.needed = len(needed)
        if len(needed) < len(whole) or self._withdrawals:
            self._chunks.clear()
            self._forget_withdrawals(None)
            for batch in needed.combine_chunks().to_batches():
                self._put(batch)


def _columns_of(messages: list[Message]) -> CarriedColumns | None:
    values = {name: [getattr(message, name) for message in messages] for name in CARRIED}
    return CarriedColumns.of(values)


def _carried(some: CarriedColumns | None, skip: int, total: int) -> Iterator[pa.Array]:
    """The columns of what messages carry, from some row on."""
    for name in CARRIED:
        if some is None or name not in some.columns:
            yield pa.nulls(total - skip, pa.binary())
        else:
            yield some.columns[name].slice(skip).cast(pa.binary())


def _rows(some: PublishedColumns, ttl: Floats) -> Iterator[tuple[Any, ...]]:
    """The rows of those messages that are active."""
    active = np.flatnonzero(ttl)
    texts = some.texts.take(pa.array(active)).to_pylist()
    columns = (active, some.at[active], ttl[active], *some.points[active].T)
    more: list[str | None] = [None] * len(active)
    if some.carried is not None:
        more = some.carried.take(active).members().to_pylist()
    for text, beside, row, at, life, lon, lat in zip(
        texts, more, *(column.tolist() for column in columns), strict=True
    ):
        rest = (None, None, None, None, beside)
        yield (some.seq + row, some.ids[row], text, at, life, at + life, lon, lat, *rest)


def _row(item: AcceptedMessage) -> tuple[Any, ...]:
    message, at, area = item.message, item.at, item.message.region
    lon, lat = message.point or (None, None)
    around: tuple[float | None, ...] = (None,) * 4
    more: dict[str, Any] = {}
    if isinstance(area, Box):
        around = (area.west, area.south, area.east, area.north)
    elif area is not None:
        more["region"] = region_to_json(area)
    more |= message.carried
    return (
        item.seq, message.id, encode_text(message.text), at, message.ttl, at + message.ttl,
        lon, lat, *around, json.dumps(more) if more else None,
    )  # fmt: skip


def _stored(connection: sqlite3.Connection) -> pa.Table:
    rows = connection.execute("SELECT size, data, checksum FROM window_chunk ORDER BY first")
    return pa.Table.from_batches([unpack(MESSAGES, *row) for row in rows], MESSAGES)


def window_of(connection: sqlite3.Connection, window: Window) -> pa.Table:
    """The messages that are in the window, oldest first."""
    now, oldest = connection.execute("SELECT now, oldest FROM state").fetchone()
    whole = _stored(connection)
    if not len(whole):
        return whole
    return whole.filter(_in_window(connection, whole, window, now, oldest)).combine_chunks()


def _in_window(
    connection: sqlite3.Connection, whole: pa.Table, window: Window, now: float, oldest: str | None
) -> pa.Array:
    """Which of the stored messages, of which there is at least one, are in the window."""
    ids, seqs = whole["id"], whole["seq"].to_numpy()
    at, ttl = whole["at"].to_numpy(), whole["ttl"].to_numpy()
    there: npt.NDArray[np.bool_] = (ttl == 0) | (at + ttl > now)
    there[: _start(whole, window, now, oldest)] = False
    if pc.count_distinct(ids).as_py() < len(whole):
        names = ids.to_pylist()
        last = {id: row for row, id in enumerate(names)}
        there &= np.array([last[id] == row for row, id in enumerate(names)])
    gone = dict(connection.execute("SELECT id, max(seq) FROM withdrawn GROUP BY id"))
    if gone:
        for row in pc.indices_nonzero(pc.is_in(ids, pa.array(gone, pa.string()))).to_pylist():
            there[row] &= seqs[row] > gone[ids[row].as_py()]
    return pa.array(there)


def _start(whole: pa.Table, window: Window, now: float, oldest: str | None) -> int:
    """The place of the oldest message in the window."""
    if oldest is not None:
        places = pc.indices_nonzero(pc.equal(whole["id"], oldest))
        if not len(places):
            raise DamagedStoreError(
                "damaged window (its oldest message is missing); restore the file from a backup"
            )
        return int(places[-1].as_py())
    if window.seconds is None:  # a file of version 1 or 2, whose window was always full
        return max(0, len(whole) - (window.count or 0))
    return int(np.searchsorted(whole["at"].to_numpy(), now - window.seconds, "right"))


def messages_of(batch: pa.RecordBatch | pa.Table) -> Iterator[Message]:
    """The messages of some rows."""
    carried = _carried_in(batch)
    columns = [batch.column(name).to_pylist() for name in ("id", "text", "lon", "lat", "at", "ttl")]
    for row, (id, text, lon, lat, at, ttl) in enumerate(zip(*columns, strict=True)):
        given = {} if carried is None else carried[row]
        yield Message(id, text.decode(errors="surrogatepass"), (lon, lat), None, at, ttl, **given)


def _carried_in(batch: pa.RecordBatch | pa.Table) -> CarriedColumns | None:
    """What the messages of some rows carry."""
    columns = {name: batch.column(name) for name in CARRIED}
    texts = {
        name: column.cast(pa.string())
        for name, column in columns.items()
        if column.null_count < len(column)
    }
    return CarriedColumns(texts) if texts else None


def columns_of(batch: pa.RecordBatch) -> PublishedColumns | None:
    """The messages of some rows as columns, if none has a text that is not UTF-8."""
    try:
        texts, carried = batch.column("text").cast(pa.string()), _carried_in(batch)
    except pa.ArrowInvalid:
        return None
    ids = batch.column("id").to_pylist()
    lons, lats, at, ttl = (batch.column(name).to_numpy() for name in ("lon", "lat", "at", "ttl"))
    return PublishedColumns(
        0, ids, texts, np.column_stack([lons, lats]), at, ttl if ttl.any() else None, carried
    )


def lasting_of(connection: sqlite3.Connection) -> Iterator[tuple[int, Message]]:
    """The active messages, with the numbers of their events, oldest first."""
    rows = connection.execute(
        "SELECT seq, id, text, at, ttl, lon, lat, west, south, east, north, more FROM lasting "
        "ORDER BY seq"
    )
    for seq, id, text, at, ttl, lon, lat, *box, more in rows:
        given: dict[str, Any] = {} if more is None else json.loads(more)
        point = None if lon is None else (lon, lat)
        area: Any = Box(*box) if box[0] is not None else None
        if "region" in given:
            area = region_from_json(given["region"])
        yield seq, Message(id, decode_text(text), point, area, at, ttl, **carried_in(given))
