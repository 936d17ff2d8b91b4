"""The reference engine: no index, every subscription looked at, the definition of right.

Each event is a step from one state to the next, and its updates are the difference it made. The
code is meant to be read beside the contract; what is fast is elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from nearcast.engine.settings import Settings
from nearcast.engine.standing import (
    Active,
    Arrived,
    Everyone,
    Interest,
    Population,
    Ranking,
    Remembered,
    difference,
)
from nearcast.engine.window import SlidingWindow
from nearcast.errors import StateError
from nearcast.geo import Region
from nearcast.model import (
    Event,
    Message,
    Move,
    Point,
    Publish,
    Result,
    Subscribe,
    Subscription,
    Unsubscribe,
    Update,
    in_order,
)
from nearcast.text import parse_bag, parse_query


class Scan:
    """Applies events in order and says what each of them changed."""

    def __init__(
        self,
        settings: Settings | None = None,
        population: Population | None = None,
        active: Active | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.population: Population = Everyone() if population is None else population
        self.now: float | None = None
        self._scorer = self.settings.scorer()
        self._rankings: dict[str, Ranking] = {}
        self.active: Active = Remembered() if active is None else active
        self._window = SlidingWindow()
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
                updates = self._move(id, region, point, now)
            case Unsubscribe(id):
                self._known(id)
                self.advance(now)
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
            found = self.active.wanted_by(standing)
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
        self.advance(now)
        self._arrivals += 1
        if arrived.end > now:
            self.active.add(arrived)
        if message.point is not None:
            self._window.append(arrived)
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
            self.advance(now)
            self._rankings[id] = ranking = Ranking(subscription, bag, self._scorer)
            for arrived in self._window:
                ranking.enter(arrived)
            return []  # what it gains and loses is found with all other rankings
        self._refuse_other_kind(id, self._rankings.get(id))
        interest = Interest(subscription, parse_query(subscription.query, analyser))
        self.advance(now)
        old = self.population.find(id)
        before = self.active.wanted_by(old) if old else {}
        self.population.put(interest)
        return difference(id, before, self.active.wanted_by(interest))

    def _move(
        self, id: str, region: Region | None, point: Point | None, now: float
    ) -> list[Update]:
        old = self._known(id).subscription
        if (old.top is None) != (region is not None):
            kind, place = ("top-k", "point") if old.top else ("boolean", "region")
            raise StateError(f"id: {id!r} is a {kind} subscription; move it to a {place}")
        return self._subscribe(replace(old, region=region, point=point), now)

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
        windowed = self._window.time_of(id)
        return self.active.has(id, now) or (windowed is not None and self._in_window(windowed, now))

    def _in_window(self, at: float, now: float) -> bool:
        seconds = self.settings.window.seconds
        return seconds is None or at > now - seconds

    def advance(self, now: float) -> None:
        """Let time pass: lasting messages end, and the window moves on."""
        self.now = now
        self.active.advance(now)
        self._slide()

    def _slide(self) -> None:
        """Drop the oldest messages until the window holds no more than it should."""
        count, now = self.settings.window.count, self.now or 0.0
        while len(self._window):
            fits = count is None or len(self._window) <= count
            if fits and self._in_window(self._window.oldest_time(), now):
                return
            if not self._rankings:
                self._window.forget(1)
                continue
            oldest = self._window.drop_oldest()
            for ranking in self._rankings.values():
                ranking.leave(oldest)
