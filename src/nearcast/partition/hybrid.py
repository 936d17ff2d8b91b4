"""`hybrid`: hybrid partitioning, algorithm 1 of PS2Stream (section IV-B), complete.

Phase 1 cuts space in two where messages and subscriptions speak of different things (N_u) until it
is clear whether a part should be split by text (N_t) or by whichever is better (N_s). Phase 2 finds
by dynamic programming how many parts to cut each of them into, cuts, deals the parts to workers,
and goes on cutting the heaviest part until the loads are even enough.

What the paper leaves open, and how it is settled here:

- Lines lie between the cells of the plan's grid, not anywhere. A node of one cell cannot be cut by
  space, one with a single unit of text not by text; the next heaviest is cut in its place.
- A kd-tree cuts where half of the messages lie on each side (with the real cost: half of the load).
- The terms of a node are dealt out heaviest first, each to the part that has least to do with it.
  Rare terms are dealt in buckets (`digest.Units`).
- A message counts in a node if some row there has one of its terms as its key: what H2 lets
  through.
- "About 0" (line 9) is `EPSILON`; theta is `NODES` times the number of workers.
- While some worker has nothing, L_max / L_min is infinite for any choice; a node then goes to such
  a worker rather than to the one whose load it increases least, unless they are the same.

`load` chooses between definition 1, as in the paper, and the real cost of a worker's index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.partition.bisect import Part, everything, part_by_space, sides_of
from nearcast.partition.digest import Digest
from nearcast.partition.grid import Floats, Grid, Int32s, Int64s
from nearcast.partition.kdt import (
    COLUMNS,
    ROWS,
    Growing,
    Leaf,
    SpaceSplit,
    TextSplit,
    Tree,
    layout_of,
)
from nearcast.partition.load import MEASURED, Costs
from nearcast.partition.merge import Members, Weights, members_of, merge
from nearcast.partition.part_counts import number_partitions
from nearcast.partition.plan import Plan
from nearcast.partition.prepare import prepare
from nearcast.partition.sample import Sample
from nearcast.partition.similarity import Texts, texts_of

SIGMA = 1.1
"""The largest L_max / L_min that is even enough."""
DELTA = 0.9
"""Similarity from which a node is not split by text for its own sake."""
EPSILON = 0.01
"""A change of similarity that is about 0."""
NODES = 4
"""How many nodes there may be for each worker, before evenness is given up."""

MOST_ROWS, MOST_MESSAGES = 100_000, 50_000
"""What this is planned with at most; a larger sample is thinned out."""

Load = Literal["definition-1", "real"]


class Node(NamedTuple):
    """A leaf of the growing tree."""

    number: int
    part: Part
    load: float
    by_text: bool  # in N_t, or a part of a node that was split by text
    textual: bool  # its cells are split by text already


def hybrid(
    sample: Sample,
    workers: int,
    grid: Grid,
    load: Load = "definition-1",
    costs: Costs = MEASURED,
) -> Plan:
    """Plan as PS2Stream does; `load` is what is minimised and evened out."""
    prepared = prepare(sample, workers, grid, costs, MOST_ROWS, MOST_MESSAGES)
    thinned = sample.limited(MOST_ROWS, MOST_MESSAGES)
    work = Hybrid(prepared.fit, texts_of(thinned, grid), workers, weights_for(prepared.fit, load))
    tree = work.partition_workload()
    layout = layout_of(tree, grid, prepared.fit.units)
    scheme = "hybrid" if load == "definition-1" else "hybrid-real"
    return prepared.plan(scheme, workers, layout, work.about())


def hybrid_real(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan as PS2Stream does, with the real cost of a worker's index as load."""
    return hybrid(sample, workers, grid, "real")


def weights_for(digest: Digest, load: Load) -> Weights:
    """How load follows from messages, rows and hits."""
    if load == "real":
        return Weights(0.0, digest.message_ns, digest.row_ns, 1.0)
    return Weights(digest.check_ns, digest.message_ns, digest.row_ns, 0.0)


