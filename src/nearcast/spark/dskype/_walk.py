"""The k best of some messages through the events of a step, and what changes with each.

The messages stand in the order of their arrival, which is that of their expiry. Homes walk through
a step with what they buffer and what was found, aggregation with what message workers answered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, inner_inlined
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s
from nearcast.spark.dskype.clock import StepClock
from nearcast.topk.kernels.layout import NOTHING
from nearcast.topk.kernels.order import before, keep_best

NO_ROOM = -1


class BufferChanges(NamedTuple):
    """What came and went: a score below every other says that it went."""

    events: Int32s
    subs: Int32s
    numbers: Int32s
    scores: Floats


class Entries(NamedTuple):
    """Messages of one subscription, by age; whether each was among its k best before."""

    numbers: Int32s
    scores: Floats
    was: npt.NDArray[np.uint8]
    some_numbers: Int32s  # as long: for choosing among them
    some_scores: Floats


class Walked(NamedTuple):
    """Where a walk ended: the length of `BufferChanges`, the event, those alive, and the k-th."""

    written: int
    event: int
    begin: int
    end: int
    kth_score: float
    kth: int  # -1 while there are fewer than k


@inner_inlined
def kth_of(entries: Entries, begin: int, end: int, k: int) -> tuple[float, int]:
    """The k-th best of the entries between two places; nothing if there are fewer."""
    if end - begin < k:
        return NOTHING, wide(-1)
    for n in range(begin, end):
        entries.some_numbers[n - begin] = entries.numbers[n]
        entries.some_scores[n - begin] = entries.scores[n]
    keep_best(entries.some_scores, entries.some_numbers, 0, end - begin, k)
    return entries.some_scores[k - 1], wide(entries.some_numbers[k - 1])


@inner_inlined
def _following(
    clock: StepClock, entries: Entries, count: int, begin: int, end: int, last: int
) -> int:
    """The next event that may change anything: a message comes, or the oldest of the best goes."""
    event = wide(last)
    if end < count:
        event = min(event, wide(clock.arrives[entries.numbers[end] - clock.came]))
    n = begin
    while n < end and entries.was[n] == 0:
        n += 1
    if n < end and entries.numbers[n] < len(clock.expires):
        event = min(event, wide(clock.expires[entries.numbers[n]]))
    return event


@inner_inlined
def _write(
    changes: BufferChanges, at: int, event: int, sub: int, entries: Entries, n: int, enters: bool
) -> None:
    """Write that an entry comes or goes, and note it."""
    changes.events[at], changes.subs[at] = event, sub
    changes.numbers[at] = entries.numbers[n]
    changes.scores[at] = entries.scores[n] if enters else NOTHING
    entries.was[n] = enters


@inner_inlined
def _worst_before(
    entries: Entries, begin: int, end: int, score: float, number: int
) -> tuple[int, int]:
    """The worst entry that ranks before a given one, and the given one; -1 where there is none."""
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


@inner_inlined
def _best_after(entries: Entries, begin: int, end: int, score: float, number: int) -> int:
    """The best entry that ranks after a given one, or -1."""
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
) -> Walked:
    """Walk from an event to the one before `last`, and write what changes.

    `complete` says that there is nothing else that might be among the best. Otherwise the walk ends
    at the event after which fewer than k are left; what that event changes is not written. Without
    `afresh` the walk starts with those that were there before the step as they were.
    """
    begin, end, event = wide(0), wide(0), wide(start)
    kth_score, kth = NOTHING, wide(-1)
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
        alive, arrived, lost = begin, end, 0
        while end < count and entries.numbers[end] < clock.next[event]:
            end += 1
        while alive < end and entries.numbers[alive] < clock.first[event]:
            lost += entries.was[alive]
            alive += 1
        if end - alive < k and not complete:
            return Walked(written, event, begin, end, kth_score, kth)
        same = lost == 0 and kth >= 0 and not afresh
        for n in range(arrived, end):
            same &= before(kth_score, kth, entries.scores[n], wide(entries.numbers[n]))
        if not same and written + 2 > len(changes.events):
            return Walked(NO_ROOM, event, begin, end, kth_score, kth)
        one = not afresh and kth >= 0 and lost + end - arrived == 1
        if not same and one and lost == 0:  # it displaces the k-th
            worst, displaced = _worst_before(entries, alive, end, kth_score, kth)
            _write(changes, written, event, sub, entries, arrived, True)
            _write(changes, written + 1, event, sub, entries, displaced, False)
            kth_score, kth = entries.scores[worst], wide(entries.numbers[worst])
            written += 2
        elif not same and one:  # the best of the others takes the place of who has expired
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
        elif not same:
            afresh = False
            kth_score, kth = kth_of(entries, alive, end, k)
            for n in range(begin, end):
                score, number = entries.scores[n], wide(entries.numbers[n])
                now = n >= alive and not before(kth_score, kth, score, number)
                if now != (entries.was[n] != 0):
                    if written == len(changes.events):
                        return Walked(NO_ROOM, event, begin, end, kth_score, kth)
                    _write(changes, written, event, sub, entries, n, now)
                    written += 1
        begin = alive
        event = _following(clock, entries, count, begin, end, last)
    while last > 0 and begin < end and entries.numbers[begin] < clock.first[last - 1]:
        begin += 1
    return Walked(written, event, begin, end, kth_score, kth)
