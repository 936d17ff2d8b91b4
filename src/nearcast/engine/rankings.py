"""The top-k side of an engine: its top-k subscriptions, and the window they choose from.

`Rankings` is the interface. `PlainRankings` scores every message for every subscription, and is
the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from nearcast.engine.matching import ArrivedMessage, Ranking, Results, difference
from nearcast.engine.settings import Settings
from nearcast.engine.window import SlidingWindow
from nearcast.events import Message, Subscription, Update


class Rankings(Protocol):
    """The top-k subscriptions of an engine, and its window."""

    def __contains__(self, id: str) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def find(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        ...

    def put(self, subscription: Subscription, terms: tuple[str, ...]) -> None:
        """Add a subscription, or replace the one with its id; `terms` are those of its query."""
        ...

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        ...

    def enter(self, arrived: ArrivedMessage) -> None:
        """Add a message at a point to the window; the oldest may have to leave it."""
        ...

    def advance(self, now: float) -> None:
        """Advance the time, and with it the window."""
        ...

    def uses(self, id: str, now: float) -> bool:
        """Whether a message of the window has this id at that time."""
        ...

    def message(self, id: str) -> Message | None:
        """Look up a message of the window."""
        ...

    def best(self, id: str) -> Results:
        """The results of a known subscription, best first."""
        ...

    def changes(self) -> list[Update]:
        """The updates since the last call."""
        ...

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions."""
        ...


class PlainRankings:
    """Scores every message for every subscription."""

    def __init__(self, settings: Settings) -> None:
        self._scorer = settings.scorer()
        self._window = SlidingWindow(settings.window)
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

    def put(self, subscription: Subscription, terms: tuple[str, ...]) -> None:
        """Add a subscription, or replace the one with its id."""
        ranking = Ranking(subscription, self._scorer.bag(terms), self._scorer)
        self._rankings[subscription.id] = ranking
        for arrived in self._window:
            ranking.enter(arrived)

    @property
    def window(self) -> SlidingWindow:
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

    def advance(self, now: float) -> None:
        """Drop the oldest messages until the window holds no more than it should."""
        for oldest in self._window.leaving(now):
            for ranking in self._rankings.values():
                ranking.leave(oldest)

    def uses(self, id: str, now: float) -> bool:
        """Whether a message of the window has this id at that time."""
        return self._window.uses(id, now)

    def message(self, id: str) -> Message | None:
        """Look up a message of the window."""
        arrived = self._window.find(id)
        return None if arrived is None else replace(arrived.message, at=arrived.at)

    def best(self, id: str) -> Results:
        """The results of a known subscription, best first."""
        return self._rankings[id].best()

    def changes(self) -> list[Update]:
        """The differences between current and reported results."""
        updates = []
        for id, ranking in self._rankings.items():
            updates += difference(id, self._told.get(id, {}), ranking.best())
            self._told[id] = ranking.best()
        return updates

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions, in the order in which they were first added."""
        return (ranking.subscription for ranking in self._rankings.values())