class Hybrid:
    """The state of algorithm 1."""

    def __init__(self, digest: Digest, texts: Texts, workers: int, weights: Weights) -> None:
        self._digest = digest
        self._texts = texts
        self._workers = workers
        self._weights = weights
        self._growing = Growing(Leaf(0), 1)
        self._nodes: list[Node] = []
        self._phase_1 = (0, 0)
        self._loads = np.zeros(workers)

    def about(self) -> dict[str, Any]:
        """What is worth telling about how the plan came about."""
        top, low = float(self._loads.max()), float(self._loads.min())
        return {
            "nodes_by_text": self._phase_1[0],
            "nodes_by_space": self._phase_1[1],
            "parts": len(self._nodes),
            "planned_max_by_min": top / low if low > 0 else None,
        }

    def partition_workload(self) -> Tree:
        """PartitionWorkload, lines 1 to 28."""
        self._find_subspaces()
        if len(self._nodes) < self._workers:
            self._cut_into_parts()
        while True:
            chosen, self._loads = self._merged()
            if float(self._loads.max()) <= SIGMA * float(self._loads.min()):
                break
            if len(self._nodes) >= NODES * self._workers or not self._cut_heaviest():
                break
        workers = {node.number: int(at) for node, at in zip(self._nodes, chosen, strict=True)}
        return self._growing.finished(workers)

    def _find_subspaces(self) -> None:
        """Phase 1, lines 1 to 12: N_u is worked off into N_s and N_t."""
        undecided = [(0, everything(self._digest))]
        most = NODES * self._workers
        while undecided:
            number, part = undecided.pop()
            similar = self._texts.similarity(part.rect)
            if similar >= DELTA:
                self._add(number, part, by_text=False)
                continue
            best = self._most_different(part)
            enough = len(self._nodes) + len(undecided) + 2 > most
            if best is None or enough or abs(best[0] - similar) <= EPSILON:
                self._add(number, part, by_text=True)
                continue
            _, axis, line = best
            low, high = self._growing.numbers(2)
            self._growing.split(number, SpaceSplit(axis, line, Leaf(low), Leaf(high)))
            parts = part_by_space(self._digest, part, axis, line)
            undecided += [(low, parts[0]), (high, parts[1])]
        by_text = sum(node.by_text for node in self._nodes)
        self._phase_1 = by_text, len(self._nodes) - by_text

    def _most_different(self, part: Part) -> tuple[float, int, int] | None:
        """The cut of line 8: its alpha, its axis, its line."""
        best = None
        for axis in (COLUMNS, ROWS):
            if part.rect[axis + 2] - part.rect[axis] < 2:
                continue
            line = self._texts.middle(part.rect, axis)
            alpha = min(self._texts.similarity(r) for r in part.rect.cut_at(axis, line))
            if best is None or alpha < best[0]:
                best = alpha, axis, line
        return best

    def _add(self, number: int, part: Part, by_text: bool, textual: bool = False) -> None:
        self._nodes.append(Node(number, part, self._load(part), by_text, textual))

    def _load(self, part: Part) -> float:
        return self._weights.load(*contents(self._digest, part))

    def _cut_into_parts(self) -> None:
        """Lines 13 to 16: how many parts for each node, and cut them."""
        nodes, self._nodes = self._nodes, []
        counts = [self._workers]
        if len(nodes) > 1:
            most = self._workers - len(nodes) + 1
            costs = np.full((len(nodes), most), np.inf)
            for at, node in enumerate(nodes):
                for count in range(1, most + 1):
                    ways = self._ways(node, count)
                    if ways:
                        costs[at, count - 1] = min(way.load for way in ways)
            counts = number_partitions(_finite(costs), self._workers)
        for node, count in zip(nodes, counts, strict=True):
            self._partition_node(node, count)

    def _cut_heaviest(self) -> bool:
        """Lines 24 and 25; false if no node can be cut."""
        for node in sorted(self._nodes, key=lambda each: -each.load):
            if self._ways(node, 2):
                self._nodes.remove(node)
                self._partition_node(node, 2)
                return True
        return False

    def _partition_node(self, node: Node, count: int) -> None:
        """PartitionNode: by text if it is in N_t, else by what leaves less to do."""
        ways = self._ways(node, count)
        if count == 1 or not ways:
            self._nodes.append(node)
            return
        way = min(ways, key=lambda each: each.load)
        leaves: list[Part] = []
        tree = way.cut(leaves)
        numbers = self._growing.numbers(len(leaves))
        self._growing.split(node.number, _numbered(tree, numbers))
        for number, part in zip(numbers, leaves, strict=True):
            self._add(number, part, node.by_text or way.by_text, way.by_text)

    def _ways(self, node: Node, count: int) -> list[_Way]:
        if count == 1:
            return [_Way(node.load, False, lambda _: Leaf(0))]
        ways = []
        by_text = self._by_text(node.part, count)
        if by_text is not None:
            ways.append(by_text)
        # What is in N_t is split by text only, unless its text cannot be split.
        if not node.textual and not (node.by_text and ways):
            leaves: list[Part] = []
            tree = self._by_space(node.part, count, leaves)
            if len(leaves) == count:
                load = sum(self._load(part) for part in leaves)
                ways.append(_Way(load, False, _remembered(tree, leaves)))
        return ways

    def _by_text(self, part: Part, count: int) -> _Way | None:
        if len(part.units) < count:
            return None
        d, weights = self._digest, self._weights
        objects, queries, cost = unit_contents(d, part)
        alone = (
            weights.pairs * objects * queries
            + weights.message * objects
            + weights.row * queries
            + weights.hits * cost
        )
        units = part.units[np.argsort(-alone[part.units], kind="stable")]
        dealt = _deal(objects[units], queries[units], cost[units], weights, count)
        side = np.zeros(d.units.count, np.int32)
        side[units] = dealt

        def cut(leaves: list[Part]) -> Tree:
            leaves += sides_of(d, part, side, count)
            return TextSplit(side, [Leaf(at) for at in range(count)])

        messages, rows, costs = side_contents(d, part, side, count)
        load = (
            weights.pairs * messages * rows
            + weights.message * messages
            + weights.row * rows
            + weights.hits * costs
        )
        return _Way(float(load.sum()), True, cut)

    def _by_space(self, part: Part, count: int, leaves: list[Part]) -> Tree:
        """Cut in two again and again, the numbers of parts in proportion to messages or load."""
        if count == 1:
            leaves.append(part)
            return Leaf(len(leaves) - 1)
        first = count // 2
        best: tuple[float, int, int] | None = None
        for axis in (COLUMNS, ROWS):
            if part.rect[axis + 2] - part.rect[axis] < 2:
                continue
            line = self._line(part, axis, first / count)
            load = sum(self._load(each) for each in part_by_space(self._digest, part, axis, line))
            if best is None or load < best[0]:
                best = load, axis, line
        if best is None:
            leaves.append(part)
            return Leaf(len(leaves) - 1)
        _, axis, line = best
        low, high = part_by_space(self._digest, part, axis, line)
        low_tree = self._by_space(low, first, leaves)
        return SpaceSplit(axis, line, low_tree, self._by_space(high, count - first, leaves))

    def _line(self, part: Part, axis: int, share: float) -> int:
        """The line with this share of messages (or load) before it, as near as lines allow."""
        d = self._digest
        low, high = part.rect[axis], part.rect[axis + 2]
        at = (d.column, d.row)[axis][part.hits] - low
        message = d.message[part.hits]
        weight = np.empty(len(message))
        weight[:1], weight[1:] = 1.0, message[1:] != message[:-1]
        if self._weights.hits:
            weight = weight * d.message_ns + d.cost[part.hits]
        below = np.cumsum(np.bincount(at, weight, minlength=high - low))
        if not below[-1]:
            return min(max(low + 1, low + round((high - low) * share)), high - 1)
        return low + 1 + int(np.argmin(np.abs(below[:-1] - share * below[-1])))

    def _merged(self) -> tuple[Int32s, Floats]:
        d = self._digest
        members = self._members()
        return merge(members, self._weights, self._workers, d.messages, len(d.spans))

    def _members(self) -> Members:
        d = self._digest
        messages, rows, costs = [], [], []
        for node in self._nodes:
            message = d.message[node.part.hits]
            messages.append(np.unique(message))
            rows.append(node.part.rows.astype(np.int32))
            costs.append(float(d.cost[node.part.hits].sum()))
        return members_of(messages, rows, costs)


