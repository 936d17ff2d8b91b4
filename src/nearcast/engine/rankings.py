"""The top-k side of an engine: its top-k subscriptions, and the window they choose from.

`Rankings` is the interface. `PlainRankings` scores every message for every subscription, and is
the reference.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from typing import Protocol

from nearcast.engine.matching import (
    ArrivedMessage,
    BooleanSubscription,
    Ranking,
    Results,
    difference,
)
from nearcast.engine.settings import Settings
from nearcast.events import Message, Subscription, Update
from nearcast.topk import Window


class Rankings(Protocol):
    """The top-k subscriptions of an engine, and its window."""

    def __contains__(self, id: str) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def find(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        ...

    def put(
        self,
        subscription: Subscription,
        terms: tuple[str, ...],
        wanted: BooleanSubscription | None = None,
    ) -> None:
        """Add a subscription, or replace the one with its id.

        `terms` are those of its query; `wanted` has its filter and its region, if there is one.
        """
        ...

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        ...

    def enter(self, arrived: ArrivedMessage) -> None:
        """Add a message at a point to the window; the oldest may have to leave it.

        `take_out` was called with its id, unless the id is known to be new.
        """
        ...

    def take_out(self, id: str) -> bool:
        """Remove the message with this id from the window; False if there is none."""
        ...

    def advance(self, now: float) -> None:
        """Advance the time: messages with an end leave the window, and those that are too old."""
        ...

    def uses(self, id: str, now: float) -> bool:
        """Whether a message of the window has this id at that time."""
        ...

    @property
    def oldest(self) -> str | None:
        """The id of the oldest message of the window; None if it is empty."""
        ...

    def message(self, id: str) -> Message | None:
        """Look up a message of the window."""
        ...

    def best(self, id: str) -> Results:
        """The results of a known subscription, best first."""
        ...

    def changes(self, replaced: str | None = None, rescored: str | None = None) -> list[Update]:
        """The updates since the last call, as the net effect of one event.

        What stays a result is a `change` if its message was `replaced`, or if its subscription was
        moved or subscribed again (`rescored`) and its score is another.
        """
        ...

    def would_rank(self, arrived: ArrivedMessage) -> dict[str, float]:
        """Who would have a message among the best if it were published now, with its scores."""
        ...

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions."""
        ...


