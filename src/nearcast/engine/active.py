"""The active messages of an engine with an index: stored by slot, found by term and place."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.active import ActiveChanges, ActiveStore, MessageTerms
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.matching import ArrivedMessage, BooleanSubscription, Results
from nearcast.events import Message
from nearcast.geo import Box

if TYPE_CHECKING:
    from nearcast.active.ap_plus import LeafMessages
    from nearcast.engine.indexed import IndexedSubscriptions

_AT_A_TIME = 64  # ended messages that one event removes, so that expiry never causes a pause


class Placement(NamedTuple):
    """The target of a move: the rows of a subscription, and their new boxes or circles."""

    rows: Int32s
    boxes: Floats
    circles: Floats | None
    whole: bool  # whether each row is all there is of the region, not one side of a border


class ActiveColumns(NamedTuple):
    """Active messages as columns; `numbers` give their order of arrival."""

    ids: list[str]
    texts: list[str]
    terms: MessageTerms
    boxes: Floats
    at: Floats
    ttl: Floats
    numbers: Int64s


class IndexedMessages:
    """Stores each active message in a *slot*.

    A range message across the antimeridian is two boxes; those few are checked one by one.
    """

    def __init__(self, population: IndexedSubscriptions) -> None:
        self._population = population
        self._store: ActiveStore | LeafMessages = ActiveStore()
        if population.index.name == "ap-plus-tree":  # its messages are in its leaves
            from nearcast.active.ap_plus import LeafMessages

            self._store = LeafMessages(population)
        self._names: list[str] = []  # by slot
        self._texts: list[str] = []  # by slot
        self._numbers: Int64s = np.zeros(64, np.int64)  # by slot: the order of arrival
        self._times: Floats = np.zeros((64, 2))  # by slot: its time and its ttl
        self._regions: dict[int, Box] = {}  # by slot, of those that are not at a point
        self._slots: dict[str, int] = {}
        self._split: dict[str, ArrivedMessage] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._store) + len(self._split)

    @property
    def nbytes(self) -> int:
        """Bytes of the store, without ids and texts."""
        return self._store.nbytes

    @property
    def has_split(self) -> bool:
        """Whether there is a message on both sides of the antimeridian."""
        return bool(self._split)

    def has(self, id: str, now: float) -> bool:
        """Whether a message of this id is active."""
        return self.end_of(id) > now

    def end_of(self, id: str) -> float:
        """When the message of this id ends, or ended if it is still stored; -inf if it is not."""
        slot = self._slots.get(id)
        end = -inf if slot is None else float(self._store.ends[slot])
        return max(end, self._split[id].end) if id in self._split else end

    def has_any(self, ids: list[str], now: float) -> bool:
        """Whether a message with one of these ids may be active."""
        used = self._slots.keys() & ids if len(self._slots) else ()
        return any(self.has(id, now) for id in used) or not self._split.keys().isdisjoint(ids)

    def message(self, id: str) -> Message | None:
        """Rebuild an active message."""
        if not self.has(id, self._now):
            return None
        slot = self._slots.get(id)
        if slot is None or self._store.ends[slot] <= self._now:
            split = self._split[id]
            return replace(split.message, at=split.at)
        region = self._regions.get(slot)
        lon, lat, _, _ = self._store.boxes[slot].tolist()
        at, ttl = self._times[slot].tolist()
        point = (lon, lat) if region is None else None
        return Message(id, self._texts[slot], point, region, at, ttl)

    def add(self, arrived: ArrivedMessage) -> None:
        """Add an active message."""
        message = arrived.message
        if message.point is not None:
            bounds: tuple[float, ...] = (*message.point, *message.point)
        else:
            sides = message.region.bounds() if message.region else ()
            if len(sides) != 1:
                self._split[message.id] = arrived
                return
            bounds = sides[0]
        terms = self._population.terms.lend(sorted(arrived.terms))
        starts = np.array([0, len(terms)], np.int64)
        arrivals = ActiveColumns(
            [message.id], [message.text], MessageTerms(starts, terms), np.array([bounds]),
            np.array([arrived.at]), np.array([message.ttl]), np.array([arrived.number], np.int64),
        )  # fmt: skip
        slots = self.add_columns(arrivals)
        if message.region is not None:
            self._regions[int(slots[0])] = message.region

    def add_columns(self, arrivals: ActiveColumns) -> Int32s:
        """Add many messages at points, whose terms have numbers already; return their slots."""
        ids, texts, terms, boxes, at, ttl, numbers = arrivals
        slots = self._store.add(terms, boxes, at + ttl)
        missing = self._store.slots - len(self._names)
        self._names += [""] * missing
        self._texts += [""] * missing
        if len(self._numbers) < self._store.slots:
            old, room = len(self._numbers), 2 * self._store.slots
            self._numbers = np.concatenate([self._numbers, np.zeros(room - old, np.int64)])
            self._times = np.concatenate([self._times, np.zeros((room - old, 2))])
        self._numbers[slots] = numbers
        self._times[slots, 0], self._times[slots, 1] = at, ttl
        for id, text, slot in zip(ids, texts, slots.tolist(), strict=True):
            self._names[slot], self._texts[slot] = id, text
            self._slots[id] = slot
        return slots

    def advance(self, now: float, events: int = 1) -> None:
        """Advance the time, and remove some of the messages that have ended."""
        self._now = now
        if self._split:
            self._split = {id: one for id, one in self._split.items() if one.end > now}
        ended = self._store.expire(now, _AT_A_TIME * events)
        for slot in ended.slots.tolist():
            id, self._names[slot], self._texts[slot] = self._names[slot], "", ""
            self._regions.pop(slot, None)
            if self._slots[id] == slot:
                del self._slots[id]
        if len(ended.terms):
            self._population.terms.take_back(ended.terms)
        if self._store.is_loose:
            self._pack()

    def _pack(self) -> None:
        old = self._store.pack()
        slots = {was: slot for slot, was in enumerate(old.tolist())}
        self._names = [self._names[was] for was in slots]
        self._texts = [self._texts[was] for was in slots]
        self._numbers, self._times = self._numbers[old], self._times[old]
        self._regions = {slots[was]: region for was, region in self._regions.items()}
        # Two may have the same id, one of which has ended.
        self._slots = {id: slots[was] for id, was in self._slots.items()}

    def wanted_by(self, interest: BooleanSubscription) -> Results:
        """The active messages that a subscription of the table matches."""
        if not len(self):
            return {}
        rows = self._population.rows_of(interest.subscription.id)
        found = self.wanted_by_rows(rows, np.zeros(len(rows), np.int32), np.array([self._now]))
        slots = np.unique(found.slots)
        if not self._split:
            slots = slots[np.argsort(self._numbers[slots])]
            return {self._names[slot]: None for slot in slots.tolist()}
        numbered = [(int(self._numbers[slot]), self._names[slot]) for slot in slots.tolist()]
        numbered += [(one.number, id) for id, one in self._split.items() if interest.wants(one)]
        return {id: None for _, id in sorted(numbered)}

    def wanted_by_rows(self, rows: Int32s, events: Int32s, times: Floats) -> ActiveChanges:
        """The active messages that rows of the table match; see `ActiveStore.evaluate`."""
        return self._store.evaluate(self._population.table.rows, rows, events, times)

    def moved(self, placement: Placement, events: Int32s, times: Floats) -> ActiveChanges:
        """The changes when rows move; see `ActiveStore.moves`."""
        rows, boxes, circles, _ = placement
        table = self._population.table.rows
        return self._store.moves(table, rows, events, times, boxes, circles)

    def names(self, slots: Int32s) -> list[str]:
        """The ids of messages."""
        return [self._names[slot] for slot in slots.tolist()]
