"""Decides what each event does, in order, from the subscriptions and message ids known so far.

Everything that depends on earlier events is decided here, one event after the other, in one kernel
over hashes of ids: which version of a subscription an operation ends, whether a message id is still
in the window or active, whether time goes backwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner_counting, kernel, read_only
from nearcast.arrays.slots import Slots, change, empty_slots, find, move_slots, put, remove, slot_of
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.topk import Window

Codes = npt.NDArray[np.int8]

POINT, RANGE, SUBSCRIBE, UNSUBSCRIBE, MOVE, BAD, RANKED, SHIFT = range(8)
"""What a row is; RANKED begins a top-k subscription, SHIFT moves one."""

FINE, BACKWARDS, UNKNOWN, IN_USE, REFUSED, OTHER_KIND = range(6)
"""The verdict on a row; REFUSED is what was BAD already, or has a flaw.

OTHER_KIND would make a top-k subscription of another one, or the other way round."""

NO_OWNER = -1

# What `numbers` holds; _BASE is the number of the message in the first place of the ring.
_OWNERS, _FREE, _OLDEST, _NEWEST, _ACTIVE, _BASE = range(6)
_WORTH_TIDYING = 1 << 12


class Decisions(NamedTuple):
    """By row: its verdict, the owner that begins with it and the one that ends with it."""

    verdict: Codes
    begins: Int32s
    ends: Int32s
    times: Floats  # the time at each row
    until: Floats  # of a message that lasts: when it is no longer active; NaN for any other row
    number: Int64s  # of a message that comes into the window; -1 for any other row
    first: Int64s  # after the row: the number of the oldest message in the window
    again: npt.NDArray[np.bool_]  # its id was that of a message which leaves the window with it


class Ledger:
    """Decides what each event does, and keeps track of subscriptions and message ids."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.now = np.nan  # before the first event there is no time
        self._ids = empty_slots(1 << 10)
        self._free: Int32s = np.empty(16, np.int32)
        self._numbers = np.zeros(6, np.int64)
        self._ranked = np.zeros(16, np.bool_)  # by owner: whether it is a top-k subscription
        self._ended: Int32s = np.empty(0, np.int32)
        self._window_ids = empty_slots(1 << 10)
        self._ring: Slots = np.empty((16, 2), np.uint64)  # ids in the window, oldest first
        self._ring_times: Floats = np.empty(16)
        self._active_ids = empty_slots(1 << 10)
        self._active: Slots = np.empty((16, 2), np.uint64)  # ids of lasting messages, by number
        self._active_until: Floats = np.empty(16)

    @property
    def owners(self) -> int:
        """How many owner numbers were ever given."""
        return int(self._numbers[_OWNERS])

    @property
    def first(self) -> int:
        """The number of the oldest message of the window."""
        return int(self._numbers[_BASE] + self._numbers[_OLDEST])

    @property
    def next(self) -> int:
        """The number of the next message that comes into the window."""
        return int(self._numbers[_BASE] + self._numbers[_NEWEST])

    def is_ranked(self, owners: Int32s) -> npt.NDArray[np.bool_]:
        """Which of some owners are, or have just been, top-k subscriptions."""
        ranked: npt.NDArray[np.bool_] = self._ranked[owners]
        return ranked

    def decide(
        self,
        kinds: Codes,
        ids: Slots,
        at: Floats,
        ttl: Floats | None = None,
        flawed: npt.NDArray[np.bool_] | None = None,
    ) -> Decisions:
        """Decide rows in order; `ids` are both hashes of each id, `at` is NaN where not given.

        `ttl` says how long messages last, NaN for instant ones; None if all are. `flawed` are rows
        with a flaw, which are refused unless another verdict comes first.
        """
        count = len(kinds)
        if flawed is None:
            flawed = np.zeros(count, np.bool_)
        self._reuse()
        self._make_room(count)
        lasting = 0 if ttl is None else int((ttl > 0).sum())
        self._make_room_for_active(lasting)
        verdict, times = np.zeros(count, np.int8), np.empty(count)
        until = np.full(count if lasting else 0, np.nan)
        begins, ends = np.full(count, NO_OWNER, np.int32), np.full(count, NO_OWNER, np.int32)
        number, first = np.full(count, -1, np.int64), np.empty(count, np.int64)
        again = np.zeros(count, np.bool_)
        by_count = self.window.count if self.window.seconds is None else None
        self.now = _decide(
            kinds, flawed, ids, read_only(at), self.now, verdict, begins, ends, times, self._ids,
            self._free, self._numbers, self._window_ids, self._ring, self._ring_times,
            by_count or 2**62, float(self.window.seconds or np.inf),
            read_only(until if ttl is None else ttl), until, self._active_ids, self._active,
            self._active_until, self._ranked, number, first, again,
        )  # fmt: skip
        self._ended = ends[ends != NO_OWNER]
        return Decisions(verdict, begins, ends, times, until, number, first, again)

    def _reuse(self) -> None:
        """Free the owner numbers that ended in the previous batch: no shard has them any more.

        The lowest number is reused first, so that the numbers given depend only on those in use:
        events that are read again after a stop get the same ones.
        """
        free = int(self._numbers[_FREE])
        if len(self._ended):
            self._free = np.sort(np.concatenate([self._free[:free], self._ended]))[::-1].copy()
            self._numbers[_FREE] = len(self._free)
            self._ended = self._ended[:0]

    def _make_room(self, count: int) -> None:
        live = self.owners - int(self._numbers[_FREE])
        self._ids = _roomy(self._ids, live + count)
        if self.owners + count > len(self._ranked):
            self._ranked, ranked = np.zeros(2 * (self.owners + count), np.bool_), self._ranked
            self._ranked[: len(ranked)] = ranked
        oldest, newest = int(self._numbers[_OLDEST]), int(self._numbers[_NEWEST])
        held = newest - oldest
        self._window_ids = _roomy(self._window_ids, held + count)
        if newest + count > len(self._ring):
            ring, times = np.empty((2 * (held + count), 2), np.uint64), np.empty(2 * (held + count))
            ring[:held] = self._ring[oldest:newest]
            times[:held] = self._ring_times[oldest:newest]
            self._ring, self._ring_times = ring, times
            self._numbers[_OLDEST], self._numbers[_NEWEST] = 0, held
            self._numbers[_BASE] += oldest

    def _make_room_for_active(self, count: int) -> None:
        """Make room for `count` more active messages, and forget those that have ended by now."""
        known = int(self._numbers[_ACTIVE])
        if known + count > len(self._active):
            going_on = self._active_until[:known] > (0.0 if np.isnan(self.now) else self.now)
            self._know_active(self._active[:known][going_on], self._active_until[:known][going_on])
            known = int(self._numbers[_ACTIVE])
            room = max(_WORTH_TIDYING, 2 * (known + count))
            self._active, ids = np.empty((room, 2), np.uint64), self._active
            self._active_until, until = np.empty(room), self._active_until
            self._active[:known], self._active_until[:known] = ids, until
        self._active_ids = _roomy(self._active_ids, known + count)

    def _know_active(self, ids: Slots, until: Floats) -> None:
        """Replace the active messages by these."""
        self._active, self._active_until = ids, until
        self._numbers[_ACTIVE] = len(ids)
        self._active_ids = _roomy(empty_slots(1 << 10), len(ids))
        _put_all(self._active_ids, ids, np.arange(len(ids), dtype=np.int32))

    def recent(self, count: int) -> npt.NDArray[np.uint64]:
        """The last `count` entries of the window, or all: two hashes, and the bits of a time."""
        newest = int(self._numbers[_NEWEST])
        oldest = max(int(self._numbers[_OLDEST]), newest - count)
        times = self._ring_times[oldest:newest].view(np.uint64)
        return np.column_stack([self._ring[oldest:newest], times])

    @classmethod
    def restored(
        cls,
        window: Window,
        state: Mapping[str, npt.NDArray[Any]],
        ids: Slots,
        owners: Int32s,
        ended: Int32s,
        ranked: Int32s,
    ) -> Self:
        """Make a ledger from its state and the subscriptions there were, some of them `ranked`.

        The state is `now`, the ids in the window (`ring`, `ring_times`), the number that the `next`
        message gets, and the ids of active messages (`active`, `until`).

        `ended` are the owners that ended in the last batch, which are not yet free.
        """
        ledger = cls(window)
        ledger.now = float(state["now"][0])
        count = int(max(owners.max(initial=-1), ended.max(initial=-1))) + 1
        free = np.ones(count, np.bool_)
        free[owners] = free[ended] = False
        ledger._free = np.flatnonzero(free)[::-1].astype(np.int32)
        held = len(state["ring"])
        base = max(int(state["next"][0]) - held, 0)  # an earlier release did not count
        ledger._numbers[:] = (count, len(ledger._free), 0, held, 0, base)
        ledger._ranked = np.zeros(max(count, 16), np.bool_)
        ledger._ranked[ranked] = True
        ledger._ended = ended
        ledger._ids = _roomy(ledger._ids, len(owners))
        _put_all(ledger._ids, ids, owners)
        ledger._ring, ledger._ring_times = state["ring"].copy(), state["ring_times"].copy()
        ledger._window_ids = _roomy(ledger._window_ids, len(ledger._ring))
        _put_all(ledger._window_ids, ledger._ring, np.zeros(len(ledger._ring), np.int32))
        ledger._know_active(state["active"], state["until"])
        return ledger


