"""`hybrid`: hybrid partitioning, algorithm 1 of PS2Stream (section IV-B), complete.

Phase 1 cuts space in two where messages and subscriptions speak of different things (N_u) until it
is clear whether a part should be split by text (N_t) or by whichever is better (N_s). Phase 2 finds
by dynamic programming how many parts to cut each of them into, cuts, deals the parts to workers,
and goes on cutting the heaviest part until the loads are even enough.

What the paper leaves open, and how it is settled here:

- PartitionNode makes p parts of a node by cutting the heaviest part in two, p - 1 times, each time
  by text or by space, whichever leaves less to do. To choose once for all p parts, as the sentence
  in the paper can be read as well, came out up to 30 times worse at 128 workers: everything was
  split by text, and one worker had the most frequent term.
- Lines lie between the cells of the plan's grid, not anywhere. A node of one cell cannot be cut by
  space, one with a single unit of text not by text; the next heaviest is cut in its place.
- A kd-tree cuts where half of the messages lie on each side (with the real cost: half of the load).
- The terms of a node are dealt out heaviest first, each to the part that has least to do with it.
  Rare terms are dealt in buckets (`digest.Units`).
- A message counts in a node if some row there has one of its terms as its key: what H2 lets
  through.
- "About 0" (line 9) is `EPSILON`; theta is `NODES` times the number of workers. Nodes of N_u are
  taken in the order they came, and phase 1 makes half of theta at most: otherwise one region whose
  similarity changes a little with every cut takes all nodes, and none is left to even out loads.
- With more than 31 workers the balance is looked at after several cuts, not after each.
- While some worker has nothing, L_max / L_min is infinite for any choice; a node then goes to such
  a worker rather than to the one whose load it increases least, unless they are the same.

`load` chooses between definition 1, as in the paper, and the real cost of a worker's index. With
the real cost, what was split by text may be cut by space again, which the paper's tree cannot: the
most frequent term of a city is often more than a worker's share.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Any, Literal, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s
from nearcast.errors import InvalidValue
from nearcast.partition.bisect import CellSlice, everything, part_by_space, part_by_text
from nearcast.partition.digest import Digest, add_hits, sums, thinned
from nearcast.partition.grid import Grid
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
from nearcast.partition.load import MEASURED, WorkCosts
from nearcast.partition.merge import Weights, members_of, merge
from nearcast.partition.plan import Plan
from nearcast.partition.prepare import Prepared, prepare
from nearcast.partition.sample import Sample
from nearcast.partition.similarity import SampledTexts, texts_of

SIGMA = 1.1
"""The largest L_max / L_min that is even enough."""
DELTA = 0.9
"""Similarity from which a node is not split by text for its own sake."""
EPSILON = 0.01
"""A change of similarity that is about 0."""
NODES = 4
"""How many nodes there may be for each worker, before evenness is given up."""

_CUTS = 16  # workers for each cut between two looks at the balance

MOST_PLACED, MOST_MESSAGES = 100_000, 50_000
"""Rows and messages that are dealt out; a larger sample is thinned out."""

Load = Literal["definition-1", "real"]


class GrowingLeaf(NamedTuple):
    """A leaf of the growing tree, with its distinct messages and what its hits cost."""

    number: int
    part: CellSlice
    messages: Int32s
    cost: float
    load: float
    by_text: bool  # split it by text only: it is in N_t, or was made by a split by text


def hybrid(
    sample: Sample,
    workers: int,
    grid: Grid,
    load: Load = "definition-1",
    costs: WorkCosts = MEASURED,
) -> Plan:
    """Plan as PS2Stream does; `load` is what is minimised and evened out."""
    return planned(prepare(sample, workers, grid, costs), workers, load)


def planned(prepared: Prepared, workers: int, load: Load) -> Plan:
    """Plan from a sample that is on its grid already."""
    fit = thinned(prepared.fit, MOST_MESSAGES, MOST_PLACED)
    texts = texts_of(prepared.sample.limited(MOST_PLACED, MOST_MESSAGES), fit.grid)
    work = Hybrid(fit, texts, workers, weights_for(fit, load))
    layout = layout_of(work.partition_workload(), fit.grid, fit.units)
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

    def __init__(self, digest: Digest, texts: SampledTexts, workers: int, weights: Weights) -> None:
        self._digest = digest
        self._for_good = weights.pairs > 0.0  # whether a split by text is final
        self._texts = texts
        self._workers = workers
        self._weights = weights
        self._growing = Growing(Leaf(0), 1)
        self._nodes: list[GrowingLeaf] = []
        self._phase_1 = (0, 0)
        self._loads = np.zeros(workers)

    def about(self) -> dict[str, Any]:
        """Figures about how the plan came about."""
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
        cuts = max(1, self._workers // _CUTS)
        while True:
            chosen, self._loads = self._merged()
            if float(self._loads.max()) <= SIGMA * float(self._loads.min()):
                break
            if len(self._nodes) >= NODES * self._workers:
                break
            if not self._cut_heaviest(cuts):
                break
        workers = {node.number: int(at) for node, at in zip(self._nodes, chosen, strict=True)}
        return self._growing.finished(workers)

    def _find_subspaces(self) -> None:
        """Phase 1, lines 1 to 12: N_u is worked off into N_s and N_t."""
        undecided = deque([(0, everything(self._digest))])
        most = NODES * self._workers // 2
        while undecided:
            number, part = undecided.popleft()
            similar = self._texts.similarity(part.rect)
            if similar >= DELTA:
                self._nodes.append(self._node(number, part, by_text=False))
                continue
            best = self._most_different(part)
            enough = len(self._nodes) + len(undecided) + 2 > most
            if best is None or enough or abs(best[0] - similar) <= EPSILON:
                self._nodes.append(self._node(number, part, by_text=True))
                continue
            _, axis, line = best
            low, high = self._growing.numbers(2)
            self._growing.split(number, SpaceSplit(axis, line, Leaf(low), Leaf(high)))
            parts = part_by_space(self._digest, part, axis, line)
            undecided += [(low, parts[0]), (high, parts[1])]
        by_text = sum(node.by_text for node in self._nodes)
        self._phase_1 = by_text, len(self._nodes) - by_text

    def _most_different(self, part: CellSlice) -> tuple[float, int, int] | None:
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

    def _node(self, number: int, part: CellSlice, by_text: bool) -> GrowingLeaf:
        d = self._digest
        messages = np.unique(d.message[part.hits])
        cost = float(d.cost[part.hits].sum())
        load = self._weights.load(len(messages), len(part.rows), cost)
        return GrowingLeaf(number, part, messages, cost, load, by_text)

    def _cut_into_parts(self) -> None:
        """Lines 13 to 16: ComputeNumberPartitions, and PartitionNode for each node."""
        nodes, self._nodes = self._nodes, []
        counts = [self._workers]
        if len(nodes) > 1:
            most = self._workers - len(nodes) + 1
            costs = np.array([self._costs(node, most) for node in nodes])
            counts = number_partitions(costs, self._workers)
        for node, count in zip(nodes, counts, strict=True):
            self._nodes += self._partition_node(node, count, self._growing)

    def _costs(self, node: GrowingLeaf, most: int) -> Floats:
        """C[i, k] for k up to `most`: the node is cut on trial."""
        costs: list[float] = []
        self._partition_node(node, most, Growing(Leaf(0), 1), costs)
        # A node that cannot be cut any further does not get better by having more parts.
        return np.array(costs + costs[-1:] * (most - len(costs)))

    def _cut_heaviest(self, cuts: int) -> bool:
        """Lines 24 and 25, `cuts` times; false if no node could be cut."""
        done = 0
        while done < cuts and self._cut_one():
            done += 1
        return done > 0

    def _cut_one(self) -> bool:
        for node in sorted(self._nodes, key=lambda each: -each.load):
            parts = self._partition_node(node, 2, self._growing)
            if len(parts) == 2:
                others = [each for each in self._nodes if each.number != node.number]
                self._nodes = others + parts
                return True
        return False

    def _partition_node(
        self, node: GrowingLeaf, count: int, growing: Growing, costs: list[float] | None = None
    ) -> list[GrowingLeaf]:
        """PartitionNode: make `count` parts of a node, or as many as can be made.

        The load of all parts after each cut is appended to `costs`.
        """
        waiting = [(-node.load, node.number, node)]
        done: list[GrowingLeaf] = []
        total = node.load
        while True:
            if costs is not None:
                costs.append(total)
            if len(waiting) + len(done) >= count or not waiting:
                return done + [each for _, _, each in waiting]
            heaviest = heappop(waiting)[2]
            parts = self._halved(heaviest, growing)
            if not parts:
                done.append(heaviest)
                if costs is not None:
                    costs.pop()
                continue
            total += sum(part.load for part in parts) - heaviest.load
            for part in parts:
                heappush(waiting, (-part.load, part.number, part))

    def _halved(self, node: GrowingLeaf, growing: Growing) -> list[GrowingLeaf]:
        """Cut a node in two, by what leaves less to do; nothing if it cannot be cut."""
        d, part = self._digest, node.part
        ways: list[tuple[float, Tree, list[GrowingLeaf]]] = []
        side = self._sides(part)
        if side is not None:
            numbers = growing.numbers(2)
            pair = zip(numbers, part_by_text(d, part, side), strict=True)
            by_text = node.by_text or self._for_good
            nodes = [self._node(number, each, by_text) for number, each in pair]
            leaves = [Leaf(number) for number in numbers]
            ways.append((nodes[0].load + nodes[1].load, TextSplit(side, leaves), nodes))
        if not (node.by_text and (ways or (self._for_good and not part.text.all()))):
            for axis in (COLUMNS, ROWS):
                if part.rect[axis + 2] - part.rect[axis] < 2:
                    continue
                line = self._line(part, axis)
                numbers = growing.numbers(2)
                pair = zip(numbers, part_by_space(d, part, axis, line), strict=True)
                nodes = [self._node(number, each, node.by_text) for number, each in pair]
                leaves = [Leaf(number) for number in numbers]
                load = nodes[0].load + nodes[1].load
                ways.append((load, SpaceSplit(axis, line, leaves[0], leaves[1]), nodes))
        if not ways:
            return []
        _, tree, nodes = min(ways, key=lambda way: way[0])
        growing.split(node.number, tree)
        return nodes

    def _sides(self, part: CellSlice) -> Int32s | None:
        """Deal the terms of a part to two sides."""
        if len(part.units) < 2:
            return None
        d, weights = self._digest, self._weights
        objects, queries, cost = side_contents(
            d, part, np.arange(d.units.size, dtype=np.int32), d.units.size
        )
        objects, queries, cost = (each[part.units] for each in (objects, queries, cost))
        order = np.argsort(-weights.load(objects, queries, cost), kind="stable")
        side = np.zeros(d.units.size, np.int32)
        side[part.units[order]] = _deal(objects[order], queries[order], cost[order], weights, 2)
        return side

    def _line(self, part: CellSlice, axis: int) -> int:
        """The line with half of the messages (or load) before it, as near as lines allow."""
        d = self._digest
        low, high = part.rect[axis], part.rect[axis + 2]
        at = (d.column, d.row)[axis][part.hits] - low
        message = d.message[part.hits]
        weight = np.ones(len(message))
        weight[1:] = message[1:] != message[:-1]
        if self._weights.hits:
            weight = weight * d.message_ns + d.cost[part.hits]
        below = np.cumsum(np.bincount(at, weight, minlength=high - low))
        if not below[-1]:
            return (low + high) // 2
        return low + 1 + int(np.argmin(np.abs(below[:-1] - below[-1] / 2)))

    def _merged(self) -> tuple[Int32s, Floats]:
        d = self._digest
        members = members_of(
            [node.messages for node in self._nodes],
            [node.part.rows for node in self._nodes],
            [node.cost for node in self._nodes],
        )
        return merge(members, self._weights, self._workers, d.messages, len(d.spans))


def side_contents(
    d: Digest, part: CellSlice, side: Int32s, sides: int
) -> tuple[Floats, Floats, Floats]:
    """The messages and rows on each side of a cut by text, and what hits cost there."""
    messages, hits = np.zeros(sides), part.hits
    of_hit = side[d.unit[hits]]
    add_hits(d.message[hits], of_hit, np.zeros(len(hits)), 1.0, messages)
    rows = np.bincount(side[d.row_unit[part.rows]], minlength=sides)
    return messages, rows.astype(np.float64), sums(of_hit, d.cost[hits], sides)


@kernel
def _deal(objects: Floats, queries: Floats, costs: Floats, weights: Weights, count: int) -> Int32s:
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


def number_partitions(costs: Floats, total: int) -> list[int]:
    """ComputeNumberPartitions (section IV-B): share `total` parts out so that the load is least.

    `costs[i, k - 1]` is the load of node i cut into k parts, C[i, k] in the paper; each node gets
    at least one part. L[i, j] = min over k of L[i - 1, j - k] + C[i, k], and the choices are
    followed back.

    >>> number_partitions(np.array([[9.0, 5.0, 4.0], [7.0, 6.0, 1.0]]), 4)
    [1, 3]
    """
    nodes, most = costs.shape
    if not nodes <= total <= nodes * most:
        raise InvalidValue("total", total, f"from {nodes} to {nodes * most} parts")
    least = np.full((nodes + 1, total + 1), np.inf)
    choice = np.zeros((nodes + 1, total + 1), np.int64)
    least[0, 0] = 0.0
    for i in range(1, nodes + 1):
        for j in range(i, total + 1):
            k = np.arange(1, min(j - i + 1, most) + 1)
            sums = least[i - 1, j - k] + costs[i - 1, k - 1]
            best = int(np.argmin(sums))
            least[i, j], choice[i, j] = sums[best], k[best]
    parts, left = [], total
    for i in range(nodes, 0, -1):
        parts.append(int(choice[i, left]))
        left -= parts[-1]
    return parts[::-1]
