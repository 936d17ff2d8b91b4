"""Hybrid partitioning as in PS2Stream: its pieces by hand and by brute force, and valid plans."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_samples import GRID, made_sample
from nearcast.errors import InvalidValue
from nearcast.partition import keys, routing
from nearcast.partition.grid import Grid
from nearcast.partition.hybrid import Hybrid, hybrid, number_partitions, weights_for
from nearcast.partition.kdt import Rect, TextSplit
from nearcast.partition.merge import Weights, members_of, merge
from nearcast.partition.prepare import prepare
from nearcast.partition.sample import messages_of, rows_of, sample_of
from nearcast.partition.similarity import cosine, texts_of


@given(
    costs=st.integers(1, 4).flatmap(
        lambda nodes: st.lists(
            st.lists(st.integers(0, 50), min_size=5, max_size=5), min_size=nodes, max_size=nodes
        )
    ),
    data=st.data(),
)
def test_parts_are_shared_out_at_the_least_cost(
    costs: list[list[int]], data: st.DataObject
) -> None:
    """The dynamic programme finds what trying everything finds."""
    table = np.array(costs, np.float64)
    nodes, most = table.shape
    total = data.draw(st.integers(nodes, nodes * most))
    chosen = number_partitions(table, total)
    assert sum(chosen) == total
    assert min(chosen) >= 1

    def cost(counts: tuple[int, ...] | list[int]) -> float:
        return float(sum(table[node, count - 1] for node, count in enumerate(counts)))

    ways = [way for way in product(range(1, most + 1), repeat=nodes) if sum(way) == total]
    assert cost(chosen) == min(map(cost, ways))


def test_too_few_or_too_many_parts_are_refused() -> None:
    """Every node needs a part, and none can have more than its cost is known for."""
    with pytest.raises(InvalidValue, match="total: 1 given; expected from 2 to 6 parts"):
        number_partitions(np.ones((2, 3)), 1)
    with pytest.raises(InvalidValue, match="total: 7 given"):
        number_partitions(np.ones((2, 3)), 7)


def test_cosine_by_hand() -> None:
    """Proportional counts are alike, disjoint ones are not, and nothing is like nothing."""
    assert cosine(np.array([1.0, 2.0]), np.array([2.0, 4.0])) == pytest.approx(1.0)
    assert cosine(np.array([1.0, 0.0]), np.array([0.0, 3.0])) == 0.0
    assert cosine(np.array([3.0, 4.0]), np.array([4.0, 3.0])) == pytest.approx(24 / 25)
    assert cosine(np.zeros(2), np.ones(2)) == 0.0


def two_halves() -> tuple[Grid, Rect, Rect]:
    return Grid(0.0, 0.0, 8.0, 8.0, 8, 8), Rect(0, 0, 4, 8), Rect(4, 0, 8, 8)


def test_similarity_is_that_of_a_part_of_space() -> None:
    """West: messages 1 1 2, rows 1 2 -> (2, 1) and (1, 1). East: nothing in common."""
    grid, west, east = two_halves()
    points = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 7.0], [6.0, 6.0]])
    boxes = np.array([[0.5, 0.5, 1.5, 1.5], [1.0, 1.0, 2.0, 2.0], [5.0, 5.0, 7.0, 7.0]])
    sample = sample_of(
        rows_of(boxes, np.arange(4), np.array([1, 2, 9])),
        messages_of(np.hstack((points, points)), np.arange(5), np.array([1, 1, 2, 3])),
        held_out=0.0,
    )
    texts = texts_of(sample, grid)
    assert texts.similarity(west) == pytest.approx(3 / np.sqrt(5 * 2))
    assert texts.similarity(east) == 0.0
    # Of the 4 messages at columns 1, 2, 3 and 6 two lie before line 3.
    assert texts.middle(Rect(0, 0, 8, 8), 0) == 3


def test_nodes_go_where_they_add_least() -> None:
    """A node joins the worker that has its messages already, unless loads get more uneven."""
    weights = Weights(pairs=0.0, message=1.0, row=0.0, hits=0.0)
    no_rows = np.empty(0, np.int64)

    def dealt(*messages: list[int]) -> tuple[list[int], list[float]]:
        lists = [np.array(each, np.int32) for each in messages]
        members = members_of(lists, [no_rows] * len(lists), [0.0] * len(lists))
        chosen, loads = merge(members, weights, 2, 10, 0)
        return chosen.tolist(), loads.tolist()

    # The last node adds nothing to the first worker.
    assert dealt([0, 1, 2, 3], [4, 5, 6, 7], [0, 1]) == ([0, 1, 0], [4.0, 4.0])
    # Here it adds one to the first and two to the second, but the second is lighter.
    assert dealt([0, 1, 2, 3, 4], [5, 6, 7], [0, 8]) == ([0, 1, 1], [5.0, 5.0])


def test_definition_1_multiplies_and_the_real_cost_adds() -> None:
    """Two nodes together cost |O| x |Q| of their unions, or the sum of what their hits cost."""
    one, two = np.array([0, 1], np.int32), np.array([1, 2, 3], np.int32)
    rows = [np.array([0], np.int64), np.array([0, 1], np.int64)]
    members = members_of([one, two], rows, [10.0, 20.0])
    assert merge(members, Weights(1.0, 0.0, 0.0, 0.0), 1, 4, 2)[1].tolist() == [4.0 * 2.0]
    assert merge(members, Weights(0.0, 1.0, 5.0, 1.0), 1, 4, 2)[1].tolist() == [4.0 + 10.0 + 30.0]


def test_text_is_split_where_messages_and_rows_differ() -> None:
    """Where nothing that is asked for is said, phase 1 finds N_t, and elsewhere N_s."""
    grid, _, _ = two_halves()
    draw = np.random.default_rng(2)
    points = draw.random((2000, 2)) * 8
    low = draw.random((500, 2)) * 7
    # Everyone talks of 0 to 4; in the east rows ask for what is rarely said.
    rare = draw.random(2000) < 0.02
    said = np.where(
        rare & (points[:, 0] > 4), draw.integers(50, 60, 2000), draw.integers(0, 5, 2000)
    )
    asked = np.where(low[:, 0] > 4, draw.integers(50, 60, 500), draw.integers(0, 5, 500))
    sample = sample_of(
        rows_of(np.hstack((low, low + 0.2)), np.arange(501), asked),
        messages_of(np.hstack((points, points)), np.arange(2001), said),
    )
    prepared = prepare(sample, 4, grid)
    work = Hybrid(prepared.fit, texts_of(sample, grid), 4, weights_for(prepared.fit, "real"))
    tree = work.partition_workload()
    about = work.about()
    assert about["nodes_by_text"] >= 1
    assert about["nodes_by_space"] >= 1
    assert not isinstance(tree, TextSplit)


@pytest.mark.parametrize("load", ["definition-1", "real"])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), workers=st.integers(1, 9))
def test_plans_are_valid(load: str, seed: int, workers: int) -> None:
    """Every cell has an owner, every worker has something, and no matching pair is missed."""
    sample = made_sample(seed)
    plan = hybrid(sample, workers, GRID, load)  # type: ignore[arg-type]  # both are loads
    assert plan.cell_worker.min() >= -len(plan.maps)
    rows, messages = sample.rows, sample.held_out
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    held = set(
        zip(*(each.tolist() for each in routing.route_rows(plan, rows.boxes, chosen)), strict=True)
    )
    assert {worker for _, worker in held} == set(range(workers))
    sent = routing.route_messages(plan, None, *messages)
    by_message: dict[int, set[int]] = {}
    for message, worker in zip(*(each.tolist() for each in sent), strict=True):
        by_message.setdefault(message, set()).add(worker)
    for message in range(messages.size):
        said = set(messages.terms[messages.starts[message] : messages.starts[message + 1]].tolist())
        west, south, east, north = messages.boxes[message]
        for row in range(rows.size):
            box = rows.boxes[row]
            if (
                set(rows.terms[rows.starts[row] : rows.starts[row + 1]].tolist()) <= said
                and box[0] <= east and box[2] >= west and box[1] <= north and box[3] >= south
            ):  # fmt: skip
                workers_of_row = {worker for number, worker in held if number == row}
                assert workers_of_row & by_message[message]


@pytest.mark.parametrize("load", ["definition-1", "real"])
def test_nothing_can_be_planned_too(load: str) -> None:
    """A sample without rows, without messages or without both gives a plan."""
    empty = made_sample(1, rows=0, messages=0)
    full = made_sample(1)
    for rows, messages in ((0, 0), (0, 50), (50, 0)):
        sample = sample_of(
            full.rows if rows else empty.rows, full.messages if messages else empty.messages
        )
        assert hybrid(sample, 3, GRID, load).workers == 3  # type: ignore[arg-type]  # both are
