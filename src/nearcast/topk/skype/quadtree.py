"""A quadtree over the places of subscriptions; its leaves are the cells of IGPT."""

from __future__ import annotations

import numpy as np

from nearcast._jit import lean_kernel
from nearcast.arrays.types import Floats, Int32s

_DEEPEST = 40


@lean_kernel
def locate(children: Int32s, boxes: Floats, xs: Floats, ys: Floats, out: Int32s) -> None:
    """Find the leaf of each point."""
    for n in range(len(xs)):
        node = 0
        while children[4 * node] >= 0:
            middle_x = (boxes[node, 0] + boxes[node, 2]) / 2
            middle_y = (boxes[node, 1] + boxes[node, 3]) / 2
            node = children[4 * node + 2 * (ys[n] >= middle_y) + (xs[n] >= middle_x)]
        out[n] = node


class SkypeQuadtree:
    """Splits a leaf in four when it would hold more than `capacity` points."""

    def __init__(self, west: float, south: float, size: float, capacity: int) -> None:
        self._capacity = capacity
        self._children: Int32s = np.full(4, -1, np.int32)
        self.boxes: Floats = np.array([[west, south, west + size, south + size]])
        self._depth = [0]
        self.held: list[set[int]] = [set()]

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def are_leaves(self) -> np.ndarray:
        """Of each cell, whether it is a leaf."""
        are: np.ndarray = self._children[::4] < 0
        return are

    def leaves(self, points: Floats) -> Int32s:
        """The leaf of each point."""
        out = np.empty(len(points), np.int32)
        xs, ys = np.ascontiguousarray(points[:, 0]), np.ascontiguousarray(points[:, 1])
        locate(self._children, self.boxes, xs, ys, out)
        return out

    def is_full(self, leaf: int) -> bool:
        """Whether a leaf holds more than it should, and can be split."""
        return len(self.held[leaf]) > self._capacity and self._depth[leaf] < _DEEPEST

    def split(self, leaf: int) -> None:
        """Split a leaf; the subscriptions it held have to be located again."""
        west, south, east, north = self.boxes[leaf].tolist()
        x, y = (west + east) / 2, (south + north) / 2
        first = len(self.boxes)
        quarters = [
            (west, south, x, y),
            (x, south, east, y),
            (west, y, x, north),
            (x, y, east, north),
        ]
        self.boxes = np.vstack([self.boxes, np.array(quarters)])
        self._children = np.concatenate([self._children, np.full(16, -1, np.int32)])
        self._children[4 * leaf : 4 * leaf + 4] = np.arange(first, first + 4)
        self._depth += [self._depth[leaf] + 1] * 4
        self.held += [set() for _ in range(4)]