class _Way(NamedTuple):
    """A way to cut a node: the load of all its parts, and how to do it."""

    load: float
    by_text: bool
    cut: Callable[[list[Part]], Tree]


def _remembered(tree: Tree, parts: list[Part]) -> Callable[[list[Part]], Tree]:
    def cut(leaves: list[Part]) -> Tree:
        leaves += parts
        return tree

    return cut


def _numbered(tree: Tree, numbers: list[int]) -> Tree:
    """Give the leaves of a tree other numbers."""
    return Growing(tree, 0).finished(dict(enumerate(numbers)))


def _finite(costs: Floats) -> Floats:
    """Make cuts that cannot be made dear, so that they are taken only if there is no other way."""
    dear = 1e6 * (1.0 + costs[np.isfinite(costs)].max(initial=0.0))
    return np.where(np.isfinite(costs), costs, dear)


def contents(d: Digest, part: Part) -> tuple[float, float, float]:
    """The messages and rows of a part, and the cost of its hits."""
    message = d.message[part.hits]
    distinct = 1 + np.count_nonzero(message[1:] != message[:-1]) if len(message) else 0
    return float(distinct), float(len(part.rows)), float(d.cost[part.hits].sum())


def unit_contents(d: Digest, part: Part) -> tuple[Floats, Floats, Floats]:
    """The same for each unit of text."""
    each = np.arange(d.units.count, dtype=np.int32)
    return side_contents(d, part, each, d.units.count)


