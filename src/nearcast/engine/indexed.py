"""The engine with an index, over its subscriptions, rankings and active messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Floats, Int64s
from nearcast.engine.active import IndexedMessages
from nearcast.engine.ranked import FastRankings, ranking_core
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.engine.subscriptions import IndexedSubscriptions
from nearcast.engine.window import Columns
from nearcast.events import Move, Subscription, Update
from nearcast.events.fields import ADD
from nearcast.geo import Bounds, Region
from nearcast.topk.core import TopkChanges

if TYPE_CHECKING:
    from nearcast.engine.plain import CountingScan

_NONE = np.empty(0, np.int32)
_decode = msgspec.json.Decoder().decode


class Indexed(Scan):
    """The engine with an index of its boolean subscriptions and a core for its top-k ones."""

    plain = False
    active: IndexedMessages

    def __init__(self, settings: Settings | None, index: str, ranking: str = "auto") -> None:
        settings = settings or Settings()
        self.boolean = IndexedSubscriptions(index, settings.analyser)
        self.ranked = FastRankings(settings, ranking_core(ranking))
        self.active = IndexedMessages(self.boolean)
        super().__init__(settings, self.boolean, self.ranked, self.active)

    def take_over(self, plain: CountingScan) -> None:
        """Take over the state of an engine without an index; this one must be empty."""
        for interest in plain.scanned_subscriptions:
            self.boolean.put(interest)
        self.boolean.settle()
        for arrived in plain.scanned_messages:
            self.active.add(arrived)
        for arrived in plain.rankings_of_all.window:
            self.ranked.enter(arrived)
        for subscription in plain.rankings_of_all.subscriptions():
            self.ranked.put(subscription, *self._ranked_by(subscription))
        self.attributes = plain.attributes
        self._arrivals = plain.arrivals
        if plain.now is not None:
            self.advance(plain.now)
        self.ranked.forget_changes()

    def subscription(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        ranked = self.ranked.find(id)
        found = self.boolean.subscription(id) if ranked is None else ranked
        return None if found is None else self.attributes.added_to(found)

    def ids(self) -> Iterable[str]:
        """The ids of all subscriptions."""
        return chain(self.boolean.ids(), self.ranked)

    def ids_around(self, bounds: tuple[Bounds, ...], most: int) -> list[str] | None:
        """The ids of all that may meet one of some plain boxes; None if they are more than that."""
        near = self.boolean.around(bounds, most - len(self.ranked))
        return None if near is None else [*near, *self.ranked]

    def figures(self) -> dict[str, float]:
        """Figures about index and table, for monitoring."""
        population = self.boolean
        size = population.index.stats()["bytes"] + population.nbytes + self.active.nbytes
        return {
            "bytes": float(size),
            "candidates": float(population.looked_at),
            "conditional_rankings": float(self.ranked.conditional),
            **population.operands.figures(),
        }

    def _move(self, event: Move, now: float) -> list[Update]:
        id, region = event.id, event.region
        owner = self.boolean.owner_of(id)
        plain = event.ttl is None and event.point is None and not self.active.has_odd
        if owner is None or region is None or not plain or self.boolean.asks_more(id):
            return super()._move(event, now)
        placement = self.boolean.placement(owner, region)
        if placement is None or not (placement.whole or len(self.active) == 0):
            return super()._move(event, now)
        self._known(id, now)
        self.advance(now)
        events = np.zeros(len(placement.rows), np.int32)
        found = self.active.moved(placement, events, np.array([now]))
        self.boolean.place(owner, region, placement)
        ops = found.ops.tolist()
        # A message that meets several rows does the same with each.
        changed = dict(zip(self.active.names(found.slots), ops, strict=True))
        updates = [Update("add" if op == ADD else "remove", id, m) for m, op in changed.items()]
        return updates + self.ranked.changes()

    @property
    def has_rankings(self) -> bool:
        """Whether there is a top-k subscription."""
        return len(self.ranked) > 0

    @property
    def time_ranks(self) -> bool:
        """Whether results of top-k subscriptions may change as time passes."""
        ends = self.settings.window.count is None or not self.ranked.plain_window
        return self.has_rankings and ends

    def boxes(self) -> Floats:
        """The bounding boxes of all subscriptions; a top-k one has its point."""
        if not len(self.ranked):
            return self.boolean.boxes()
        points = [subscription.point for subscription in self.ranked.subscriptions()]
        ranked = np.array(points, np.float64).reshape(-1, 2)
        return np.concatenate([self.boolean.boxes(), np.hstack([ranked, ranked])])

    @property
    def takes_columns(self) -> bool:
        """Whether messages at points may be matched as columns now."""
        return self.settings.window.count is not None or self.ranked.is_active

    def asked_for(self, updates: pa.Table) -> pa.Table:
        """Leave out the updates that their subscriptions do not ask for."""
        choosy = self.attributes.choosy
        if not choosy or not len(updates):
            return updates
        some = pc.is_in(updates["subscription"], pa.array(choosy, pa.string()))
        if not pc.any(some).as_py():
            return updates
        rows = zip(updates["op"].to_pylist(), updates["subscription"].to_pylist(), strict=True)
        return updates.filter(pa.array([self.attributes.asks(op, id) for op, id in rows]))

    def ends_by(self, now: float) -> bool:
        """Whether a subscription ends by then."""
        return self.attributes.next_end <= now

    def uses_any(self, ids: list[str]) -> bool:
        """Whether a message that may be active or in the window has one of these ids."""
        return self.ranked.has_any(ids) or self.active.has_any(ids, self.now or 0.0)

    def move_at(self, id: str, region: Region, now: float) -> list[Update]:
        """Move a boolean subscription that is there, at a time not before now."""
        return self._move(Move(id, region), now)

    def numbers_ahead(self, rows: Int64s) -> Int64s:
        """The order of arrival that messages of a table will have."""
        return self._arrivals + rows

    def pass_time(self, now: float, events: int) -> None:
        """Advance the time, as `events` events would."""
        self.active.advance(now, events)
        self.advance(now)

    def pass_by(self, messages: int) -> None:
        """Count messages that do not enter the window."""
        self._arrivals += messages

    @property
    def replaces_columns(self) -> bool:
        """Whether messages at points that replace others may be matched as columns now."""
        window = self.settings.window.count is not None and not self.ranked.is_active
        return window and not self.active.has_odd

    def pass_again(self, columns: Columns) -> None:
        """Add messages that were matched already, some of which replace others, to the window."""
        columns.number = self._arrivals
        self._arrivals += len(columns.ids)
        self.ranked.replace_columns(columns)

    def pass_through(self, columns: Columns) -> TopkChanges | None:
        """Add messages that were matched already to the window; return what that changes."""
        columns.number = self._arrivals
        self._arrivals += len(columns.ids)
        return self.ranked.enter_columns(columns)
