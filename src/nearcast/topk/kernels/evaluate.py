"""A subscription against the whole window: the best messages, from the circles of its terms.

A score that enough messages are known to reach (`floor`) is the first threshold; it rises as better
ones are found. The bound of `postings` holds here too, with the parts of message and query
exchanged; a message with several of the terms counts at the first.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import LANES, lowest, prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s
from nearcast.geo.kernels import planar_distance
from nearcast.topk.kernels.floor import entries_between, floor_of
from nearcast.topk.kernels.lanes import STEPS, lane_of, may_score
from nearcast.topk.kernels.layout import (
    ALPHA,
    FIRST,
    FIRST_TERM,
    LENGTH,
    LIST,
    MESSAGE,
    NEXT,
    NOTHING,
    OFFSET,
    OLDEST,
    SCANNED,
    SIZE,
    SQUARED,
    SUB,
    TERM_COUNT,
    TopkScratch,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.order import before, keep_best
from nearcast.topk.kernels.postings import has_scale, rest_of, term_of
from nearcast.topk.kernels.window import SLACK, message_row
from nearcast.topk.score import great_circle_m, scaled
from nearcast.topk.score import weighed as _weighed

weighed = inlined(_weighed)
_scaled = inlined(scaled)
_great_circle_m = inlined(great_circle_m)

_AHEAD = 6
_STRETCH = 1024  # entries, after which the threshold that has risen counts


@inner
def score_by_scale(
    state: TopkState, sub: int, dot: float, squared: float, x: float, y: float
) -> float:
    """The score of a message at (x, y) for a subscription with a scale."""
    row = SUB * sub
    metres = _great_circle_m(state.sub_f[row + X], state.sub_f[row + Y], x, y)
    alpha, own = abs(state.sub_f[row + ALPHA]), state.sub_f[row + SQUARED]
    return _scaled(alpha, dot, own, squared, metres, state.scales[sub])


@inlined
def _dot_slowly(state: TopkState, sub: int, start: int, length: int) -> tuple[float, int]:
    """The product of both vectors, and the first term of both, however they lie."""
    capacity = len(state.message_terms)
    dot, first = 0.0, wide(-1)
    for n in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        wanted = term_of(state, sub, n)
        at = start
        for m in range(length):
            found = state.message_terms[at] == wanted
            at = at + 1 if at + 1 < capacity else 0
            if found:
                idf = state.idf[wanted]
                count = wide(state.message_terms[at]) if m + 1 < length else wide(0)
                dot += idf * (max(-count, 1) * idf)
                first = max(first, wanted)
                break
    return dot, first


@inlined
def _dot(state: TopkState, sub: int, start: int, length: int) -> tuple[float, int]:
    """The same for a message of few terms in a row, without branches to guess."""
    dot, first = 0.0, wide(-1)
    for n in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        wanted = term_of(state, sub, n)
        lane = lane_of(state.message_terms, start, wanted)
        has = lane < length
        idf = state.idf[wanted]
        count = wide(state.message_terms[start + lane + 1]) if lane + 1 < length else wide(0)
        dot += idf * (max(-count, 1) * idf) if has else 0.0
        first = max(first, wanted if has else wide(-1))
    return dot, first


@inlined
def score_at(state: TopkState, sub: int, number: int, term: int) -> float:
    """Score a message of the window, or give NOTHING if `term` is not the first that both have."""
    row = message_row(state, number) * MESSAGE
    start, length = wide(state.message_i[row + FIRST_TERM]), wide(state.message_i[row + LENGTH])
    if length <= LANES and start + LANES <= len(state.message_terms):
        dot, first = _dot(state, sub, start, length)
    else:
        dot, first = _dot_slowly(state, sub, start, length)
    if first != term:
        return NOTHING
    record = SUB * sub
    x, y, squared = state.message_f[row + X], state.message_f[row + Y], state.message_f[row + 2]
    alpha = state.sub_f[record + ALPHA]
    if has_scale(alpha):
        return score_by_scale(state, sub, dot, squared, x, y)
    distance = planar_distance(state.sub_f[record + X], state.sub_f[record + Y], x, y)
    return weighed(alpha, dot, state.sub_f[record + SQUARED], squared, distance, state.measures[2])


@inlined
def _ask_for_message(state: TopkState, work: TopkScratch, n: int, count: int) -> None:
    """Ask for the row of the n-th message found, and for the terms of one whose row is here."""
    if n < count:
        row = message_row(state, wide(work.found[n])) * MESSAGE
        prefetch(state.message_i, row)
        prefetch(state.message_f, row)
    if _AHEAD <= n < count + _AHEAD:
        row = message_row(state, wide(work.found[n - _AHEAD])) * MESSAGE
        terms = wide(state.message_i[row + FIRST_TERM])
        prefetch(state.message_terms, terms)
        prefetch(state.message_terms, min(terms + 16, len(state.message_terms) - 1))


@inlined
def evaluate(state: TopkState, work: TopkScratch, sub: int, wanted: int) -> int:
    """Find the `wanted` best messages of the window, in no order, and give their number.

    They are at the front of `best_scores` and `best_numbers`. Fewer are found only if no others
    have a term of the query; if exactly as many, the worst is the last of them.
    """
    since, until = wide(state.scalars[FIRST]), wide(state.scalars[NEXT])
    return evaluate_between(
        state, work, sub, wanted, since, until, NOTHING, work.best_scores, work.best_numbers
    )


@inner
def evaluate_between(
    state: TopkState, work: TopkScratch, sub: int, wanted: int, since: int, until: int, low: float,
    scores: Floats, numbers: Int32s,
) -> int:  # fmt: skip
    """Find the best messages from the number `since` on and before `until` that score `low`.

    As many as are `wanted` are at the front of `scores` and `numbers` afterwards, in no order;
    there must be room for half as many again, or -1 is the answer. Fewer are found only if no
    others have a term of the query and score `low`. `work.found` is used as scratch.
    """
    # The place of the subscription in the steps that postings are rounded to.
    row = SUB * sub
    alpha = abs(state.sub_f[row + ALPHA])
    by_place = np.float32(0.0 if has_scale(state.sub_f[row + ALPHA]) else alpha)
    x = np.float32((state.sub_f[row + X] - state.measures[0]) / state.measures[2] * STEPS)
    y = np.float32((state.sub_f[row + Y] - state.measures[1]) / state.measures[2] * STEPS)
    norm = np.sqrt(state.sub_f[row + SQUARED])
    # Start from a score that enough messages are known to reach.
    found, low_number = 0, wide(-1)
    low = max(low, floor_of(state, work, sub, wanted, since, until, scores, numbers))
    # Go through the terms of the query.
    terms = state.sub_i[2 * row + TERM_COUNT]
    done = wide(1) << 40  # terms are taken from the highest number down
    for _ in range(terms):
        term = wide(-1)
        for n in range(terms):
            other = term_of(state, sub, n)
            if term < other < done:
                term = other
        done = term
        at_list = term * LIST
        skipped, left = entries_between(state, term, since, until)
        if left <= skipped:
            continue
        # Raise the threshold by what was found with earlier terms.
        if found >= wanted:
            keep_best(scores, numbers, 0, found, wanted)
            found = wanted
            low, low_number = scores[wanted - 1], wide(numbers[wanted - 1])
        # What the term, and all later terms together, can add to a score.
        weight = np.float32((1.0 - alpha) * state.idf[term] / norm)
        rest = np.float32((1.0 - alpha) * rest_of(state, sub, term))
        size = wide(1) << state.lists[at_list + SIZE]
        start, oldest = wide(state.lists[at_list + OFFSET]), state.lists[at_list + OLDEST]
        state.scalars[SCANNED] += left - skipped
        while left > skipped:
            # From the newest back: of equal scores the newer counts, so the older fall short.
            end = (oldest + left) & (size - 1)
            if end == 0:
                end = size
            stretch = min(min(end, left - skipped), _STRETCH)
            at = start + end - stretch
            theta = np.float32((low - alpha - SLACK) * STEPS)
            # Collect the messages of a stretch whose bound reaches the threshold.
            flagged = 0
            for back in range(LANES, stretch + LANES, LANES):
                begin, lanes = stretch - back, wide((1 << LANES) - 1)
                if begin < 0:
                    begin, lanes = wide(0), (wide(1) << (begin + LANES)) - 1
                lanes &= may_score(
                    state.list_i, at + begin, size, x, y, weight, rest, theta, by_place
                )
                while lanes != 0:
                    work.found[flagged] = state.list_i[at + begin + lowest(lanes)]
                    lanes &= lanes - 1
                    flagged += 1
            # Score them exactly; their memory is asked for some messages ahead.
            for n in range(min(flagged, 2 * _AHEAD)):
                _ask_for_message(state, work, n, flagged)
            for n in range(flagged):
                _ask_for_message(state, work, n + 2 * _AHEAD, flagged)
                number = wide(work.found[n])
                score = score_at(state, sub, number, term)
                if score > NOTHING and before(score, number, low, low_number):
                    if found == len(scores):
                        return -1
                    scores[found], numbers[found] = score, number
                    found += 1
                    # Half as many again as are wanted: keep the best, and raise the threshold.
                    if found == wanted + wanted // 2 + 1:
                        keep_best(scores, numbers, 0, found, wanted)
                        found = wanted
                        low, low_number = scores[wanted - 1], wide(numbers[wanted - 1])
            left -= stretch
    if found >= wanted:
        keep_best(scores, numbers, 0, found, wanted)
        found = wanted
    return found
