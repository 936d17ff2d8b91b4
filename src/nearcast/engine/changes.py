"""The changes of a call: collected while events are applied, then stored by a journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from nearcast.engine.update_log import CausedUpdate, ColumnRows, MessageBodies, Rows
from nearcast.events import Message, Subscription, Update
from nearcast.events.values import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.arrays.types import Floats, Int64s
    from nearcast.events.carried import CarriedColumns

_LARGEST_CHUNK = 1 << 16


class AcceptedMessage(NamedTuple):
    """An accepted message, with the number and the time of its event."""

    seq: int
    at: float
    message: Message


class WithdrawnMessage(NamedTuple):
    """A message that was retracted or replaced, with the number of the event that did it."""

    seq: int
    id: str
    in_place: bool  # whether the event put another one with its id into the window


class PublishedColumns(NamedTuple):
    """Messages at points, as columns; `seq` is the number of the first."""

    seq: int
    ids: list[str]
    texts: pa.StringArray
    points: Floats
    at: Floats
    ttl: Floats | None = None  # None if none of them is active
    carried: CarriedColumns | None = None  # None if none of them carries anything

    def part(self, start: int, stop: int) -> PublishedColumns:
        """Some of the messages."""
        if stop - start == len(self.ids):
            return self
        some = slice(start, stop)
        return PublishedColumns(
            self.seq, self.ids[some], self.texts[some], self.points[some], self.at[some],
            None if self.ttl is None else self.ttl[some],
            None if self.carried is None else self.carried.part(start, stop),
        )  # fmt: skip

    def take(self, rows: Int64s) -> PublishedColumns:
        """Some of the messages; they no longer follow each other."""
        import pyarrow as pa

        if len(rows) == len(self.ids):
            return self
        return PublishedColumns(
            self.seq, [self.ids[row] for row in rows.tolist()], self.texts.take(pa.array(rows)),
            self.points[rows], self.at[rows], None if self.ttl is None else self.ttl[rows],
            None if self.carried is None else self.carried.take(rows),
        )  # fmt: skip

    def message(self, row: int) -> Message:
        """One of the messages."""
        lon, lat = self.points[row].tolist()
        ttl = 0.0 if self.ttl is None else float(self.ttl[row])
        at = float(self.at[row])
        carried = {} if self.carried is None else self.carried[row]
        text = self.texts[row].as_py()
        return Message(self.ids[row], text, (lon, lat), None, at, ttl, **carried)


class Boxes(NamedTuple):
    """New subscriptions of one plain box each, as columns."""

    ids: pa.StringArray
    queries: pa.StringArray
    boxes: Floats


class EngineChanges:
    """Everything that the events of one call changed.

    `seq` and `last` are the number of the latest event and of the latest update, and grow.
    """

    def __init__(self, seq: int, last: int) -> None:
        self.before = seq
        self.seq = seq
        self.last = last
        self.now: float | None = None
        self.subscriptions: dict[str, Subscription | None] = {}  # as it is now; None is gone
        self.ended: list[str] = []  # no longer there, even if the id was taken again afterwards
        self.boxes: list[Boxes] = []
        self.added: list[pa.StringArray] = []  # ids of new subscriptions, read from the core
        self.moved: list[str] = []  # ids of subscriptions whose new regions are read from the core
        self.messages: list[AcceptedMessage | PublishedColumns] = []
        self.withdrawn: list[WithdrawnMessage] = []
        self.updates: list[Rows] = []

    def add_updates(self, seq: int, at: float, updates: list[Update]) -> int:
        """Add the updates of one event, and return the id of the first."""
        first = self.last + 1
        if updates:
            rows = self.updates[-1] if self.updates else None
            if not isinstance(rows, list):
                rows = []
                self.updates.append(rows)
            rows += [CausedUpdate(seq, at, update) for update in updates]
            self.last += len(updates)
        return first

    def add_table(
        self,
        seq: int,
        at: Floats,
        updates: pa.Table,
        bodies: MessageBodies | None = None,
        metas: Mapping[str, JsonObject] | None = None,
    ) -> int:
        """Add the updates of a table of events, the first of which is event `seq`."""
        import pyarrow as pa

        from nearcast.engine.chunks import CHUNK_SCHEMA
        from nearcast.events.columns import op_numbers
        from nearcast.events.flat import column_of

        first = self.last + 1
        if not len(updates):
            return first
        event, op, *others = (column_of(updates, name) for name in updates.column_names)
        event = event.to_numpy()
        columns = [
            pa.array(event + seq),
            pa.array(at[event]),
            op_numbers(op),
            *others,
        ]
        whole = pa.RecordBatch.from_arrays(columns, schema=CHUNK_SCHEMA)
        for start in range(0, len(whole), _LARGEST_CHUNK):
            self.updates.append(ColumnRows(whole.slice(start, _LARGEST_CHUNK), bodies, metas))
        self.last += len(whole)
        return first


class ChangingCall(NamedTuple):
    """A call that changes an engine, as a context; an error in it is passed to `undo`."""

    changes: EngineChanges
    undo: Callable[[EngineChanges, BaseException], None]

    def __enter__(self) -> EngineChanges:
        return self.changes

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if error is not None:
            self.undo(self.changes, error)
