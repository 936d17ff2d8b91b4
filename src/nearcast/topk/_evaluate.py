"""A subscription against the whole window: the best messages, from the circles of its terms.

The threshold rises as better messages are found. The bound of `_postings` holds here too, with the
parts of message and query exchanged; a message with several of the terms counts at the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast._jit import inner, inner_inlined
from nearcast.geo.kernels import planar_distance
from nearcast.index.rarest_term._lanes import prefetch
from nearcast.topk._layout import (
    ALPHA,
    COUNT,
    FIRST,
    FIRST_TERM,
    FLAGS,
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
    Floats,
    Int32s,
    State,
    Work,
    X,
    Y,
)
from nearcast.topk._postings import rest_of, term_of
from nearcast.topk._wide import unsigned, wide
from nearcast.topk._window import SLACK, message_row
from nearcast.topk.score import weighed as _weighed

weighed = inner_inlined(_weighed)

_STEP = np.float32(1.0 / 65535.0)
_LOW = np.int32(0xFFFF)
_ZERO = np.float32(0.0)
_AHEAD = 6


@inner_inlined
def before(score: float, number: int, other_score: float, other: int) -> bool:
    """Whether a message ranks before another."""
    return score > other_score or (score == other_score and number > other)


@inner
def keep_best(scores: Floats, numbers: Int32s, start: int, count: int, wanted: int) -> None:
    """Bring the best `wanted` of `count` messages to the front, the worst of them last."""
    low, high, place = start, start + count - 1, start + wanted - 1
    while low < high:
        middle = (low + high) // 2
        score, number = scores[middle], numbers[middle]
        i, j = low, high
        while i <= j:
            while before(scores[i], numbers[i], score, number):
                i += 1
            while before(score, number, scores[j], numbers[j]):
                j -= 1
            if i <= j:
                scores[i], scores[j] = scores[j], scores[i]
                numbers[i], numbers[j] = numbers[j], numbers[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            return


@inner_inlined
def score_at(state: State, sub: int, number: int, term: int) -> float:
    """Score a message of the window, or give NOTHING if `term` is not the first that both have."""
    row = message_row(state, number) * MESSAGE
    start, length = wide(state.message_i[row + FIRST_TERM]), state.message_i[row + LENGTH]
    capacity = len(state.message_terms)
    dot = 0.0
    for n in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        wanted = term_of(state, sub, n)
        at = start
        for m in range(length):
            found = state.message_terms[at] == wanted
            at = at + 1 if at + 1 < capacity else 0
            if found:
                if wanted > term:
                    return NOTHING
                idf = state.idf[wanted]
                count = wide(state.message_terms[at]) if m + 1 < length else wide(0)
                dot += idf * (max(-count, 1) * idf)
                break
    record = SUB * sub
    distance = planar_distance(
        state.sub_f[record + X],
        state.sub_f[record + Y],
        state.message_f[row + X],
        state.message_f[row + Y],
    )
    return weighed(
        state.sub_f[record + ALPHA],
        dot,
        state.sub_f[record + SQUARED],
        state.message_f[row + 2],
        distance,
        state.measures[2],
    )


@inner
def _flag(
    ints: Int32s, flags: Any, at: int, size: int, count: int,
    x: np.float32, y: np.float32, weight: np.float32, rest: np.float32, theta: np.float32,
    alpha: np.float32,
) -> None:  # fmt: skip
    """Mark the entries of a stretch of a circle that may reach a threshold."""
    first, second = unsigned(at + size), unsigned(at + 2 * size)
    for m in range(count):
        n = unsigned(m)
        place, weights = ints[first + n], ints[second + n]
        dx = np.float32((place >> np.int32(16)) & _LOW) * _STEP - x
        dy = np.float32(place & _LOW) * _STEP - y
        u = (
            np.float32((weights >> np.int32(16)) & _LOW) * _STEP * weight
            + np.float32(weights & _LOW) * _STEP * rest
            - theta
        )
        flags[n] = (u >= _ZERO) & (alpha * (dx * dx + dy * dy) <= u * u)


@inner_inlined
def _ask_for_message(state: State, work: Work, n: int, count: int) -> None:
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


@inner_inlined
def _entries_before(state: State, term: int, number: int) -> int:
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


@inner_inlined
def evaluate(state: State, work: Work, sub: int, wanted: int) -> int:
    """Find the `wanted` best messages of the window, in no order, and give their number.

    They are at the front of `best_scores` and `best_numbers`. Fewer are found only if no others
    have a term of the query; if exactly so many, the worst is the last of them.
    """
    since, until = wide(state.scalars[FIRST]), wide(state.scalars[NEXT])
    return evaluate_between(
        state, work, sub, wanted, since, until, NOTHING, work.best_scores, work.best_numbers
    )


@inner
def evaluate_between(
    state: State, work: Work, sub: int, wanted: int, since: int, until: int, low: float,
    scores: Floats, numbers: Int32s,
) -> int:  # fmt: skip
    """Find the best messages from the number `since` on and before `until` that score `low`.

    As many as are `wanted` stand in front afterwards; there must be room for half as many again,
    or -1 is the answer. The others are what `evaluate` says.
    """
    row = SUB * sub
    alpha = state.sub_f[row + ALPHA]
    x = np.float32((state.sub_f[row + X] - state.measures[0]) / state.measures[2])
    y = np.float32((state.sub_f[row + Y] - state.measures[1]) / state.measures[2])
    norm = np.sqrt(state.sub_f[row + SQUARED])
    found, low_number = 0, wide(-1)
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
        left, skipped = wide(state.lists[at_list + COUNT]), wide(0)
        if left > 0 and until < state.scalars[NEXT]:
            left = _entries_before(state, term, until)
        if left > 0 and since > state.scalars[FIRST]:
            skipped = _entries_before(state, term, since)
        if left <= skipped:
            continue
        if found >= wanted:
            keep_best(scores, numbers, 0, found, wanted)
            found = wanted
            low, low_number = scores[wanted - 1], wide(numbers[wanted - 1])
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
            stretch = min(min(end, left - skipped), FLAGS)
            at = start + end - stretch
            theta = np.float32(low - alpha - SLACK)
            _flag(
                state.list_i, work.flags, at, size, stretch, x, y, weight, rest, theta,
                np.float32(alpha * alpha),
            )  # fmt: skip
            flagged = 0
            for n in range(stretch, (stretch + 7) & ~7):
                work.flags[n] = 0
            for back in range((stretch + 7) // 8):
                word = (stretch + 7) // 8 - 1 - back
                if work.flag_words[word] != 0:
                    for n in range(8 * word + 7, 8 * word - 1, -1):
                        if work.flags[n] != 0:
                            work.found[flagged] = state.list_i[at + n]
                            flagged += 1
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
                    if found == wanted + wanted // 2 + 1:
                        keep_best(scores, numbers, 0, found, wanted)
                        found = wanted
                        low, low_number = scores[wanted - 1], wide(numbers[wanted - 1])
            left -= stretch
    if found >= wanted:
        keep_best(scores, numbers, 0, found, wanted)
        found = wanted
    return found
