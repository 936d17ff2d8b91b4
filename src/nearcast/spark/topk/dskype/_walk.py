"""Follow the k best of some messages through the events of a step, and write what each changes.

Messages are in the order of their arrival, which is also that of their expiry. Buffer shards walk
through a step with the messages that they buffer and those that finders found, aggregation with
those that message workers answered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s
from nearcast.spark.topk.dskype.clock import StepClock
from nearcast.topk.kernels.layout import NOTHING
from nearcast.topk.kernels.order import before, keep_best

NO_ROOM = -1
RESCORED = 2  # marks an entry that is among the k best so far, but had another score


class BufferChanges(NamedTuple):
    """Changes of results, in flat columns."""

    events: Int32s
    subs: Int32s
    numbers: Int32s
    scores: Floats  # NOTHING where the message leaves the results


class Entries(NamedTuple):
    """Messages of one subscription, oldest first."""

    numbers: Int32s
    scores: Floats
    was: npt.NDArray[np.uint8]  # whether each is among the k best so far; see RESCORED
    some_numbers: Int32s  # scratch space of the same length, to choose the best
    some_scores: Floats


class WalkResult(NamedTuple):
    """Where a walk ended."""

    written: int  # the length of `BufferChanges`, or NO_ROOM
    event: int
    begin: int  # entries from here
    end: int  # to before here are alive
    kth_score: float
    kth: int  # -1 while there are fewer than k


@inlined
def kth_of(entries: Entries, begin: int, end: int, k: int) -> tuple[float, int]:
    """Score and number of the k-th best entry in `begin:end`; NOTHING and -1 if there are fewer."""
    if end - begin < k:
        return NOTHING, wide(-1)
    for n in range(begin, end):
        entries.some_numbers[n - begin] = entries.numbers[n]
        entries.some_scores[n - begin] = entries.scores[n]
    keep_best(entries.some_scores, entries.some_numbers, 0, end - begin, k)
    return entries.some_scores[k - 1], wide(entries.some_numbers[k - 1])


@inlined
def _following(
    clock: StepClock, entries: Entries, count: int, begin: int, end: int, last: int
) -> int:
    """The next event that may change results: a message arrives, or the oldest result expires."""
    event = wide(last)
    if end < count:
        event = min(event, wide(clock.arrives[entries.numbers[end] - clock.came]))
    n = begin
    while n < end and entries.was[n] == 0:
        n += 1
    if n < end and entries.numbers[n] < len(clock.expires):
        event = min(event, wide(clock.expires[entries.numbers[n]]))
    return event


@inlined
def _write(
    changes: BufferChanges, at: int, event: int, sub: int, entries: Entries, n: int, enters: bool
) -> None:
    """Write that an entry enters or leaves the results, and mark it."""
    changes.events[at], changes.subs[at] = event, sub
    changes.numbers[at] = entries.numbers[n]
    changes.scores[at] = entries.scores[n] if enters else NOTHING
    entries.was[n] = enters


@inlined
def _worst_before(
    entries: Entries, begin: int, end: int, score: float, number: int
) -> tuple[int, int]:
    """Places of the worst entry that ranks before a given one, and of that one; -1 for none."""
    worst, given = wide(-1), wide(-1)
    worst_score, worst_number = NOTHING, wide(-1)
    for n in range(begin, end):
        other_score, other = entries.scores[n], wide(entries.numbers[n])
        if other == number:
            given = wide(n)
        elif before(other_score, other, score, number) and (
            worst < 0 or before(worst_score, worst_number, other_score, other)
        ):
            worst, worst_score, worst_number = wide(n), other_score, other
    return worst, given


@inlined
def _best_after(entries: Entries, begin: int, end: int, score: float, number: int) -> int:
    """The place of the best entry that ranks after a given one, or -1."""
    best, best_score, best_number = wide(-1), NOTHING, wide(-1)
    for n in range(begin, end):
        other_score, other = entries.scores[n], wide(entries.numbers[n])
        if before(score, number, other_score, other) and (
            best < 0 or before(other_score, other, best_score, best_number)
        ):
            best, best_score, best_number = wide(n), other_score, other
    return best


@inner
def walk(
    clock: StepClock,
    changes: BufferChanges,
    written: int,
    sub: int,
    entries: Entries,
    count: int,
    k: int,
    complete: bool,
    start: int,
    last: int,
    afresh: bool,
) -> WalkResult:
    """Walk through events `start` to before `last`, and write what changes for `sub`.

    `clock` has the window after each event. The first `count` of `entries` are the candidates,
    oldest first, numbered like the messages of `clock`; `entries.was` marks the results so far, and
    is kept up to date. Changes are written to `changes` from place `written` on.

    `complete` means that no other message can be among the k best. Otherwise the walk stops at the
    first event that leaves fewer than k candidates, and what that event changes is not written.
    With `afresh` the first event compares the marked results with the k best from scratch, and
    writes for one that is RESCORED and stays that it leaves and enters; without it the walk goes on
    from the results before the step, and `start` is not used.
    """
    begin, end, event = wide(0), wide(0), wide(start)
    kth_score, kth = NOTHING, wide(-1)
    # Begin with the messages from before the step, and find the k-th result among them.
    if not afresh:
        members = 0
        while end < count and entries.numbers[end] < clock.came:
            number = wide(entries.numbers[end])
            if entries.was[end] != 0:
                members += 1
                if kth < 0 or before(kth_score, kth, entries.scores[end], number):
                    kth_score, kth = entries.scores[end], number
            end += 1
        if members < k:
            kth_score, kth = NOTHING, wide(-1)
        event = _following(clock, entries, count, begin, end, last)
    while event < last:
        # Slide the window: entries arrived:end came, begin:alive expired, `lost` of them results.
        alive, arrived, lost = begin, end, 0
        while end < count and entries.numbers[end] < clock.next[event]:
            end += 1
        while alive < end and entries.numbers[alive] < clock.first[event]:
            lost += entries.was[alive]
            alive += 1
        if end - alive < k and not complete:
            return WalkResult(written, event, begin, end, kth_score, kth)
        # Nothing changes if no result expired and no arrival ranks before the k-th.
        same = lost == 0 and kth >= 0 and not afresh
        for n in range(arrived, end):
            same &= before(kth_score, kth, entries.scores[n], wide(entries.numbers[n]))
        if not same and written + 2 > len(changes.events):
            return WalkResult(NO_ROOM, event, begin, end, kth_score, kth)
        # A single arrival or expiry is the common case, and needs no selection of the k best.
        one = not afresh and kth >= 0 and lost + end - arrived == 1
        if not same and one and lost == 0:  # the arrival displaces the k-th
            worst, displaced = _worst_before(entries, alive, end, kth_score, kth)
            _write(changes, written, event, sub, entries, arrived, True)
            _write(changes, written + 1, event, sub, entries, displaced, False)
            kth_score, kth = entries.scores[worst], wide(entries.numbers[worst])
            written += 2
        elif not same and one:  # the best of the others replaces the expired result
            best = _best_after(entries, alive, end, kth_score, kth)
            for n in range(begin, alive):
                if entries.was[n] != 0:
                    _write(changes, written, event, sub, entries, n, False)
            written += 1
            kth_score, kth = NOTHING, wide(-1)
            if best >= 0:
                _write(changes, written, event, sub, entries, best, True)
                kth_score, kth = entries.scores[best], wide(entries.numbers[best])
                written += 1
        elif not same:  # select the k best again, and write every difference
            afresh = False
            kth_score, kth = kth_of(entries, alive, end, k)
            for n in range(begin, end):
                score, number = entries.scores[n], wide(entries.numbers[n])
                now = n >= alive and not before(kth_score, kth, score, number)
                rescored = now and entries.was[n] == RESCORED
                if rescored or now != (entries.was[n] != 0):
                    if written + 2 > len(changes.events):
                        return WalkResult(NO_ROOM, event, begin, end, kth_score, kth)
                    if rescored:
                        _write(changes, written, event, sub, entries, n, False)
                        written += 1
                    _write(changes, written, event, sub, entries, n, now)
                    written += 1
        begin = alive
        event = _following(clock, entries, count, begin, end, last)
    # Drop what expired after the last event that changed anything.
    while last > 0 and begin < end and entries.numbers[begin] < clock.first[last - 1]:
        begin += 1
    return WalkResult(written, event, begin, end, kth_score, kth)
