"""What is known of the ids of subscriptions and messages, from one batch of events to the next.

Ids are known by their hashes. What events do is decided in `nearcast.engine.order`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.slots import Slots, empty_slots, find, put
from nearcast.arrays.types import Floats, Int32s
from nearcast.engine.order import (
    NO_OWNER,
    Clock,
    Known,
    Rows,
    decide,
    new_clock,
    new_rows,
    nothing_known,
)
from nearcast.events.reader import RANKED, SHIFT, Codes
from nearcast.topk import Window

_ROOM = 1 << 12


class Ledger:
    """Decides what each event does, and keeps track of subscriptions and messages.

    An id has a *place* for as long as there is a subscription, or a message in the window or
    active, with this id, and perhaps for a while longer.
    """

    def __init__(self, window: Window) -> None:
        self._clock: Clock = new_clock(window)
        self._clock["frees"] = True
        self._free: Int32s = np.empty(0, np.int32)
        self._ranked = np.zeros(16, np.bool_)  # by owner: whether it is a top-k subscription
        self._ended: Int32s = np.empty(0, np.int32)
        self._slots = empty_slots(2 * _ROOM)  # from ids to places
        self._ids: Slots = np.empty((_ROOM, 2), np.uint64)  # by place
        self._known: Known = nothing_known(_ROOM)  # by place
        self._places = 0
        # Of the messages in the window, oldest first: the places of their ids, their times, and
        # when they end, or NaN.
        self._ring: Int32s = np.empty(16, np.int32)
        self._arrived: Floats = np.empty(16)
        self._ends: Floats = np.empty(16)

    @property
    def now(self) -> float:
        """The time of the latest event; NaN before the first."""
        return float(self._clock["now"][0])

    @property
    def first(self) -> int:
        """The number of the oldest message of the window."""
        return int(self._clock["first"][0])

    @property
    def next(self) -> int:
        """The number of the next message that comes into the window."""
        return int(self._clock["next"][0])

    @property
    def _base(self) -> int:
        """The number of the message in the first place of the ring."""
        return int(self._clock["base"][0])

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
    ) -> Rows:
        """Decide rows in order; `ids` are both hashes of each id, `at` is NaN where not given.

        `ttl` says how long messages last; None if all are instant. `flawed` are rows with a flaw,
        which are refused unless another verdict comes first.
        """
        rows = new_rows(kinds, at, ttl)
        if flawed is not None:
            rows["flawed"] = flawed
        self._reuse()
        self._make_room(len(rows))
        rows["id"] = self._find(ids)
        decide(rows, self._known, self._clock, self._arrived, self._free)
        came = np.flatnonzero(rows["number"] >= 0)
        numbers = rows["number"][came] - self._base
        self._ring[numbers] = rows["id"][came]
        self._ends[numbers] = _ends_of(rows[came])
        begun = np.flatnonzero(rows["begins"] != NO_OWNER)
        self._ranked[rows["begins"][begun]] = np.isin(rows["kind"][begun], (RANKED, SHIFT))
        self._ended = rows["ends"][rows["ends"] != NO_OWNER]
        return rows

    def _find(self, ids: Slots) -> Int32s:
        """The places of ids; those without one get the next."""
        places = np.empty(len(ids), np.int32)
        self._places = _enter(self._slots, ids, self._ids, self._places, places)
        return places

    def _reuse(self) -> None:
        """Free the owner numbers that ended in the previous batch: no shard has them any more.

        The lowest number is reused first, so that the numbers given depend only on those in use:
        events that are read again after a stop get the same ones.
        """
        free = int(self._clock["free"][0])
        if len(self._ended):
            self._free = np.sort(np.concatenate([self._free[:free], self._ended]))[::-1].copy()
            self._clock["free"] = len(self._free)
            self._ended = self._ended[:0]

    def _make_room(self, count: int) -> None:
        """Make room for that many more owners, messages and ids."""
        owners = int(self._clock["owners"][0])
        if owners + count > len(self._ranked):
            self._ranked, ranked = np.zeros(2 * (owners + count), np.bool_), self._ranked
            self._ranked[: len(ranked)] = ranked
        if self.next - self._base + count > len(self._ring):
            kept = slice(self.first - self._base, self.next - self._base)
            more = self.next - self.first + 2 * count
            self._ring = np.concatenate([self._ring[kept], np.empty(more, np.int32)])
            self._arrived = np.concatenate([self._arrived[kept], np.empty(more)])
            self._ends = np.concatenate([self._ends[kept], np.empty(more)])
            self._clock["base"] = self.first
        if self._places + count > len(self._known):
            self._tidy(count)

    def _tidy(self, count: int) -> None:
        """Forget ids that have neither a subscription nor a message, and make room for others."""
        known = self._known[: self._places]
        used = known["owner"] != NO_OWNER
        used |= (known["since"] > -np.inf) & (known["number"] >= self.first)
        used |= known["until"] > (-np.inf if np.isnan(self.now) else self.now)
        ids, known, old = self._ids[: self._places][used], known[used], np.cumsum(used) - 1
        room = max(_ROOM, 2 * (len(ids) + count))
        ring = self._ring[: self.next - self._base]
        ring[:] = old[ring]
        self._known = np.concatenate([known, nothing_known(room - len(known))])
        self._ids = np.concatenate([ids, np.empty((room - len(ids), 2), np.uint64)])
        self._slots, self._places = empty_slots(1 << (2 * room - 1).bit_length()), 0
        self._find(ids)

    def recent(self, count: int) -> npt.NDArray[np.uint64]:
        """The last `count` entries of the window, or all.

        An entry is two hashes, and the bits of two times: when it came and when it ends, or NaN.
        """
        some = slice(max(self.first, self.next - count) - self._base, self.next - self._base)
        times = np.column_stack([self._arrived[some], self._ends[some]])
        return np.hstack([self._ids[self._ring[some]], times.view(np.uint64)])

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

        The state is `now`, the ids in the window (`ring`, `ring_times`, `ring_ends`), the number
        that the `next` message gets, and the ids of active messages (`active`, `until`).

        `ended` are the owners that ended in the last batch, which are not yet free.
        """
        ledger, held = cls(window), len(state["ring"])
        count = int(max(owners.max(initial=-1), ended.max(initial=-1))) + 1
        free = np.ones(count, np.bool_)
        free[owners] = free[ended] = False
        ledger._free = np.flatnonzero(free)[::-1].astype(np.int32)
        ledger._ended = ended
        clock = ledger._clock
        clock["now"], clock["owners"], clock["free"] = state["now"], count, len(ledger._free)
        # An earlier release did not count messages.
        clock["base"] = clock["first"] = clock["next"] = max(int(state["next"][0]) - held, 0)
        ledger._make_room(max(count, held + len(ids) + len(state["active"])))
        ledger._ranked[ranked] = True
        known = ledger._known
        places = ledger._find(ids)
        known["owner"][places], known["ranked"][places] = owners, ledger._ranked[owners]
        places = ledger._ring[:held] = ledger._find(state["ring"].copy())
        ledger._arrived[:held] = known["since"][places] = state["ring_times"]
        known["number"][places] = ledger.next + np.arange(held)
        ends = ledger._ends[:held] = state["ring_ends"]
        known["until"][places] = np.where(np.isnan(ends), -np.inf, ends)
        if not np.isnan(ends).all():
            clock["lasting"] = ledger.next + np.flatnonzero(~np.isnan(ends))[-1]
        clock["next"] += held
        clock["ranked"] = len(ranked)
        known["until"][ledger._find(state["active"])] = state["until"]
        return ledger


def _ends_of(rows: Rows) -> Floats:
    """When messages end, however soon; NaN for those that do not."""
    ends: Floats = np.where(rows["ttl"] > 0, rows["time"] + rows["ttl"], np.nan)
    return ends


@kernel
def _enter(slots: Slots, ids: Slots, known_by: Slots, count: int, places: Int32s) -> int:
    """Find the places of ids, and give the next ones to others; return how many there are."""
    for at in range(len(ids)):
        first, second = ids[at, 0], ids[at, 1]
        place = find(slots, first, second)
        if place < 0:
            place = count
            put(slots, first, second, place)
            known_by[place, 0], known_by[place, 1] = first, second
            count += 1
        places[at] = place
    return count
