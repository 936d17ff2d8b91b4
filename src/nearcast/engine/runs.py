"""Applies events to an engine with an index; consecutive messages are applied as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import pyarrow as pa

from nearcast.engine.applying import apply_single
from nearcast.engine.bulk import publish_messages
from nearcast.engine.changes import EngineChanges, PublishedColumns
from nearcast.engine.indexed import Indexed
from nearcast.engine.outcome import EventOutcome
from nearcast.events import Event, Message, Publish, Update

if TYPE_CHECKING:
    from nearcast.engine.core import EventCore

_WORTH_COLUMNS = 8  # fewer messages are faster one by one


def outcomes_in_runs(
    core: EventCore, events: Iterable[Event], changes: EngineChanges
) -> Iterator[EventOutcome]:
    """Yield the outcomes of events; each is applied when its outcome is requested, or earlier."""
    run = _PublishRun(cast("Indexed", core))
    for event in events:
        if isinstance(event, Publish) and run.takes(event.message):
            continue
        yield from run.apply(changes)
        if not (isinstance(event, Publish) and run.takes(event.message)):
            yield apply_single(core, event, changes)
    yield from run.apply(changes)


class _PublishRun:
    """Consecutive messages at points that may be matched together."""

    def __init__(self, core: Indexed) -> None:
        self._core = core
        self._messages: dict[str, Message] = {}  # by id
        self._at: list[float] = []
        self._open, self._now = False, -inf

    def takes(self, message: Message) -> bool:
        """Add a message, unless it has to be checked on its own."""
        if not self._messages:
            core = self._core
            self._open = core.takes_columns
            self._now = -inf if core.now is None else core.now
        if not self._open or message.point is None:
            return False
        now, at = self._now, message.at
        if at is None:
            at = 0.0 if now == -inf else now
        if at < now or message.id in self._messages:
            return False
        self._messages[message.id] = message
        self._at.append(at)
        self._now = at
        return True

    def apply(self, changes: EngineChanges) -> Iterator[EventOutcome]:
        """Apply the collected messages, and start over."""
        if not self._core.uses_any(list(self._messages)):
            yield from self._flush(changes)
            return
        # A refused one does not even advance the time: the messages after it are added again.
        messages = list(self._messages.values())
        self._messages, self._at = {}, []
        for message in messages:
            if self._core.uses_any([message.id]) or not self.takes(message):
                yield from self._flush(changes)
                yield apply_single(self._core, Publish(message), changes)
        yield from self._flush(changes)

    def _flush(self, changes: EngineChanges) -> Iterable[EventOutcome]:
        messages, at = list(self._messages.values()), self._at
        self._messages, self._at = {}, []
        outcomes = None
        if len(messages) >= _WORTH_COLUMNS:
            outcomes = self._together(messages, at, changes)
        if outcomes is None:
            return (apply_single(self._core, Publish(message), changes) for message in messages)
        return outcomes

    def _together(
        self, messages: list[Message], at: list[float], changes: EngineChanges
    ) -> list[EventOutcome] | None:
        try:
            texts = pa.array([message.text for message in messages], pa.string())
        except UnicodeEncodeError:  # half of a pair of surrogates, which is no UTF-8
            return None
        points = np.array([message.point for message in messages], np.float64)
        ttl = np.array([message.ttl for message in messages], np.float64)
        ids, seq, first = [message.id for message in messages], changes.seq + 1, changes.last + 1
        lives = ttl if ttl.any() else None
        updates = publish_messages(
            self._core, PublishedColumns(seq, ids, texts, points, np.array(at), lives), changes
        )
        if updates is None:
            return None
        cells = _UpdateColumns(updates, None if self._core.has_rankings else ids)
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

    def __init__(self, updates: pa.Table, plain: list[str] | None) -> None:
        self._updates = updates
        self._plain = plain  # ids of the messages, if they were added and nothing else
        self._columns: list[list[Any]] | None = None

    def between(self, start: int, stop: int) -> Iterator[Update]:
        """The updates of some rows."""
        if self._columns is None:
            names, plain = ["subscription", "message", "op", "score"], self._plain
            if plain is not None:
                names[1:] = ["event"]
            self._columns = [self._updates[name].to_pylist() for name in names]
            if plain is not None:
                self._columns[1] = [plain[event] for event in self._columns[1]]
        who, what, *rest = (column[start:stop] for column in self._columns)
        if not rest:
            return (Update("add", one, other) for one, other in zip(who, what, strict=True))
        return map(Update, rest[0], who, what, rest[1])


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
