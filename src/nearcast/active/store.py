"""The active messages: found by term and place, for subscriptions that arrive or move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from nearcast.active.kernels.candidates import Ops
from nearcast.active.kernels.cells import SAMPLE, divide, longest
from nearcast.active.kernels.change import (
    TOGETHER,
    add_messages,
    copy_messages,
    count_terms,
    expire,
)
from nearcast.active.kernels.layout import (
    CANCELLED,
    END,
    ENTRIES,
    FIRST,
    GIVEN,
    HEAD,
    LIVE,
    SLOT_BYTES,
    SLOTS,
    SPARE,
    UNIT,
    USED,
    ActiveArrays,
    attached_state,
    empty_state,
    longer,
    more_slots,
)
from nearcast.active.kernels.moves import (
    DONE,
    GROUP,
    MORE_CELLS,
    MORE_FOUND,
    NO_CIRCLES,
    evaluate,
    moves,
)
from nearcast.active.kernels.visit import PLAN
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import StateError
from nearcast.events.fields import ADD
from nearcast.index.table import Rows

_VERSION = 2
_MOST_MESSAGES = (1 << 25) - 1  # what the word of a cell can count, if all are in one place
_MOST_ENTRIES = 1 << 28  # an arena has 2^31 units, and an entry takes fewer than eight
_UNITS, _SLOTS = 1 << 10, 1 << 6
_DUE = 1 << 14
_ROOM_KEPT = 1 << 20  # for changes: an answer that needed more is not copied
_WORTH_PACKING = 1 << 12
_PACK_BELOW = 8  # messages are packed again when only one slot in eight is in use
_AT_ONCE = 1 << 14  # more of them would be a pause: they wait until one slot in 64 is in use
_PACK_MANY_BELOW = 64
_FEW_CANCELLED = 64


class MessageTerms(NamedTuple):
    """The terms of some messages: those of message i are `terms[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    terms: Int32s


class Ended(NamedTuple):
    """Slots of messages that have ended, and terms that no active message has any more."""

    slots: Int32s
    terms: Int32s


class ActiveChanges(NamedTuple):
    """Which message came (ADD), or went (REMOVE), in which event; in order of events."""

    events: Int32s
    slots: Int32s
    ops: Ops

    def part(self, start: int, stop: int) -> ActiveChanges:
        """Some of them, without copying."""
        return ActiveChanges(self.events[start:stop], self.slots[start:stop], self.ops[start:stop])


def _empty_changes(room: int) -> ActiveChanges:
    return ActiveChanges(
        np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int8)
    )


def cancel(state: ActiveArrays, slots: Int32s) -> None:
    """End messages now. Once there are many such, have the heap give them first."""
    state.messages[slots, END] = -np.inf
    state.due_at[CANCELLED] += len(slots)
    live = int(state.counts[LIVE])
    if state.due_at[CANCELLED] > max(_FEW_CANCELLED, live // 8):
        slots = state.heap[FIRST : FIRST + live]
        ends = state.messages[slots, END]
        order = np.argsort(ends, kind="stable")  # a sorted array is a heap
        state.heap[FIRST : FIRST + live] = slots[order]
        state.due_at[FIRST : FIRST + live] = ends[order]
        state.due_at[CANCELLED] = 0


def count_living(state: ActiveArrays, now: float) -> int:
    """How many messages have not ended by `now`; some that have may not have been taken out yet."""
    slots = state.heap[FIRST : FIRST + int(state.counts[LIVE])]
    return int(np.count_nonzero(state.messages[slots, END] > now))


class ActiveStore:
    """Keeps active messages by *slot*, a number that stays theirs until they end.

    A message is active for as long as `now` is below its end; that is compared in every answer.
    `expire` takes out those that have ended, as many at a time as one likes, so that a million of
    them need not be a pause.
    """

    _only = -1
    """The one list that all messages are in, whatever their terms; -1 for lists by term."""
    _even = False
    """Whether lists are divided into cells of equal size, in place of equal numbers of entries."""

    _numbered = False
    """Whether moves look at each message, and not only at entries, as plain lists would have it."""

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self._make_work()
        self._state = empty_state(16, _UNITS, _SLOTS, self._memory)

    def _make_work(self) -> None:
        """Make the arrays that only one process uses, while it works."""
        self._due: Int32s = np.empty(_DUE, np.int32)
        self._sample = np.empty(SAMPLE + 1, np.float32)
        self._cells: Int64s = np.empty(_DUE, np.int64)
        self._found: Int32s = np.empty(_DUE, np.int32)
        self._sides = np.empty(8 * GROUP, np.float32)
        self._pair = np.empty((2, 3))
        self._out = _empty_changes(_DUE)
        self._plan: Int64s = np.empty(PLAN * GROUP, np.int64)

    def describe(self) -> dict[str, int]:
        """Say what `attach` needs to find the store again in its memory."""
        state = self._state
        names = ("heads", "areas", "memory", "messages")
        return {"version": _VERSION} | {name: len(getattr(state, name)) for name in names}

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, int]) -> Self:
        """Find a store again in memory that is kept in files.

        A KeyError if it was laid out in another way.
        """
        if described["version"] != _VERSION:
            raise KeyError("version")
        store = cls.__new__(cls)
        store._memory = memory
        store._make_work()
        store._state = attached_state(memory, described)
        return store

    def __len__(self) -> int:
        """How many messages have been taken in and not out again."""
        return int(self._state.counts[LIVE])

    @property
    def slots(self) -> int:
        """One more than the highest slot that was ever given."""
        return int(self._state.counts[SLOTS])

    @property
    def boxes(self) -> Floats:
        """The box of each slot's message, of size zero for a point."""
        return self._state.messages[:, :END]

    @property
    def ends(self) -> Floats:
        """When each slot's message ends, or ended."""
        return self._state.messages[:, END]

    @property
    def nbytes(self) -> int:
        """Bytes in use, without free room at the ends of arrays."""
        state = self._state
        slots = self.slots * SLOT_BYTES
        arena = 4 * UNIT * int(state.counts[USED])
        return slots + arena + state.heads.nbytes + state.areas.nbytes

    def stats(self) -> dict[str, int]:
        """Figures about the store."""
        counts = self._state.counts
        return {
            "bytes": self.nbytes,
            "messages": len(self),
            "entries": int(counts[ENTRIES]),
            "spare_bytes": 4 * UNIT * int(counts[SPARE]),
        }

    def active(self, now: float) -> Int32s:
        """The slots of all messages that are active, in no order."""
        slots = self._state.heap[FIRST : FIRST + len(self)]
        active: Int32s = slots[self._state.messages[slots, END] > now]
        return active

    def add(self, texts: MessageTerms, boxes: Floats, ends: Floats) -> Int32s:
        """Take in messages that end at `ends`, and give their slots.

        A point is a box of size zero; a box must not cross the antimeridian.
        """
        count = len(boxes)
        slots = np.empty(count, np.int32)
        if not count:
            return slots
        starts = texts.starts
        self._check_room(count, int(starts[-1] - starts[0]))
        most = int(texts.terms[starts[0] : starts[-1]].max(initial=-1)) + 1
        self._reserve_terms(most, areas=bool((boxes[:, :2] != boxes[:, 2:]).any()))
        widest = int(np.diff(starts).max())
        self._reserve_work(TOGETHER * (widest + 1))
        done = 0
        while True:
            state = self._state
            before = done
            done, late = add_messages(
                state, starts, texts.terms, boxes, ends, done, slots, self._due, self._cells,
                self._only,
            )  # fmt: skip
            self._divide(late)
            if done == count:
                return slots
            if done == before and late == 0:
                self._grow(widest)

    def cancel(self, slots: Int32s) -> None:
        """End messages now; they are taken out like those that have ended."""
        cancel(self._state, slots)

    def living(self, now: float) -> int:
        """How many messages have not ended by `now`."""
        return count_living(self._state, now)

    def expire(self, now: float, most: int) -> Ended:
        """Take out at most `most` of the messages that have ended by now."""
        if most <= 0 or not self._ended(now):
            return Ended(np.empty(0, np.int32), np.empty(0, np.int32))
        gone = np.empty(min(most, len(self)), np.int32)
        emptied: list[Int32s] = []
        count = 0
        while count < len(gone):
            terms = np.empty(len(self._due), np.int32)
            taken, empty, late = expire(
                self._state, now, len(gone) - count, gone[count:], terms, self._due, self._cells,
                self._only,
            )  # fmt: skip
            emptied.append(terms[:empty])
            count += taken
            self._divide(late)
            if not self._ended(now):
                break
            if taken == 0:
                self._reserve_work(2 * len(self._due))
        # A term may have come to nothing twice, or have been noted for both of its lists.
        return Ended(gone[:count], np.unique(np.concatenate(emptied)))

    def _ended(self, now: float) -> bool:
        state = self._state
        return len(self) > 0 and bool(state.due_at[FIRST] <= now)

    @property
    def is_loose(self) -> bool:
        """Whether so few of many slots are in use that `pack` is worth its time."""
        below = _PACK_BELOW if len(self) <= _AT_ONCE else _PACK_MANY_BELOW
        return self.slots > _WORTH_PACKING and self.slots > below * len(self)

    def pack(self) -> Int32s:
        """Give memory back: messages get the slots 0, 1, 2, ...; gives the slots they had."""
        old = self._state
        live = np.sort(old.heap[FIRST : FIRST + len(self)])
        starts = np.zeros(len(live) + 1, np.int64)
        count_terms(old, live, starts)
        np.cumsum(starts, out=starts)
        terms = np.empty(int(starts[-1]), np.int32)
        boxes, ends = np.empty((len(live), 4)), np.empty(len(live))
        copy_messages(old, live, starts, terms, boxes, ends)
        self._state = empty_state(16, _UNITS, max(_SLOTS, len(live)), self._memory)
        self.add(MessageTerms(starts, terms), boxes, ends)
        return live

    def evaluate(self, rows: Rows, which: Int32s, events: Int32s, times: Floats) -> ActiveChanges:
        """Find the messages that match rows of a table, as they are there.

        Row `which[i]` is asked in event `events[i]`, at `times[events[i]]`. An owner of several
        rows may get a message more than once.
        """
        return self._collect(rows, which, events, times, None, None)

    def moves(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats,
        circles: Floats | None,
    ) -> ActiveChanges:
        """Find what changes if rows, none of them twice, get other boxes or circles.

        `boxes[i]` is the new box of row `which[i]` and `circles[i]` its new circle; all rows are
        boxes, or all are circles. The table still has the old ones.
        """
        return self._collect(rows, which, events, times, boxes, circles)

    def _collect(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats | None,
        circles: Floats | None,
    ) -> ActiveChanges:
        start, filled = 0, 0
        while start < len(which) and len(self):
            out = self._out.part(filled, len(self._out.slots))
            if boxes is None:
                start, written, why = evaluate(
                    self._state, rows, which, events, times, start, self._cells, self._found,
                    out.events, out.slots, self._sides, self._plan, self._pair, self._only,
                )  # fmt: skip
            else:
                shapes = NO_CIRCLES if circles is None else circles
                start, written, why = moves(
                    self._state, rows, which, events, times, boxes, shapes, start, self._cells,
                    self._found, *out, self._sides, self._plan, self._pair, self._only,
                    self._numbered,
                )  # fmt: skip
            filled += written
            if why == MORE_CELLS:
                self._cells = np.empty(4 * len(self._cells), np.int64)
            elif why == MORE_FOUND:
                longest_list = int(self._state.heads[1::HEAD].max(initial=0))
                if len(self._state.areas):
                    longest_list += int(self._state.areas[1::HEAD].max(initial=0))
                self._found = np.empty(max(2 * len(self._found), longest_list), np.int32)
            elif why != DONE:
                # As much as all will need if the others have as many, and a little more.
                room = max(2 * len(self._out.slots), filled * len(which) // max(1, start) * 9 // 8)
                self._out = ActiveChanges(*(longer(column, filled, room) for column in self._out))
        found = self._out.part(0, filled)
        if len(self._out.slots) > _ROOM_KEPT:
            self._out = _empty_changes(_ROOM_KEPT)  # the answer keeps the larger one
        else:
            found = ActiveChanges(found.events.copy(), found.slots.copy(), found.ops.copy())
        if boxes is None:
            found.ops[:] = ADD
        return found

    def _reserve_terms(self, count: int, *, areas: bool) -> None:
        state, known = self._state, len(self._state.heads) // HEAD
        if count > known:
            room = HEAD * max(count, known + known // 8)
            state = state._replace(heads=self._longer("heads", known * HEAD, room, cleared=True))
        if areas and len(state.areas) < len(state.heads):
            grown = self._longer("areas", len(state.areas), len(state.heads), cleared=True)
            state = state._replace(areas=grown)
        self._state = state

    def _longer(self, name: str, used: int, room: int, *, cleared: bool = False) -> Any:
        array = getattr(self._state, name)
        return longer(array, used, room, cleared=cleared, allocator=self._memory, name=name)

    def _check_room(self, messages: int, terms: int) -> None:
        """Refuse messages that 32 bits could not count any more, before anything has changed."""
        messages += len(self)
        entries = terms + int(self._state.counts[ENTRIES])
        if messages > _MOST_MESSAGES or entries > _MOST_ENTRIES:
            raise StateError(
                f"messages: {messages} active ones with {entries} terms in all given; expected at "
                f"most {_MOST_MESSAGES} with {_MOST_ENTRIES}: use several engines"
            )

    def _reserve_work(self, terms: int) -> None:
        """Make room for the terms of a group of messages, and one more list for each of them."""
        if terms > len(self._due):
            self._due = np.empty(2 * terms, np.int32)
        if len(self._due) > len(self._cells):
            self._cells = np.empty(len(self._due), np.int64)

    def _grow(self, widest: int) -> None:
        """Make what keeps a kernel from going on larger: the slots, or the arena."""
        state = self._state
        if state.counts[GIVEN] == 0 and self.slots == len(state.messages):
            room = 2 * len(state.messages)
            self._state = more_slots(state, self.slots, room, self._memory)
        else:
            self._grow_arena(4 * widest)

    def _grow_arena(self, units: int) -> None:
        state, used = self._state, int(self._state.counts[USED])
        room = max(2 * len(state.ints) // UNIT, used + units + UNIT)
        memory = self._longer("memory", used * UNIT, room * UNIT)
        self._state = state._replace(memory=memory, ints=memory.view(np.int32))

    def _divide(self, late: int) -> None:
        """Divide the lists again that were found to have grown or shrunk too much."""
        done = 0
        while done < late:
            entries, units = longest(self._state, self._due, late)
            scratch = np.empty(max(1, entries) * UNIT, np.int32)
            done = divide(self._state, self._due, late, scratch, self._sample, done, self._even)
            if done < late:
                self._grow_arena(units)
