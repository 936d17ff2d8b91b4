"""The kdt-tree of PS2Stream (section IV-B): space is cut in two, again and again, and some parts by
text as well; and how it becomes the cells and text maps of a plan (section IV-C).

Our trees are a little more general than the paper's: what was split by text may be split by space
again. So a term that alone is too much for a worker can be cut by space where the rest is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Int32s
from nearcast.partition.grid import Grid
from nearcast.partition.layout import Layout
from nearcast.partition.text_map import TermUnits

COLUMNS, ROWS = 0, 1


class Leaf(NamedTuple):
    """All of a part belongs to one worker."""

    worker: int


class SpaceSplit(NamedTuple):
    """Columns (or rows) up to `cut` go to `low`, those from it on to `high`."""

    axis: int
    cut: int
    low: Tree
    high: Tree


class TextSplit(NamedTuple):
    """`part` says for each unit of text which of the children it goes to."""

    part: Int32s
    children: Sequence[Tree]


Tree = Leaf | SpaceSplit | TextSplit


class Rect(NamedTuple):
    """Cells from one column and row up to, not including, others."""

    west: int
    south: int
    east: int
    north: int

    def cut_at(self, axis: int, cut: int) -> tuple[Rect, Rect]:
        """Cut it in two."""
        if axis == COLUMNS:
            return self._replace(east=cut), self._replace(west=cut)
        return self._replace(north=cut), self._replace(south=cut)


def whole(grid: Grid) -> Rect:
    """All cells of a grid."""
    return Rect(0, 0, grid.columns, grid.rows)


def layout_of(tree: Tree, grid: Grid, units: TermUnits) -> Layout:
    """Write a tree down cell by cell."""
    layout = _painted(tree, whole(grid), units.size)
    kinds, inverse = np.unique(layout.owners, axis=0, return_inverse=True)
    return Layout(inverse.reshape(-1).astype(np.int32)[layout.cells], kinds)


def _painted(tree: Tree, rect: Rect, units: int) -> Layout:
    shape = (rect.north - rect.south, rect.east - rect.west)
    if isinstance(tree, Leaf):
        return Layout(np.zeros(shape, np.int32), np.full((1, units), tree.worker, np.int32))
    if isinstance(tree, SpaceSplit):
        rects = rect.cut_at(tree.axis, tree.cut)
        low, high = (_painted(child, r, units) for child, r in zip(tree[2:], rects, strict=True))
        axis = 1 if tree.axis == COLUMNS else 0
        cells = np.concatenate((low.cells, high.cells + len(low.owners)), axis=axis)
        return Layout(cells, np.concatenate((low.owners, high.owners)))
    children = [_painted(child, rect, units) for child in tree.children]
    # Cells are alike if they are alike for every child.
    code = np.zeros(shape, np.int64)
    for child in children:
        _, code = np.unique(code * len(child.owners) + child.cells, return_inverse=True)
        code = code.reshape(shape)
    _, sample = np.unique(code, return_index=True)
    owners = np.empty((len(sample), units), np.int32)
    for number, child in enumerate(children):
        mine = tree.part == number
        owners[:, mine] = child.owners[child.cells.reshape(-1)[sample]][:, mine]
    return Layout(code.astype(np.int32), owners)


class Growing:
    """A tree whose leaves are numbered and can be split; numbers are never used twice."""

    def __init__(self, tree: Tree, leaves: int) -> None:
        self._tree = tree
        self._grown: dict[int, Tree] = {}
        self._next = leaves

    def numbers(self, count: int) -> list[int]:
        """Give numbers for `count` new leaves."""
        self._next += count
        return list(range(self._next - count, self._next))

    def split(self, leaf: int, by: Tree) -> None:
        """Let a tree, with numbered leaves of its own, take the place of a leaf."""
        self._grown[leaf] = by

    def finished(self, workers: dict[int, int]) -> Tree:
        """The tree with the workers of its leaves."""
        return self._finished(self._tree, workers)

    def _finished(self, tree: Tree, workers: dict[int, int]) -> Tree:
        if isinstance(tree, Leaf):
            if tree.worker in self._grown:
                return self._finished(self._grown[tree.worker], workers)
            return Leaf(workers[tree.worker])
        if isinstance(tree, SpaceSplit):
            low, high = (self._finished(child, workers) for child in (tree.low, tree.high))
            return tree._replace(low=low, high=high)
        return tree._replace(children=[self._finished(c, workers) for c in tree.children])
