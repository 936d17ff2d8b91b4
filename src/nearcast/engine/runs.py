"""Applies events to an engine with an index; consecutive messages are applied as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import pyarrow as pa

from nearcast.engine.applying import apply_single
from nearcast.engine.bulk import refusal
from nearcast.engine.changes import EngineChanges, PublishedColumns
from nearcast.engine.indexed import Indexed
from nearcast.engine.outcome import EventOutcome
from nearcast.engine.publishing import DecidedMessages, decided_messages
from nearcast.engine.update_log import ColumnRows, Rows
from nearcast.events import Event, LateBody, Message, Publish, Update
from nearcast.events.carried import CarriedColumns
from nearcast.events.fields import ADD, CARRIED, UPDATE_OPS, WITHOUT_BODY

if TYPE_CHECKING:
    from nearcast.engine.core import EventCore

_WORTH_COLUMNS = 8  # fewer messages are faster one by one


def outcomes_in_runs(
    core: EventCore, events: Iterable[Event], changes: EngineChanges
) -> Iterator[EventOutcome]:
    """Yield the outcomes of events; each is applied when its outcome is requested, or earlier."""
    indexed = cast("Indexed", core)
    for together, some in groupby(events, _fits_columns):
        run: list[Any] = list(some)
        columns = None
        if together and indexed.takes_columns:
            columns = columns_of([event.message for event in run])
        outcomes = None if columns is None else _run(indexed, columns, changes)
        if outcomes is None:
            outcomes = (apply_single(core, event, changes) for event in run)
        yield from outcomes


def _fits_columns(event: Event) -> bool:
    return isinstance(event, Publish) and is_at_point(event.message)


def is_at_point(message: Message) -> bool:
    """Whether a message can be one of columns: it is at a point."""
    return message.point is not None


def columns_of(messages: list[Message]) -> PublishedColumns | None:
    """Messages at points as columns, NaN for a time that is not given; None if that is no gain."""
    if len(messages) < _WORTH_COLUMNS:
        return None
    try:
        texts = pa.array([message.text for message in messages], pa.string())
    except UnicodeEncodeError:  # half of a pair of surrogates, which is no UTF-8
        return None
    given = {name: [getattr(message, name) for message in messages] for name in CARRIED}
    return PublishedColumns(
        0,
        [message.id for message in messages],
        texts,
        np.array([message.point for message in messages], np.float64),
        np.array([np.nan if message.at is None else message.at for message in messages]),
        np.array([message.ttl for message in messages], np.float64),
        CarriedColumns.of(given),
    )


def _run(
    core: Indexed, messages: PublishedColumns, changes: EngineChanges
) -> Iterator[EventOutcome] | None:
    """Apply consecutive messages; None, without any change, if some must be applied on their own.

    That is where top-k subscriptions see one replaced, or a subscription ends meanwhile.
    """
    decision = decided_messages(core, messages)
    return None if decision is None else _between(core, decision, changes)


def _between(
    core: Indexed, decision: DecidedMessages, changes: EngineChanges
) -> Iterator[EventOutcome]:
    """Match together the messages between two refused ones."""
    start, count = 0, len(decision.messages.ids)
    for stop in (*decision.refused, count):
        yield from _together(core, decision, start, stop, changes)
        if stop < count:
            yield EventOutcome(None, refusal(core, decision.rows, decision.messages, stop))
        start = stop + 1


def _together(
    core: Indexed, decision: DecidedMessages, start: int, stop: int, changes: EngineChanges
) -> list[EventOutcome]:
    ids, seq, first = decision.messages.ids[start:stop], changes.seq + 1, changes.last + 1
    updates = decision.publish(core, start, stop, changes)
    rows = changes.updates[-1] if len(updates) else None
    added = not (core.has_rankings or decision.replaces)
    cells = _UpdateColumns(updates, ids if added else None, seq, rows)
    edges = np.searchsorted(updates["event"].to_numpy(), np.arange(len(ids) + 1)).tolist()
    return [
        EventOutcome(
            seq + row,
            None,
            _MessageUpdates(cells, start, stop) if start < stop else (),
            first + start,
        )
        for row, (start, stop) in enumerate(pairwise(edges))
    ]


class _UpdateColumns:
    """A table of updates whose columns are converted to lists on first use."""

    def __init__(
        self, updates: pa.Table, plain: list[str] | None, seq: int, rows: Rows | None
    ) -> None:
        self._updates = updates
        self._plain = plain  # ids of the messages, if they were added and nothing else
        self._seq = seq  # the number of the first event
        self._rows = rows  # the same updates in the log
        self._columns: list[list[Any]] | None = None

    def between(self, start: int, stop: int) -> Iterator[Update]:
        """The updates of some rows."""
        if self._columns is None:
            self._columns = self._read()
        return map(Update, *(column[start:stop] for column in self._columns))

    def _read(self) -> list[list[Any]]:
        """The columns of all updates, in the order of the fields of `Update`."""
        table, plain = self._updates, self._plain
        events, who = table["event"].to_pylist(), table["subscription"].to_pylist()
        if plain is None:
            ops, what = table["op"].to_pylist(), table["message"].to_pylist()
            scores = table["score"].to_pylist()
        else:
            ops, what = [UPDATE_OPS[ADD]] * len(events), [plain[event] for event in events]
            scores = [None] * len(events)
        metas = self._rows.metas if isinstance(self._rows, ColumnRows) else {}
        late = self._bodies(events, ops, what)
        return [ops, who, what, scores, [metas.get(one) for one in who], late]

    def _bodies(
        self, events: list[int], ops: list[str], messages: list[str]
    ) -> list[LateBody | None]:
        """The bodies of all updates; those of one event and message are one object."""
        bodies = self._rows.bodies if isinstance(self._rows, ColumnRows) else None
        if bodies is None:
            return [None] * len(events)
        found: list[LateBody | None] = []
        latest: tuple[int, str] | None = None
        body: LateBody | None = None
        for event, op, message in zip(events, ops, messages, strict=True):
            if (event, message) != latest:
                latest, body = (event, message), bodies.find(self._seq + event, message)
            found.append(None if op in WITHOUT_BODY else body)
        return found


class _MessageUpdates(Sequence[Update]):
    """The updates of one message, created on first use."""

    __slots__ = ("_cells", "_start", "_stop")

    def __init__(self, cells: _UpdateColumns, start: int, stop: int) -> None:
        self._cells, self._start, self._stop = cells, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Update]:
        return self._cells.between(self._start, self._stop)

    @overload
    def __getitem__(self, at: int) -> Update: ...
    @overload
    def __getitem__(self, at: slice) -> list[Update]: ...
    def __getitem__(self, at: int | slice) -> Update | list[Update]:
        if isinstance(at, slice):
            return list(self)[at]
        place = range(self._start, self._stop)[at]
        return next(self._cells.between(place, place + 1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))
