"""For each term the subscriptions that use it, with all that a message needs to pass them by.

A posting is six numbers of 16 bits and the number of its subscription, in planes of one region.
With a message whose weight of the term is `a` and whose rest has length `b` (vectors of length 1),
and terms in one order for all,

    u = a * weight + b * rest - theta >= 0   and   alpha^2 * d^2 <= u^2

holds wherever the score reaches the threshold and the term is the first that both have: `theta` is
the threshold less alpha, `weight` and `rest` are those of the query times (1 - alpha), and by
Cauchy and Schwarz what follows adds at most the product of the rests. No root, no division.

All of them count steps of 1/65535, thresholds two steps at a time from -1 on, and are rounded to
the safe side; `_SLACK` covers what rounding a place can take from a score.
"""

from __future__ import annotations

from math import ceil, sqrt

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import as_integer, wide
from nearcast.topk.kernels.lanes import STEPS, THETA_ZERO
from nearcast.topk.kernels.layout import (
    ALPHA,
    COUNT,
    INLINE,
    LIST,
    OFFSET,
    PALPHA,
    PLACES,
    POSTING,
    POSTING_END,
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
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.regions import give_back, take

_SLACK = 1.0
"""In steps: half a step across and half a step up are 0.71, and single precision takes little."""


@inlined
def term_of(state: TopkState, sub: int, n: int) -> int:
    """The n-th term of a subscription, in the order of the letters."""
    row = 2 * SUB * sub
    if state.sub_i[row + TERM_COUNT] <= INLINE:
        return wide(state.sub_i[row + TERMS + n])
    return wide(state.more[state.sub_i[row + TERMS] + 2 * n])


@inlined
def place_of(state: TopkState, sub: int, n: int) -> int:
    """The place of a subscription in the list of its n-th term."""
    row = 2 * SUB * sub
    if state.sub_i[row + TERM_COUNT] <= INLINE:
        return wide(state.seat_i[row + PLACES + n])
    return wide(state.more[state.sub_i[row + TERMS] + 2 * n + 1])


@inlined
def set_place(state: TopkState, sub: int, n: int, place: int) -> None:
    """Note the place of a subscription in the list of its n-th term."""
    row = 2 * SUB * sub
    if state.sub_i[row + TERM_COUNT] <= INLINE:
        state.seat_i[row + PLACES + n] = place
    else:
        state.more[state.sub_i[row + TERMS] + 2 * n + 1] = place


@inlined
def rest_of(state: TopkState, sub: int, term: int) -> float:
    """The length of what follows a term in the vector of a query, which has length 1."""
    total = 0.0
    for n in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        other = term_of(state, sub, n)
        if other < term:
            total += state.idf[other] * state.idf[other]
    return sqrt(total / state.sub_f[SUB * sub + SQUARED])


@inlined
def has_scale(alpha: float) -> bool:
    """Whether nearness is by a scale: then alpha, 0 too, has a minus sign."""
    return as_integer(alpha) < 0


@inlined
def _posted_theta(theta: float, alpha: float) -> int:
    """The threshold as postings have it; one below every score is as good as 0."""
    return wide(min(((max(theta, 0.0) - alpha) * STEPS + THETA_ZERO - _SLACK) / 2.0, STEPS))


@inlined
def _at_least(share: float) -> int:
    """A share of 1 in steps, rounded up."""
    return wide(min(ceil(share * STEPS), STEPS))


@inlined
def post(state: TopkState, sub: int) -> None:
    """Enter a subscription into the lists of its terms; there must be room."""
    row = SUB * sub
    alpha = abs(state.sub_f[row + ALPHA])
    by_place = 0.0 if has_scale(state.sub_f[row + ALPHA]) else alpha  # a scale prunes nothing here
    west, south, diagonal = state.measures[0], state.measures[1], state.measures[2]
    for n in range(state.sub_i[2 * row + TERM_COUNT]):
        term = term_of(state, sub, n)
        at_list = term * LIST
        kind = wide(state.posts[at_list + SIZE])
        if kind < 0 or state.posts[at_list + COUNT] == (1 << kind):
            _resize(state, term, kind + 1)
            kind += 1
        size = wide(1) << kind
        place = wide(state.posts[at_list + COUNT])
        at = wide(state.posts[at_list + OFFSET])
        to = 2 * at + place
        weight = state.idf[term] / sqrt(state.sub_f[row + SQUARED])
        x, y = state.sub_f[row + X] - west, state.sub_f[row + Y] - south
        state.post_s[to + PX * size] = wide(x / diagonal * STEPS + 0.5)
        state.post_s[to + PY * size] = wide(y / diagonal * STEPS + 0.5)
        state.post_s[to + PTHETA * size] = _posted_theta(state.sub_f[row + THETA], alpha)
        state.post_s[to + PWEIGHT * size] = _at_least((1.0 - alpha) * weight)
        state.post_s[to + PREST * size] = _at_least((1.0 - alpha) * rest_of(state, sub, term))
        state.post_s[to + PALPHA * size] = wide(by_place * by_place * STEPS)
        state.post_i[at + PSUB * size + place] = sub
        set_place(state, sub, n, place)
        state.posts[at_list + COUNT] = place + 1


@inner
def _resize(state: TopkState, term: int, kind: int) -> None:
    """Move the list of a term to a region of another class."""
    row = term * LIST
    size = wide(1) << kind
    to = take(state.post_i, state.post_free, state.scalars, POSTING_END, kind, POSTING * size)
    old = wide(state.posts[row + SIZE])
    if old >= 0:
        had, at = wide(1) << old, wide(state.posts[row + OFFSET])
        for n in range(state.posts[row + COUNT]):
            for plane in range(POSTING_PLANES):
                state.post_s[2 * to + plane * size + n] = state.post_s[2 * at + plane * had + n]
            state.post_i[to + PSUB * size + n] = state.post_i[at + PSUB * had + n]
        give_back(state.post_i, state.post_free, old, at)
    state.posts[row + OFFSET], state.posts[row + SIZE] = to, kind


@inner
def withdraw(state: TopkState, sub: int) -> None:
    """Take a subscription out of the lists of its terms; the last posting takes its place."""
    for n in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        term = term_of(state, sub, n)
        row = term * LIST
        kind = wide(state.posts[row + SIZE])
        size, at = wide(1) << kind, wide(state.posts[row + OFFSET])
        last = wide(state.posts[row + COUNT]) - 1
        place = place_of(state, sub, n)
        if place != last:
            for plane in range(POSTING_PLANES):
                to = 2 * at + plane * size
                state.post_s[to + place] = state.post_s[to + last]
            moved = wide(state.post_i[at + PSUB * size + last])
            state.post_i[at + PSUB * size + place] = moved
            for m in range(state.sub_i[2 * SUB * moved + TERM_COUNT]):
                if term_of(state, moved, m) == term:
                    set_place(state, moved, m, place)
                    break
        state.posts[row + COUNT] = last
        if last == 0:
            give_back(state.post_i, state.post_free, kind, at)
            state.posts[row + SIZE] = -1
        elif kind >= 2 and 4 * last <= size and state.post_free[kind - 1] >= 0:
            _resize(state, term, kind - 1)


@inner
def set_theta(state: TopkState, sub: int, theta: float) -> None:
    """Change the threshold of a subscription, in its record and in its postings."""
    row = SUB * sub
    state.sub_f[row + THETA] = theta
    posted = _posted_theta(theta, abs(state.sub_f[row + ALPHA]))
    for n in range(state.sub_i[2 * row + TERM_COUNT]):
        at_list = term_of(state, sub, n) * LIST
        size = wide(1) << state.posts[at_list + SIZE]
        at = 2 * wide(state.posts[at_list + OFFSET]) + PTHETA * size
        state.post_s[at + place_of(state, sub, n)] = posted
