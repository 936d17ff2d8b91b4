"""Flat hash tables behave as dictionaries do."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.arrays.slots import (
    NOTHING,
    add_to,
    change,
    empty_slots,
    find,
    hash_strings,
    move_slots,
    put,
    remove,
    term_hash,
)

# Few first hashes that agree in their low bits: chains that wrap around the end of the table.
KEYS = st.sampled_from(
    [(low + 16 * high, second << 31) for low in (0, 14, 15) for high in (0, 1) for second in (1, 2)]
)
STEPS = st.lists(
    st.tuples(KEYS, st.sampled_from(["count", "uncount", "remove", "find"])), max_size=60
)


@settings(deadline=None)  # the first call compiles
@given(steps=STEPS)
def test_counting_and_removing_follow_a_dictionary(
    steps: list[tuple[tuple[int, int], str]],
) -> None:
    """Counts, removals and searches agree with a dictionary, through growth too."""
    slots, model = empty_slots(16), dict[tuple[int, int], int]()
    for (first, second), step in steps:
        key, a, b = (first, second), np.uint64(first), np.uint64(second)
        if step == "count":
            model[key] = model.get(key, 0) + 1
            assert add_to(slots, a, b, 1) == model[key]
        elif step == "uncount" and key in model:
            model[key] -= 1
            assert add_to(slots, a, b, -1) == model[key]
            if not model[key]:
                del model[key]
        elif step == "remove":
            assert remove(slots, a, b) == model.pop(key, NOTHING)
        assert find(slots, a, b) == model.get(key, NOTHING)
    larger = empty_slots(64)
    move_slots(slots, larger)
    for first, second in {key for key, _ in steps}:
        expected = model.get((first, second), NOTHING)
        assert find(slots, np.uint64(first), np.uint64(second)) == expected
        assert find(larger, np.uint64(first), np.uint64(second)) == expected


def test_a_number_can_be_changed_in_place() -> None:
    """A key keeps its place and gets another number."""
    slots = empty_slots(4)
    put(slots, np.uint64(7), np.uint64(1 << 40), 5)
    change(slots, np.uint64(7), np.uint64(1 << 40), 2**31 - 2)
    assert find(slots, np.uint64(7), np.uint64(1 << 40)) == 2**31 - 2


def test_one_term_has_one_hash() -> None:
    """A term alone and the same term in a column have the same hash; others have others."""
    data = np.frombuffer(b"jazzjazz!", np.uint8)
    hashes = np.empty((3, 2), np.uint64)
    hash_strings(data, np.array([0, 4, 8, 9]), hashes)
    assert hashes[0].tolist() == hashes[1].tolist() != hashes[2].tolist()
    assert term_hash("jazz") == hashes[0, 0] != hashes[0, 1]
