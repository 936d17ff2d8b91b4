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
from nearcast.events.carried import CarriedColumns, CarriedValues
from nearcast.geo import Box

if TYPE_CHECKING:
    from nearcast.active.ap_plus import LeafMessages
    from nearcast.engine.subscriptions import IndexedSubscriptions

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
    carried: CarriedColumns | None = None


class IndexedMessages:
    """Stores each active message in a *slot*.

    A range message that is not one plain box, such as a polygon, is checked one by one.
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
        self._carried = CarriedValues()  # by slot
        self._slots: dict[str, int] = {}
        self._odd: dict[str, ArrivedMessage] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._store) + len(self._odd)

    def living(self, now: float) -> int:
        """How many have not ended by `now`."""
        return self._store.living(now) + sum(one.end > now for one in self._odd.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the store, without ids and texts."""
        return self._store.nbytes

    @property
    def has_odd(self) -> bool:
        """Whether there is a message that is not at a point or in one plain box."""
        return bool(self._odd)

    def has(self, id: str, now: float) -> bool:
        """Whether a message of this id is active."""
        return self.end_of(id) > now

    def end_of(self, id: str) -> float:
        """When the message of this id ends, or ended if it is still stored; -inf if it is not."""
        slot = self._slots.get(id)
        end = -inf if slot is None else float(self._store.ends[slot])
        return max(end, self._odd[id].end) if id in self._odd else end

    def has_any(self, ids: list[str], now: float) -> bool:
        """Whether a message with one of these ids may be active."""
        used = self._slots.keys() & ids if len(self._slots) else ()
        if any(self.has(id, now) for id in used):
            return True
        return len(self._odd) > 0 and not self._odd.keys().isdisjoint(ids)

    def message(self, id: str) -> Message | None:
        """Rebuild an active message."""
        if not self.has(id, self._now):
            return None
        slot = self._slots.get(id)
        if slot is None or self._store.ends[slot] <= self._now:
            odd = self._odd[id]
            return replace(odd.message, at=odd.at)
        return self._message(slot)

    def _message(self, slot: int) -> Message:
        region = self._regions.get(slot)
        lon, lat, _, _ = self._store.boxes[slot].tolist()
        at, ttl = self._times[slot].tolist()
        point, carried = (lon, lat) if region is None else None, self._carried.get(slot)
        return Message(self._names[slot], self._texts[slot], point, region, at, ttl, **carried)

    def take_out(self, id: str) -> ArrivedMessage | None:
        """Remove and return the active message with this id, if there is one."""
        if not self._slots and not self._odd:
            return None
        message = self.message(id)
        if message is None:
            return None
        slot = self._slots.get(id)
        if id in self._odd and (slot is None or self._store.ends[slot] <= self._now):
            return self._odd.pop(id)
        assert slot is not None  # noqa: S101 - it is one or the other
        arrived = self._arrived(slot)
        del self._slots[id]
        self._store.cancel(np.array([slot], np.int32))
        return arrived

    def stored(self, ids: list[str]) -> Int32s:
        """The slots of messages with these ids, some of which may have ended; -1 for the others.

        Only where all are in slots; see `has_odd`.
        """
        if not self._slots:
            return np.full(len(ids), -1, np.int32)
        get = self._slots.get
        return np.array([get(id, -1) for id in ids], np.int32)

    def ends_at(self, slots: Int32s) -> Floats:
        """When the messages of some slots end, or ended."""
        ends: Floats = self._store.ends[slots]
        return ends

    def columns_at(self, slots: Int32s) -> tuple[list[str], CarriedColumns | None, Floats]:
        """What the messages of some slots say, what they carry, and their boxes."""
        texts = [_as_utf8(self._texts[slot]) for slot in slots.tolist()]
        return texts, self._carried.columns(slots.tolist()), self._store.boxes[slots]

    def end(self, slots: Int32s) -> None:
        """End messages now, as `take_out` does."""
        for slot in slots.tolist():
            del self._slots[self._names[slot]]
        self._store.cancel(slots)

    def _arrived(self, slot: int) -> ArrivedMessage:
        """The message of a slot as it was when it was added."""
        message, number = self._message(slot), int(self._numbers[slot])
        at = float(self._times[slot, 0])
        return ArrivedMessage(message, number, at, self._population.analyser)

    def add(self, arrived: ArrivedMessage) -> None:
        """Add an active message."""
        message = arrived.message
        if message.point is not None:
            bounds: tuple[float, ...] = (*message.point, *message.point)
        else:
            sides = message.region.bounds() if message.region else ()
            if len(sides) != 1 or not isinstance(message.region, Box):
                self._odd[message.id] = arrived
                return
            bounds = sides[0]
        terms = self._population.terms.lend(sorted(arrived.terms))
        starts = np.array([0, len(terms)], np.int64)
        arrivals = ActiveColumns(
            [message.id], [message.text], MessageTerms(starts, terms), np.array([bounds]),
            np.array([arrived.at]), np.array([message.ttl]), np.array([arrived.number], np.int64),
        )  # fmt: skip
        slots = self.add_columns(arrivals)
        if isinstance(message.region, Box):
            self._regions[int(slots[0])] = message.region
        self._carried.put(int(slots[0]), message)

    def add_columns(self, arrivals: ActiveColumns) -> Int32s:
        """Add many messages at points, whose terms have numbers already; return their slots."""
        ids, texts, terms, boxes, at, ttl, numbers, carried = arrivals
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
        if carried is not None:
            self._carried.put_columns(slots.tolist(), carried)
        return slots

    def advance(self, now: float, events: int = 1) -> None:
        """Advance the time, and remove some of the messages that have ended."""
        self._now = now
        if not self._names and not self._odd and isinstance(self._store, ActiveStore):
            return  # nothing was stored since all had ended; other stores note the time as well
        if self._odd:
            self._odd = {id: one for id, one in self._odd.items() if one.end > now}
        ended = self._store.expire(now, _AT_A_TIME * events)
        for slot in ended.slots.tolist():
            id, self._names[slot], self._texts[slot] = self._names[slot], "", ""
            self._regions.pop(slot, None)
            if self._slots.get(id) == slot:
                del self._slots[id]
        self._carried.drop(ended.slots.tolist())
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
        self._carried.renumber(slots)
        # Two may have the same id, one of which has ended.
        self._slots = {id: slots[was] for id, was in self._slots.items()}

    def wanted_by(self, interest: BooleanSubscription) -> Results:
        """The active messages that a subscription of the table matches."""
        if not len(self):
            return {}
        id = interest.subscription.id
        if self._population.has_keys(id):
            slots = self._near(interest)
        else:
            rows = self._population.rows_of(id)
            found = self.wanted_by_rows(rows, np.zeros(len(rows), np.int32), np.array([self._now]))
            slots = np.unique(found.slots)
        if self._population.asks_more(id):
            wanted = [slot for slot in slots.tolist() if interest.wants(self._arrived(slot))]
            slots = np.array(wanted, np.int32)
        if not self._odd:
            slots = slots[np.argsort(self._numbers[slots])]
            return {self._names[slot]: None for slot in slots.tolist()}
        numbered = [(int(self._numbers[slot]), self._names[slot]) for slot in slots.tolist()]
        for id, one in self._odd.items():
            if interest.wants(one):
                numbered.append((one.number, id))
            one.forget_content()
        return {id: None for _, id in sorted(numbered)}

    def _near(self, interest: BooleanSubscription) -> Int32s:
        """The slots of the active messages around a region; their keys are not stored."""
        slots, region = self._store.active(self._now), interest.subscription.region
        if region is None:
            return slots
        boxes, near = self._store.boxes[slots], np.zeros(len(slots), np.bool_)
        for west, south, east, north in region.bounds():
            near |= (
                (boxes[:, 0] <= east) & (boxes[:, 2] >= west)
                & (boxes[:, 1] <= north) & (boxes[:, 3] >= south)
            )  # fmt: skip
        return slots[near]

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


def _as_utf8(text: str) -> str:
    """The text; half a pair of surrogates, which is in no term, as a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()
