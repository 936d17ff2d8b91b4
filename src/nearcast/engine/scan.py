"""The reference engine, which defines what is right: no index, every subscription compared.

Each event is a step from one state to the next, and its updates are the difference. The code is
written to be read beside the contract; the fast engines are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nearcast.engine.matching import (
    ActiveMessageSet,
    ArrivedMessage,
    BooleanSubscription,
    BooleanSubscriptions,
    ScannedMessages,
    ScannedSubscriptions,
    difference,
)
from nearcast.engine.rankings import PlainRankings, Rankings
from nearcast.engine.refusals import id_in_use, other_kind, other_place, past_time, unknown_id
from nearcast.engine.settings import Settings
from nearcast.events import (
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
from nearcast.geo import Bounds, Region
from nearcast.text import parse_bag, parse_query


class Scan:
    """Applies events in order, and returns what each of them changed.

    Without `reports` it checks events and keeps the state, and leaves the updates to another.
    """

    plain = True

    def __init__(
        self,
        settings: Settings | None = None,
        population: BooleanSubscriptions | None = None,
        rankings: Rankings | None = None,
        active: ActiveMessageSet | None = None,
        *,
        reports: bool = True,
    ) -> None:
        self._reports = reports
        self.settings = settings or Settings()
        self.population: BooleanSubscriptions = (
            ScannedSubscriptions() if population is None else population
        )
        self.rankings: Rankings = PlainRankings(self.settings) if rankings is None else rankings
        self.active: ActiveMessageSet = ScannedMessages() if active is None else active
        self.now: float | None = None
        self._arrivals = 0

    def apply(self, event: Event) -> list[Update]:
        """Apply one event and return its updates in order; a refused one changes nothing."""
        now = self._time(event.at)
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
                (self.rankings if id in self.rankings else self.population).drop(id)
                updates = []
        return in_order(updates + self.rankings.changes()) if self._reports else []

    def results(self, id: str) -> list[Result]:
        """The current results of a subscription: ranked, or in the order of publication."""
        self._known(id)
        interest = self.population.find(id)
        found = self.active.wanted_by(interest) if interest else self.rankings.best(id)
        return [Result(message, score) for message, score in found.items()]

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions, as they are now."""
        return [*self.population.subscriptions(), *self.rankings.subscriptions()]

    def __len__(self) -> int:
        return len(self.population) + len(self.rankings)

    def subscription(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        interest = self.population.find(id)
        return self.rankings.find(id) if interest is None else interest.subscription

    def ids(self) -> Iterable[str]:
        """The ids of all subscriptions."""
        return [subscription.id for subscription in self.subscriptions()]

    def ids_around(self, bounds: tuple[Bounds, ...], most: int) -> list[str] | None:
        """The ids of all that may meet one of some plain boxes; None if they are more than that."""
        del bounds, most  # without an index any of them may
        return None

    def message(self, id: str) -> Message | None:
        """Look up a message that is active or in the window."""
        return self.active.message(id) or self.rankings.message(id)

    def figures(self) -> dict[str, float]:
        """Empty: there is no index."""
        return {}

    def wants(self, id: str, message: Message) -> bool:
        """Whether a boolean subscription would match a message that is published now."""
        self._known(id)
        interest = self.population.find(id)
        return interest is not None and interest.wants(self._arrive(message, 0.0))

    def _arrive(self, message: Message, now: float) -> ArrivedMessage:
        return ArrivedMessage(
            message, self._arrivals, now, self.settings.analyser.tokens(message.text)
        )

    def _publish(self, message: Message, now: float) -> list[Update]:
        if message.point is not None:
            self.settings.check_inside(message.point)
        if self._in_use(message.id, now):
            raise id_in_use(message.id)
        arrived = self._arrive(message, now)
        self.advance(now)
        self._arrivals += 1
        if arrived.end > now:
            self.active.add(arrived)
        if message.point is not None:
            self.rankings.enter(arrived)
        wanting = self.population.wanting(arrived) if self._reports else []
        return [Update("add", id, message.id) for id in wanting]

    def _subscribe(self, subscription: Subscription, now: float) -> list[Update]:
        id, analyser = subscription.id, self.settings.analyser
        if subscription.top is not None and subscription.point is not None:
            self._refuse_other_kind(id, self.population.find(id) is not None)
            self.settings.check_inside(subscription.point)
            terms = parse_bag(subscription.query, analyser)
            self.advance(now)
            self.rankings.put(subscription, terms)
            return []  # its changes are found with those of all other rankings
        self._refuse_other_kind(id, id in self.rankings)
        interest = BooleanSubscription(subscription, parse_query(subscription.query, analyser))
        self.advance(now)
        old = self.population.find(id) if self._reports else None
        before = self.active.wanted_by(old) if old else {}
        self.population.put(interest)
        return difference(id, before, self.active.wanted_by(interest)) if self._reports else []

    def _move(
        self, id: str, region: Region | None, point: Point | None, now: float
    ) -> list[Update]:
        old = self._known(id)
        if (old.top is None) != (region is not None):
            raise other_place(id, old.top is not None)
        return self._subscribe(replace(old, region=region, point=point), now)

    def _time(self, at: float | None) -> float:
        if at is None:
            return 0.0 if self.now is None else self.now
        if self.now is not None and at < self.now:
            raise past_time(at, self.now)
        return at

    def _known(self, id: str) -> Subscription:
        interest = self.population.find(id)
        subscription = self.rankings.find(id) if interest is None else interest.subscription
        if subscription is None:
            raise unknown_id(id)
        return subscription

    def _refuse_other_kind(self, id: str, other: bool) -> None:
        if other:
            raise other_kind(id)

    def _in_use(self, id: str, now: float) -> bool:
        return self.active.has(id, now) or self.rankings.uses(id, now)

    def advance(self, now: float) -> None:
        """Advance the time: active messages end, and the window moves on."""
        self.now = now
        self.active.advance(now)
        self.rankings.advance(now)
