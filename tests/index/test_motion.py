"""What movement adds to the cost of a grid, and how the AP+-Tree learns who moves how fast."""

from __future__ import annotations

from math import floor, log, log2, sqrt

import numpy as np
import pytest

from inside import from_python
from nearcast import Box, Engine
from nearcast.arrays.types import Floats
from nearcast.engine.indexed import Indexed
from nearcast.index import Batch, Table
from nearcast.index.ap_plus_tree import ApPlusTree
from nearcast.index.ap_tree import motion
from nearcast.index.ap_tree.motion import STILL, Motion

BOUNDS = np.array([10.0, 20.0, 30.0, 40.0])
COLUMNS, LINES, FANOUT, CAPACITY = 4, 5, 200, 40
EVERY, HORIZON = 5.0, 10

_moving_cost = from_python(motion.moving_cost)
_steps_until_drift = from_python(motion.steps_until_drift)


class Node:
    """Some of a table's boxes, in a node of a tree, each with its speed."""

    def __init__(self, seed: int, count: int, fastest: float) -> None:
        rng = np.random.default_rng(seed)
        corners = rng.uniform(10, 38, (2 * count, 2))
        self.box: Floats = np.hstack([corners, corners + rng.uniform(0, 4, (2 * count, 2))])
        self.motion = Motion(rng.uniform(-fastest, fastest, (2 * count, 2)), 1e5, EVERY, HORIZON)
        self.chosen = rng.permutation(2 * count).astype(np.int32)
        self.work = rng.permutation(2 * count).astype(np.int32)
        self.rows = self.chosen[self.work[3 : 3 + count]]
        self.span = 3, 3 + count

    def cost(self, depth: int, terms: int) -> float:
        cost: float = _moving_cost(
            self.box, self.chosen, self.work, *self.span, BOUNDS, depth, COLUMNS, LINES, terms,
            FANOUT, CAPACITY, self.motion,
        )  # fmt: skip
        return cost

    def drift(self) -> int:
        steps: int = _steps_until_drift(
            self.box, self.chosen, self.work, *self.span, BOUNDS, COLUMNS, LINES, self.motion
        )
        return steps


def plain_drift(node: Node) -> int:
    """Algorithm 8, with half a row more in each cell; who has left is counted at the border."""

    def weights(time: int) -> list[float]:
        found = [0.5] * (COLUMNS * LINES)
        for row in node.rows.tolist():
            west, south, east, north = node.box[row].tolist()
            lon = (west + east) / 2 + node.motion.speed[row, 0] * time
            lat = (south + north) / 2 + node.motion.speed[row, 1] * time
            column = min(max(floor((lon - 10) / 20 * COLUMNS), 0), COLUMNS - 1)
            line = min(max(floor((lat - 20) / 20 * LINES), 0), LINES - 1)
            found[line * COLUMNS + column] += 1
        return [one / (len(node.rows) + 0.5 * COLUMNS * LINES) for one in found]

    old = weights(0)
    for time in range(1, HORIZON + 1):
        pairs = zip(old, weights(time), strict=True)
        if sum(before * log(before / now) for before, now in pairs) > 0.001:
            return time
    return HORIZON


def plain_cost(node: Node, depth: int, terms: int) -> float:
    """Equations 9 and 13."""
    number = len(node.rows)
    speeds = np.abs(node.motion.speed[node.rows])
    passed: list[float] = (speeds / 20).sum(axis=1).tolist()
    updates = sum(2 * min(1, zeta) * depth * log2(FANOUT) for zeta in passed) / EVERY
    levels = max(0, log(number / CAPACITY) / log(FANOUT)) + 1
    again = number * log2(FANOUT) + (number * sqrt(FANOUT) + FANOUT * terms) * levels
    return updates + again / plain_drift(node)


@pytest.mark.parametrize("seed", range(6))
def test_a_grid_of_movers_costs_what_the_equations_say(seed: int) -> None:
    fastest = [0.0, 1e-4, 0.003, 0.1, 4.0, 60.0][seed]
    node = Node(seed, 150 * (1 + seed), fastest)
    assert node.drift() == plain_drift(node)
    assert node.cost(1 + seed, 30) == pytest.approx(plain_cost(node, 1 + seed, 30))


def test_the_faster_they_are_the_sooner_a_grid_is_out_of_date() -> None:
    times = [Node(1, 400, fastest).drift() for fastest in (0.0, 0.002, 0.02, 0.2, 2.0)]
    assert times == sorted(times, reverse=True)
    assert times[0] == HORIZON
    assert times[-1] == 1


