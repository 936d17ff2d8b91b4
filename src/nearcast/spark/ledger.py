"""What is known of the ids of subscriptions and messages, from one batch of events to the next.

Ids are known by their hashes. What events do is decided in `nearcast.spark.deciding`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.slots import Slots, empty_slots, find, put
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events.reader import Codes
from nearcast.spark.deciding import (
    DUE,
    END,
    NO_OWNER,
    NOTHING,
    RING,
    Records,
    decide,
    new_clock,
    new_rows,
    nothing_known,
)
from nearcast.topk import Window

_ROOM = 1 << 12
ENTRY = 5
"""Numbers in an entry of the window: two hashes, the bits of two times, the message's number."""


class StandingIds(NamedTuple):
    """The subscriptions there are: the hashes of their ids, their owners, and when they end."""

    ids: Slots
    owners: Int32s
    lapses: Floats  # infinite for those that do not end
    ranked: npt.NDArray[np.bool_]


class Ledger:
    """Decides what each event does, and keeps track of subscriptions and messages.

    An id has a *place* for as long as there is a subscription, or a message in the window or
    active, with this id, and perhaps for a while longer.
    """

    def __init__(self, window: Window) -> None:
        self._clock = new_clock(window)
        self._free: Int32s = np.empty(0, np.int32)
        self._ranked = np.zeros(16, np.bool_)  # by owner: whether it is a top-k subscription
        self._owner_places = np.zeros(16, np.int32)  # by owner: the place of its id
        self._ended: Int32s = np.empty(0, np.int32)
        self._slots = empty_slots(2 * _ROOM)  # from ids to places
        self._ids: Slots = np.empty((_ROOM, 2), np.uint64)  # by place
        self._known = nothing_known(_ROOM)  # by place
        self._places = 0
        self._ring = np.zeros(16, RING)  # messages in the order of their arrival
        self._ends = np.zeros(16, END)  # a heap: when those of the ring end that do
        self._lapses = np.zeros(16, END)  # a heap: when subscriptions end that do

    @property
    def now(self) -> float:
        """The time of the latest event; NaN before the first."""
        return float(self._clock["now"][0])

    @property
    def first(self) -> int:
        """The number of the oldest message of the window."""
        if not self._clock["live"][0]:
            return self.next
        return int(self._ring["number"][self._clock["head"][0]])

    @property
    def next(self) -> int:
        """The number of the next message that comes into the window."""
        return int(self._clock["next"][0])

    @property
    def size(self) -> int:
        """How many messages are in the window."""
        return int(self._clock["live"][0])

    @property
    def living(self) -> Int64s:
        """The numbers of all messages in the window, oldest first."""
        ring = self._window
        numbers: Int64s = ring["number"][ring["live"]].copy()
        return numbers

    @property
    def _window(self) -> Records:
        """The part of the ring with messages of the window, and some that have left it."""
        clock = self._clock[0]
        return self._ring[int(clock["head"]) : int(clock["used"])] if clock["live"] else _NOBODY

    def is_ranked(self, owners: Int32s) -> npt.NDArray[np.bool_]:
        """Which of some owners are, or have just been, top-k subscriptions."""
        ranked: npt.NDArray[np.bool_] = self._ranked[owners]
        return ranked

    def decide(
        self,
        kinds: Codes,
        ids: Slots,
        seq: Int64s,
        at: Floats,
        ttl: Floats,
        flawed: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Records, Records]:
        """Decide rows in order; `ids` are both hashes of each id.

        `at` and `ttl` are NaN where they are not given. `flawed` are rows with a flaw, which are
        refused unless another verdict comes first. Returns the rows, and the subscriptions that
        ended by time, ordered by row and owner.
        """
        rows = new_rows(kinds, seq, at, ttl)
        if flawed is not None:
            rows["flawed"] = flawed
        self._reuse()
        self._make_room(len(rows))
        rows["id"] = self._find(ids)
        due = np.zeros(len(self._lapses), DUE)
        decide(
            rows, self._known, self._clock, self._ring, self._ends, self._lapses,
            self._owner_places, due, self._free,
        )  # fmt: skip
        due = np.sort(due[: int(self._clock["due"][0])], order=["row", "owner"])
        begun = np.flatnonzero(rows["begins"] != NO_OWNER)
        self._ranked[rows["begins"][begun]] = rows["ranked"][begun]
        self._ended = np.concatenate([rows["ends"][rows["ends"] != NO_OWNER], due["owner"]])
        return rows, due

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
            self._ranked = _longer(self._ranked, 2 * (owners + count))
            self._owner_places = _longer(self._owner_places, 2 * (owners + count))
        if int(self._clock["used"][0]) + count > len(self._ring):
            self._close_up(count)
        if int(self._clock["ends"][0]) + count > len(self._ends):
            self._heap_ends(count)
        if int(self._clock["lapses"][0]) + count > len(self._lapses):
            self._heap_lapses(count)
        if self._places + count > len(self._known):
            self._tidy(count)

    def _close_up(self, count: int) -> None:
        """Remove from the ring what has left the window, and make room for more."""
        kept = self._window
        kept = kept[kept["live"]]
        self._ring = _longer(kept, 2 * (len(kept) + count))
        self._clock["head"], self._clock["used"] = 0, len(kept)
        self._known["where"][kept["id"]] = np.arange(len(kept))
        self._heap_ends(count)

    def _heap_ends(self, count: int) -> None:
        """Rebuild the heap of ends of messages, without those that have left the window."""
        ring = self._ring[: int(self._clock["used"][0])]
        some = np.flatnonzero(ring["live"] & (ring["end"] < np.inf))
        self._ends = _heap_of(ring["end"][some], some, count)
        self._clock["ends"] = len(some)

    def _heap_lapses(self, count: int) -> None:
        """Rebuild the heap of ends of subscriptions, without those that are gone."""
        known = self._known[: self._places]
        some = known[(known["owner"] != NO_OWNER) & (known["lapse"] < np.inf)]
        self._lapses = _heap_of(some["lapse"], some["owner"], count)
        self._clock["lapses"] = len(some)

    def _tidy(self, count: int) -> None:
        """Forget ids that have neither a subscription nor a message, and make room for others."""
        known = self._known[: self._places]
        used = (known["owner"] != NO_OWNER) | (known["where"] != NOTHING)
        used |= known["until"] > (-np.inf if np.isnan(self.now) else self.now)
        ids, known, old = self._ids[: self._places][used], known[used], np.cumsum(used) - 1
        room = max(_ROOM, 2 * (len(ids) + count))
        ring = self._window
        ring["id"][ring["live"]] = old[ring["id"][ring["live"]]]
        owned = known["owner"][known["owner"] != NO_OWNER]
        self._owner_places[owned] = old[self._owner_places[owned]]
        self._known = np.concatenate([known, nothing_known(room - len(known))])
        self._ids = np.concatenate([ids, np.empty((room - len(ids), 2), np.uint64)])
        self._slots, self._places = empty_slots(1 << (2 * room - 1).bit_length()), 0
        self._find(ids)

    def recent(self, first: int = 0) -> npt.NDArray[np.uint64]:
        """The entries of the window from a number on.

        An entry is two hashes, the bits of two times, when it came and when it ends or NaN, and the
        number.
        """
        ring = self._window
        ring = ring[ring["live"] & (ring["number"] >= first)]
        ends = np.where(ring["end"] < np.inf, ring["end"], np.nan)
        times = np.column_stack([ring["at"], ends]).view(np.uint64)
        numbers = ring["number"].astype(np.uint64)
        return np.hstack([self._ids[ring["id"]], times, numbers[:, None]])

    @classmethod
    def restored(
        cls,
        window: Window,
        state: Mapping[str, npt.NDArray[Any]],
        standing: StandingIds,
        ended: Int32s,
    ) -> Self:
        """Make a ledger from its state and the subscriptions there are.

        The state is `now`, the entries of the window (`ring`), the number that the `next` message
        gets, and the active messages: their ids, ends and sequence numbers (`active`, `until`,
        `active_seq`).

        `ended` are the owners that ended in the last batch, which are not yet free.
        """
        ledger, ring, owners = cls(window), state["ring"], standing.owners
        count = int(max(owners.max(initial=-1), ended.max(initial=-1))) + 1
        free = np.ones(count, np.bool_)
        free[owners] = free[ended] = False
        ledger._free = np.flatnonzero(free)[::-1].astype(np.int32)
        ledger._ended = ended
        clock = ledger._clock
        clock["now"], clock["owners"], clock["free"] = state["now"], count, len(ledger._free)
        clock["next"] = state["next"]
        ledger._make_room(max(count, len(ring) + len(owners) + len(state["active"])))
        known = ledger._known
        places = ledger._owner_places[owners] = ledger._find(standing.ids)
        ledger._ranked[owners] = known["ranked"][places] = standing.ranked
        known["owner"][places], known["lapse"][places] = owners, standing.lapses
        places = ledger._find(np.ascontiguousarray(ring[:, :2]))
        times = np.ascontiguousarray(ring[:, 2:4]).view(np.float64)
        held = ledger._ring[: len(ring)]
        held["number"], held["id"], held["live"] = ring[:, 4], places, True
        held["at"], held["end"] = times[:, 0], np.where(np.isnan(times[:, 1]), np.inf, times[:, 1])
        known["where"][places] = np.arange(len(ring))
        clock["used"] = clock["live"] = len(ring)
        places = ledger._find(state["active"])
        known["until"][places], known["seq"][places] = state["until"], state["active_seq"]
        ledger._heap_ends(16)
        ledger._heap_lapses(16)
        return ledger


_NOBODY = np.zeros(0, RING)


def _longer(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """A copy with zeros behind, up to a size."""
    grown = np.zeros(max(size, 16), array.dtype)
    grown[: len(array)] = array
    return grown


def _heap_of(ends: Floats, what: npt.NDArray[Any], more: int) -> Records:
    """A heap of some ends, with room for `more`; sorted, as that is a heap."""
    heap = np.zeros(2 * (len(ends) + more), END)
    order = np.argsort(ends, kind="stable")
    heap["end"][: len(ends)], heap["what"][: len(ends)] = ends[order], what[order]
    return heap


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
