"""A buffer shard: the result buffers of some subscriptions, and how a step changes them.

It is the buffering half of a subscription bolt of DSkype. It takes what finders found and what
expires, in order. For a subscription that begins, is replaced or moves, or whose buffer no longer
contains its k best, it makes a re-evaluation request: message workers find its messages from that
event on, aggregation finds what changes, and the buffer comes back as a refill before the next
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.lists import starts_of
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.spark.names import Names, NumberedLists
from nearcast.spark.topk.dskype import _seats
from nearcast.spark.topk.dskype._walk import BufferChanges
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.messages import ReachedPairs, Refills, Wanted
from nearcast.spark.topk.dskype.terms import Terms
from nearcast.spark.topk.reading import NO_OWNER, RankedSubscriptions, reach
from nearcast.spark.topk.updates import RankedUpdates
from nearcast.topk.kernels.layout import CLASSES

_ROOM = 1 << 12

_COLUMNS: dict[str, tuple[type, int]] = {
    "seat_of": (np.int32, 0),  # by owner
    "free_seats": (np.int32, 0),
    "ints": (np.int32, _seats.SEAT),
    "floats": (np.float64, _seats.SEAT_FLOATS),
    "waits": (np.int64, 0),
    "places": (np.float64, 3),  # point and alpha
    "regions": (np.int32, 0),
}


class ReleasedVersions(NamedTuple):
    """Versions whose seats were released, with which event, and their k best before it, scored."""

    owners: Int32s
    events: Int32s
    starts: Int64s
    numbers: Int64s
    scores: Floats


class BufferStepResult(NamedTuple):
    """What a step changed in a buffer shard."""

    updates: RankedUpdates
    released: ReleasedVersions
    raised: Int32s  # owners whose thresholds have risen
    thetas: Floats


class BufferShard:
    """The buffers of some subscriptions."""

    def __init__(
        self, memory: Memory | None = None, described: Mapping[str, Any] | None = None
    ) -> None:
        """Make an empty one, or attach to the one that `describe` described."""
        self.memory = memory or Memory()
        sizes: Mapping[str, Any] = described or dict.fromkeys(_COLUMNS, 0)
        for name, (dtype, width) in _COLUMNS.items():
            setattr(self, f"_{name}", Column(dtype, width, self.memory, name, sizes[name]))
        self._names = Names(self.memory, "id", sizes.get("names"))
        self._terms = NumberedLists(self.memory, "terms", sizes.get("terms"))
        self._weights = NumberedLists(self.memory, "weights", sizes.get("weights"))
        self._scalars = self.memory.array("scalars", 1, np.int64)
        self._free = self.memory.array("free_regions", CLASSES, np.int32)
        if described is None:
            self._scalars[:], self._free[:] = 0, -1
        self._entries = _seats.room_for(_seats.LARGEST)

    _seat_of: Column
    _free_seats: Column
    _ints: Column
    _floats: Column
    _waits: Column
    _places: Column
    _regions: Column

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to it in its memory."""
        return {name: getattr(self, f"_{name}").size for name in _COLUMNS} | {
            "names": self._names.describe(),
            "terms": self._terms.describe(),
            "weights": self._weights.describe(),
        }

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        own = sum(getattr(self, f"_{name}").nbytes for name in _COLUMNS)
        return int(own + self._names.nbytes + self._terms.nbytes + self._weights.nbytes)

    def __len__(self) -> int:
        """How many subscriptions have a seat."""
        return self._waits.size - self._free_seats.size

    def _arrays(self) -> _seats.Seats:
        regions = self._regions.array
        return _seats.Seats(
            self._scalars, self._ints.array.reshape(-1), self._floats.array.reshape(-1),
            self._waits.array, regions, regions[: len(regions) // 2 * 2].view(np.float64),
            self._free,
        )  # fmt: skip

    def _more_room(self) -> None:
        self._regions.lengthen(max(self._regions.size, 4 * _seats.LARGEST))

    def _seats_of(self, owners: Int32s) -> Int32s:
        """The seats of owners; those without one get a new one."""
        reach(self._seat_of, owners)
        seats = self._seat_of.array[owners]
        missing = np.flatnonzero(seats < 0)
        free = self._free_seats.array
        again = min(len(missing), len(free))
        start = self._waits.size
        fresh = np.arange(start, start + len(missing) - again, dtype=np.int32)
        seats[missing] = np.concatenate([free[len(free) - again :], fresh])
        self._free_seats.shorten(len(free) - again)
        for column in (self._ints, self._floats, self._waits, self._places):
            column.lengthen(len(fresh))
        self._ints.array[seats[missing]] = 0
        self._ints.array[seats[missing], _seats.KIND] = _seats.EMPTY
        self._ints.array[seats[missing], _seats.OWNER] = owners[missing]
        self._waits.array[seats[missing]] = _seats.NEVER
        self._seat_of.array[owners] = seats
        return seats

    def fill(self, refills: Refills) -> None:
        """Store fresh buffers, as of the end of the previous step."""
        wanted = refills.wanted
        seats, done, code = self._seats_of(wanted.owners), 0, _seats.DONE
        for lists in (self._names, self._terms, self._weights):
            lists.forget(seats)
        self._names.put(seats, wanted.ids.cast(pa.string()))
        self._places.array[seats] = np.column_stack([wanted.points, wanted.alphas])
        self._terms.assign(seats, wanted.terms.hashes, wanted.terms.starts)
        if len(wanted.terms.idf):
            self._weights.assign(seats, wanted.terms.idf.view(np.uint64), wanted.terms.starts)
        while done < len(seats):
            done, code = _seats.fill(
                self._arrays(), seats, wanted.ks, refills.thetas, refills.starts,
                refills.numbers, refills.scores, self._entries, done,
            )  # fmt: skip
            if code == _seats.MORE_ROOM:
                self._more_room()
            elif code == _seats.MORE_ENTRIES:
                self._entries = _seats.room_for(int(np.diff(refills.starts).max()))

    def wanted(self, owners: Int32s) -> Wanted:
        """The definitions of versions that have a seat."""
        seats = self._seat_of.array[owners]
        places = self._places.array[seats]
        hashes, starts = self._terms.lists_of(seats)
        idf = self._weights.lists_of(seats)[0] if self._weights.nbytes else hashes[:0]
        return RankedSubscriptions(
            owners, self._names.of(seats), places[:, :2].copy(), places[:, 2].copy(),
            self._ints.array[seats, _seats.K], Terms(starts, hashes, idf.view(np.float64)),
        )  # fmt: skip

    def names_of(self, owners: Int32s) -> pa.Array:
        """The ids of versions that have a seat."""
        return self._names.of(self._seat_of.array[owners])

    def forget(self, owners: Int32s) -> None:
        """Remove versions that have ended."""
        owners = owners[owners < self._seat_of.size]
        seats = self._seat_of.array[owners]
        owners, seats = owners[seats >= 0], seats[seats >= 0]
        _seats.release(self._arrays(), seats)
        self._ints.array[seats, _seats.OWNER] = NO_OWNER
        for lists in (self._names, self._terms, self._weights):
            lists.forget(seats)
        self._seat_of.array[owners] = NO_OWNER
        self._free_seats.extend(seats)

    def step(
        self, timeline: Timeline, pairs: ReachedPairs, ended: Int32s, events: Int32s
    ) -> BufferStepResult:
        """Take a step in which versions `ended` end with `events`; `forget` them afterwards."""
        found = self._concerned(timeline, pairs, ended, events)
        count = len(found.seats)
        outcomes = _seats.SeatOutcomes(
            np.empty(count, np.int32), np.zeros(count + 1, np.int64),
            np.empty(_ROOM, np.int32), np.empty(_ROOM), np.zeros(count, np.int32),
        )  # fmt: skip
        changes = room_for_changes(4 * len(found.numbers) + _ROOM)
        done, written, code = 0, 0, _seats.DONE
        while done < count:
            done, written, code = _seats.take_step(
                self._arrays(), timeline.clock, changes, self._entries, timeline.was_first, found,
                outcomes, done, written,
            )  # fmt: skip
            if code == _seats.MORE_ROOM:
                self._more_room()
            elif code == _seats.MORE_ENTRIES:
                most = int(np.diff(found.starts).max()) + _seats.LARGEST
                self._entries = _seats.room_for(most)
            elif code == _seats.MORE_RESULTS:
                used = outcomes.starts[done]
                outcomes = outcomes._replace(
                    numbers=longer(outcomes.numbers, used), scores=longer(outcomes.scores, used)
                )
            elif code == _seats.MORE_CHANGES:
                changes = BufferChanges(*(longer(column, written) for column in changes))
        owners = self._ints.array[found.seats, _seats.OWNER]
        gone = np.flatnonzero(outcomes.event < len(timeline))
        raised = np.flatnonzero(outcomes.raised)
        return BufferStepResult(
            RankedUpdates(
                timeline.seq[changes.events[:written]], changes.subs[:written].copy(),
                changes.numbers[:written] + np.int64(timeline.was_first),
                changes.scores[:written].copy(),
            ),
            _released(owners, outcomes, gone, timeline.was_first),
            owners[raised],
            self._floats.array[found.seats[raised], _seats.THETA],
        )  # fmt: skip

    def _concerned(
        self, timeline: Timeline, pairs: ReachedPairs, ended: Int32s, events: Int32s
    ) -> _seats.SeatChanges:
        """The seats for which a message was found, whose oldest result expires, or that end."""
        known = pairs.owners < self._seat_of.size
        pair_seats = np.full(len(known), NO_OWNER, np.int32)
        pair_seats[known] = self._seat_of.array[pairs.owners[known]]
        waiting = np.flatnonzero(self._waits.array < timeline.end_first)
        here = ended < self._seat_of.size
        ended, events = ended[here], events[here]
        ending = self._seat_of.array[ended]
        ended, events, ending = ended[ending >= 0], events[ending >= 0], ending[ending >= 0]
        met = np.zeros(self._waits.size, np.bool_)
        met[pair_seats[pair_seats >= 0]] = True
        met[waiting] = met[ending] = True
        seats = np.flatnonzero(met).astype(np.int32)
        until = np.full(self._waits.size, len(timeline), np.int32)
        until[ending] = events
        order = np.lexsort((pairs.numbers, pair_seats))
        order = order[np.searchsorted(pair_seats[order], 0) :]
        starts = np.searchsorted(pair_seats[order], seats)
        return _seats.SeatChanges(
            seats,
            until[seats],
            np.append(starts, len(order)).astype(np.int64),
            (pairs.numbers[order] - timeline.was_first).astype(np.int32),
            pairs.scores[order],
        )


def room_for_changes(count: int) -> BufferChanges:
    """Room for `count` changes."""
    return BufferChanges(
        np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32),
        np.empty(count),
    )  # fmt: skip


def longer(array: np.ndarray, used: int) -> np.ndarray:
    """A copy of the used part of an array, with twice the room."""
    larger = np.empty(2 * len(array), array.dtype)
    larger[:used] = array[:used]
    return larger


def _released(
    owners: Int32s, outcomes: _seats.SeatOutcomes, gone: Int64s, base: int
) -> ReleasedVersions:
    starts = starts_of(np.diff(outcomes.starts)[gone])
    # Only released seats have results listed, so their lists are contiguous.
    count = outcomes.starts[-1]
    numbers = outcomes.numbers[:count] + np.int64(base)
    return ReleasedVersions(
        owners[gone], outcomes.event[gone], starts, numbers, outcomes.scores[:count].copy()
    )
