"""A PT-Quadtree that follows the table: made of many rows at once, and changed."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, log
from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.index.lfilter.arena import allocate_first, larger, new_arena
from nearcast.index.lfilter.order import TermOrder
from nearcast.index.lfilter.pivots import choose_pivots
from nearcast.index.lfilter.quadtree import (
    DEEPEST,
    DONE,
    ENTRIES,
    NO_LISTS,
    NO_NODES,
    NODES,
    PtQuadtreeArrays,
    SplitLimits,
    divide_leaves,
    empty_quadtree,
    insert_in_quadtree,
    push_down,
    withdraw_from_quadtree,
    write_boxes,
)
from nearcast.index.table import Table

_STACK = 4 * DEEPEST + 8
_FEW = 4096


class Division(NamedTuple):
    """When nodes are divided, and where rows are; see `PtQuadtree`."""

    tau_num: int
    tau_area: float
    max_replication: float
    mx_cif: bool
    push_down: float

    def limits(self, rows: int) -> SplitLimits:
        """Give the limits for that many rows."""
        deepest = min(DEEPEST, floor(log(1.0 / self.tau_area, 4) + 1e-9) + 1)
        most = int(self.max_replication * max(rows, _FEW))
        return SplitLimits(self.tau_num, deepest, most, self.mx_cif)


def grown(quad: PtQuadtreeArrays, lacking: int) -> PtQuadtreeArrays:
    """Give the same quadtree with more room for what it lacks."""
    if lacking == NO_NODES:
        nodes = np.zeros(2 * len(quad.nodes), quad.nodes.dtype)
        nodes[: len(quad.nodes)] = quad.nodes
        return quad._replace(nodes=nodes)
    if lacking == NO_LISTS:
        return quad._replace(lists=larger(quad.lists))
    return quad._replace(sets=larger(quad.sets))


class EditableQuadtree:
    """A quadtree with what is needed to change it."""

    def __init__(self, division: Division, rows: int, planes: int) -> None:
        self.division = division
        self.quad = empty_quadtree(rows, planes)
        self.extent: Floats = np.zeros(4)  # west, south, width, height

    def build(self, table: Table, chosen: Int32s, ids: Int32s, order: TermOrder) -> None:
        """Take in rows in place of what there was; `ids` orders lists, or else their numbers."""
        quad = empty_quadtree(len(table), self.quad.lists.cells.shape[0])
        boxes = table.rows.box[chosen]
        if not len(chosen):
            self.quad, self.extent = quad, np.zeros(4)
            return
        write_boxes(quad, table.rows, chosen)
        west, south = boxes[:, :2].min(axis=0).tolist()
        east, north = boxes[:, 2:].max(axis=0).tolist()
        self.extent = np.array([west, south, east - west, north - south])
        root = quad.nodes[0]
        root["x"], root["y"] = (west + east) / 2, (south + north) / 2
        ordered = chosen[np.argsort(ids[chosen])] if len(ids) else np.sort(chosen)
        lists = new_arena(quad.lists.cells.shape[0], 4 * len(chosen) + _FEW)
        root["list"], root["count"] = allocate_first(lists, len(chosen)), len(chosen)
        place = slice(int(root["list"]), int(root["list"]) + len(chosen))
        lists.cells[-1, place] = ids[ordered] if len(ids) else ordered
        lists.cells[0, place] = ordered
        quad.counts[ENTRIES] = len(chosen)
        self.quad = quad._replace(lists=lists, sets=new_arena(1, len(chosen) // 2 + _FEW))
        self._divide(table, np.zeros(1, np.int32), len(chosen))
        if self.division.mx_cif and self.division.push_down:
            self._push_down(ids, len(chosen))
        every = np.arange(self.quad.counts[NODES], dtype=np.int32)
        self._choose(table, order, every, 0)

    def insert(self, table: Table, new: Int32s, ids: Int32s, order: TermOrder, live: int) -> None:
        """Take in rows, and divide the leaves that are too full by then."""
        self._follow(len(table))
        write_boxes(self.quad, table.rows, new)
        limits, stack = self.division.limits(live), np.empty(_STACK, np.int64)
        todo, span, start = np.empty(_FEW, np.int32), np.zeros(3, np.int64), 0
        while start < len(new):
            found = np.empty(len(self.quad.nodes), np.int32)
            start, lacking = insert_in_quadtree(
                self.quad, table.rows, order.labels, table.frequency, ids, limits, new, start,
                stack, found, todo, span,
            )  # fmt: skip
            if lacking:
                self.quad = grown(self.quad, lacking)
        if span[1]:
            first = int(self.quad.counts[NODES])
            divided = self._divide(table, np.unique(todo[: span[1]]), live)
            old = divided[divided < first]
            fresh = np.arange(first, self.quad.counts[NODES], dtype=np.int32)
            self._choose(table, order, np.concatenate([old, fresh]), len(old))

    def move(self, table: Table, moved: Int32s, ids: Int32s, order: TermOrder, live: int) -> None:
        """Put rows whose boxes have changed in the table where they belong now."""
        self._follow(len(table))
        limits, stack, start = self.division.limits(live), np.empty(_STACK, np.int64), 0
        while start < len(moved):
            found = np.empty(len(self.quad.nodes), np.int32)
            start, lacking = withdraw_from_quadtree(
                self.quad, ids, limits, moved, start, stack, found
            )
            if lacking:
                self.quad = grown(self.quad, lacking)
        self.insert(table, moved, ids, order, live)

    def _follow(self, rows: int) -> None:
        boxes = self.quad.boxes
        if len(boxes) < rows:
            longer = np.zeros((max(rows, len(boxes) * 3 // 2), 4), np.float32)
            longer[: len(boxes)] = boxes
            self.quad = self.quad._replace(boxes=longer)

    def _divide(self, table: Table, leaves: Int32s, live: int) -> Int32s:
        """Divide leaves, and what becomes of them; give the nodes that were divided."""
        todo, span = leaves, np.array([0, len(leaves), 0], np.int64)
        limits, extent = self.division.limits(live), (self.extent[2], self.extent[3])

        def kernel(quad: PtQuadtreeArrays) -> int:
            nonlocal todo
            if len(todo) < len(quad.nodes) + len(leaves):
                longer = np.empty(len(quad.nodes) + len(leaves), np.int32)
                longer[: len(todo)] = todo
                todo = longer
            return divide_leaves(quad, table.rows.owner, limits, extent, todo, span)

        self._until_done(kernel)
        return todo[: span[2]]

    def _choose(self, table: Table, order: TermOrder, nodes: Int32s, passed_up: int) -> None:
        """Give nodes their sets; the first `passed_up` of them pass their terms to parents."""
        span, labels = np.array([len(nodes), passed_up, 0], np.int64), order.labels
        seen = np.zeros(order.used + 1, np.int32)
        self._until_done(lambda quad: choose_pivots(quad, table.rows, labels, nodes, span, seen))

    def _push_down(self, ids: Int32s, live: int) -> None:
        """Spend the extra space where it saves most: the fullest of the largest regions first."""
        made = self.quad.nodes[: self.quad.counts[NODES]]
        order = np.argsort(-made["count"] * 0.25 ** made["level"], kind="stable")
        budget, before = int(self.division.push_down * live), int(self.quad.counts[ENTRIES])
        limits, stack = self.division.limits(live), np.empty(_STACK, np.int64)

        def kernel(quad: PtQuadtreeArrays) -> int:
            left = budget - (int(quad.counts[ENTRIES]) - before)
            found = np.empty(len(quad.nodes), np.int32)
            return push_down(quad, limits, ids, order.astype(np.int32), left, stack, found)

        self._until_done(kernel)

    def _until_done(self, kernel: Callable[[PtQuadtreeArrays], int]) -> None:
        lacking = kernel(self.quad)
        while lacking != DONE:
            self.quad = grown(self.quad, lacking)
            lacking = kernel(self.quad)
