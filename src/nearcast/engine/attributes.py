"""What subscriptions have that no index looks at: an end, the ops they ask for, and `meta`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from nearcast.events import Subscription, Update, UpdateOp
from nearcast.events.values import JsonObject


class Attribute(NamedTuple):
    """What one subscription has of these."""

    meta: JsonObject | None
    ttl: float | None
    ops: tuple[UpdateOp, ...] | None
    end: float | None
    """The instant at which it no longer exists."""


class Attributes:
    """The attributes of those subscriptions that have any, by id."""

    def __init__(self) -> None:
        self._of: dict[str, Attribute] = {}
        self._ends: list[tuple[float, str]] = []  # a heap; some may be of an earlier end
        self.choosy: set[str] = set()
        """The ids of those that ask for some ops only."""
        self.metas: dict[str, JsonObject] = {}
        """The `meta` of those that have one."""

    def __len__(self) -> int:
        return len(self._of)

    def put(self, subscription: Subscription, end: float | None) -> Subscription:
        """Keep the attributes of a subscription, and return it without them."""
        id, meta, ttl, ops = subscription.id, subscription.meta, subscription.ttl, subscription.ops
        self.drop(id)
        if meta is None and ttl is None and ops is None:
            return subscription
        self._of[id] = Attribute(meta, ttl, ops, end)
        if ops is not None:
            self.choosy.add(id)
        if meta is not None:
            self.metas[id] = meta
        if end is not None:
            heappush(self._ends, (end, id))
        return replace(subscription, meta=None, ttl=None, ops=None)

    def drop(self, id: str) -> None:
        """Forget those of a subscription, if it has any."""
        self._of.pop(id, None)
        self.choosy.discard(id)
        self.metas.pop(id, None)

    def get(self, id: str) -> Attribute | None:
        """Those of a subscription, if it has any."""
        return self._of.get(id)

    def added_to(self, bare: Subscription) -> Subscription:
        """The subscription with its attributes."""
        known = self._of.get(bare.id)
        if known is None:
            return bare
        return replace(bare, meta=known.meta, ttl=known.ttl, ops=known.ops)

    def end_of(self, id: str) -> float | None:
        """The instant at which a subscription ends, if it does."""
        known = self._of.get(id)
        return None if known is None else known.end

    def lives(self, id: str, now: float | None) -> bool:
        """Whether a subscription that is there has not ended by `now`."""
        end = self.end_of(id)
        return end is None or now is None or now < end

    @property
    def next_end(self) -> float:
        """When the next may end; infinity if none does."""
        return self._ends[0][0] if self._ends else inf

    def ends_by(self, now: float) -> bool:
        """Whether one of them ends by `now`."""
        ends = self._ends
        while ends and self.end_of(ends[0][1]) != ends[0][0]:
            heappop(ends)  # it ends at another time, or is gone
        return self.next_end <= now

    def ended(self, now: float) -> Iterator[str]:
        """The ids of those that have ended by `now`; each must be dropped before the next."""
        while self._ends and self._ends[0][0] <= now:
            end, id = heappop(self._ends)
            if self.end_of(id) == end:
                yield id

    def asked_for(self, updates: list[Update]) -> list[Update]:
        """Leave out the updates that their subscriptions do not ask for."""
        if not self.choosy:
            return updates
        return [one for one in updates if self.asks(one.op, one.subscription)]

    def asks(self, op: str, id: str) -> bool:
        """Whether a subscription asks for updates that do this."""
        known = self._of.get(id)
        return known is None or known.ops is None or op in known.ops
