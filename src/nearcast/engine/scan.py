"""The reference engine, which defines what is right: no index, every subscription compared.

Each event is a step from one state to the next, and its updates are the difference. The code is
written to be read beside the contract; the fast engines are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nearcast.engine.attributes import Attributes
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
from nearcast.engine.refusals import (
    other_kind,
    other_place,
    past_time,
    unknown_id,
    unknown_message,
)
from nearcast.engine.settings import Settings
from nearcast.errors import QueryError
from nearcast.events import (
    Event,
    Message,
    Move,
    Publish,
    Result,
    Retract,
    Subscribe,
    Subscription,
    Unsubscribe,
    Update,
    in_order,
)
from nearcast.geo import Bounds
from nearcast.text import EVERYTHING, parse_bag, parse_query


class Scan:
    """Applies events in order, and returns what each of them changed.

    Without `reports` it checks events and keeps the state, and leaves the updates to another.
    `ended` are the subscriptions that ended with the time of the latest event, and `withdrew` says
    whether it retracted or replaced a message.
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
        self.attributes = Attributes()
        self.now: float | None = None
        self.ended: list[str] = []
        self.withdrew = False
        self._arrivals = 0

    def apply(self, event: Event) -> list[Update]:
        """Apply one event and return its updates in order; a refused one changes nothing."""
        now = self._time(event.at)
        self.ended.clear()
        self.withdrew = False
        match event:
            case Publish(message):
                updates = self._publish(message, now)
            case Retract(id):
                updates = self._retract(id, now)
            case Subscribe(subscription):
                updates = self._subscribe(subscription, now)
            case Move():
                updates = self._move(event, now)
            case Unsubscribe(id):
                self._known(id, now)
                self.advance(now)
                self._end(id)
                updates = self.rankings.changes()
        return self.attributes.asked_for(in_order(updates)) if self._reports else []

    def results(self, id: str) -> list[Result]:
        """The current results of a subscription: ranked, or in the order of publication."""
        self._known(id, self.now)
        interest = self.population.find(id)
        found = self.active.wanted_by(interest) if interest else self.rankings.best(id)
        return [Result(message, score) for message, score in found.items()]

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions, as they are now."""
        bare = [*self.population.subscriptions(), *self.rankings.subscriptions()]
        return [self.attributes.added_to(one) for one in bare] if self.attributes else bare

    def __len__(self) -> int:
        return len(self.population) + len(self.rankings)

    def subscription(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        interest = self.population.find(id)
        found = self.rankings.find(id) if interest is None else interest.subscription
        return None if found is None else self.attributes.added_to(found)

    def ids(self) -> Iterable[str]:
        """The ids of all subscriptions."""
        return [subscription.id for subscription in self.subscriptions()]

    def ids_around(self, bounds: tuple[Bounds, ...], most: int) -> list[str] | None:
        """The ids of all that may meet one of some plain boxes; None if they are more than that."""
        del bounds, most  # without an index any of them may
        return None

    @property
    def oldest(self) -> str | None:
        """The id of the oldest message in the window; None if it is empty."""
        return self.rankings.oldest

    def message(self, id: str) -> Message | None:
        """Look up a message that is active or in the window."""
        return self.active.message(id) or self.rankings.message(id)

    def figures(self) -> dict[str, float]:
        """Empty: there is no index."""
        return {}

    def wants(self, id: str, message: Message) -> bool:
        """Whether a boolean subscription would match a message that is published now."""
        self._known(id, self.now)
        interest = self.population.find(id)
        return interest is not None and interest.wants(self._arrive(message, 0.0))

    def match(self, message: Message) -> list[Result]:
        """The subscriptions that a message would reach now, with their scores; nothing changes."""
        now = self._time(message.at)
        if message.point is not None:
            self.settings.check_inside(message.point)
        arrived = self._arrive(message, now)
        alive = [id for id in self.population.wanting(arrived) if self.attributes.lives(id, now)]
        found = [Result(id) for id in alive]
        if message.point is not None:
            ranked = self.rankings.would_rank(arrived)
            found += [Result(*one) for one in ranked.items() if self.attributes.lives(one[0], now)]
        return sorted(found, key=lambda result: result.message)

    def resume(self, subscription: Subscription, end: float | None) -> None:
        """Add a subscription that was there before, and ends when it would have."""
        put = self._register if subscription.top is None else self._rank
        put(subscription, self._time(None), end)

    def bring_back(self, message: Message, in_window: bool) -> None:
        """Add a message that was published before and has not ended, without updates."""
        at = 0.0 if message.at is None else message.at
        arrived = self._arrive(message, at)
        self._arrivals += 1
        if arrived.end > at:
            self.active.add(arrived)
        if in_window:
            self.rankings.enter(arrived)
        arrived.forget_content()

    def _arrive(self, message: Message, now: float) -> ArrivedMessage:
        return ArrivedMessage(message, self._arrivals, now, self.settings.analyser)

    def _publish(self, message: Message, now: float) -> list[Update]:
        """Add a message; one with its id that is active or in the window ends with this."""
        id = message.id
        if message.point is not None:
            self.settings.check_inside(message.point)
        arrived = self._arrive(message, now)
        self.advance(now)
        before = self._withdraw(id)
        replaced = self._take_out(id)
        self._arrivals += 1
        if arrived.end > now:
            self.active.add(arrived)
        if message.point is not None:
            self.rankings.enter(arrived)
        after = set(self.population.wanting(arrived)) if self._reports else set()
        arrived.forget_content()  # it may stay for long
        updates = [Update("remove", one, id) for one in before - after]
        updates += [Update("change" if one in before else "add", one, id) for one in after]
        return updates + self.rankings.changes(replaced=id if replaced else None)

    def _retract(self, id: str, now: float) -> list[Update]:
        """End a message that is active or in the window."""
        if not (self.active.has(id, now) or self.rankings.uses(id, now)):
            raise unknown_message(id)
        self.advance(now)
        before = self._withdraw(id)
        self._take_out(id)
        return [Update("remove", one, id) for one in before] + self.rankings.changes()

    def _withdraw(self, id: str) -> set[str]:
        """Remove an active message, if it is there, and return who had it among the results."""
        old = self.active.take_out(id)
        self.withdrew |= old is not None
        return set() if old is None or not self._reports else set(self.population.wanting(old))

    def _take_out(self, id: str) -> bool:
        """Remove a message from the window; False if it is not there."""
        found = self.rankings.take_out(id)
        self.withdrew |= found
        return found

    def _subscribe(self, subscription: Subscription, now: float) -> list[Update]:
        """Add a subscription, or replace the one with its id."""
        ranked = subscription.top is not None
        old = self._find(subscription.id, now)
        if old is not None and (old.top is not None) is not ranked:
            raise other_kind(subscription.id)
        put = self._rank if ranked else self._register
        return put(subscription, now, None if subscription.ttl is None else now + subscription.ttl)

    def _move(self, event: Move, now: float) -> list[Update]:
        """Replace a subscription by one at another place; its end stays unless it has a new one."""
        id, region, point, ttl = event.id, event.region, event.point, event.ttl
        old = self._known(id, now)
        if old.top is None and point is not None:
            raise other_place(id)
        moved = replace(
            old,
            region=old.region if region is None else region,
            point=old.point if point is None else point,
            ttl=old.ttl if ttl is None else ttl,
        )
        end = self.attributes.end_of(id) if ttl is None else now + ttl
        return (self._register if old.top is None else self._rank)(moved, now, end)

    def _register(self, subscription: Subscription, now: float, end: float | None) -> list[Update]:
        """Add a boolean subscription; it gains and loses active messages."""
        id, query = subscription.id, subscription.query
        parsed = EVERYTHING if query is None else parse_query(query, self.settings.analyser)
        self.advance(now)
        old = self.population.find(id) if self._reports else None
        before = self.active.wanted_by(old) if old else {}
        interest = BooleanSubscription(self.attributes.put(subscription, end), parsed)
        self.population.put(interest)
        after = self.active.wanted_by(interest) if self._reports else {}
        return difference(id, before, after) + self.rankings.changes()

    def _rank(self, subscription: Subscription, now: float, end: float | None) -> list[Update]:
        """Add a top-k subscription."""
        assert subscription.point is not None  # noqa: S101 - a top-k subscription has one
        self.settings.check_inside(subscription.point)
        terms, wanted = self._ranked_by(subscription)
        self.advance(now)
        self.rankings.put(self.attributes.put(subscription, end), terms, wanted)
        return self.rankings.changes(rescored=subscription.id)

    def _ranked_by(
        self, subscription: Subscription
    ) -> tuple[tuple[str, ...], BooleanSubscription | None]:
        """The terms of a top-k subscription, and what messages must satisfy besides."""
        analyser, asked = self.settings.analyser, subscription.filter
        terms = parse_bag(subscription.query or "", analyser)
        if asked is None and subscription.region is None:
            return terms, None
        try:
            query = EVERYTHING if asked is None else parse_query(asked, analyser)
        except QueryError as error:
            raise error.of("filter") from None
        return terms, BooleanSubscription(subscription, query)

    def _time(self, at: float | None) -> float:
        if at is None:
            return 0.0 if self.now is None else self.now
        if self.now is not None and at < self.now:
            raise past_time(at, self.now)
        return at

    def _find(self, id: str, now: float | None) -> Subscription | None:
        """Look up a subscription that has not ended by `now`."""
        return self.subscription(id) if self.attributes.lives(id, now) else None

    def _known(self, id: str, now: float | None) -> Subscription:
        subscription = self._find(id, now)
        if subscription is None:
            raise unknown_id(id)
        return subscription

    def _end(self, id: str) -> None:
        (self.rankings if id in self.rankings else self.population).drop(id)
        self.attributes.drop(id)

    def advance(self, now: float) -> None:
        """Advance the time: subscriptions end, then active messages, and the window moves on."""
        self.now = now
        for id in self.attributes.ended(now):
            self._end(id)
            self.ended.append(id)
        self.active.advance(now)
        self.rankings.advance(now)
