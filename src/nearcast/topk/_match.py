"""Who is affected by a message: postings filtered sixteen at a time, survivors verified exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast._jit import inner, inner_inlined
from nearcast.geo.kernels import planar_distance
from nearcast.index.rarest_term._lanes import lowest, prefetch
from nearcast.topk._evaluate import weighed
from nearcast.topk._layout import (
    AFFECTED,
    ALPHA,
    CANDIDATES,
    COUNT,
    FLAGS,
    FOUND,
    INLINE,
    LIST,
    OFFSET,
    PALPHA,
    POSTING_PLANES,
    PREST,
    PSUB,
    PTHETA,
    PWEIGHT,
    PX,
    PY,
    SIZE,
    SQUARED,
    SUB,
    TERM_COUNT,
    TERMS,
    THETA,
    VISITED,
    Bytes,
    Int32s,
    Int64s,
    Shorts,
    State,
    Work,
    X,
    Y,
)
from nearcast.topk._message import slot_of_term
from nearcast.topk._postings import STEPS, THETA_ZERO
from nearcast.topk._wide import unsigned, wide

_ZERO, _TWO = np.float32(0.0), np.float32(2.0)
_STEPS, _THETA_ZERO = np.float32(STEPS), np.float32(THETA_ZERO)


@inner
def _flag(
    planes: Shorts, flags: Bytes, at: int, size: int, count: int, x: Any, y: Any, a: Any, b: Any
) -> None:
    """Mark the postings of a stretch that may reach their thresholds."""
    xs, ys = unsigned(at + PX * size), unsigned(at + PY * size)
    thetas, alphas = unsigned(at + PTHETA * size), unsigned(at + PALPHA * size)
    weights, rests = unsigned(at + PWEIGHT * size), unsigned(at + PREST * size)
    for place in range(count):
        n = unsigned(place)
        dx, dy = np.float32(planes[xs + n]) - x, np.float32(planes[ys + n]) - y
        u = a * np.float32(planes[weights + n]) + b * np.float32(planes[rests + n])
        u += _THETA_ZERO - _TWO * np.float32(planes[thetas + n])
        far = np.float32(planes[alphas + n]) * (dx * dx + dy * dy)
        flags[n] = (u >= _ZERO) & (far <= _STEPS * (u * u))


@inner_inlined
def _ask_for_rows(state: State, starts: Int64s, terms: Int32s, message: int) -> None:
    for n in range(starts[message], starts[message + 1]):
        term = wide(terms[n])
        prefetch(state.idf, term)
        prefetch(state.posts, term * LIST)
        prefetch(state.lists, term * LIST)


@inner_inlined
def _ask_for_postings(state: State, starts: Int64s, terms: Int32s, message: int) -> None:
    for n in range(starts[message], starts[message + 1]):
        row = wide(terms[n]) * LIST
        if state.posts[row + SIZE] >= 0:
            at = 2 * wide(state.posts[row + OFFSET])
            size = wide(1) << state.posts[row + SIZE]
            for plane in range(POSTING_PLANES):
                prefetch(state.post_s, at + plane * size)


@inner_inlined
def ask_for_lists(
    state: State, starts: Int64s, terms: Int32s, message: int, begin: int, end: int
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


@inner_inlined
def affected_by(
    state: State, work: Work, x: float, y: float, squared: float, length: int, table: int
) -> int:
    """Find the subscriptions whose thresholds the message at hand reaches, and its scores."""
    west, south, diagonal = state.measures[0], state.measures[1], state.measures[2]
    x32 = np.float32((x - west) / diagonal * STEPS)
    y32 = np.float32((y - south) / diagonal * STEPS)
    found, affected = 0, 0
    for n in range(length):
        term = wide(work.terms[n])
        row = term * LIST
        left = wide(state.posts[row + COUNT])
        if left == 0:
            continue
        state.scalars[VISITED] += left
        size = wide(1) << state.posts[row + SIZE]
        start, at = wide(state.posts[row + OFFSET]), wide(0)
        a, b = work.likeness[n], work.rest[n]
        while left > 0:
            stretch = min(left, FLAGS)
            _flag(state.post_s, work.flags, 2 * start + at, size, stretch, x32, y32, a, b)
            if found + stretch > FOUND:
                affected = _verify(state, work, x, y, squared, table, found, affected)
                found = 0
            for m in range(stretch, (stretch + 7) & ~7):
                work.flags[m] = 0
            subs = start + PSUB * size + at
            for word in range((stretch + 7) // 8):
                marks = wide(work.flag_words[word])
                while marks != 0:
                    m = 8 * word + (lowest(marks) >> 3)
                    marks &= marks - 1
                    sub = wide(state.post_i[subs + m])
                    work.found[2 * found], work.found[2 * found + 1] = sub, term
                    prefetch(state.sub_f, SUB * sub)
                    found += 1
            at += stretch
            left -= stretch
    affected = _verify(state, work, x, y, squared, table, found, affected)
    state.scalars[AFFECTED] += affected
    return affected


@inner
def _verify(
    state: State, work: Work, x: float, y: float, squared: float, table: int, found: int,
    affected: int,
) -> int:  # fmt: skip
    """Score the subscriptions found so far; keep those that reach their thresholds, each once."""
    diagonal = state.measures[2]
    for n in range(found):
        sub, term = wide(work.found[2 * n]), wide(work.found[2 * n + 1])
        row = SUB * sub
        count = wide(state.sub_i[2 * row + TERM_COUNT])
        dot, first = 0.0, wide(-1)
        for m in range(count):
            if count <= INLINE:
                wanted = wide(state.sub_i[2 * row + TERMS + m])
            else:
                wanted = wide(state.more[state.sub_i[2 * row + TERMS] + 2 * m])
            at = slot_of_term(work, wanted, table)
            if at >= 0:
                dot += work.key_idfs[at] * work.key_weights[at]
                first = max(first, wanted)
        if first != term:
            continue
        distance = planar_distance(state.sub_f[row + X], state.sub_f[row + Y], x, y)
        score = weighed(
            state.sub_f[row + ALPHA], dot, state.sub_f[row + SQUARED], squared, distance, diagonal
        )
        if score >= state.sub_f[row + THETA]:
            work.affected[affected], work.scores[affected] = sub, score
            affected += 1
            prefetch(state.seat_f, row)
    state.scalars[CANDIDATES] += found
    return affected
