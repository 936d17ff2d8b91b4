"""What a pipeline takes, in plain code: `scan`, without what the pipeline does not know yet.

Of the events that are left the updates are those of `scan`. The pipeline's window is simply the
last messages; that is exact, because no message with an end is in it while somebody is ranked.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from math import inf
from typing import Any, NamedTuple

from nearcast.engine.scan import Scan
from nearcast.events import Event, Message, Move, Publish, Subscribe, Subscription, Update
from nearcast.events.events import Fields
from nearcast.events.fields import PUBLISH
from nearcast.spark import refusals
from nearcast.text import parse_bag, parse_query


class _WindowPlace(NamedTuple):
    number: int
    at: float
    ends: bool


class PipelineScan(Scan):
    """Applies events as `scan` does, and refuses what the pipeline on Spark does."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._recent: OrderedDict[str, _WindowPlace] = OrderedDict()  # the last messages, by id
        self._next = 0
        self._lasting: _WindowPlace | None = None  # the latest message with an end

    def apply(self, event: Event) -> list[Update]:
        """Apply one event and return its updates in order; a refused one changes nothing."""
        refusals.check_event(event)
        now = self._time(event.at)
        self._check(event, now)
        updates = super().apply(event)
        if isinstance(event, Publish) and event.message.point is not None:
            self._note(event.message.id, now, event.message.ttl > 0)
        return updates

    def recall(self, latest: Iterable[Fields]) -> None:
        """Take in which messages were the last, after a restart.

        `latest` are the events that were accepted, in their JSON form, newest first.
        """
        window, now = self.settings.window, 0.0 if self.now is None else self.now
        most = inf if window.count is None else window.count
        oldest = -inf if window.seconds is None else now - window.seconds
        found: list[tuple[str | None, float | None, bool]] = []
        for fields in latest:
            at = fields.get("at")
            is_point = fields["op"] == PUBLISH and fields.get("point") is not None
            found.append((fields["id"] if is_point else None, at, bool(fields.get("ttl"))))
            most -= is_point
            if most <= 0 or (at is not None and at <= oldest):
                break
        time = 0.0
        for id, at, ends in reversed(found):
            time = time if at is None else at
            if id is not None:
                self._note(id, time, ends)

    def _check(self, event: Event, now: float) -> None:
        match event:
            case Publish(message):
                self._check_message(message, now)
            case Subscribe(subscription):
                self._check_subscription(subscription, now)
            case Move(id, region):
                known = self._find(id, now)
                if known is not None and known.top is not None and region is not None:
                    raise refusals.ranked_in_region()

    def _check_message(self, message: Message, now: float) -> None:
        if message.point is not None:
            self.settings.check_inside(message.point)
        place = self._recent.get(message.id)
        in_window = place is not None and not place.ends and self._has(place, now)
        if in_window or self.active.has(message.id, now):
            raise refusals.replaced()
        if message.point is not None and message.ttl and len(self.rankings):
            raise refusals.ends_in_window()

    def _check_subscription(self, subscription: Subscription, now: float) -> None:
        old, query = self._find(subscription.id, now), subscription.query
        if old is not None and (old.top is None) is not (subscription.top is None):
            return  # refused by every engine
        assert query is not None  # noqa: S101 - one without a query is refused
        if subscription.point is None:
            refusals.check_query(parse_query(query, self.settings.analyser))
            return
        self.settings.check_inside(subscription.point)
        parse_bag(query, self.settings.analyser)
        if self._lasting is not None and self._has(self._lasting, now):
            raise refusals.window_has_ends()

    def _has(self, place: _WindowPlace, now: float) -> bool:
        """Whether a message is among the last at a time."""
        window = self.settings.window
        most = inf if window.count is None else window.count
        oldest = -inf if window.seconds is None else now - window.seconds
        return place.number >= self._next - most and place.at > oldest

    def _note(self, id: str, now: float, ends: bool) -> None:
        place, recent = _WindowPlace(self._next, now, ends), self._recent
        self._next += 1
        if ends:
            self._lasting = place
        recent[id] = place
        recent.move_to_end(id)
        while not self._has(next(iter(recent.values())), now):
            recent.popitem(last=False)
