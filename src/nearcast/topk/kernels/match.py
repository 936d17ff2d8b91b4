"""Who is affected by a message: postings filtered sixteen at a time, survivors verified exactly."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import LANES, lowest, prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s, Int64s
from nearcast.geo.kernels import planar_distance
from nearcast.topk.kernels.evaluate import score_by_scale, weighed
from nearcast.topk.kernels.lanes import STEPS, lane_of, reached
from nearcast.topk.kernels.layout import (
    AFFECTED,
    ALPHA,
    CANDIDATES,
    COUNT,
    FOUND,
    INLINE,
    LIST,
    OFFSET,
    POSTING_PLANES,
    PSUB,
    SIZE,
    SQUARED,
    SUB,
    TERM_COUNT,
    TERMS,
    THETA,
    VISITED,
    TopkScratch,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.message import slot_of_term
from nearcast.topk.kernels.postings import has_scale, term_of


@inlined
def _ask_for_rows(state: TopkState, starts: Int64s, terms: Int32s, message: int) -> None:
    for n in range(starts[message], starts[message + 1]):
        term = wide(terms[n])
        prefetch(state.idf, term)
        prefetch(state.posts, term * LIST)
        prefetch(state.lists, term * LIST)


@inlined
def _ask_for_postings(state: TopkState, starts: Int64s, terms: Int32s, message: int) -> None:
    for n in range(starts[message], starts[message + 1]):
        row = wide(terms[n]) * LIST
        if state.posts[row + SIZE] >= 0:
            at = 2 * wide(state.posts[row + OFFSET])
            size = wide(1) << state.posts[row + SIZE]
            for plane in range(POSTING_PLANES):
                prefetch(state.post_s, at + plane * size)


@inlined
def ask_for_lists(
    state: TopkState, starts: Int64s, terms: Int32s, message: int, begin: int, end: int
) -> None:
    """Ask for what the message after this one reads first, while this one is being matched."""
    if message == begin:
        for early in range(begin, min(begin + 2, end)):
            _ask_for_rows(state, starts, terms, early)
        _ask_for_postings(state, starts, terms, begin)
    if message + 1 < end:
        _ask_for_postings(state, starts, terms, message + 1)
    if message + 2 < end:
        _ask_for_rows(state, starts, terms, message + 2)


@inlined
def affected_by(
    state: TopkState, work: TopkScratch, x: float, y: float, squared: float, length: int, table: int
) -> int:
    """Find the subscriptions whose thresholds the message at hand reaches, and its scores."""
    west, south, diagonal = state.measures[0], state.measures[1], state.measures[2]
    x32 = np.float32((x - west) / diagonal * STEPS)
    y32 = np.float32((y - south) / diagonal * STEPS)
    found, affected = 0, 0
    for n in range(length):
        term = wide(work.terms[n])
        row = term * LIST
        count = wide(state.posts[row + COUNT])
        if count == 0:
            continue
        state.scalars[VISITED] += count
        size = wide(1) << state.posts[row + SIZE]
        start = wide(state.posts[row + OFFSET])
        a, b = work.likeness[n], work.rest[n]
        for at in range(0, count, LANES):
            lanes = reached(state.post_s, 2 * start + at, size, x32, y32, a, b)
            if count - at < LANES:
                lanes &= (1 << (count - at)) - 1
            while lanes != 0:
                sub = wide(state.post_i[start + PSUB * size + at + lowest(lanes)])
                lanes &= lanes - 1
                work.found[2 * found], work.found[2 * found + 1] = sub, term
                prefetch(state.sub_f, SUB * sub)
                found += 1
            if found > FOUND - LANES:
                affected = _verify(state, work, x, y, squared, length, table, found, affected)
                found = 0
    affected = _verify(state, work, x, y, squared, length, table, found, affected)
    state.scalars[AFFECTED] += affected
    return affected


@inlined
def _dot_slowly(state: TopkState, work: TopkScratch, sub: int, table: int) -> tuple[float, int]:
    """The product of both vectors, and the first term of both; for many terms on either side."""
    dot, first = 0.0, wide(-1)
    for m in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        wanted = term_of(state, sub, m)
        at = slot_of_term(work, wanted, table)
        if at >= 0:
            dot += work.key_idfs[at] * work.key_weights[at]
            first = max(first, wanted)
    return dot, first


@inner
def _verify(
    state: TopkState,
    work: TopkScratch,
    x: float,
    y: float,
    squared: float,
    length: int,
    table: int,
    found: int,
    affected: int,
) -> int:
    """Score the subscriptions found so far; keep those that reach their thresholds, each once.

    Half of them do, and no processor guesses which: so nothing here branches by that.
    """
    diagonal = state.measures[2]
    for n in range(found):
        sub, term = wide(work.found[2 * n]), wide(work.found[2 * n + 1])
        row = SUB * sub
        dot, first = 0.0, wide(-1)
        if length <= LANES and state.sub_i[2 * row + TERM_COUNT] <= INLINE:
            for m in range(INLINE):
                wanted = wide(state.sub_i[2 * row + TERMS + m])
                lane = lane_of(work.terms, 0, wanted)
                dot += work.products[lane]  # 0 where the message does not have it
                first = max(first, wanted if lane < LANES else wide(-1))
        else:
            dot, first = _dot_slowly(state, work, sub, table)
        distance = planar_distance(state.sub_f[row + X], state.sub_f[row + Y], x, y)
        alpha = state.sub_f[row + ALPHA]
        score = weighed(alpha, dot, state.sub_f[row + SQUARED], squared, distance, diagonal)
        if has_scale(alpha):
            score = score_by_scale(state, sub, dot, squared, x, y)
        reaches = (first == term) & (score >= state.sub_f[row + THETA])
        work.affected[affected], work.scores[affected] = sub, score
        affected += wide(reaches)
        prefetch(state.seat_f, row if reaches else wide(0))
    state.scalars[CANDIDATES] += found
    return affected
