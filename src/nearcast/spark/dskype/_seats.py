"""What a home remembers of each subscription: a buffer of messages from its threshold on, by age.

A buffer is a region of an arena, of one of the classes of the embedded core: scores, and behind
them numbers, of which 32 bits are enough while the window is smaller than that. The k best are
known by the k-th. One that is too full for the largest class of its k is cut to the best, and its
threshold rises. One that was cut cannot say what the k best are when fewer are left: it is parked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner, inner_inlined, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.spark.dskype._walk import NO_ROOM, BufferChanges, Entries, kth_of, walk
from nearcast.spark.dskype.clock import StepClock
from nearcast.topk.kernels.layout import BUFFER_SIZES, NOTHING
from nearcast.topk.kernels.order import before
from nearcast.topk.kernels.regions import give_back, take
from nearcast.topk.kernels.seats import largest_class, size_of_class

SEAT = 6
K, KIND, AT, COUNT, KTH, OWNER = range(SEAT)
"""Of a seat: its k, the class and place of its buffer, the messages in it, the k-th, the owner."""
EMPTY = -1  # `KIND` of a seat without a buffer: it is free, or parked

SEAT_FLOATS = 2
THETA, KTH_SCORE = range(SEAT_FLOATS)

END = 0  # the scalar: where the arena is unused
LARGEST = 3 * int(BUFFER_SIZES[-1])
NEVER = 1 << 62

DONE, MORE_CHANGES, MORE_LEFT, MORE_ROOM, MORE_ENTRIES = range(5)


class Seats(NamedTuple):
    """The arrays of a home."""

    scalars: Int64s
    ints: Int32s
    floats: Floats
    waits: Int64s  # for the expiry of which message: its number
    region_i: Int32s
    region_f: Floats  # the same memory
    free: Int32s


class SeatChanges(NamedTuple):
    """The seats that a step concerns, and what was found for each: pairs sorted by message."""

    seats: Int32s
    until: Int32s  # the event with which each ends or is parked, or the number of events
    starts: Int64s
    numbers: Int32s
    scores: Floats


class SeatOutcomes(NamedTuple):
    """What became of each of these seats.

    `event` is the one with which it left its place; its k best before that are in `numbers`.
    """

    event: Int32s
    starts: Int64s
    numbers: Int32s
    raised: Int32s  # whether its threshold has risen


@inner_inlined
def _low(number: int) -> int:
    """The lower 32 bits of a number, with the sign that makes of them."""
    return ((number + (wide(1) << 31)) & ((wide(1) << 32) - 1)) - (wide(1) << 31)


@inner
def _load(seats: Seats, seat: int, base: int, entries: Entries) -> int:
    """Read a buffer, without what expired before this step; give how many there are."""
    row = SEAT * seat
    at, size = wide(seats.ints[row + AT]), size_of_class(seats.ints[row + KIND])
    kth_score = seats.floats[SEAT_FLOATS * seat + KTH_SCORE]
    kth = _low(wide(seats.ints[row + KTH]) - base)
    count = wide(0)
    for n in range(seats.ints[row + COUNT]):
        number = _low(wide(seats.region_i[at + 2 * size + n]) - base)
        if number >= 0:
            score = seats.region_f[at // 2 + n]
            entries.numbers[count], entries.scores[count] = number, score
            entries.was[count] = not before(kth_score, kth, score, number)
            count += 1
    return count


@inner
def _store(
    seats: Seats, seat: int, base: int, entries: Entries, begin: int, end: int, kth_score: float,
    kth: int,
) -> bool:  # fmt: skip
    """Write a buffer back, in a larger region or cut if it must be; say whether it was cut."""
    row = SEAT * seat
    k, kind = wide(seats.ints[row + K]), wide(seats.ints[row + KIND])
    largest, count = largest_class(k), end - begin
    wanted = kind
    while wanted < largest and (wanted < 0 or size_of_class(wanted) < count):
        wanted += 1
    if wanted != kind:
        if kind >= 0:
            give_back(seats.region_i, seats.free, kind, wide(seats.ints[row + AT]))
        size = 3 * size_of_class(wanted)
        seats.ints[row + AT] = take(seats.region_i, seats.free, seats.scalars, END, wanted, size)
        seats.ints[row + KIND] = wanted
    size = size_of_class(wanted)
    worst_score, worst = NOTHING, wide(-1)
    if count > size:
        keep = size * 7 // 10
        worst_score, worst = kth_of(entries, begin, end, keep)
        seats.floats[SEAT_FLOATS * seat + THETA] = worst_score
    at, written, oldest = wide(seats.ints[row + AT]), 0, wide(NEVER)
    for n in range(begin, end):
        score, number = entries.scores[n], wide(entries.numbers[n])
        if before(worst_score, worst, score, number):
            continue
        seats.region_f[at // 2 + written] = score
        seats.region_i[at + 2 * size + written] = _low(number + base)
        written += 1
        if oldest == NEVER and not before(kth_score, kth, score, number):
            oldest = number + base
    seats.ints[row + COUNT], seats.ints[row + KTH] = written, _low(kth + base)
    seats.floats[SEAT_FLOATS * seat + KTH_SCORE] = kth_score
    seats.waits[seat] = oldest
    return count > size


@inner_inlined
def _release(seats: Seats, seat: int) -> None:
    """Give the buffer of a seat back."""
    row = SEAT * seat
    if seats.ints[row + KIND] >= 0:
        give_back(
            seats.region_i, seats.free, wide(seats.ints[row + KIND]), wide(seats.ints[row + AT])
        )
    seats.ints[row + KIND], seats.ints[row + COUNT] = EMPTY, 0
    seats.waits[seat] = NEVER


@lean_kernel
def release(seats: Seats, which: Int32s) -> None:
    """Give the buffers of seats back."""
    for n in range(len(which)):
        _release(seats, wide(which[n]))


@lean_kernel
def fill(
    seats: Seats, which: Int32s, ks: Int32s, thetas: Floats, starts: Int64s, numbers: Int64s,
    scores: Floats, entries: Entries, done: int,
) -> tuple[int, int]:  # fmt: skip
    """Give seats buffers with these messages, by age, all of them in the window."""
    for n in range(done, len(which)):
        seat, start, count = wide(which[n]), starts[n], starts[n + 1] - starts[n]
        if seats.scalars[END] + LARGEST > len(seats.region_i):
            return n, MORE_ROOM
        if count > len(entries.numbers):
            return n, MORE_ENTRIES
        base = numbers[start] if count else wide(0)
        for m in range(count):
            entries.numbers[m], entries.scores[m] = numbers[start + m] - base, scores[start + m]
        _release(seats, seat)
        seats.ints[SEAT * seat + K] = ks[n]
        seats.floats[SEAT_FLOATS * seat + THETA] = thetas[n]
        kth_score, kth = kth_of(entries, 0, count, wide(ks[n]))
        _store(seats, seat, base, entries, 0, count, kth_score, kth)
    return len(which), DONE


@lean_kernel
def take_step(
    seats: Seats,
    clock: StepClock,
    changes: BufferChanges,
    entries: Entries,
    base: int,
    found: SeatChanges,
    left: SeatOutcomes,
    done: int,
    written: int,
) -> tuple[int, int, int]:
    """Lead seats through a step; give how far it came, what is written, and what must grow."""
    events = len(clock.first)
    for n in range(done, len(found.seats)):
        seat, last = wide(found.seats[n]), wide(found.until[n])
        row = SEAT * seat
        left.event[n], left.raised[n], left.starts[n + 1] = events, 0, left.starts[n]
        if seats.ints[row + KIND] < 0:
            continue
        k, theta = wide(seats.ints[row + K]), seats.floats[SEAT_FLOATS * seat + THETA]
        if seats.scalars[END] + LARGEST > len(seats.region_i):
            return n, written, MORE_ROOM
        if left.starts[n] + k > len(left.numbers):
            return n, written, MORE_LEFT
        if found.starts[n + 1] - found.starts[n] + LARGEST > len(entries.numbers):
            return n, written, MORE_ENTRIES
        count = _load(seats, seat, base, entries)
        for m in range(found.starts[n], found.starts[n + 1]):
            number, score = found.numbers[m], found.scores[m]
            again = count > 0 and entries.numbers[count - 1] == number
            if score >= theta and not again:
                entries.numbers[count], entries.scores[count] = number, score
                entries.was[count] = 0
                count += 1
        walked = walk(
            clock, changes, written, wide(seats.ints[row + OWNER]), entries, count, k,
            theta == NOTHING, wide(0), last, False,
        )  # fmt: skip
        if walked.written == NO_ROOM:
            return n, written, MORE_CHANGES
        written = walked.written
        if walked.event < events:
            left.event[n] = walked.event
            to = left.starts[n]
            for m in range(walked.begin, walked.end):
                if entries.was[m] != 0:
                    left.numbers[to] = entries.numbers[m]
                    to += 1
            left.starts[n + 1] = to
            _release(seats, seat)
        else:
            left.raised[n] = _store(
                seats, seat, base, entries, walked.begin, walked.end, walked.kth_score, walked.kth
            )
    return len(found.seats), written, DONE


def room_for(count: int) -> Entries:
    """Room for so many entries."""
    return Entries(
        np.empty(count, np.int32),
        np.empty(count),
        np.empty(count, np.uint8),
        np.empty(count, np.int32),
        np.empty(count),
    )
