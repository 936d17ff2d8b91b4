"""Any plan over any small world, for properties of routing, and who must be found in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from nearcast.partition import routing
from nearcast.partition.grid import Grid
from nearcast.partition.owners import owners_of
from nearcast.partition.plan import KINDS, Kind, Plan, TextMap
from nearcast.partition.sample import SampleMessages, SampleRows, hashed

TERMS = np.sort(hashed(np.arange(9)))
NUMBERS = [-180.0, -10.5, -10.0, -7.5, -5.0, -5.0, -2.0, 0.0, 0.0, 2.5, 5.0, 6.0, 10.0, 10.5, 90.0]

lons = st.sampled_from([*NUMBERS, 180.0]) | st.floats(-12, 12)
lats = st.sampled_from([number for number in NUMBERS if number >= -90]) | st.floats(-12, 12)
term_lists = st.lists(st.sampled_from(TERMS.tolist()), unique=True, max_size=4)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[float, float, float, float]:
    if draw(st.integers(0, 9)) == 0:
        return (-180.0, -90.0, 180.0, 90.0)
    west, east = sorted((draw(lons), draw(lons)))
    south, north = sorted((draw(lats), draw(lats)))
    return (west, south, east, north)


points = st.tuples(lons, lats).map(lambda at: (*at, *at))
grids = st.builds(
    lambda columns, rows: Grid(-10.0, -10.0, 10.0, 10.0, columns, rows),
    st.integers(1, 11),
    st.integers(1, 11),
)


class World(NamedTuple):
    rows: SampleRows
    messages: SampleMessages


def columns(entries: list[tuple[Any, list[int]]]) -> tuple[Any, Any, Any]:
    starts = np.cumsum([0, *(len(terms) for _, terms in entries)])
    terms = np.array([term for _, each in entries for term in each], np.uint64)
    return np.array([box for box, _ in entries], np.float64).reshape(-1, 4), starts, terms


@st.composite
def worlds(draw: st.DrawFn) -> World:
    rows = draw(st.lists(st.tuples(boxes(), term_lists.filter(bool)), max_size=12))
    messages = draw(st.lists(st.tuples(points | boxes(), term_lists), max_size=12))
    owner = draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    return World(
        SampleRows(*columns(rows), np.array(owner, np.int32)), SampleMessages(*columns(messages))
    )


@st.composite
def plans(draw: st.DrawFn, kinds: tuple[Kind, ...] = KINDS) -> Plan:
    """Any plan at all: cells to any worker, or split by any of some text maps."""
    grid, workers, count = draw(grids), draw(st.integers(1, 5)), draw(st.integers(0, 3))
    draws = np.random.default_rng(draw(st.integers(0, 99)))
    patched = draws.integers(-count, workers, (grid.rows, grid.columns), np.int32)
    if draw(st.booleans()):  # whole blocks with one code, but for some cells
        alike = draws.integers(-count, workers, (3, 3), np.int32)
        large = np.kron(alike, np.ones((4, 4), np.int32))[: grid.rows, : grid.columns]
        patched = np.where(draws.random(large.shape) < 0.05, patched, large)
    maps = []
    for _ in range(count):
        known = TERMS[draws.random(len(TERMS)) < 0.5]
        others = draws.integers(0, workers, draws.integers(1, 4), np.int32)
        maps.append(TextMap(known, draws.integers(0, workers, len(known), np.int32), others))
    ordered = TERMS[draws.random(len(TERMS)) < 0.7]
    counts = draws.integers(1, 4, len(ordered))
    kind = draw(st.sampled_from(kinds))
    return Plan("any", workers, kind, grid, patched.ravel(), maps, ordered, counts)


def matching(world: World) -> list[tuple[int, int]]:
    """Compare everything with everything."""
    rows, messages = world
    pairs = []
    for message in range(messages.size):
        text = set(messages.terms[messages.starts[message] : messages.starts[message + 1]].tolist())
        box = messages.boxes[message]
        for row in range(rows.size):
            needed = set(rows.terms[rows.starts[row] : rows.starts[row + 1]].tolist())
            other = rows.boxes[row]
            meet = (box[:2] <= other[2:]).all() and (other[:2] <= box[2:]).all()
            if meet and needed <= text:
                pairs.append((message, row))
    return pairs


def listed(pairs: routing.Pairs) -> list[tuple[int, int]]:
    return list(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))


def owner_of(plan: Plan, cell: int, key: int) -> int:
    """The worker that has a key in a cell."""
    return int(owners_of(plan, np.array([cell], np.int32), np.array([key], np.uint64))[0])
