"""The bodies and the `meta` of the updates in the log, each stored about once.

An update refers to its message as it was after its event. Nearly always that event published the
message: the messages of such events are columns, by the number of the event. Else the message was
published earlier, and a subscription that arrived, or a place that became free, brought it up
again: then there is a row for the message, which says from which event on it was like this, and
which was the latest that needed it. The `meta` of subscriptions are columns, by the id of the
update, of those that have one. All of it goes with the last update that needs it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.engine.changes import AcceptedMessage, PublishedColumns
from nearcast.engine.column_bodies import ColumnBodies
from nearcast.engine.update_log import CausedUpdate, Entry, Rows
from nearcast.events import LateBody, Message
from nearcast.events.bodies import body_fields
from nearcast.events.fields import WITHOUT_BODY, carried_in
from nearcast.events.values import JsonObject
from nearcast.geo import region_to_json
from nearcast.store.chunks import ChunkTable
from nearcast.store.connect import Reader
from nearcast.store.packing import unpack

_BODIES = pa.schema(
    [
        ("seq", pa.int64()),
        ("id", pa.string()),
        ("text", pa.binary()),  # UTF-8, but for surrogates that stand alone
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("at", pa.float64()),
        ("ttl", pa.float64()),
        ("more", pa.binary()),  # its region and what it carries, as JSON; null if there is neither
    ]
)
_METAS = pa.schema([("id", pa.int64()), ("meta", pa.binary())])
_LARGEST = 1 << 14
_CHUNKS = (
    "SELECT size, data, checksum FROM {0} WHERE first >= coalesce("
    "(SELECT max(first) FROM {0} WHERE first <= ?), 0) AND first <= ? ORDER BY first"
)
_LATEST = "SELECT seq, body FROM earlier_body WHERE message = ? AND seq <= ? ORDER BY seq DESC"
_ANY_EVENT = (1 << 63) - 1
_encode, _decode = msgspec.json.encode, msgspec.json.decode


class BodyStore:
    """Writes bodies and `meta` in the transactions of the log, and reads them from any thread."""

    def __init__(self, reader: Reader, connection: sqlite3.Connection) -> None:
        self._reader = reader
        self._connection = connection
        self._bodies = ChunkTable(connection, "body_chunk", _BODIES)
        self._metas = ChunkTable(connection, "meta_chunk", _METAS)

    def reload(self) -> None:
        """Read what the file holds."""
        self._bodies.reload()
        self._metas.reload()

    def write(
        self,
        first: int,
        chunks: Sequence[Rows],
        messages: Iterable[AcceptedMessage | PublishedColumns],
    ) -> None:
        """Write those of the updates of a call; `first` is the id of the first of them."""
        accepted = {item.seq: item for item in messages if isinstance(item, AcceptedMessage)}
        earlier: dict[tuple[int, str], LateBody] = {}
        seen: set[int] = set()
        for rows in chunks:
            if isinstance(rows, list):
                self._put_bodies(_own_messages(rows, accepted, earlier))
            elif isinstance(rows.bodies, ColumnBodies) and id(rows.bodies) not in seen:
                seen.add(id(rows.bodies))
                self._put_bodies(_own_columns(rows.bodies))
                earlier |= rows.bodies.others
            self._put_metas(first, rows)
            first += len(rows)
        for (seq, message), body in sorted(earlier.items(), key=lambda item: item[0]):
            self._put_earlier(seq, message, body.json)

    def _put_bodies(self, batch: pa.RecordBatch | None) -> None:
        if batch is None:
            return
        for start in range(0, len(batch), _LARGEST):
            part = batch.slice(start, _LARGEST)
            seqs = part.column("seq")
            self._bodies.put(seqs[0].as_py(), part, float(seqs[len(part) - 1].as_py()))

    def _put_metas(self, first: int, rows: Rows) -> None:
        found = list(_metas_of(first, rows))
        for start in range(0, len(found), _LARGEST):
            some = found[start : start + _LARGEST]
            ids = [id for id, _ in some]
            columns = [pa.array(ids, pa.int64()), pa.array([meta for _, meta in some], pa.binary())]
            batch = pa.RecordBatch.from_arrays(columns, schema=_METAS)
            self._metas.put(ids[0], batch, float(ids[-1]))

    def _put_earlier(self, seq: int, message: str, body: bytes) -> None:
        """Note that a message was like this after an event, unless that is known."""
        known = self._connection.execute(_LATEST, (message, _ANY_EVENT)).fetchone()
        if known is not None and known[1] == body:
            self._connection.execute(
                "UPDATE earlier_body SET last = ? WHERE message = ? AND seq = ?",
                (seq, message, known[0]),
            )
        else:
            self._connection.execute(
                "INSERT INTO earlier_body VALUES (?, ?, ?, ?)", (message, seq, seq, body)
            )

    def prune(self, first_id: int, first_seq: int) -> None:
        """Remove what no update needs that is still kept; the first is this one, of that event."""
        self._bodies.prune(lambda chunk: chunk.mark < first_seq)
        self._metas.prune(lambda chunk: chunk.mark < first_id)
        self._connection.execute("DELETE FROM earlier_body WHERE last < ?", (first_seq,))

    def complete(self, entries: Sequence[Entry]) -> list[Entry]:
        """The same entries with their bodies and `meta`; those that have them keep them."""
        bare = [one for one in entries if one.late is None and one.op not in WITHOUT_BODY]
        bodies = self._read_bodies({one.seq for one in bare})
        metas = self._read_metas([one.id for one in entries if one.meta is None])
        made: list[Entry] = []
        for one in entries:
            late = one.late
            if late is None and one.op not in WITHOUT_BODY:
                late = bodies.get((one.seq, one.message))
                if late is None:
                    late = bodies[one.seq, one.message] = self._earlier(one.message, one.seq)
            if late is not one.late or one.id in metas:
                one = replace(one, late=late, meta=metas.get(one.id, one.meta))
            made.append(one)
        return made

    def _read_bodies(self, seqs: set[int]) -> dict[tuple[int, str], LateBody | None]:
        """The bodies that events themselves published, by event and id."""
        found: dict[tuple[int, str], LateBody | None] = {}
        if not seqs:
            return found
        wanted = pa.array(sorted(seqs), pa.int64())
        for batch in self._chunks("body_chunk", _BODIES, min(seqs), max(seqs)):
            some = batch.filter(pc.is_in(batch.column("seq"), wanted))
            for seq, id, *columns in zip(*some.to_pydict().values(), strict=True):
                found[seq, id] = LateBody.ready(_fields(*columns))
        return found

    def _read_metas(self, ids: Sequence[int]) -> dict[int, JsonObject]:
        found: dict[int, JsonObject] = {}
        if not ids:
            return found
        wanted = pa.array(ids, pa.int64())
        for batch in self._chunks("meta_chunk", _METAS, min(ids), max(ids)):
            some = batch.filter(pc.is_in(batch.column("id"), wanted)).to_pydict()
            found |= {id: _decode(meta) for id, meta in zip(some["id"], some["meta"], strict=True)}
        return found

    def _chunks(self, table: str, schema: pa.Schema, low: int, high: int) -> Iterator[Any]:
        with self._reader.rows(_CHUNKS.format(table), low, high) as rows:
            for row in rows:
                yield unpack(schema, *row)

    def _earlier(self, message: str, seq: int) -> LateBody | None:
        with self._reader.rows(_LATEST, message, seq) as rows:
            found = rows.fetchone()
        return None if found is None else LateBody.written(bytes(found[1]))

    def body(self, message: str) -> LateBody | None:
        """The latest body of a message."""
        with self._reader.rows(_LATEST, message, _ANY_EVENT) as rows:
            earlier = rows.fetchone()
        query = "SELECT size, data, checksum, mark FROM body_chunk ORDER BY first DESC"
        with self._reader.rows(query) as rows:
            for *packed, mark in rows:
                if earlier is not None and mark <= earlier[0]:
                    break
                batch = unpack(_BODIES, *packed)
                places = pc.indices_nonzero(pc.equal(batch.column("id"), message))
                if len(places):
                    row = batch.slice(places[-1].as_py(), 1).to_pylist()[0]
                    seq, _, *columns = row.values()
                    if earlier is None or seq > earlier[0]:
                        return LateBody.ready(_fields(*columns))
                    break
        return None if earlier is None else LateBody.written(bytes(earlier[1]))


def _own_messages(
    rows: list[CausedUpdate],
    accepted: Mapping[int, AcceptedMessage],
    earlier: dict[tuple[int, str], LateBody],
) -> pa.RecordBatch | None:
    """The messages that have updates of their own event; the others are added to `earlier`."""
    own: dict[int, AcceptedMessage] = {}
    for seq, _, update in rows:
        if update.late is not None:
            item = accepted.get(seq)
            if item is not None and item.message.id == update.message:
                own[seq] = item
            else:
                earlier[seq, update.message] = update.late
    if not own:
        return None
    items = list(own.values())
    places = [item.message.point or (None, None) for item in items]
    texts = [item.message.text.encode(errors="surrogatepass") for item in items]
    columns = [
        pa.array(list(own), pa.int64()),
        pa.array([item.message.id for item in items], pa.string()),
        pa.array(texts, pa.binary()),
        pa.array([lon for lon, _ in places], pa.float64()),
        pa.array([lat for _, lat in places], pa.float64()),
        pa.array([item.at for item in items], pa.float64()),
        pa.array([item.message.ttl for item in items], pa.float64()),
        pa.array([_more(item.message) for item in items], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_BODIES)


def _own_columns(bodies: ColumnBodies) -> pa.RecordBatch | None:
    """The same of messages in columns."""
    own = bodies.own
    if own is None or not len(own.ids):
        return None
    count = len(own.ids)
    columns = [
        pa.array(bodies.seqs),
        pa.array(own.ids, pa.string()),
        own.texts.cast(pa.binary()),
        pa.array(own.points[:, 0]),
        pa.array(own.points[:, 1]),
        pa.array(own.at),
        pa.nulls(count, pa.float64()) if own.ttl is None else pa.array(own.ttl),
        pa.nulls(count, pa.binary())
        if own.carried is None
        else own.carried.members().cast(pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_BODIES)


def _metas_of(first: int, rows: Rows) -> Iterator[tuple[int, bytes]]:
    """The `meta` of updates that have one, with the ids of these."""
    if isinstance(rows, list):
        for id, (_, _, update) in enumerate(rows, first):
            if update.meta is not None:
                yield id, _encode(update.meta)
    elif rows.metas:
        written = {id: _encode(meta) for id, meta in rows.metas.items()}
        for id, name in enumerate(rows.columns.column("subscription").to_pylist(), first):
            if name in written:
                yield id, written[name]


def _more(message: Message) -> bytes | None:
    more: dict[str, Any] = {}
    if message.region is not None:
        more["region"] = region_to_json(message.region)
    more |= message.carried
    return _encode(more) if more else None


def _fields(
    text: bytes, lon: float | None, lat: float, at: float, ttl: float | None, more: bytes | None
) -> dict[str, Any]:
    """The fields of a body, in their order."""
    point = None if lon is None else (lon, lat)
    known: dict[str, Any] = {} if more is None else _decode(more)
    written = text.decode(errors="surrogatepass")
    return body_fields(written, point, known.get("region"), carried_in(known), at, ttl)
