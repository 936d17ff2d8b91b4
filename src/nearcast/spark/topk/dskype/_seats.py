"""Kernels of a buffer shard: one seat for each subscription, with a buffer of its best messages.

A seat is a row of a few arrays. Its buffer holds all messages of the window that reach its
threshold, oldest first. A buffer is a region of an arena, in one of the size classes of the
embedded core: first scores, then numbers, of which 32 bits are enough while the window has fewer
messages than that. The k best are those that rank no lower than the k-th. A buffer that is too full
for the largest class of its k is cut to the best messages, and its threshold rises. If fewer than
k messages are left in a buffer that was cut, the k best are unknown: the seat is parked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.spark.topk.dskype._walk import NO_ROOM, BufferChanges, Entries, kth_of, walk
from nearcast.spark.topk.dskype.clock import StepClock
from nearcast.topk.kernels.layout import BUFFER_SIZES, NOTHING
from nearcast.topk.kernels.order import before
from nearcast.topk.kernels.regions import give_back, take
from nearcast.topk.kernels.seats import largest_class, size_of_class

SEAT = 6
K, KIND, AT, COUNT, KTH, OWNER = range(SEAT)
"""Of a seat: k, class and place of its buffer, number of messages in it, the k-th, the owner."""
EMPTY = -1  # `KIND` of a seat without a buffer: it is unused, or parked

SEAT_FLOATS = 2
THETA, KTH_SCORE = range(SEAT_FLOATS)

END = 0  # the scalar: where the unused end of the arena begins
LARGEST = 3 * int(BUFFER_SIZES[-1])
NEVER = 1 << 62

DONE, MORE_CHANGES, MORE_RESULTS, MORE_ROOM, MORE_ENTRIES = range(5)


class Seats(NamedTuple):
    """The arrays of a buffer shard."""

    scalars: Int64s
    ints: Int32s  # SEAT values for each seat
    floats: Floats  # SEAT_FLOATS values for each seat
    waits: Int64s  # by seat: the number of its oldest result, whose expiry concerns it
    region_i: Int32s  # the arena of buffers
    region_f: Floats  # the same memory
    free: Int32s  # by size class: the first unused region


class SeatChanges(NamedTuple):
    """The seats that a step concerns, and the messages found for each, oldest first."""

    seats: Int32s
    until: Int32s  # the event with which each ends or is parked, or the number of events
    starts: Int64s
    numbers: Int32s
    scores: Floats


class SeatOutcomes(NamedTuple):
    """What a step did to each of these seats."""

    event: Int32s  # with which it was released, or the number of events
    starts: Int64s  # the results of seat n before that are numbers[starts[n] : starts[n + 1]]
    numbers: Int32s
    scores: Floats  # of these results
    raised: Int32s  # whether its threshold has risen


@inlined
def _low(number: int) -> int:
    """The lower 32 bits of a number, as a signed number."""
    return ((number + (wide(1) << 31)) & ((wide(1) << 32) - 1)) - (wide(1) << 31)


@inner
def _load(seats: Seats, seat: int, base: int, entries: Entries) -> int:
    """Read a buffer, without what expired before this step; return the number of messages."""
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
    """Write a buffer back, into a larger region or cut if need be; return whether it was cut."""
    row = SEAT * seat
    k, kind = wide(seats.ints[row + K]), wide(seats.ints[row + KIND])
    # Take a larger region if the class does not fit any more.
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
    # Cut what does not fit into the largest class, and raise the threshold.
    worst_score, worst = NOTHING, wide(-1)
    if count > size:
        keep = size * 7 // 10
        worst_score, worst = kth_of(entries, begin, end, keep)
        seats.floats[SEAT_FLOATS * seat + THETA] = worst_score
    # Write the messages that are kept, and find the oldest result.
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


@inlined
def _release(seats: Seats, seat: int) -> None:
    """Return the buffer of a seat to the arena."""
    row = SEAT * seat
    if seats.ints[row + KIND] >= 0:
        give_back(
            seats.region_i, seats.free, wide(seats.ints[row + KIND]), wide(seats.ints[row + AT])
        )
    seats.ints[row + KIND], seats.ints[row + COUNT] = EMPTY, 0
    seats.waits[seat] = NEVER


@lean_kernel
def release(seats: Seats, which: Int32s) -> None:
    """Return the buffers of seats to the arena."""
    for n in range(len(which)):
        _release(seats, wide(which[n]))


@lean_kernel
def fill(
    seats: Seats, which: Int32s, ks: Int32s, thetas: Floats, starts: Int64s, numbers: Int64s,
    scores: Floats, entries: Entries, done: int,
) -> tuple[int, int]:  # fmt: skip
    """Give seats `which` new buffers, from number `done` on; return the next, and what must grow.

    The messages of the n-th seat are those at `starts[n] : starts[n + 1]`, oldest first, all of
    them in the window.
    """
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
    outcomes: SeatOutcomes,
    done: int,
    written: int,
) -> tuple[int, int, int]:
    """Take the seats of `found` through a step, from number `done` on.

    `base` is the number of the message from which `clock` counts. `found` has the seats, the event
    before which each ends, and the messages that finders found, numbered like those of `clock`.
    `entries` is scratch space for one seat. Changes of results go to `changes` from place `written`
    on, with owners as `subs`; what becomes of each seat goes to `outcomes`.

    Returns the seat to go on with, the number of changes written, and what must grow first.
    """
    events = len(clock.first)
    for n in range(done, len(found.seats)):
        seat, last = wide(found.seats[n]), wide(found.until[n])
        row = SEAT * seat
        outcomes.event[n], outcomes.raised[n], outcomes.starts[n + 1] = (
            events,
            0,
            outcomes.starts[n],
        )
        if seats.ints[row + KIND] < 0:
            continue
        k, theta = wide(seats.ints[row + K]), seats.floats[SEAT_FLOATS * seat + THETA]
        # Make sure of room before anything is changed.
        if seats.scalars[END] + LARGEST > len(seats.region_i):
            return n, written, MORE_ROOM
        if outcomes.starts[n] + k > len(outcomes.numbers):
            return n, written, MORE_RESULTS
        if found.starts[n + 1] - found.starts[n] + LARGEST > len(entries.numbers):
            return n, written, MORE_ENTRIES
        # Load the buffer, and append the messages found that reach its threshold, each once.
        count = _load(seats, seat, base, entries)
        for m in range(found.starts[n], found.starts[n + 1]):
            number, score = found.numbers[m], found.scores[m]
            again = count > 0 and entries.numbers[count - 1] == number
            if score >= theta and not again:
                entries.numbers[count], entries.scores[count] = number, score
                entries.was[count] = 0
                count += 1
        # Go through the events, up to the one with which the seat ends or must be parked.
        walked = walk(
            clock, changes, written, wide(seats.ints[row + OWNER]), entries, count, k,
            theta == NOTHING, wide(0), last, False,
        )  # fmt: skip
        if walked.written == NO_ROOM:
            return n, written, MORE_CHANGES
        written = walked.written
        # Release a seat that ended or is parked, and keep its results; store any other.
        if walked.event < events:
            outcomes.event[n] = walked.event
            to = outcomes.starts[n]
            for m in range(walked.begin, walked.end):
                if entries.was[m] != 0:
                    outcomes.numbers[to], outcomes.scores[to] = (
                        entries.numbers[m],
                        entries.scores[m],
                    )
                    to += 1
            outcomes.starts[n + 1] = to
            _release(seats, seat)
        else:
            outcomes.raised[n] = _store(
                seats, seat, base, entries, walked.begin, walked.end, walked.kth_score, walked.kth
            )
    return len(found.seats), written, DONE


def room_for(count: int) -> Entries:
    """Room for `count` entries."""
    return Entries(
        np.empty(count, np.int32),
        np.empty(count),
        np.empty(count, np.uint8),
        np.empty(count, np.int32),
        np.empty(count),
    )
