"""The top-k side of an engine: its top-k subscriptions, and the window they choose from.

`Rankings` is the interface. `PlainRankings` scores every message for every subscription, and is
the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from nearcast.engine.matching import (
    ArrivedMessage,
    BooleanSubscription,
    Ranking,
    Results,
    difference,
)
from nearcast.engine.settings import Settings
from nearcast.engine.window import PlainWindow
from nearcast.events import Message, Subscription, Update


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

        No message of the window has its id.
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


class PlainRankings:
    """Scores every message for every subscription."""

    def __init__(self, settings: Settings) -> None:
        self._scorer = settings.scorer()
        self._window = PlainWindow(settings.window)
        self._rankings: dict[str, Ranking] = {}
        self._told: dict[str, Results] = {}

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
        self._told.pop(id, None)

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
            before, after = self._told.get(id, {}), ranking.best()
            updates += difference(id, before, after, replaced, id == rescored)
            self._told[id] = after
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