def _roomy(slots: Slots, count: int) -> Slots:
    size = len(slots)
    while 2 * count > size:
        size *= 2
    if size == len(slots):
        return slots
    larger = empty_slots(size)
    move_slots(slots, larger)
    return larger


@inner_counting
def _forget_oldest(numbers: Int64s, window_ids: Slots, ring: Slots) -> None:
    oldest = numbers[_OLDEST]
    remove(window_ids, ring[oldest, 0], ring[oldest, 1])
    numbers[_OLDEST] += 1


@inner_counting
def _time_of(
    numbers: Int64s, ring: Slots, ring_times: Floats, first: np.uint64, second: np.uint64
) -> float:
    """When the message with this id arrived, which is in the window or has only just left it."""
    for at in range(numbers[_OLDEST], numbers[_NEWEST]):
        if ring[at, 0] == first and ring[at, 1] == second:
            return float(ring_times[at])
    return -np.inf


@kernel
def _put_all(slots: Slots, ids: Slots, owners: Int32s) -> None:
    for at in range(len(ids)):
        put(slots, ids[at, 0], ids[at, 1], owners[at])


@kernel
def _decide(
    kinds: Codes, flawed: npt.NDArray[np.bool_], ids: Slots, at: Floats, now: float,
    verdict: Codes, begins: Int32s, ends: Int32s, times: Floats, owners: Slots, free: Int32s,
    numbers: Int64s, window_ids: Slots, ring: Slots, ring_times: Floats, count: int,
    seconds: float, ttl: Floats, until: Floats, active_ids: Slots, active: Slots,
    active_until: Floats, ranked: npt.NDArray[np.bool_], number: Int64s, oldest: Int64s,
    again: npt.NDArray[np.bool_],
) -> float:  # fmt: skip
    """Decide rows in order; return the time after the last one.

    By row, in: `kinds`; `flawed`; `ids`, two hashes of each id; `at`, the given time or NaN; `ttl`,
    seconds for which a message is active.
    By row, out: `verdict`; `begins` and `ends`, the owners that begin and end; `times`, the time at
    the row; `until`, when a message ends, empty if none lasts; `number`, that of a message which
    enters the window; `oldest`, the number of the oldest message of the window after the row;
    `again`, whether the id was that of a message which leaves with it.

    State, changed in place: `owners`, slots from subscription ids to owners; `free`, a stack of
    unused owners; `ranked`, by owner, whether it is a top-k subscription; `numbers`, the counters
    above. The window is `ring` and `ring_times` (ids and times, oldest first) with the slots
    `window_ids`, and is limited by `count` and `seconds`. Active messages are `active` and
    `active_until` (ids and ends, by place) with the slots `active_ids`, which give the place.
    """
    for row in range(len(kinds)):
        kind, first, second = kinds[row], ids[row, 0], ids[row, 1]
        times[row] = 0.0 if np.isnan(now) else now
        oldest[row] = numbers[_BASE] + numbers[_OLDEST]
        if kind == BAD:
            verdict[row] = REFUSED
            continue
        # Time must not go backwards.
        time = times[row] if np.isnan(at[row]) else at[row]
        if time < now:
            verdict[row] = BACKWARDS
            continue
        old = lasting = NO_OWNER
        ranking = kind in (RANKED, SHIFT)
        # Refuse a message whose id is active or in the window, and an operation that does not fit.
        if kind <= RANGE:
            if flawed[row]:
                verdict[row] = REFUSED
                continue
            if numbers[_ACTIVE] > 0:
                lasting = find(active_ids, first, second)
            if lasting >= 0 and active_until[lasting] > time:
                verdict[row] = IN_USE
                continue
            if slot_of(window_ids, first, second) >= 0:
                if _time_of(numbers, ring, ring_times, first, second) > time - seconds:
                    verdict[row] = IN_USE
                    continue
                again[row] = True
        else:
            old = find(owners, first, second)
            if old < 0 and kind != SUBSCRIBE and kind != RANKED:
                verdict[row] = UNKNOWN
                continue
            if old >= 0 and kind != UNSUBSCRIBE and ranked[old] != ranking:
                verdict[row] = OTHER_KIND
                continue
            if flawed[row]:
                verdict[row] = REFUSED
                continue
        # The row is accepted: let the window expire up to its time.
        while numbers[_OLDEST] < numbers[_NEWEST] and (
            ring_times[numbers[_OLDEST]] <= time - seconds
        ):
            _forget_oldest(numbers, window_ids, ring)
        if kind <= RANGE:
            # Add a message to the window, and to the active ones if it lasts.
            if kind == POINT:
                newest = numbers[_NEWEST]
                ring[newest, 0], ring[newest, 1], ring_times[newest] = first, second, time
                put(window_ids, first, second, 0)
                number[row] = numbers[_BASE] + newest
                numbers[_NEWEST] += 1
                if numbers[_NEWEST] - numbers[_OLDEST] > count:
                    _forget_oldest(numbers, window_ids, ring)
            if len(until) > 0 and time + ttl[row] > time:
                if lasting < 0:
                    lasting = int(numbers[_ACTIVE])
                    active[lasting, 0], active[lasting, 1] = first, second
                    put(active_ids, first, second, lasting)
                    numbers[_ACTIVE] += 1
                until[row] = active_until[lasting] = time + ttl[row]
        else:
            # End the old version of a subscription, and begin the new one.
            ends[row] = old
            if kind == UNSUBSCRIBE:
                remove(owners, first, second)
            else:
                if numbers[_FREE] > 0:
                    numbers[_FREE] -= 1
                    owner = int(free[numbers[_FREE]])
                else:
                    owner = int(numbers[_OWNERS])
                    numbers[_OWNERS] += 1
                begins[row] = owner
                ranked[owner] = ranking
                if old < 0:
                    put(owners, first, second, owner)
                else:
                    change(owners, first, second, owner)
        now = times[row] = time
        oldest[row] = numbers[_BASE] + numbers[_OLDEST]
    return now