class PlainWindow:
    """Messages in the order of their arrival, by id; those with a `ttl` leave at their end."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._messages: OrderedDict[str, ArrivedMessage] = OrderedDict()
        self._ends: list[tuple[float, int, str]] = []  # a heap of (end, number, id)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[ArrivedMessage]:
        return iter(self._messages.values())

    def find(self, id: str) -> ArrivedMessage | None:
        """The message with an id, if it is there."""
        return self._messages.get(id)

    def append(self, arrived: ArrivedMessage) -> None:
        """Add a message whose id is unused."""
        self._messages[arrived.message.id] = arrived
        if arrived.message.ttl:
            heappush(self._ends, (arrived.end, arrived.number, arrived.message.id))

    def take_out(self, id: str) -> ArrivedMessage:
        """Remove the message with an id that is there."""
        return self._messages.pop(id)

    def ended(self, now: float) -> Iterator[ArrivedMessage]:
        """Remove and yield the messages that have ended by `now`."""
        while self._ends and self._ends[0][0] <= now:
            _, number, id = heappop(self._ends)
            if id in self._messages and self._messages[id].number == number:
                yield self._messages.pop(id)

    def displaced(self, now: float) -> Iterator[ArrivedMessage]:
        """Remove and yield the oldest messages while they are too many, or too old."""
        while self._messages:
            oldest = next(iter(self._messages.values()))
            most = self._window.count
            if self.is_recent(oldest, now) and (most is None or len(self) <= most):
                return
            yield self._messages.popitem(last=False)[1]

    def leaving(self, arrived: ArrivedMessage) -> list[ArrivedMessage]:
        """The messages that one would end, let end, or displace, if it were published now."""
        stays = [
            other
            for id, other in self._messages.items()
            if id != arrived.message.id and self.holds(other, arrived.at)
        ]
        most = len(stays) if self._window.count is None else self._window.count - 1
        kept = {other.number for other in stays[max(0, len(stays) - most) :]}
        return [other for other in self if other.number not in kept]

    def holds(self, arrived: ArrivedMessage, now: float) -> bool:
        """Whether time alone lets a message stay until `now`."""
        return self.is_recent(arrived, now) and not (arrived.message.ttl and arrived.end <= now)

    def is_recent(self, arrived: ArrivedMessage, now: float) -> bool:
        """Whether a message is young enough for a window of seconds."""
        return self._window.seconds is None or arrived.at > now - self._window.seconds


class PlainRankings:
    """Scores every message for every subscription."""

    def __init__(self, settings: Settings) -> None:
        self._scorer = settings.scorer()
        self._window = PlainWindow(settings.window)
        self._rankings: dict[str, Ranking] = {}
        self._reported: dict[str, Results] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._rankings

    def __len__(self) -> int:
        return len(self._rankings)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rankings)

    def find(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        ranking = self._rankings.get(id)
        return None if ranking is None else ranking.subscription

    def put(
        self,
        subscription: Subscription,
        terms: tuple[str, ...],
        wanted: BooleanSubscription | None = None,
    ) -> None:
        """Add a subscription, or replace the one with its id."""
        ranking = Ranking(subscription, self._scorer.bag(terms), self._scorer, wanted)
        self._rankings[subscription.id] = ranking
        for arrived in self._window:
            ranking.enter(arrived)

    @property
    def window(self) -> PlainWindow:
        """The messages that are chosen from."""
        return self._window

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        del self._rankings[id]
        self._reported.pop(id, None)

    def enter(self, arrived: ArrivedMessage) -> None:
        """Add a message to the window, and drop the oldest if it is full."""
        self._window.append(arrived)
        for ranking in self._rankings.values():
            ranking.enter(arrived)
        self.advance(arrived.at)

    def take_out(self, id: str) -> bool:
        """Remove the message with this id from the window; False if there is none."""
        arrived = self._window.find(id)
        if arrived is not None:
            self._leave([self._window.take_out(id)])
        return arrived is not None

    def advance(self, now: float) -> None:
        """Drop the messages that have ended by `now`, then the oldest while there are too many."""
        self._leave(self._window.ended(now))
        self._leave(self._window.displaced(now))

    def _leave(self, some: Iterable[ArrivedMessage]) -> None:
        for arrived in some:
            for ranking in self._rankings.values():
                ranking.leave(arrived)

    def uses(self, id: str, now: float) -> bool:
        """Whether a message of the window has this id at that time."""
        arrived = self._window.find(id)
        return arrived is not None and self._window.holds(arrived, now)

    @property
    def oldest(self) -> str | None:
        """The id of the oldest message of the window; None if it is empty."""
        return next((arrived.message.id for arrived in self._window), None)

    def message(self, id: str) -> Message | None:
        """Look up a message of the window."""
        arrived = self._window.find(id)
        return None if arrived is None else replace(arrived.message, at=arrived.at)

    def best(self, id: str) -> Results:
        """The results of a known subscription, best first."""
        return self._rankings[id].best()

    def changes(self, replaced: str | None = None, rescored: str | None = None) -> list[Update]:
        """The differences between current and reported results."""
        updates = []
        for id, ranking in self._rankings.items():
            before, after = self._reported.get(id, {}), ranking.best()
            updates += difference(id, before, after, replaced, id == rescored)
            self._reported[id] = after
        return updates

    def would_rank(self, arrived: ArrivedMessage) -> dict[str, float]:
        """Who would have a message among the best if it were published now, with its scores."""
        if arrived.message.ttl and arrived.end <= arrived.at:
            return {}
        gone = {other.number for other in self._window.leaving(arrived)}
        scores = {id: ranking.would_rank(arrived, gone) for id, ranking in self._rankings.items()}
        return {id: score for id, score in scores.items() if score is not None}

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions, in the order in which they were first added."""
        return (ranking.subscription for ranking in self._rankings.values())
