"""Selection of cells: enough load, and as few bytes as each method allows."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast_lab.designs.migration_choice import at_random, by_size, dynamic, greedy

cells = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), min_size=1, max_size=9)
WAYS = {"DP": dynamic, "GR": greedy, "SI": by_size, "RA": at_random}


def columns(given: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(given, np.float64)
    return both[:, 0].copy(), both[:, 1].copy()


def least(loads: np.ndarray, sizes: np.ndarray, amount: float) -> float:
    """The size of the best of all sets of cells."""
    numbers = range(len(loads))
    sets = chain.from_iterable(combinations(numbers, n) for n in range(len(loads) + 1))
    return min(
        float(sizes[list(chosen)].sum()) for chosen in sets if loads[list(chosen)].sum() >= amount
    )


@given(cells, st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_what_is_selected_is_enough_and_dp_is_best(
    given_cells: list[tuple[int, int]], part: float
) -> None:
    """All ways give away enough; none is below the least, which is what DP finds."""
    loads, sizes = columns(given_cells)
    amount = float(np.floor(part * loads.sum()))
    best = least(loads, sizes, amount)
    for name, way in WAYS.items():
        chosen = way(loads, sizes, amount)
        assert len(np.unique(chosen)) == len(chosen)
        assert chosen.tolist() == sorted(chosen.tolist())
        assert loads[chosen].sum() >= amount
        assert sizes[chosen].sum() >= best
        if name == "DP":
            assert sizes[chosen].sum() == best


@given(cells, st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_si_takes_the_largest_first(given_cells: list[tuple[int, int]], part: float) -> None:
    """No cell that SI leaves is larger than one that it takes, and it takes none too many."""
    loads, sizes = columns(given_cells)
    amount = part * float(loads.sum())
    chosen = by_size(loads, sizes, amount)
    rest = np.setdiff1d(np.arange(len(loads)), chosen)
    if len(chosen):
        assert sizes[rest].max(initial=0) <= sizes[chosen].min()
        last = chosen[np.argmin(sizes[chosen])]
        without = loads[chosen[chosen != last]].sum()
        assert without < amount or loads[last] == 0 or (sizes[chosen] == sizes[last]).sum() > 1


def test_gr_prefers_one_cell_to_many_small_ones() -> None:
    """The example of the paper's figure 5: a cell that is enough ends the scan, if it is cheap."""
    loads = np.array([3.0, 3.0, 9.0, 2.0, 8.0])
    sizes = np.array([3.0, 3.0, 12.0, 4.0, 30.0])
    # 0 and 1 together cost 6 and carry 6; cell 2 then brings enough for 18, cell 3 for 10 only.
    assert greedy(loads, sizes, 8.0).tolist() == [0, 1, 3]
    assert dynamic(loads, sizes, 8.0).tolist() == [0, 1, 3]
    assert dynamic(loads, sizes, 9.0).tolist() == [2]


def test_larger_units_make_dp_coarser_and_quicker() -> None:
    """In units of ten bytes DP finishes where it would not in bytes, and is within a unit each."""
    draw = np.random.default_rng(1)
    loads, sizes = draw.random(400), draw.integers(1, 10**7, 400).astype(np.float64)
    with pytest.raises(InvalidValue, match="take a larger unit, or GR"):
        dynamic(loads, sizes, 20.0)
    chosen = dynamic(loads, sizes, 20.0, unit=5e4)
    assert loads[chosen].sum() >= 20.0
    assert sizes[chosen].sum() <= sizes[greedy(loads, sizes, 20.0)].sum() + 5e4 * len(chosen)


def test_what_cannot_be_is_refused() -> None:
    """More than there is, negative numbers and columns of different lengths are refused."""
    some = np.array([1.0, 2.0])
    for way in WAYS.values():
        assert not len(way(some, some, 0.0))
        with pytest.raises(InvalidValue, match="amount: 4.0 given; expected at most the load of"):
            way(some, some, 4.0)
        with pytest.raises(InvalidValue, match="sizes: 1 given; expected one for each of 2 cells"):
            way(some, some[:1], 1.0)
        with pytest.raises(InvalidValue, match="numbers of 0 or more"):
            way(-some, some, 1.0)
