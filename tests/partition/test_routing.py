"""Every pair that matches is found, by one worker, whatever the plan."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_plans import (
    TERMS,
    World,
    boxes,
    grids,
    listed,
    matching,
    owner_of,
    plans,
    worlds,
)
from nearcast.errors import InvalidValue
from nearcast.partition import keys, owners, routing
from nearcast.partition.grid import Grid, cells_of, count_cells, grid_over, spans_of
from nearcast.partition.plan import KINDS, Plan
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.sample import hashed, sample_of
from nearcast.partition.wanted import WantedKeys


def check(plan: Plan, world: World, filtered: bool) -> None:
    rows, messages = world
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    wanted = WantedKeys(plan.grid)
    wanted.add_rows(rows.boxes, chosen)
    held = listed(routing.route_rows(plan, rows.boxes, chosen, rows.owners))
    slots = wanted.slots if filtered else None
    sent = listed(routing.route_messages(plan, slots, *messages, first=7))
    assert len(set(held)) == len(held)
    assert len(set(sent)) == len(sent)
    assert [number for number, _ in sent] == sorted(number for number, _ in sent)
    pairs = matching(world)
    found: Counter[tuple[int, int]] = Counter()
    for worker in range(plan.workers):
        both = [(m, r) for m, r in pairs if (m, worker) in sent and (r, worker) in held]
        mine = owners.owns(
            plan,
            worker,
            messages.boxes,
            rows.boxes,
            chosen,
            np.array([m for m, _ in both], np.int32),
            np.array([r for _, r in both], np.int32),
        )
        found.update(pair for pair, owned in zip(both, mine.tolist(), strict=True) if owned)
    assert found == Counter(pairs)


@given(plans(), worlds(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_one_worker_answers_for_each_pair(plan: Plan, world: World, filtered: bool) -> None:
    """Whatever the plan, one worker that has both message and row answers for a pair."""
    check(plan, world, filtered)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("name", sorted(PARTITIONERS))
@given(worlds(), grids, st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_every_partitioner_routes_every_pair(
    name: str, filtered: bool, world: World, grid: Grid, workers: int
) -> None:
    """The plans of every partitioner lose no pair and find none twice, from any sample."""
    plan = PARTITIONERS[name](sample_of(*world), workers, grid)
    assert (plan.scheme, plan.workers) == (name, workers)
    assert plan.grid[:4] == grid[:4]
    assert plan.grid == grid or name == "auto"  # which may make cells smaller
    check(plan, world, filtered)
    check(Plan.from_bytes(plan.to_bytes()), world, filtered)


@given(plans(("grid",)), worlds())
@settings(max_examples=100, deadline=None)
def test_a_filter_sends_to_those_who_own_a_wanted_term(plan: Plan, world: World) -> None:
    """With the filter, a message goes exactly to the owners of its terms wanted in its cells."""
    rows, messages = world
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    wanted = WantedKeys(plan.grid)
    wanted.add_rows(rows.boxes, chosen)
    numbers, cells = cells_of(plan.grid, rows.boxes)
    pairs = set(zip(cells.tolist(), chosen[numbers].tolist(), strict=True))
    expected = set()
    for message, cell in zip(*cells_of(plan.grid, messages.boxes), strict=True):
        for term in messages.terms[messages.starts[message] : messages.starts[message + 1]]:
            if (int(cell), int(term)) in pairs:
                expected.add((int(message), owner_of(plan, int(cell), int(term))))
    assert set(listed(routing.route_messages(plan, wanted.slots, *messages))) == expected


@given(st.integers(0, 10**6), st.sampled_from([(70, 3), (128, 64), (33, 90), (300, 1), (17, 17)]))
@settings(max_examples=60, deadline=None)
def test_large_rows_are_never_missed(seed: int, shape: tuple[int, int]) -> None:
    """Rows over many blocks, entered coarsely, get every message of theirs, beside small rows.

    Coarse entries reach no further than the blocks of their level that the box meets.
    """
    draws = np.random.default_rng(seed)
    grid = Grid(0.0, 0.0, float(shape[0]), float(shape[1]), *shape)
    corners = np.sort(draws.random((2, 12, 2)) ** 2, axis=0) * shape
    rows = np.hstack((corners[0], corners[1]))
    chosen = hashed(draws.integers(0, 8, 12))
    wanted = WantedKeys(grid)
    wanted.add_rows(rows, chosen)
    sides = np.where(draws.random((300, 1)) < 0.5, 0.0, draws.random((300, 2)) * 9)
    places = draws.random((300, 2)) * shape
    messages = np.hstack((places, np.minimum(places + sides, shape)))
    terms = hashed(draws.integers(0, 9, 300))
    plan = Plan("any", 1, "grid", grid, np.zeros(grid.cells, np.int32))
    sent = set(routing.route_messages(plan, wanted.slots, messages, np.arange(301), terms)[0])
    cells = spans_of(grid, rows)
    for number, span in enumerate(spans_of(grid, messages)):
        meet = (span[:2] <= cells[:, 2:]).all(axis=1) & (cells[:, :2] <= span[2:]).all(axis=1)
        if (meet & (chosen == terms[number])).any():
            assert number in sent
        elif terms[number] not in chosen:
            assert number not in sent
    wanted.remove_rows(rows, chosen)
    assert len(wanted) == 0
    assert not len(routing.route_messages(plan, wanted.slots, messages, np.arange(301), terms)[0])


@given(plans(("grid",)), worlds())
@settings(max_examples=100, deadline=None)
def test_rows_go_to_the_owners_of_their_keys_and_no_further(plan: Plan, world: World) -> None:
    """A row is held by exactly the workers that own its key in a cell it meets."""
    rows = world.rows
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    numbers, cells = cells_of(plan.grid, rows.boxes)
    workers = owners.owners_of(plan, cells, chosen[numbers])
    assert set(listed(routing.route_rows(plan, rows.boxes, chosen))) == set(
        listed((numbers, workers))
    )


@given(plans(), worlds())
@settings(max_examples=50, deadline=None)
def test_keys_are_the_rarest_terms(plan: Plan, world: World) -> None:
    """A key is the required term with the least count, unknown terms first, then by hash."""
    rows = world.rows
    counts = dict(zip(plan.order_terms.tolist(), plan.order_counts.tolist(), strict=True))
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    for row in range(rows.size):
        needed = rows.terms[rows.starts[row] : rows.starts[row + 1]].tolist()
        assert int(chosen[row]) == min(needed, key=lambda term: (counts.get(term, 0), term))


def test_many_rows_and_messages_need_more_room_than_first_thought() -> None:
    """Where each row and message goes to most workers, none of the pairs is left out."""
    grid = Grid(0.0, 0.0, 8.0, 8.0, 8, 8)
    plan = Plan("any", 64, "grid", grid, np.arange(64, dtype=np.int32))
    box = np.tile([0.0, 0.0, 8.0, 8.0], (50, 1))
    some = hashed(np.arange(50))
    expected = [(number, worker) for number in range(50) for worker in range(64)]
    assert sorted(listed(routing.route_rows(plan, box, some))) == expected
    wanted = WantedKeys(grid)
    wanted.add_rows(box, some)
    for slots in (None, wanted.slots):
        sent = routing.route_messages(plan, slots, box, np.arange(51), some)
        assert sorted(listed(sent)) == expected


def test_a_shared_plan_spreads_messages_in_turn() -> None:
    """By a shared plan the messages go round, from where the last batch ended."""
    plan = Plan("shared", 3, "shared", grid_over(), np.zeros(128 * 64, np.int32))
    batch = np.zeros((5, 4)), np.array([0, 1, 2, 2, 3, 4]), TERMS[[0, 1, 2, 3]]
    assert listed(routing.route_messages(plan, None, *batch, first=5)) == [
        *((0, 2), (1, 0), (3, 2), (4, 0))  # the third has no terms
    ]


def test_hash_needs_the_owners_of_rows() -> None:
    """A plan by hash says so when it is not given the owners of rows."""
    plan = Plan("hash", 3, "hash", grid_over(), np.zeros(128 * 64, np.int32))
    with pytest.raises(InvalidValue, match="owners: None given; expected the owner of each of 1"):
        routing.route_rows(plan, np.zeros((1, 4)), TERMS[:1])
    with pytest.raises(InvalidValue, match="keys: 2 given; expected a key for each of 1 rows"):
        routing.route_rows(plan, np.zeros((1, 4)), TERMS[:2])


def test_hash_keeps_the_rows_of_an_owner_together_and_owners_apart() -> None:
    """Rows of one subscription share a worker, and numbers in sequence are spread evenly."""
    owner = np.arange(9000, dtype=np.int32) // 3
    workers = routing.owner_workers(4, owner).reshape(-1, 3)
    assert (workers == workers[:, :1]).all()
    assert np.bincount(workers[:, 0]).min() > 650


def test_a_conjunct_without_terms_has_no_key() -> None:
    """The key of nothing is refused, with its place."""
    plan = Plan("shared", 1, "shared", grid_over(), np.zeros(128 * 64, np.int32))
    with pytest.raises(InvalidValue, match=r"starts\[1\]: 1 given; expected a conjunct with a"):
        keys.choose(plan.arrays, np.array([0, 1, 1]), TERMS[:1])


@given(grids, boxes())
@settings(max_examples=100, deadline=None)
def test_cells_of_a_box_hold_all_its_points(grid: Grid, box: Any) -> None:
    """The corners of a box are in the cells of the box, also outside the grid."""
    _, cells = cells_of(grid, np.array([box]))
    counts = np.zeros(grid.cells, np.int64)
    count_cells(grid, np.array([box]), counts)
    assert np.flatnonzero(counts).tolist() == sorted(cells.tolist())
    west, south, east, north = box
    x0, y0, x1, y1 = spans_of(grid, np.array([box]))[0]
    corners = {(west, south): (x0, y0), (east, south): (x1, y0), (west, north): (x0, y1)}
    for (lon, lat), (x, y) in corners.items():
        (cell,) = cells_of(grid, np.array([[lon, lat, lon, lat]]))[1]
        assert cell == y * grid.columns + x
        assert cell in cells


def test_a_full_table_is_as_exact_as_a_small_one() -> None:
    """With thousands of keys in the table, messages go to the owners of wanted terms and no other.

    A third of the terms is the key of no row; many slots are shared with a neighbour's overflow.
    """
    draws = np.random.default_rng(3)
    grid = Grid(0.0, 0.0, 16.0, 16.0, 16, 16)
    plan = Plan("any", 8, "grid", grid, draws.integers(0, 8, 256, np.int32))
    corners = draws.random((4000, 2)) * 15
    boxes = np.hstack((corners, corners + draws.random((4000, 2)) * 3))
    chosen = hashed(draws.integers(0, 300, 4000))
    wanted = WantedKeys(grid)
    wanted.add_rows(boxes, chosen)
    places = draws.random((2000, 2)) * 16
    terms = hashed(draws.integers(0, 450, 4000))
    messages = np.hstack((places, places)), np.arange(2001) * 2, terms
    numbers, cells = cells_of(grid, boxes)
    pairs = set(zip(cells.tolist(), chosen[numbers].tolist(), strict=True))
    _, at = cells_of(grid, messages[0])
    expected = [
        (number, int(plan.cell_worker[cell]))
        for number, cell in enumerate(at.tolist())
        if {(cell, term) for term in terms[2 * number : 2 * number + 2].tolist()} & pairs
    ]
    assert 500 < len(expected) < 1500
    assert listed(routing.route_messages(plan, wanted.slots, *messages)) == expected
    for kind in ("hash", "shared"):
        whole = plan.changed(kind=kind)
        sent = routing.route_messages(whole, wanted.slots, *messages)[0]
        assert sorted(set(sent.tolist())) == [number for number, _ in expected]


def test_a_message_without_terms_goes_nowhere() -> None:
    """No row can want a message that has no term, with the filter or without."""
    grid = Grid(0.0, 0.0, 8.0, 8.0, 8, 8)
    for kind in KINDS:
        plan = Plan("any", 2, kind, grid, np.ones(64, np.int32))
        for slots in (None, WantedKeys(grid).slots):
            empty = np.array([[0.0, 0.0, 8.0, 8.0]]), np.zeros(2, np.int64), TERMS[:0]
            assert listed(routing.route_messages(plan, slots, *empty)) == []
