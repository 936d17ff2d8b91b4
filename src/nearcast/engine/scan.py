"""The reference engine: no index, every subscription looked at, the definition of right.

Each event is a step from one state to the next, and its updates are the difference it made. The
code is meant to be read beside the contract; what is fast is elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from nearcast.engine.settings import Settings
from nearcast.errors import StateError
from nearcast.model import (
    Event,
    Message,
    Move,
    Publish,
    Result,
    Subscribe,
    Subscription,
    Unsubscribe,
    Update,
    in_order,
)
from nearcast.text import Query, parse_bag, parse_query
from nearcast.topk import Bag, Scorer

Results = Mapping[str, float | None]  # message id -> score, or None where nothing is scored


class Arrived:
    """A message with what is derived from it: its time, its tokens, its terms, its weights."""

    def __init__(self, message: Message, number: int, at: float, tokens: list[str]) -> None:
        self.message = message
        self.number = number
        self.at = at
        self.end = at + message.ttl  # the instant at which it is no longer active
        self.tokens = tokens
        self.terms = frozenset(tokens)
        self._bag: Bag | None = None

    def bag(self, scorer: Scorer) -> Bag:
        """Its tf-idf weights, made when first asked for."""
        if self._bag is None:
            self._bag = scorer.bag(self.tokens)
        return self._bag


class Interest:
    """A boolean subscription: a query within a region."""

    def __init__(self, subscription: Subscription, query: Query) -> None:
        self.subscription = subscription
        self.query = query

    def wants(self, arrived: Arrived) -> bool:
        """Whether the text satisfies the query and the place lies in the region."""
        if not self.query.matches(arrived.terms):
            return False
        region, message = self.subscription.region, arrived.message
        assert region is not None  # noqa: S101 - a subscription without top has a region
        if message.point is not None:
            return region.contains(*message.point)
        return message.region is not None and region.meets(message.region)

    def among(self, active: Iterable[Arrived]) -> Results:
        """The lasting messages it wants."""
        return {arrived.message.id: None for arrived in active if self.wants(arrived)}


class Ranking:
    """A top-k subscription, and the messages of the window that it scores, best first."""

    def __init__(self, subscription: Subscription, bag: Bag, scorer: Scorer) -> None:
        self.subscription = subscription
        self._bag = bag
        self._scorer = scorer
        self._ranked: list[tuple[float, int, str]] = []  # (-score, -number, message id)
        self._best: Results | None = {}

    def _place(self, arrived: Arrived) -> tuple[float, int, str] | None:
        here, top, there = self.subscription.point, self.subscription.top, arrived.message.point
        assert here is not None and top is not None and there is not None  # noqa: S101, PT018 - by kind
        score = self._scorer.score(top.alpha, self._bag, here, arrived.bag(self._scorer), there)
        return None if score is None else (-score, -arrived.number, arrived.message.id)

    def enter(self, arrived: Arrived) -> None:
        """Score a message that enters the window."""
        if (place := self._place(arrived)) is not None:
            insort(self._ranked, place)
            self._best = None

    def leave(self, arrived: Arrived) -> None:
        """Forget a message that leaves the window."""
        if (place := self._place(arrived)) is not None:
            del self._ranked[bisect_left(self._ranked, place)]
            self._best = None

    def best(self) -> Results:
        """The k best, best first; the same object for as long as nothing changes."""
        if self._best is None:
            k = self.subscription.top.k if self.subscription.top else 0
            self._best = {id: -negated for negated, _, id in islice(self._ranked, k)}
        return self._best


class Population(Protocol):
    """The boolean subscriptions of an engine: the one part that an index does faster."""

    def find(self, id: str) -> Interest | None:
        """Look one up."""
        ...

    def put(self, interest: Interest) -> None:
        """Add one, or replace the one with its id."""
        ...

    def drop(self, id: str) -> None:
        """Forget one that is there."""
        ...

    def wanting(self, arrived: Arrived) -> list[str]:
        """The ids of all that want a message."""
        ...

    def subscriptions(self) -> Iterator[Subscription]:
        """All of them."""
        ...


class Everyone:
    """The population without an index: every subscription is asked about every message."""

    def __init__(self) -> None:
        self._interests: dict[str, Interest] = {}

    def find(self, id: str) -> Interest | None:
        """Look one up."""
        return self._interests.get(id)

    def put(self, interest: Interest) -> None:
        """Add one, or replace the one with its id."""
        self._interests[interest.subscription.id] = interest

    def drop(self, id: str) -> None:
        """Forget one that is there."""
        del self._interests[id]

    def wanting(self, arrived: Arrived) -> list[str]:
        """Ask everyone."""
        return [id for id, interest in self._interests.items() if interest.wants(arrived)]

    def subscriptions(self) -> Iterator[Subscription]:
        """All of them, in the order in which they first came."""
        return (interest.subscription for interest in self._interests.values())


class Scan:
    """Applies events in order and says what each of them changed."""

    def __init__(
        self, settings: Settings | None = None, population: Population | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.population = population or Everyone()
        self.now: float | None = None
        self._scorer = self.settings.scorer()
        self._rankings: dict[str, Ranking] = {}
        self._active: dict[str, Arrived] = {}
        self._ends: list[tuple[float, str]] = []  # a heap: when which active message ends
        self._window: dict[str, Arrived] = {}  # oldest first
        self._arrivals = 0

    def apply(self, event: Event) -> list[Update]:
        """Take one event and give its updates in order; one that is refused changes nothing."""
        now = self._time(event.at)
        before = {id: ranking.best() for id, ranking in self._rankings.items()}
        match event:
            case Publish(message):
                updates = self._publish(message, now)
            case Subscribe(subscription):
                updates = self._subscribe(subscription, now)
            case Move(id, region, point):
                old = self._known(id).subscription
                if (old.top is None) != (region is not None):
                    kind, place = ("top-k", "point") if old.top else ("boolean", "region")
                    raise StateError(f"id: {id!r} is a {kind} subscription; move it to a {place}")
                updates = self._subscribe(replace(old, region=region, point=point), now)
            case Unsubscribe(id):
                self._known(id)
                self._advance(now)
                if self._rankings.pop(id, None) is None:
                    self.population.drop(id)
                updates = []
        for id, ranking in self._rankings.items():
            updates += difference(id, before.get(id, {}), ranking.best())
        return in_order(updates)

    def results(self, id: str) -> list[Result]:
        """What is in a subscription's results now: ranked, or in the order of publication."""
        standing = self._known(id)
        if isinstance(standing, Ranking):
            found = standing.best()
        else:
            found = standing.among(self._active.values())
        return [Result(message, score) for message, score in found.items()]

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions, as they are now."""
        ranked = [ranking.subscription for ranking in self._rankings.values()]
        return [*self.population.subscriptions(), *ranked]

    def wants(self, id: str, message: Message) -> bool:
        """Whether a boolean subscription would get a message, were it published now."""
        standing = self._known(id)
        return isinstance(standing, Interest) and standing.wants(self._arrive(message, 0.0))

    def _arrive(self, message: Message, now: float) -> Arrived:
        return Arrived(message, self._arrivals, now, self.settings.analyser.tokens(message.text))

    def _publish(self, message: Message, now: float) -> list[Update]:
        if message.point is not None:
            self.settings.check_inside(message.point)
        if self._in_use(message.id, now):
            raise StateError(
                f"id: {message.id!r} is the id of a message that is still active or in the window; "
                "give each message an id of its own"
            )
        arrived = self._arrive(message, now)
        self._advance(now)
        self._arrivals += 1
        if arrived.end > now:
            self._active[message.id] = arrived
            heappush(self._ends, (arrived.end, message.id))
        if message.point is not None:
            self._window[message.id] = arrived
            for ranking in self._rankings.values():
                ranking.enter(arrived)
            self._slide()
        return [Update("add", id, message.id) for id in self.population.wanting(arrived)]

    def _subscribe(self, subscription: Subscription, now: float) -> list[Update]:
        id, analyser = subscription.id, self.settings.analyser
        if subscription.top is not None and subscription.point is not None:
            self._refuse_other_kind(id, self.population.find(id))
            self.settings.check_inside(subscription.point)
            bag = self._scorer.bag(parse_bag(subscription.query, analyser))
            self._advance(now)
            self._rankings[id] = ranking = Ranking(subscription, bag, self._scorer)
            for arrived in self._window.values():
                ranking.enter(arrived)
            return []  # what it gains and loses is found with all other rankings
        self._refuse_other_kind(id, self._rankings.get(id))
        interest = Interest(subscription, parse_query(subscription.query, analyser))
        self._advance(now)
        old = self.population.find(id)
        active = self._active.values()
        before = old.among(active) if old else {}
        self.population.put(interest)
        return difference(id, before, interest.among(active))

    def _time(self, at: float | None) -> float:
        if at is None:
            return 0.0 if self.now is None else self.now
        if self.now is not None and at < self.now:
            raise StateError(
                f"at: {at!r} is before {self.now!r}, the time of an event before it; "
                "times never decrease"
            )
        return at

    def _known(self, id: str) -> Interest | Ranking:
        standing = self._rankings.get(id) or self.population.find(id)
        if standing is None:
            raise StateError(f"id: no subscription {id!r}; subscribe it first")
        return standing

    def _refuse_other_kind(self, id: str, other: Interest | Ranking | None) -> None:
        if other is not None:
            raise StateError(
                f"id: {id!r} is in use by a subscription of the other kind (top-k or not); "
                "unsubscribe it first"
            )

    def _in_use(self, id: str, now: float) -> bool:
        active, windowed = self._active.get(id), self._window.get(id)
        return (active is not None and now < active.end) or (
            windowed is not None and self._in_window(windowed, now)
        )

    def _in_window(self, arrived: Arrived, now: float) -> bool:
        seconds = self.settings.window.seconds
        return seconds is None or arrived.at > now - seconds

    def _advance(self, now: float) -> None:
        """Let time pass: lasting messages end, and the window moves on."""
        self.now = now
        while self._ends and self._ends[0][0] <= now:
            del self._active[heappop(self._ends)[1]]
        self._slide()

    def _slide(self) -> None:
        """Drop the oldest messages until the window holds no more than it should."""
        count, now = self.settings.window.count, self.now or 0.0
        while self._window:
            oldest = next(iter(self._window.values()))
            if self._in_window(oldest, now) and (count is None or len(self._window) <= count):
                return
            del self._window[oldest.message.id]
            for ranking in self._rankings.values():
                ranking.leave(oldest)


def difference(id: str, before: Results, after: Results) -> list[Update]:
    """The updates that lead from one set of results to another."""
    if before is after:
        return []
    removed = [Update("remove", id, message) for message in before if message not in after]
    added = [
        Update("add", id, message, score)
        for message, score in after.items()
        if message not in before
    ]
    return removed + added
