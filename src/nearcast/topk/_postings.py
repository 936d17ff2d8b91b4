"""For each term the subscriptions that use it, with all that a message needs to pass them by.

A posting is seven numbers of 32 bits, in planes of one region. With a message whose weight of the
term is `a` and whose rest has length `b` (vectors of length 1), and terms in one order for all,

    u = a * weight + b * rest - theta >= 0   and   alpha^2 * d^2 <= u^2

holds wherever the score reaches the threshold and the term is the first that both have: `theta` is
the threshold less alpha, `weight` and `rest` are those of the query times (1 - alpha), and by
Cauchy and Schwarz what follows adds at most the product of the rests. No root, no division.
"""

from __future__ import annotations

from math import sqrt

from nearcast._jit import inner, inner_inlined
from nearcast.topk._layout import (
    ALPHA,
    COUNT,
    INLINE,
    LIST,
    OFFSET,
    PALPHA,
    PLACES,
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
    State,
    X,
    Y,
)
from nearcast.topk._regions import give_back, take
from nearcast.topk._wide import wide

MARGIN = 4e-6
"""What single precision can take from a score, with a margin."""


@inner_inlined
def term_of(state: State, sub: int, n: int) -> int:
    """The n-th term of a subscription, in the order of the letters."""
    row = 2 * SUB * sub
    if state.sub_i[row + TERM_COUNT] <= INLINE:
        return wide(state.sub_i[row + TERMS + n])
    return wide(state.more[state.sub_i[row + TERMS] + 2 * n])


@inner_inlined
def place_of(state: State, sub: int, n: int) -> int:
    """The place of a subscription in the list of its n-th term."""
    row = 2 * SUB * sub
    if state.sub_i[row + TERM_COUNT] <= INLINE:
        return wide(state.seat_i[row + PLACES + n])
    return wide(state.more[state.sub_i[row + TERMS] + 2 * n + 1])


@inner_inlined
def set_place(state: State, sub: int, n: int, place: int) -> None:
    """Note the place of a subscription in the list of its n-th term."""
    row = 2 * SUB * sub
    if state.sub_i[row + TERM_COUNT] <= INLINE:
        state.seat_i[row + PLACES + n] = place
    else:
        state.more[state.sub_i[row + TERMS] + 2 * n + 1] = place


@inner_inlined
def rest_of(state: State, sub: int, term: int) -> float:
    """The length of what follows a term in the vector of a query, which has length 1."""
    total = 0.0
    for n in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        other = term_of(state, sub, n)
        if other < term:
            total += state.idf[other] * state.idf[other]
    return sqrt(total / state.sub_f[SUB * sub + SQUARED])


@inner_inlined
def posted_theta(theta: float, alpha: float) -> float:
    """The threshold as postings have it: on the safe side."""
    return theta - alpha - MARGIN


@inner_inlined
def post(state: State, sub: int) -> None:
    """Enter a subscription into the lists of its terms; there must be room."""
    row = SUB * sub
    alpha = state.sub_f[row + ALPHA]
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
        at = wide(state.posts[at_list + OFFSET]) + place
        weight = state.idf[term] / sqrt(state.sub_f[row + SQUARED])
        state.post_f[at + PX * size] = (state.sub_f[row + X] - west) / diagonal
        state.post_f[at + PY * size] = (state.sub_f[row + Y] - south) / diagonal
        state.post_f[at + PTHETA * size] = posted_theta(state.sub_f[row + THETA], alpha)
        state.post_f[at + PWEIGHT * size] = (1.0 - alpha) * weight
        state.post_f[at + PREST * size] = (1.0 - alpha) * rest_of(state, sub, term)
        state.post_f[at + PALPHA * size] = alpha * alpha
        state.post_i[at + PSUB * size] = sub
        set_place(state, sub, n, place)
        state.posts[at_list + COUNT] = place + 1


@inner
def _resize(state: State, term: int, kind: int) -> None:
    """Move the list of a term to a region of another class."""
    row = term * LIST
    size = wide(1) << kind
    to = take(
        state.post_i, state.post_free, state.scalars, POSTING_END, kind, POSTING_PLANES * size
    )
    old = wide(state.posts[row + SIZE])
    if old >= 0:
        had, at = wide(1) << old, wide(state.posts[row + OFFSET])
        for plane in range(POSTING_PLANES):
            for n in range(wide(state.posts[row + COUNT])):
                state.post_i[to + plane * size + n] = state.post_i[at + plane * had + n]
        give_back(state.post_i, state.post_free, old, at)
    state.posts[row + OFFSET], state.posts[row + SIZE] = to, kind


@inner
def withdraw(state: State, sub: int) -> None:
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
                state.post_i[at + plane * size + place] = state.post_i[at + plane * size + last]
            moved = wide(state.post_i[at + PSUB * size + place])
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
def set_theta(state: State, sub: int, theta: float) -> None:
    """Change the threshold of a subscription, in its record and in its postings."""
    row = SUB * sub
    state.sub_f[row + THETA] = theta
    posted = posted_theta(theta, state.sub_f[row + ALPHA])
    for n in range(state.sub_i[2 * row + TERM_COUNT]):
        at_list = term_of(state, sub, n) * LIST
        size = wide(1) << state.posts[at_list + SIZE]
        at = wide(state.posts[at_list + OFFSET]) + PTHETA * size + place_of(state, sub, n)
        state.post_f[at] = posted
