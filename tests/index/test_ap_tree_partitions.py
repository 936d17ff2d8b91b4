"""The partitions of the AP-Tree against slow, obvious versions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inside import from_python
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Floats, Int64s
from nearcast.index.ap_tree import keyword, spatial

cut_cost = from_python(keyword.cut_cost)
even_cuts = from_python(keyword.even_cuts)
heuristic_cuts = from_python(keyword.heuristic_cuts)
optimal_cuts = from_python(keyword.optimal_cuts)
strip_edges = from_python(spatial.strip_edges)

measures = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=9)


def sums(values: list[int]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)]).astype(float)


def cost(weight: Floats, hit: Floats, stops: Int64s) -> float:
    starts = [0, *stops[:-1].tolist()]
    return sum(
        float(cut_cost(weight, hit, start, stop))
        for start, stop in zip(starts, stops.tolist(), strict=True)
    )


@settings(deadline=None)
@given(measures, st.integers(1, 9))
def test_the_dynamic_programme_finds_the_least_cost(
    terms: list[tuple[int, int]], wanted: int
) -> None:
    """Of all ways to cut up to nine terms."""
    weight, hit = sums([term[0] for term in terms]), sums([term[1] for term in terms])
    count = min(wanted, len(terms))
    least = min(
        cost(weight, hit, np.array([*inner, len(terms)], np.int64))
        for inner in combinations(range(1, len(terms)), count - 1)
    )
    assert cost(weight, hit, optimal_cuts(weight, hit, count)) == least


@settings(deadline=None)
@given(measures, st.integers(1, 9))
def test_local_improvement_never_loses(terms: list[tuple[int, int]], wanted: int) -> None:
    """Its cost lies between those of the optimum and of even cuts, and every cut has terms."""
    weight, hit = sums([term[0] for term in terms]), sums([term[1] for term in terms])
    count = min(wanted, len(terms))
    stops = heuristic_cuts(weight, hit, count)
    assert stops[-1] == len(terms)
    assert (np.diff([0, *stops]) > 0).all()
    assert cost(weight, hit, optimal_cuts(weight, hit, count)) <= cost(weight, hit, stops)
    assert cost(weight, hit, stops) <= cost(weight, hit, even_cuts(weight, count))


def strip_cost(lows: Floats, highs: Floats, edges: Floats, low: float, high: float) -> float:
    borders = [low, *edges.tolist(), high]
    total = 0.0
    for at in range(len(borders) - 1):
        begin, end = borders[at], borders[at + 1]
        last = at == len(borders) - 2
        rows = ((lows < end) | last) & ((highs >= begin) | (at == 0))
        total += rows.sum() * (end - begin) / (high - low)
    return total


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), min_size=1, max_size=12),
)
def test_two_strips_are_divided_at_the_best_end_of_a_row(rows: list[tuple[int, int]]) -> None:
    """Where there is one edge, local improvement tries every end of every row."""
    lows = np.sort(np.array([row[0] for row in rows], float))
    highs = np.sort(np.array([row[0] + row[1] for row in rows], float))
    edges = strip_edges(lows, highs, np.empty(0), -1.0, 40.0, 2)
    assert len(edges) == 1
    found = strip_cost(lows, highs, edges, -1.0, 40.0)
    for end in [*lows, *np.nextafter(highs, np.inf)]:
        assert found <= strip_cost(lows, highs, np.array([end]), -1.0, 40.0) + 1e-9


@settings(deadline=None)
@given(st.lists(st.integers(-1000, 1000), max_size=200), st.integers(0, 20))
def test_sorts_a_part_of_an_array(values: list[int], start: int) -> None:
    """What comes before it stays as it was."""
    array = np.array(values, np.int64)
    start = min(start, len(array))
    expected = np.concatenate([array[:start], np.sort(array[start:])])
    sort(array, start, len(array))
    assert (array == expected).all()