def populated(count: int = 800) -> ApPlusTree:
    """Small boxes of two frequent terms in a narrow place: a grid divides them best."""
    rng = np.random.default_rng(5)
    table = Table()
    table.ensure_terms(3)
    corners = rng.uniform(0, 10, (count, 2))
    terms = np.column_stack([np.zeros(count), rng.integers(1, 3, count)]).astype(np.int32)
    table.add_boxes(
        np.arange(count, dtype=np.int32), np.hstack([corners, corners + 0.05]),
        np.arange(0, 2 * count + 1, 2), terms.ravel(),
    )  # fmt: skip
    index = ApPlusTree(table, message_rate=20.0, update_every=5.0, rebuild=False)
    index.build()
    return index


def report(index: ApPlusTree, way: tuple[float, float], times: int) -> None:
    """Let all rows go the same way, again and again."""
    rows = index.table.live_rows()
    for _ in range(times):
        index.table.move(rows, index.table.rows.box[rows] + np.tile(way, 2))
        index.move(rows)


def test_grids_are_made_where_no_row_moves_and_not_where_all_do() -> None:
    """Rebuilt after reports, from the speeds that these say."""
    still, moving = populated(), populated()
    assert still.stats()["s_nodes"] > 0
    report(still, (0.0, 0.0), 4)
    report(moving, (2.0, -1.0), 4)
    report(moving, (-8.0, 4.0), 1)  # back again, and a little less fast
    for index in (still, moving):
        index.build()
    assert still.stats()["s_nodes"] > 0
    assert moving.stats()["s_nodes"] == 0


def test_speeds_come_from_reports_the_latest_counting_most() -> None:
    """In degrees a timestamp; the short way where that is across the antimeridian."""
    index = populated(50)
    report(index, (1.0, -0.5), 1)
    assert index.speeds[:50] == pytest.approx(np.tile([1.0, -0.5], (50, 1)))
    report(index, (0.0, 0.0), 1)
    assert index.speeds[:50] == pytest.approx(0.7 * np.tile([1.0, -0.5], (50, 1)))
    report(index, (350.0, 0.0), 40)
    assert index.speeds[:50] == pytest.approx(np.tile([-10.0, 0.0], (50, 1)), abs=1e-3)
    index.delete(index.table.live_rows()[:1])
    assert index.speeds[0].tolist() == [0.0, 0.0]


def test_rates_and_speeds_are_counted_from_the_stream() -> None:
    """Nothing is known to move until something has; then time, messages and reports say how."""
    index = populated(50)
    counted = ApPlusTree(index.table, timestamp_s=10.0)
    counted.build()
    assert counted.motion is STILL
    rows = index.table.live_rows()[:20]
    no_terms = Batch(np.zeros(6, np.int64), np.empty(0, np.int32), np.zeros((5, 4)))
    for step in range(5):  # one timestamp lasts 10 s: four of them pass
        now = 10.0 * step
        counted.note_time(now)
        counted.candidates(no_terms)
        if step in (2, 4):
            counted.note_reports(rows, np.full(20, now))
            counted.table.move(rows, counted.table.rows.box[rows] + np.tile((1.0, 0.5), 2))
            counted.move(rows)
    motion = counted.motion
    assert motion.rate == 25 / 4
    assert motion.every == 50 * 4 / 40
    # The first report has no time before it: one timestamp. The second is two of them later.
    assert motion.speed[rows] == pytest.approx(np.tile([0.7 + 0.15, 0.35 + 0.075], (20, 1)))
    assert not motion.speed[index.table.live_rows()[20:]].any()


def test_an_engine_tells_its_tree_when_subscriptions_report() -> None:
    """Through replay and calls alike: the time of a move gives the speed."""
    engine = Engine(index="ap-plus-tree:timestamp_s=10")
    engine.subscribe("s", "a", Box(0, 0, 1, 1), at=0)
    engine.publish("m", "a", (2.5, 0.5), at=0, ttl=100)
    assert [update.op for update in engine.move("s", Box(2, 0, 3, 1), at=20)] == ["add"]
    assert [update.op for update in engine.move("s", Box(4, 0, 5, 1), at=40)] == ["remove"]
    core = engine._core
    assert isinstance(core, Indexed)
    index = core.boolean.index
    assert isinstance(index, ApPlusTree)
    assert index.speeds[0].tolist() == pytest.approx([1.0, 0.0])
    assert index.motion.every == pytest.approx(4 / 2)
