"""What the store does with whole vectors is what plain loops would do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast._jit import lean_kernel
from nearcast.active.kernels.cells import strip_of
from nearcast.active.kernels.entries import CAME, KNOWN_BITS, UNSURE, WENT, pick_entries
from nearcast.active.kernels.heap import pop, push
from nearcast.active.kernels.layout import (
    FIRST,
    SPARE,
    UNIT,
    USED,
    ActiveArrays,
    empty_state,
    signature,
    take,
)
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s

NEAR = [-1.0, 0.0, 0.5, 1.0, 2.0]


@lean_kernel
def strips(memory: Float32s, edges: int, level: int, wanted: Float32s, found: Int64s) -> None:
    """Find the strips of some numbers."""
    for i in range(len(wanted)):
        found[i] = strip_of(memory, edges, level, wanted[i])


@lean_kernel
def run_heap(ends: Floats, take: Int64s, heap: Int32s, keys: Floats, taken: Int32s) -> int:
    """Put in one slot after the other, and after each take out as many as is said."""
    size = count = wide(0)
    for slot in range(len(ends)):
        push(heap, keys, size, slot, ends[slot])
        size += 1
        for _ in range(min(take[slot], size)):
            taken[count] = pop(heap, keys, size)
            size -= 1
            count += 1
    return count


@lean_kernel
def pick(
    state: ActiveArrays, count: int, sides: Float32s, boxes: bool, terms: Int32s, found: Int32s
) -> int:
    """Pick from that many entries at the start of the arena."""
    sign = wide(0)
    for term in terms:
        sign |= signature(term)
    return pick_entries(state, wide(0), count, sides[:4], sides[4:], boxes, sign, found, wide(0))


@lean_kernel
def take_some(state: ActiveArrays, kinds: Int64s, units: Int64s) -> None:
    """Take a piece of each of some size classes."""
    for i in range(len(kinds)):
        units[i] = take(state, kinds[i])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=80))
def test_no_piece_begins_in_the_middle_of_a_line_and_goes_on_in_the_next(kinds: list[int]) -> None:
    """What that leaves is not lost: it waits for those that it is enough for."""
    sizes = [1, 1, 2, 3, 4, 6, 8, 12, 16, 24]
    state = empty_state(1, 40 * 80, 1)
    units = np.empty(len(kinds), np.int64)
    take_some(state, np.array(kinds, np.int64), units)
    taken: set[int] = set()
    for unit, kind in zip(units.tolist(), kinds, strict=True):
        assert unit % UNIT + min(sizes[kind], UNIT) <= UNIT
        piece = set(range(unit, unit + sizes[kind]))
        assert not piece & taken
        taken |= piece
    used, spare = state.counts[USED], state.counts[SPARE]
    assert max(taken, default=-1) < used == len(taken) + spare


@pytest.mark.parametrize("level", range(1, 8))
def test_the_strip_of_a_number_is_how_many_edges_are_not_beyond_it(level: int) -> None:
    """With edges that are equal, numbers on edges, and numbers beyond all of them."""
    rng = np.random.default_rng(level)
    count = (1 << level) - 1
    memory = np.full(2 * count + 64, -7.0, np.float32)  # what is behind the edges says nothing
    edges = np.sort(rng.integers(0, count, count)).astype(np.float32)
    memory[5 : 5 + count], memory[5 + count] = edges, np.inf
    wanted = np.concatenate([edges, edges + 0.5, [-1, 1e9, np.inf, -np.inf]]).astype(np.float32)
    found = np.empty(len(wanted), np.int64)
    strips(memory, 5, level, wanted, found)
    assert found.tolist() == np.searchsorted(edges, wanted, side="right").tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.5, np.inf]), st.integers(0, 3))),
    st.integers(0, 2**32),
)
def test_what_ends_first_comes_out_first(some: list[tuple[float, int]], seed: int) -> None:
    """Whatever comes in between; of messages that end together any may be the first."""
    rng = np.random.default_rng(seed)
    many = 300
    ends = np.concatenate([[end for end, _ in some], rng.integers(0, 50, many).astype(float)])
    take = np.concatenate([[most for _, most in some], rng.integers(0, 3, many)]).astype(np.int64)
    heap = np.empty(len(ends) + FIRST, np.int32)
    keys = np.full(len(ends) + 2 * FIRST, -1.0)
    taken = np.empty(len(ends), np.int32)
    count = run_heap(ends, take, heap, keys, taken)
    waiting: list[int] = []
    gone = iter(taken[:count].tolist())
    for slot in range(len(ends)):
        waiting.append(slot)
        for _ in range(min(int(take[slot]), len(waiting))):
            one = next(gone)
            assert ends[one] == min(ends[slot] for slot in waiting)
            waiting.remove(one)
    left = heap[FIRST : FIRST + len(waiting)].tolist()
    assert sorted(left) == waiting
    assert keys[FIRST : FIRST + len(waiting)].tolist() == [ends[slot] for slot in left]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NEAR), st.sampled_from(NEAR), st.integers(0, 3))),
    st.lists(st.sampled_from(NEAR), min_size=8, max_size=8),
    st.booleans(),
    st.sets(st.integers(0, 1), max_size=2),
)
def test_entries_are_judged_by_fours_as_one_by_one(
    entries: list[tuple[float, float, int]], sides: list[float], boxes: bool, wanted: set[int]
) -> None:
    """Strictly inside both is nothing new; on a border is unsure; what is behind does not count."""
    state = empty_state(1, 4 * len(entries) // 4 + 16, 1)
    state.ints[:] = 1  # entries behind the last, which would all be found
    old, new = np.sort(np.array(sides, np.float32).reshape(2, 2, 2), axis=1).reshape(2, 4)
    expected = []
    for number, (x, y, terms) in enumerate(entries):
        sign = sum(1 << (term * 2654435761 >> 24 & 31) for term in range(2) if terms >> term & 1)
        at = 4 * number
        state.memory[at], state.memory[at + 1] = x, y
        state.ints[at + 2 : at + 4] = number, np.int64(sign).astype(np.int32)
        closed = [box[0] <= x <= box[2] and box[1] <= y <= box[3] for box in (old, new)]
        strict = [box[0] < x < box[2] and box[1] < y < box[3] for box in (old, new)]
        if not any(closed) or not all(terms >> term & 1 for term in wanted):
            continue
        known = UNSURE
        if boxes:
            if all(strict):
                continue
            if strict[1] and not closed[0]:
                known = CAME
            elif strict[0] and not closed[1]:
                known = WENT
        expected.append(number << KNOWN_BITS | known)
    found = np.empty(len(entries) + 1, np.int32)
    both = np.concatenate([old, new])
    count = pick(state, len(entries), both, boxes, np.array(sorted(wanted), np.int32), found)
    assert found[:count].tolist() == expected