def side_contents(
    d: Digest, part: Part, side: Int32s, sides: int
) -> tuple[Floats, Floats, Floats]:
    """The same for each side of a cut by text."""
    messages, cost = np.zeros(sides), np.zeros(sides)
    _count_sides(d.message, d.unit, d.cost, part.hits, side, messages, cost)
    rows = np.bincount(side[d.row_unit[part.rows]], minlength=sides)
    return messages, rows.astype(np.float64), cost


@kernel
def _count_sides(
    message: Int32s,
    unit: Int32s,
    cost: Floats,
    hits: Int64s,
    side: Int32s,
    messages: Floats,
    costs: Floats,
) -> None:
    last = np.full(len(messages), -1, np.int64)
    for hit in hits:
        to = side[unit[hit]]
        costs[to] += cost[hit]
        if last[to] != message[hit]:
            last[to] = message[hit]
            messages[to] += 1.0


@kernel
def _deal(
    objects: Floats, queries: Floats, costs: Floats, weights: Weights, count: int
) -> Int32s:
    """Deal units in order, each to the part with the least load if it took the unit."""
    dealt = np.empty(len(objects), np.int32)
    sums = np.zeros((3, count))
    for at in range(len(objects)):
        best, least = 0, np.inf
        for part in range(count):
            messages, rows = sums[0, part] + objects[at], sums[1, part] + queries[at]
            load = (
                weights.pairs * messages * rows
                + weights.message * messages
                + weights.row * rows
                + weights.hits * (sums[2, part] + costs[at])
            )
            if load < least:
                best, least = part, load
        dealt[at] = best
        sums[0, best] += objects[at]
        sums[1, best] += queries[at]
        sums[2, best] += costs[at]
    return dealt
