"""The window: messages with their terms, and for each term a circle of those that have it.

An entry of a circle has 12 bytes: the number of the message, its place, and two weights, in 16 bits
each. They are a filter: places are rounded down and weights up, and `SLACK` covers both.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import LANES
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s
from nearcast.topk.kernels.layout import (
    AT,
    COUNT,
    DONE,
    FIRST,
    FIRST_TERM,
    HOLES,
    LENGTH,
    LIST,
    LIST_END,
    MESSAGE,
    MESSAGE_MASK,
    MESSAGE_PLANES,
    MORE_LISTS,
    MORE_RING,
    MORE_TERMS,
    NEEDED,
    NEXT,
    OFFSET,
    OLDEST,
    SEATS,
    SIZE,
    TAKEN_OUT,
    TERM_TAIL,
    TopkScratch,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.regions import give_back, take

STEPS = 65535.0
SLACK = 6e-5
"""What rounding a place to 1/65535 of the diagonal can take from a score, with a margin."""


@inlined
def message_row(state: TopkState, number: int) -> int:
    """The row of a message in the ring."""
    return wide(number) & wide(state.scalars[MESSAGE_MASK])


@inner
def _grow(state: TopkState, term: int) -> None:
    """Give a circle that is full, or has no region yet, one of twice the size."""
    row = term * LIST
    lists, ints = state.lists, state.list_i
    old = wide(lists[row + SIZE])
    kind = old + 1
    size = wide(1) << kind
    at = take(ints, state.list_free, state.scalars, LIST_END, kind, MESSAGE_PLANES * size)
    if old >= 0:
        _copy(state, term, at, size)
        give_back(ints, state.list_free, old, wide(lists[row + OFFSET]))
    lists[row + OFFSET], lists[row + SIZE], lists[row + OLDEST] = at, kind, 0


@inner
def _copy(state: TopkState, term: int, to: int, size: int) -> None:
    """Copy a circle, straightened, to another region."""
    row = term * LIST
    lists, ints = state.lists, state.list_i
    at, had = wide(lists[row + OFFSET]), wide(1) << lists[row + SIZE]
    oldest = wide(lists[row + OLDEST])
    for n in range(wide(lists[row + COUNT])):
        old = (oldest + n) & (had - 1)
        for plane in range(MESSAGE_PLANES):
            ints[to + plane * size + n] = ints[at + plane * had + old]


@inner
def shrink(state: TopkState, term: int) -> None:
    """Give back the region of an empty circle, or exchange it for a free one of half the size."""
    row = term * LIST
    lists = state.lists
    count, kind = wide(lists[row + COUNT]), wide(lists[row + SIZE])
    at = wide(lists[row + OFFSET])
    if count == 0:
        give_back(state.list_i, state.list_free, kind, at)
        lists[row + SIZE] = -1
    elif kind >= 2 and 4 * count <= (1 << kind) and state.list_free[kind - 1] >= 0:
        size = wide(1) << (kind - 1)
        to = take(
            state.list_i, state.list_free, state.scalars, LIST_END, kind - 1, MESSAGE_PLANES * size
        )
        _copy(state, term, to, size)
        give_back(state.list_i, state.list_free, kind, at)
        lists[row + OFFSET], lists[row + SIZE], lists[row + OLDEST] = to, kind - 1, 0


@inlined
def room_to_enter(state: TopkState, work: TopkScratch, length: int) -> int:
    """Say what must grow before a message of `length` terms can enter."""
    scalars = state.scalars
    first, following = scalars[FIRST], scalars[NEXT]
    if following - first > scalars[MESSAGE_MASK]:
        return MORE_RING
    capacity = len(state.message_terms)
    used = wide(0)
    if following > first:
        used = (
            scalars[TERM_TAIL] - state.message_i[message_row(state, first) * MESSAGE + FIRST_TERM]
        )
        if used < 0:
            used += capacity
    # One place stays free, or a full circle would look like an empty one.
    if used + 2 * length >= capacity:
        scalars[NEEDED] = used + 2 * length + 1
        return MORE_TERMS
    needed = wide(LANES)  # sixteen entries are read at a time, also behind the last
    for n in range(length):
        row = wide(work.terms[n]) * LIST
        kind = wide(state.lists[row + SIZE])
        if kind < 0 or state.lists[row + COUNT] == (1 << kind):
            needed += MESSAGE_PLANES * (wide(1) << (kind + 1))
    if scalars[LIST_END] + needed > len(state.list_i):
        scalars[NEEDED] = scalars[LIST_END] + needed
        return MORE_LISTS
    return DONE


@inlined
def enter(
    state: TopkState,
    work: TopkScratch,
    x: float,
    y: float,
    squared: float,
    at: float,
    terms: Int32s,
    counts: Int32s,
    start: int,
    length: int,
) -> None:
    """Take in a message, for which there is room.

    It is at (x, y) and time `at`; `squared` is the square of its length as a vector. Its terms are
    `terms[start : start + length]` with how often each occurs in `counts`; `work.terms` holds the
    same terms, `work.likeness` and `work.rest` the weight of each, and of the terms behind it.
    """
    scalars = state.scalars
    # Write its record.
    number = scalars[NEXT]
    row = message_row(state, number) * MESSAGE
    state.message_f[row + X], state.message_f[row + Y] = x, y
    state.message_f[row + 2], state.message_f[row + AT] = squared, at
    # Append its terms to the circle of terms; a count above 1 follows its term, negated.
    capacity = len(state.message_terms)
    tail, written = scalars[TERM_TAIL], length
    state.message_i[row + FIRST_TERM], state.message_i[row + SEATS] = tail, -1
    for n in range(length):
        state.message_terms[tail] = terms[start + n]
        tail = tail + 1 if tail + 1 < capacity else 0
        if counts[start + n] > 1:
            state.message_terms[tail] = -counts[start + n]
            tail = tail + 1 if tail + 1 < capacity else 0
            written += 1
    scalars[TERM_TAIL] = tail
    state.message_i[row + LENGTH] = written
    scalars[NEXT] = number + 1
    # Round its place to steps.
    west, south, diagonal = state.measures[0], state.measures[1], state.measures[2]
    across = wide((x - west) / diagonal * STEPS)
    up = wide((y - south) / diagonal * STEPS)
    place = (min(across, 65535) << 16) | min(up, 65535)
    # Append it to the circle of each term: number, place, and rounded-up weights.
    for n in range(length):
        term = wide(work.terms[n])
        list_row = term * LIST
        kind = wide(state.lists[list_row + SIZE])
        if kind < 0 or state.lists[list_row + COUNT] == (1 << kind):
            _grow(state, term)
            kind = wide(state.lists[list_row + SIZE])
        size = wide(1) << kind
        count = wide(state.lists[list_row + COUNT])
        to = wide(state.lists[list_row + OFFSET]) + (
            (state.lists[list_row + OLDEST] + count) & (size - 1)
        )
        likeness = min(wide(work.likeness[n] * STEPS) + 2, 65535)
        rest = min(wide(work.rest[n] * STEPS) + 2, 65535)
        state.list_i[to] = number
        state.list_i[to + size] = np.int32(np.uint32(place))
        state.list_i[to + 2 * size] = np.int32(np.uint32((likeness << 16) | rest))
        state.lists[list_row + COUNT] = count + 1


@inlined
def is_hole(state: TopkState, number: int) -> bool:
    """Whether a message was taken out of the window."""
    return bool(state.message_i[message_row(state, number) * MESSAGE + LENGTH] == TAKEN_OUT)


@inlined
def leave_oldest(state: TopkState) -> None:
    """Take the oldest message out of the circles of its terms; its row stays until it is reused."""
    number = state.scalars[FIRST]
    row = message_row(state, number) * MESSAGE
    capacity = len(state.message_terms)
    at = wide(state.message_i[row + FIRST_TERM])
    if state.message_i[row + LENGTH] == TAKEN_OUT:
        state.scalars[HOLES] -= 1
    for _ in range(state.message_i[row + LENGTH]):
        term = wide(state.message_terms[at])
        at = at + 1 if at + 1 < capacity else 0
        if term < 0:
            continue
        list_row = term * LIST
        size = wide(1) << state.lists[list_row + SIZE]
        state.lists[list_row + OLDEST] = (state.lists[list_row + OLDEST] + 1) & (size - 1)
        state.lists[list_row + COUNT] -= 1
        if 4 * wide(state.lists[list_row + COUNT]) <= size:
            shrink(state, term)
    state.scalars[FIRST] = number + 1
