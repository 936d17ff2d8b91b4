"""A score that enough messages are known to reach, before any of them is scored.

By one term that it shares with a query a message scores at least what this term and its place give
it; other terms add to that. The newest messages of a term are dealt to *peaks*, sixteen at a time,
and each peak keeps what the best of its messages is known to score. Peaks are of different
messages: if n of them reach a value, n messages do.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import LANES
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s
from nearcast.topk.kernels.lanes import STEPS, raise_peaks
from nearcast.topk.kernels.layout import (
    ALPHA,
    COUNT,
    FIRST,
    LIST,
    NEXT,
    NOTHING,
    OFFSET,
    OLDEST,
    PEAKS,
    SIZE,
    SQUARED,
    SUB,
    TERM_COUNT,
    TopkScratch,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.order import keep_best
from nearcast.topk.kernels.postings import has_scale, term_of

_FEWEST = 256  # peaks; of four times as many as are wanted, most of the best have one of their own
_TURNS = 32  # messages a peak: more would cost more than the better floor saves
_BELOW = 1e-4
"""What rounding a place down and a weight up by two steps can add to a score, with a margin."""
_LOWEST = np.float32(-1e9)


@inlined
def entries_before(state: TopkState, term: int, number: int) -> int:
    """How many entries of a circle are of messages before one."""
    at_list = term * LIST
    start, oldest = wide(state.lists[at_list + OFFSET]), wide(state.lists[at_list + OLDEST])
    last = (wide(1) << state.lists[at_list + SIZE]) - 1
    low, high = wide(0), wide(state.lists[at_list + COUNT])
    while low < high:
        middle = (low + high) // 2
        if state.list_i[start + ((oldest + middle) & last)] < number:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def entries_between(state: TopkState, term: int, since: int, until: int) -> tuple[int, int]:
    """Which entries of a circle are of messages from one number on and before another."""
    first, end = wide(0), wide(state.lists[term * LIST + COUNT])
    if end > 0 and until < state.scalars[NEXT]:
        end = entries_before(state, term, until)
    if end > 0 and since > state.scalars[FIRST]:
        first = entries_before(state, term, since)
    return first, end


@inner
def floor_of(
    state: TopkState,
    work: TopkScratch,
    sub: int,
    wanted: int,
    since: int,
    until: int,
    scores: Floats,
    numbers: Int32s,
) -> float:
    """Give a score that `wanted` messages from `since` on and before `until` reach, or NOTHING.

    `scores` and `numbers` are scratch, and so is `work.peaks`.
    """
    floor = NOTHING
    if 2 * wanted > PEAKS or len(scores) < PEAKS:
        return floor
    # Choose how many peaks to deal the messages to: a power of two.
    peaks = wide(_FEWEST)
    while peaks < min(4 * wanted, PEAKS):
        peaks *= 2
    # The place of the subscription in the steps that postings are rounded to.
    row = SUB * sub
    alpha = abs(state.sub_f[row + ALPHA])
    sure = 0.0 if has_scale(state.sub_f[row + ALPHA]) else alpha  # what a place gives, less its way
    x = np.float32((state.sub_f[row + X] - state.measures[0]) / state.measures[2] * STEPS)
    y = np.float32((state.sub_f[row + Y] - state.measures[1]) / state.measures[2] * STEPS)
    for n in range(state.sub_i[2 * row + TERM_COUNT]):
        term = term_of(state, sub, n)
        # A term gives a floor only if enough messages have it; the newest will do.
        skipped, left = entries_between(state, term, since, until)
        if left - skipped < wanted + LANES:
            continue
        skipped = max(skipped, left - peaks * _TURNS)
        at_list = term * LIST
        weight = (1.0 - alpha) * state.idf[term] / np.sqrt(state.sub_f[row + SQUARED])
        size = wide(1) << state.lists[at_list + SIZE]
        start, oldest = wide(state.lists[at_list + OFFSET]), wide(state.lists[at_list + OLDEST])
        # Raise the peaks, from the newest stretch of the circle back.
        for peak in range(peaks):
            work.peaks[peak] = _LOWEST
        while left > skipped:
            end = (oldest + left) & (size - 1)
            if end == 0:
                end = size
            stretch = min(end, left - skipped)
            for m in range(0, stretch - LANES + 1, LANES):
                raise_peaks(
                    state.list_i, start + end - stretch + m, size, work.peaks, m & (peaks - 1),
                    x, y, np.float32(weight), np.float32(sure),
                )  # fmt: skip
            left -= stretch
        # The floor is what the last of the wanted peaks has reached.
        for peak in range(peaks):
            scores[peak] = work.peaks[peak]
        keep_best(scores, numbers, 0, peaks, wanted)
        floor = max(floor, scores[wanted - 1] / STEPS + sure - _BELOW)
    return floor
