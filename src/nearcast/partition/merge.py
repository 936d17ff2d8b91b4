"""MergeNodesIntoPartitions of PS2Stream (section IV-B): nodes of the tree are dealt to workers.

Nodes are taken heaviest first. Each goes to the partition whose load it increases least, unless
that makes the loads more uneven; then to the lightest one. What nodes of one partition have in
common, messages and rows, counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, kernel
from nearcast.arrays.lanes import lowest
from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats, Int32s, Int64s

Masks = npt.NDArray[np.uint64]


class Weights(NamedTuple):
    """How load follows from messages, rows and the cost of hits.

    `pairs` counts for every message against every row (definition 1), `hits` for what hits cost.
    """

    pairs: float
    message: float
    row: float
    hits: float

    def load(self, messages: Any, rows: Any, cost: Any) -> Any:
        """The load of a node or a partition, or of several, as arrays."""
        return (
            self.pairs * messages * rows
            + self.message * messages
            + self.row * rows
            + self.hits * cost
        )


class Members(NamedTuple):
    """The distinct messages and rows of each node, and what its hits cost."""

    message_starts: Int64s
    messages: Int32s
    row_starts: Int64s
    rows: Int64s
    costs: Floats


def members_of(
    messages: Sequence[Int32s], rows: Sequence[Int64s], costs: Sequence[float]
) -> Members:
    """Put nodes one behind the other."""
    return Members(
        starts_of(len(each) for each in messages),
        np.concatenate([np.empty(0, np.int32), *messages]),
        starts_of(len(each) for each in rows),
        np.concatenate([np.empty(0, np.int64), *rows]),
        np.array(costs, np.float64),
    )


def merge(
    members: Members, weights: Weights, workers: int, messages: int, rows: int
) -> tuple[Int32s, Floats]:
    """Deal nodes to workers; give the worker of each node and the load of each worker.

    `messages` and `rows` are how many there are in all.
    """
    counts = np.diff(members.message_starts), np.diff(members.row_starts)
    loads = weights.load(*counts, members.costs)
    words = -(-workers // 64)
    return _merged(
        np.argsort(-loads, kind="stable"), members, weights, workers,
        np.zeros((messages, words), np.uint64), np.zeros((rows, words), np.uint64),
    )  # fmt: skip


@inlined
def _count_common(masks: Masks, numbers: Any, first: int, end: int, common: Floats) -> None:
    for at in range(first, end):
        for word in range(masks.shape[1]):
            bits = masks[numbers[at], word]
            while bits:
                common[64 * word + lowest(bits)] += 1.0
                bits &= bits - np.uint64(1)


@kernel
def _merged(
    order: Int64s, members: Members, weights: Weights, workers: int, seen: Masks, held: Masks
) -> tuple[Int32s, Floats]:
    """Deal nodes to workers in `order`; give the worker of each node, and the loads of workers.

    `seen` and `held` have a bit for each worker: which of them has each message, and each row. All
    bits are zero before.
    """
    chosen = np.zeros(len(order), np.int32)
    loads, costs = np.zeros(workers), np.zeros(workers)
    objects, queries = np.zeros(workers), np.zeros(workers)
    for node in order:
        # What each worker would have to do with this node; common messages and rows count once.
        first, end = members.message_starts[node], members.message_starts[node + 1]
        begin, stop = members.row_starts[node], members.row_starts[node + 1]
        both_seen, both_held = np.zeros(workers), np.zeros(workers)
        _count_common(seen, members.messages, first, end, both_seen)
        _count_common(held, members.rows, begin, stop, both_held)
        new_objects = objects + (end - first) - both_seen
        new_queries = queries + (stop - begin) - both_held
        new_loads = (
            weights.pairs * new_objects * new_queries
            + weights.message * new_objects
            + weights.row * new_queries
            + weights.hits * (costs + members.costs[node])
        )
        # The worker whose load it increases least.
        best = np.argmin(new_loads - loads)
        lightest = np.argmin(loads)
        # L_max / L_min before and after. While some worker has nothing, every node that does not
        # go to such a worker makes things more uneven.
        top, low = loads.max(), loads[lightest]
        after_top = max(top, new_loads[best])
        after_low = new_loads[best]
        for worker in range(workers):
            if worker != best:
                after_low = min(after_low, loads[worker])
        if low == 0.0:
            uneven = best != lightest and loads[best] > 0.0
        else:
            uneven = after_top * low > top * after_low
        # Give the node to a worker, and note its messages and rows.
        if uneven:
            best = lightest
        chosen[node] = best
        loads[best], costs[best] = new_loads[best], costs[best] + members.costs[node]
        objects[best], queries[best] = new_objects[best], new_queries[best]
        word, bit = best // 64, np.uint64(1) << np.uint64(best % 64)
        for at in range(first, end):
            seen[members.messages[at], word] |= bit
        for at in range(begin, stop):
            held[members.rows[at], word] |= bit
    return chosen, loads
