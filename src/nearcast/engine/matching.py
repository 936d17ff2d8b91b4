"""Subscriptions and messages as they are matched, with sets of them that need no index."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from nearcast.events import Message, Subscription, Update
from nearcast.text import Analyser, Content, Query
from nearcast.topk import Bag, Scorer

Results = Mapping[str, float | None]  # message id -> score, None for boolean subscriptions


Place = tuple[float, int, str]  # -score, -number and id of a message: the best has the least


class ArrivedMessage:
    """A message with what is derived from it: its time, its tokens, its terms, its weights."""

    __slots__ = ("_analyser", "_bag", "_content", "_terms", "at", "end", "message", "number")

    def __init__(self, message: Message, number: int, at: float, analyser: Analyser) -> None:
        self.message = message
        self.number = number
        self.at = at
        self.end = at + message.ttl  # the instant at which it is no longer active
        self._analyser = analyser
        self._content: Content | None = None  # read on first use, as the terms are
        self._terms: frozenset[str] | None = None
        self._bag: Bag | None = None

    @property
    def content(self) -> Content:
        """Its tokens and properties, for operands."""
        if self._content is None:
            tokens = self._analyser.tokens(self.message.text)
            self._content = Content(tokens, self.message.properties)
        return self._content

    @property
    def terms(self) -> frozenset[str]:
        """Its terms."""
        if self._terms is None:
            self._terms = frozenset(self.content.tokens)
        return self._terms

    def forget_content(self) -> None:
        """Drop its tokens and terms, which are read again when they are needed.

        They take up to a hundred times as much memory as the text.
        """
        self._content = self._terms = None

    def bag(self, scorer: Scorer) -> Bag:
        """Its tf-idf weights, computed on first use."""
        if self._bag is None:
            self._bag = scorer.bag(self.content.tokens)
        return self._bag


class BooleanSubscription:
    """A boolean subscription: a query within a region."""

    def __init__(self, subscription: Subscription, query: Query) -> None:
        self.subscription = subscription
        self.query = query

    def wants(self, arrived: ArrivedMessage) -> bool:
        """Whether the message satisfies the query, and lies in the region if there is one."""
        if not self.query.matches(arrived.terms, arrived.content):
            return False
        region, message = self.subscription.region, arrived.message
        if region is None:
            return True
        if message.point is not None:
            return region.contains(*message.point)
        return message.region is not None and region.meets(message.region)

    def among(self, active: Iterable[ArrivedMessage]) -> Results:
        """The messages among these that it matches."""
        return {arrived.message.id: None for arrived in active if self.wants(arrived)}


class Ranking:
    """A top-k subscription, and the messages of the window that it ranks, best first.

    `wanted` has its filter and its region, if it has one of them.
    """

    def __init__(
        self,
        subscription: Subscription,
        bag: Bag,
        scorer: Scorer,
        wanted: BooleanSubscription | None = None,
    ) -> None:
        self.subscription = subscription
        self._bag = bag
        self._scorer = scorer
        self._wanted = wanted
        self._ranked: list[Place] = []
        self._best: Results | None = {}

    def place(self, arrived: ArrivedMessage) -> Place | None:
        """Where a message ranks; None if it is not ranked at all."""
        here, top, there = self.subscription.point, self.subscription.top, arrived.message.point
        assert here is not None and top is not None and there is not None  # noqa: S101, PT018 - by kind
        bag = arrived.bag(self._scorer)
        score = self._scorer.score(top.alpha, self._bag, here, bag, there, top.scale)
        if score is None or (top.min_score is not None and score < top.min_score):
            return None
        if self._wanted is not None and not self._wanted.wants(arrived):
            return None
        return (-score, -arrived.number, arrived.message.id)

    def enter(self, arrived: ArrivedMessage) -> None:
        """Rank a message that enters the window."""
        if (place := self.place(arrived)) is not None:
            insort(self._ranked, place)
            self._best = None

    def leave(self, arrived: ArrivedMessage) -> None:
        """Remove a message that leaves the window."""
        if (place := self.place(arrived)) is not None:
            del self._ranked[bisect_left(self._ranked, place)]
            self._best = None

    def would_rank(self, arrived: ArrivedMessage, gone: Set[int]) -> float | None:
        """The score of a message, if it were among the k best beside all but those `gone`."""
        place, top = self.place(arrived), self.subscription.top
        if place is None or top is None:
            return None
        better = sum(other < place and -other[1] not in gone for other in self._ranked)
        return -place[0] if better < top.k else None

    def best(self) -> Results:
        """The k best, best first; the same object for as long as nothing changes."""
        if self._best is None:
            k = self.subscription.top.k if self.subscription.top else 0
            self._best = {id: -negated for negated, _, id in islice(self._ranked, k)}
        return self._best


class BooleanSubscriptions(Protocol):
    """The boolean subscriptions of an engine, with or without an index."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def find(self, id: str) -> BooleanSubscription | None:
        """Look up a subscription."""
        ...

    def put(self, interest: BooleanSubscription) -> None:
        """Add a subscription, or replace the one with its id."""
        ...

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        ...

    def wanting(self, arrived: ArrivedMessage) -> list[str]:
        """The ids of all that match a message."""
        ...

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions."""
        ...


class ActiveMessageSet(Protocol):
    """The active messages of an engine, with or without an index."""

    def __len__(self) -> int:
        """How many there are, perhaps with some that have ended."""
        ...

    def has(self, id: str, now: float) -> bool:
        """Whether a message of this id is active."""
        ...

    def message(self, id: str) -> Message | None:
        """Look up an active message."""
        ...

    def add(self, arrived: ArrivedMessage) -> None:
        """Add an active message."""
        ...

    def take_out(self, id: str) -> ArrivedMessage | None:
        """Remove and return the active message with this id, if there is one."""
        ...

    def advance(self, now: float) -> None:
        """Remove messages that have ended by `now`."""
        ...

    def living(self, now: float) -> int:
        """How many have not ended by `now`."""
        ...

    def wanted_by(self, interest: BooleanSubscription) -> Results:
        """The active messages that a subscription matches, in order of arrival."""
        ...


class ScannedMessages:
    """Active messages without an index: every one is compared with a subscription."""

    def __init__(self) -> None:
        self._messages: dict[str, ArrivedMessage] = {}
        self._ends: list[tuple[float, str]] = []  # a heap of (end, id)

    def __len__(self) -> int:
        return len(self._messages)

    def has(self, id: str, now: float) -> bool:
        """Whether a message of this id is active."""
        arrived = self._messages.get(id)
        return arrived is not None and now < arrived.end

    def message(self, id: str) -> Message | None:
        """Look up an active message."""
        arrived = self._messages.get(id)
        return None if arrived is None else replace(arrived.message, at=arrived.at)

    def add(self, arrived: ArrivedMessage) -> None:
        """Add an active message."""
        self._messages[arrived.message.id] = arrived
        heappush(self._ends, (arrived.end, arrived.message.id))

    def take_out(self, id: str) -> ArrivedMessage | None:
        """Remove and return the active message with this id, if there is one."""
        return self._messages.pop(id, None)

    def advance(self, now: float) -> None:
        """Remove messages that have ended by `now`."""
        while self._ends and self._ends[0][0] <= now:
            end, id = heappop(self._ends)
            if id in self._messages and self._messages[id].end == end:
                del self._messages[id]

    def living(self, now: float) -> int:
        """How many have not ended by `now`."""
        return sum(one.end > now for one in self._messages.values())

    def wanted_by(self, interest: BooleanSubscription) -> Results:
        """Compare each message with the subscription."""
        return interest.among(self._messages.values())

    def __iter__(self) -> Iterator[ArrivedMessage]:
        return iter(self._messages.values())


class ScannedSubscriptions:
    """Boolean subscriptions without an index: every one is compared with every message."""

    def __init__(self) -> None:
        self._interests: dict[str, BooleanSubscription] = {}

    def __len__(self) -> int:
        return len(self._interests)

    def find(self, id: str) -> BooleanSubscription | None:
        """Look up a subscription."""
        return self._interests.get(id)

    def put(self, interest: BooleanSubscription) -> None:
        """Add a subscription, or replace the one with its id."""
        self._interests[interest.subscription.id] = interest

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        del self._interests[id]

    def wanting(self, arrived: ArrivedMessage) -> list[str]:
        """Compare every subscription with the message."""
        terms, content = arrived.terms, arrived.content  # most fail by their query: ask it first
        return [
            id
            for id, interest in self._interests.items()
            if interest.query.matches(terms, content) and interest.wants(arrived)
        ]

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions, in the order in which they were first added."""
        return (interest.subscription for interest in self._interests.values())

    def __iter__(self) -> Iterator[BooleanSubscription]:
        return iter(self._interests.values())


def difference(
    id: str,
    before: Results,
    after: Results,
    replaced: str | None = None,
    rescored: bool = False,
) -> list[Update]:
    """The updates that lead from one set of results to another.

    What stays is a `change` if it is the message that was `replaced`, or if the subscription is
    `rescored` and the score is another.
    """
    if before is after:
        return []
    updates = [Update("remove", id, message) for message in before if message not in after]
    for message, score in after.items():
        if message not in before:
            updates.append(Update("add", id, message, score))
        elif message == replaced or (rescored and score != before[message]):
            updates.append(Update("change", id, message, score))
    return updates
