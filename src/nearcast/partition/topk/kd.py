"""Algorithm 3 of Skype: space cut by lines until every worker has a part.

The cost of a part is the number of its subscriptions times the share of messages that fall into it
(equation 15). A line is at the coordinate of a subscription, across longitude and latitude by
turns, where the costs of both sides differ least.

The paper halves, so it needs a power of two. For any other number a part for n workers is cut for
n // 2 and the rest. Both factors of a cost shrink with the number of workers that a part is shared
by, so costs are compared as C / n^2; for equal numbers that is the paper's choice.

A part without subscriptions, or with all of them at one place, is cut in the middle.
"""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats
from nearcast.geo import WORLD, Box
from nearcast.partition.topk.spread import KdTree


def kd_tree(subscriptions: Floats, messages: Floats, leaves: int, space: Box = WORLD) -> KdTree:
    """Cut by the places of subscriptions and messages, (n, 2) arrays, into that many leaves."""
    west, east = (space.west, space.east) if space.west <= space.east else (WORLD.west, WORLD.east)
    nodes = _Nodes()
    nodes.cut(subscriptions, messages, leaves, 0, (west, space.south, east, space.north))
    return KdTree(
        np.array(nodes.axis, np.int32),
        np.array(nodes.line, np.float64),
        np.array(nodes.low, np.int32),
        np.array(nodes.high, np.int32),
    )


def best_line(
    subscriptions: Floats, messages: Floats, workers: tuple[int, int]
) -> tuple[float, float]:
    """Find the coordinate of a subscription with the least difference of costs, and that.

    Nothing is cut off where all are at one coordinate: the difference is infinite then.
    """
    lines = np.unique(subscriptions)[:-1]
    if not len(lines):
        return 0.0, np.inf
    subs, below = _counted(subscriptions, lines)
    # Without messages, as many are expected as there are subscriptions.
    seen, seen_below = _counted(messages, lines) if len(messages) else (subs, below)
    low, high = workers
    costs = below * seen_below / low**2, (subs - below) * (seen - seen_below) / high**2
    uneven = np.abs(costs[0] - costs[1])
    best = int(np.argmin(uneven))
    return float(lines[best]), float(uneven[best])


def _counted(values: Floats, lines: Floats) -> tuple[float, Floats]:
    """How many values there are, and how many up to each line."""
    below = np.searchsorted(np.sort(values), lines, side="right")
    return float(len(values)), below.astype(np.float64)


class _Nodes:
    """The nodes of a tree, in the order in which they are made: parents before children."""

    def __init__(self) -> None:
        self.axis: list[int] = []
        self.line: list[float] = []
        self.low: list[int] = []
        self.high: list[int] = []
        self.leaves = 0

    def cut(
        self,
        subscriptions: Floats,
        messages: Floats,
        workers: int,
        depth: int,
        bounds: tuple[float, float, float, float],
    ) -> int:
        node = len(self.axis)
        for column in (self.axis, self.low, self.high):
            column.append(-1)
        self.line.append(0.0)
        if workers == 1:
            self.low[node] = self.leaves
            self.leaves += 1
            return node
        fewer = workers // 2
        axis, line = self._choose(
            subscriptions, messages, (fewer, workers - fewer), depth % 2, bounds
        )
        here, there = subscriptions[:, axis] <= line, messages[:, axis] <= line
        below, above = list(bounds), list(bounds)
        below[axis + 2] = above[axis] = line
        self.axis[node], self.line[node] = axis, line
        self.low[node] = self.cut(
            subscriptions[here], messages[there], fewer, depth + 1, _four(below)
        )
        self.high[node] = self.cut(
            subscriptions[~here], messages[~there], workers - fewer, depth + 1, _four(above)
        )
        return node

    @staticmethod
    def _choose(
        subscriptions: Floats,
        messages: Floats,
        workers: tuple[int, int],
        axis: int,
        bounds: tuple[float, float, float, float],
    ) -> tuple[int, float]:
        """Choose a line across an axis, or across the other where nothing can be cut there."""
        for each in (axis, 1 - axis):
            line, uneven = best_line(subscriptions[:, each], messages[:, each], workers)
            if uneven < np.inf:
                return each, line
        return axis, (bounds[axis] + bounds[axis + 2]) / 2


def _four(bounds: list[float]) -> tuple[float, float, float, float]:
    west, south, east, north = bounds
    return west, south, east, north
