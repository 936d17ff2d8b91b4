"""The log of updates: each has an id that grows by one, and is kept for a limited time.

Updates are kept in chunks, as they were added: a few as Python objects, those of a table as
columns. `RecentUpdates` is the log of an engine in memory. A durable engine uses it as a cache
for listeners that keep up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nearcast.events import LateBody, Update, UpdateOp
from nearcast.events.fields import UPDATE_OPS, WITHOUT_BODY
from nearcast.events.values import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

RECENT = 100_000
"""How many updates an engine in memory keeps by default."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One update of the log: its id, the event that caused it, and the time of that event.

    Its `meta` and `body` are as in `Update`. Of one that is read from a file, `complete` adds them.
    """

    id: int
    seq: int
    at: float
    op: UpdateOp
    subscription: str
    message: str
    score: float | None
    meta: JsonObject | None = field(default=None, compare=False, repr=False)
    late: LateBody | None = field(default=None, compare=False, repr=False)

    @property
    def body(self) -> JsonObject | None:
        """The text, place, properties, time and ttl of the message, as far as it has them."""
        return None if self.late is None else self.late.fields


class CausedUpdate(NamedTuple):
    """An update with the event that caused it."""

    seq: int
    at: float
    update: Update


class MessageBodies(Protocol):
    """The bodies of the messages of some updates."""

    def find(self, seq: int, message: str) -> LateBody | None:
        """The body that a message had after an event."""
        ...


class ColumnRows:
    """Updates as columns, with the bodies of their messages and the `meta` of subscriptions."""

    __slots__ = ("bodies", "columns", "metas")

    def __init__(
        self,
        columns: pa.RecordBatch,
        bodies: MessageBodies | None = None,
        metas: Mapping[str, JsonObject] | None = None,
    ) -> None:
        self.columns = columns
        self.bodies = bodies
        self.metas = metas or {}

    def __len__(self) -> int:
        return len(self.columns)


Rows = list[CausedUpdate] | ColumnRows
"""A chunk of the log: a few updates, or the columns of `chunks.CHUNK_SCHEMA`."""


class UpdateLog(Protocol):
    """The updates of an engine, by id; may be read from any thread while others are added."""

    @property
    def first(self) -> int:
        """The smallest id that is still kept; `last + 1` if none is."""
        ...

    @property
    def last(self) -> int:
        """The largest id that was ever given."""
        ...

    def read(self, after: int, limit: int, subscription: str | None = None) -> list[Entry]:
        """The first `limit` updates with ids above `after`, of one subscription or of all."""
        ...

    def complete(self, entries: Sequence[Entry]) -> list[Entry]:
        """The same entries, each with the body and the `meta` that belong to it."""
        ...

    def body(self, message: str) -> LateBody | None:
        """The latest body of a message that an update of the log has."""
        ...


def entries_of(
    first: int, rows: Rows, after: int, limit: int, subscription: str | None
) -> list[Entry]:
    """Read entries from a chunk whose first row has the id `first`."""
    skip = max(0, after + 1 - first)
    if not isinstance(rows, list):
        return _from_columns(first, rows, skip, limit, subscription)
    found: list[Entry] = []
    for id, (seq, at, one) in enumerate(rows[skip:], first + skip):
        if len(found) == limit:
            break
        if subscription is None or one.subscription == subscription:
            found.append(entry_of(id, seq, at, one))
    return found


def entry_of(id: int, seq: int, at: float, one: Update) -> Entry:
    """An update as an entry of the log."""
    return Entry(id, seq, at, one.op, one.subscription, one.message, one.score, one.meta, one.late)


def _from_columns(
    first: int, rows: ColumnRows, skip: int, limit: int, subscription: str | None
) -> list[Entry]:
    import pyarrow as pa
    import pyarrow.compute as pc

    whole, bodies, metas = rows.columns, rows.bodies, rows.metas
    if subscription is None:
        some = whole.slice(skip, limit)
        ids: Iterable[int] = range(first + skip, first + skip + len(some))
    else:
        mask = pc.equal(whole.column("subscription"), subscription)
        places = pc.indices_nonzero(mask).to_numpy()
        places = places[places >= skip][:limit]
        some = whole.take(pa.array(places))
        ids = (places + first).tolist()
    columns = [column.to_pylist() for column in some.columns]
    return [
        Entry(
            id,
            seq,
            at,
            UPDATE_OPS[op],
            name,
            message,
            score,
            metas.get(name),
            None if bodies is None or UPDATE_OPS[op] in WITHOUT_BODY else bodies.find(seq, message),
        )
        for id, seq, at, op, name, message, score in zip(ids, *columns, strict=True)
    ]


class RecentUpdates:
    """The latest updates, in memory: at least `keep` of them, and whole chunks."""

    def __init__(self, keep: int = RECENT, last: int = 0) -> None:
        self._keep = keep
        self._last = last
        self._firsts: list[int] = []
        self._chunks: list[Rows] = []
        self._start = 0  # chunks before it are dropped; the list is shortened now and then
        self._lock = Lock()

    @property
    def first(self) -> int:
        """The smallest id that is still kept; `last + 1` if none is."""
        with self._lock:
            return self._first()

    def _first(self) -> int:
        return self._firsts[self._start] if self._start < len(self._firsts) else self._last + 1

    @property
    def last(self) -> int:
        """The largest id that was ever given."""
        return self._last

    def append(self, chunks: Iterable[Rows]) -> None:
        """Add updates at the end."""
        with self._lock:
            for chunk in chunks:
                self._firsts.append(self._last + 1)
                self._chunks.append(chunk)
                self._last += len(chunk)
            while self._may_go():
                self._chunks[self._start] = []
                self._start += 1
            if self._start > 1000 and 2 * self._start > len(self._chunks):
                del self._firsts[: self._start], self._chunks[: self._start]
                self._start = 0

    def _may_go(self) -> bool:
        """Whether enough updates are left without the oldest chunk."""
        if self._start == len(self._chunks):
            return False
        return self._last - self._first() - len(self._chunks[self._start]) + 1 >= self._keep

    def read(self, after: int, limit: int, subscription: str | None = None) -> list[Entry]:
        """The first `limit` updates with ids above `after`, of one subscription or of all."""
        found: list[Entry] = []
        with self._lock:
            place = max(self._start, bisect_right(self._firsts, after + 1) - 1)
            stop = len(self._firsts)
            if subscription is None:  # rows beyond the limit need not be read
                stop = bisect_right(self._firsts, max(after, self._first() - 1) + limit)
            chunks = list(zip(self._firsts[place:stop], self._chunks[place:stop], strict=True))
        for first, rows in chunks:
            if len(found) >= limit:
                break
            found += entries_of(first, rows, after, limit - len(found), subscription)
        return found

    def complete(self, entries: Sequence[Entry]) -> list[Entry]:
        """The same entries: those in memory have everything."""
        return list(entries)

    def body(self, message: str) -> LateBody | None:
        """The latest body of a message that an update of the log has."""
        with self._lock:
            chunks = self._chunks[self._start :]
        return next((found for rows in reversed(chunks) if (found := _body(rows, message))), None)


def _body(rows: Rows, message: str) -> LateBody | None:
    """The latest body of a message among some updates."""
    if isinstance(rows, list):
        late = (one.late for _, _, one in reversed(rows) if one.message == message)
        return next((body for body in late if body is not None), None)
    import pyarrow.compute as pc

    if rows.bodies is None:
        return None
    places = pc.indices_nonzero(pc.equal(rows.columns.column("message"), message)).to_pylist()
    seqs = rows.columns.column("seq")
    found = (rows.bodies.find(seqs[place].as_py(), message) for place in reversed(places))
    return next((body for body in found if body is not None), None)
