"""The PT-Quadtree (section 4.1): quarters of quarters, with lists of rows and pivotal terms.

A row is in the lists of all leaves that its box touches or, in an MX-CIF quadtree, in that of
the smallest node that contains it. The cells at the border of the whole reach as far as the world.
A point on a dividing line belongs to the east and the north of it.

The pivotal terms of a list are such that each of its rows requires one. For each row of a list, one
of its pivotal terms is in the cover set of some node above, or else in the non-cover sets of all
nodes above and in that of the node itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.lfilter.arena import (
    Arena,
    allocate,
    give_back,
    has_room,
    holds,
    insert_sorted,
    new_arena,
    remove_sorted,
)
from nearcast.index.lfilter.trie import above, below
from nearcast.index.table import Rows

NODE = np.dtype(
    [
        ("west", np.float64), ("south", np.float64), ("east", np.float64), ("north", np.float64),
        ("x", np.float64), ("y", np.float64),  # where it is divided
        ("parent", np.int32), ("child", np.int32),  # the first of four, or -1
        ("level", np.int32), ("pushed", np.int32),  # whether rows of its own are in its leaves
        ("list", np.int32), ("count", np.int32),
        ("cover", np.int32), ("covers", np.int32),
        ("other", np.int32), ("others", np.int32),
    ]
)  # fmt: skip
NODES, ENTRIES = 0, 1
"""Places in `Quadtree.counts`."""
DONE, NO_NODES, NO_LISTS, NO_SETS = 0, 11, 12, 13
"""How a change ended, and what there was too little of."""
DEEPEST = 24
_PUSHED = 1 << 40  # added to a node whose leaves are to be visited, whatever it is


class PtQuadtreeArrays(NamedTuple):
    """The quadtree as kernels read and change it; its root is node 0."""

    nodes: npt.NDArray[Any]
    lists: Arena  # rows; their ids, if they have others than their own numbers
    sets: Arena  # labels of terms
    boxes: npt.NDArray[np.float32]  # (n, 4): the box under which each row was put into lists
    counts: Int64s


class SplitLimits(NamedTuple):
    """When a node is divided."""

    tau_num: int
    deepest: int  # the level at which a node is smaller than tau_area
    most: int  # entries of all lists that divisions may lead to
    mx_cif: bool


def empty_quadtree(rows: int, planes: int) -> PtQuadtreeArrays:
    """Make a quadtree of one empty leaf."""
    nodes = np.zeros(64, NODE)
    quad = PtQuadtreeArrays(
        nodes,
        new_arena(planes, 64),
        new_arena(1, 64),
        np.zeros((rows, 4), np.float32),
        np.array([1, 0], np.int64),
    )
    inf = np.inf
    nodes[0] = (-inf, -inf, inf, inf, 0.0, 0.0, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0)
    return quad


@inner
def quarters(at: Any, west: float, south: float, east: float, north: float) -> int:
    """Say which quarters a box touches: south-west 1, south-east 2, and 4 and 8 north of them."""
    sides = (west < at.x) | (east >= at.x) << 1
    return (sides if south < at.y else 0) | (sides << 2 if north >= at.y else 0)


@inner
def _quarters_of(quad: PtQuadtreeArrays, node: int, row: int) -> int:
    box = quad.boxes
    return quarters(quad.nodes[node], box[row, 0], box[row, 1], box[row, 2], box[row, 3])


@inner
def only_one(mask: int) -> bool:
    """Return whether a box touches one quarter alone."""
    return mask & (mask - 1) == 0


@inner
def _targets(quad: PtQuadtreeArrays, node: int, row: int, mx_cif: bool) -> int:
    """Say to which quarters of a leaf a row goes when it is divided; 16 if it stays.

    In an MX-CIF quadtree a row stays that fits into the leaf and into none of its quarters. One
    that does not fit into the leaf was pushed down from above, and goes on down.
    """
    mask, box, at = _quarters_of(quad, node, row), quad.boxes, quad.nodes[node]
    if not mx_cif or only_one(mask):
        return mask
    inside = (box[row, 0] >= at.west) & (box[row, 2] < at.east)
    inside &= (box[row, 1] >= at.south) & (box[row, 3] < at.north)
    return 16 if inside else mask


@lean_kernel
def write_boxes(quad: PtQuadtreeArrays, rows: Rows, chosen: Int32s) -> None:
    """Note the boxes of rows, rounded outward."""
    for row in chosen:
        for side in range(2):
            quad.boxes[row, side] = below(rows.box[row, side])
            quad.boxes[row, side + 2] = above(rows.box[row, side + 2])


@inner
def _make_children(quad: PtQuadtreeArrays, node: int, extent: Any) -> int:
    """Divide the region of a node, and give the first of the four new ones."""
    at, first = quad.nodes[node], quad.counts[NODES]
    size = 0.5 ** (at.level + 2)
    for nth in range(4):
        new = quad.nodes[first + nth]
        new.west, new.east = at.west, at.east
        new.south, new.north = at.south, at.north
        new.x = at.x + size * extent[0] * (1 if nth & 1 else -1)
        new.y = at.y + size * extent[1] * (1 if nth & 2 else -1)
        if nth & 1:
            new.west = at.x
        else:
            new.east = at.x
        if nth & 2:
            new.south = at.y
        else:
            new.north = at.y
        new.parent, new.child, new.level, new.pushed = node, -1, at.level + 1, 0
        new.list = new.count = new.cover = new.covers = new.other = new.others = 0
    at.child = first
    quad.counts[NODES] += 4
    return int(first)


@inner
def _divide(
    quad: PtQuadtreeArrays, owner: Int32s, limits: SplitLimits, extent: Any, node: int
) -> int:
    """Divide a leaf, and its rows among its children, if the limits allow it.

    `owner` holds the owner of each row, below 0 if it was deleted; `extent` is the width and height
    of the whole. Gives DONE, also if the leaf stays as it is, NO_NODES or NO_LISTS.
    """
    at, cells = quad.nodes[node], quad.lists.cells
    # Count the entries that the new lists would have.
    total, stay = 0, 0
    for entry in range(at.list, at.list + at.count):
        targets = _targets(quad, node, cells[0, entry], limits.mx_cif)
        stay += targets >> 4
        for nth in range(5):
            total += targets >> nth & 1
    if stay == at.count or quad.counts[ENTRIES] + total - at.count > limits.most:
        return DONE
    if quad.counts[NODES] + 4 > len(quad.nodes):
        return NO_NODES
    if not has_room(quad.lists, total + 8):
        return NO_LISTS
    # Make the children, and empty the list of the leaf.
    first = _make_children(quad, node, extent)
    quad.counts[ENTRIES] -= at.count
    block, count, planes = at.list, at.count, cells.shape[0]
    at.list = at.count = 0
    # Deal out the live rows: to the children, or (the fifth target) to the node itself.
    for turn in range(2):  # count, then write
        for entry in range(block, block + count):
            row = cells[0, entry]
            if owner[row] < 0:
                continue
            targets = _targets(quad, node, row, limits.mx_cif)
            for nth in range(5):
                if targets >> nth & 1:
                    to = at if nth == 4 else quad.nodes[first + nth]
                    if turn:
                        for plane in range(planes):
                            cells[plane, to.list + to.count] = cells[plane, entry]
                    to.count += 1
        for nth in range(5):
            to = at if nth == 4 else quad.nodes[first + nth]
            if turn:
                quad.counts[ENTRIES] += to.count
            elif to.count:
                to.list = allocate(quad.lists, wide(to.count))
                to.count = 0
    give_back(quad.lists, block, count)
    return DONE


@lean_kernel
def divide_leaves(
    quad: PtQuadtreeArrays,
    owner: Int32s,
    limits: SplitLimits,
    extent: Any,
    todo: Int32s,
    span: Int64s,
) -> int:
    """Divide the leaves `todo[span[0] : span[1]]` that have too many rows, and their children.

    Largest first, so that what divisions may add to the lists is spent evenly. Leaves that have
    been divided are written to the front of `todo`, and `span[2]` counts them.
    """
    while span[0] < span[1]:
        node = todo[span[0]]
        at = quad.nodes[node]
        if at.child < 0 and at.count >= limits.tau_num and at.level < limits.deepest:
            if span[1] + 4 > len(todo):
                return NO_NODES
            ended = _divide(quad, owner, limits, extent, node)
            if ended != DONE:
                return ended
            if at.child >= 0:
                todo[span[2]] = node
                span[2] += 1
                for nth in range(4):
                    todo[span[1]] = at.child + nth
                    span[1] += 1
        span[0] += 1
    return DONE


@inner
def _covered(quad: PtQuadtreeArrays, node: int, label: int) -> bool:
    """Return whether a term is pivotal for a node already."""
    at = quad.nodes[node]
    if holds(quad.sets, at.other, at.others, label):
        return True
    while True:
        if holds(quad.sets, at.cover, at.covers, label):
            return True
        if at.parent < 0:
            return False
        at = quad.nodes[at.parent]


@inner
def add_pivot(quad: PtQuadtreeArrays, node: int, label: int) -> int:
    """Let a term be pivotal for a node: in all sets from the root on, or covered on the way."""
    top = quad.nodes[node].level
    for level in range(top + 1):
        above_it = node
        for _ in range(top - level):
            above_it = quad.nodes[above_it].parent
        at = quad.nodes[above_it]
        if holds(quad.sets, at.cover, at.covers, label):
            return DONE
        if not holds(quad.sets, at.other, at.others, label):
            block = insert_sorted(quad.sets, at.other, at.others, label, label)
            if block < 0:
                return NO_SETS
            at.other = block
            at.others += 1
    return DONE


@inner
def _pivot_for(
    quad: PtQuadtreeArrays, rows: Rows, labels: Int32s, frequency: Int64s, node: int, row: int
) -> int:
    """See to it that some term of a row is pivotal for a node: a new one if it must be."""
    best = rows.terms[rows.first[row]]
    for at in range(rows.first[row], rows.first[row] + rows.required[row]):
        term = rows.terms[at]
        if _covered(quad, node, labels[term]):
            return DONE
        if term < len(frequency) and frequency[term] > frequency[best]:
            best = term
    return add_pivot(quad, node, labels[best])


@inner
def holding_nodes(
    quad: PtQuadtreeArrays, limits: SplitLimits, row: int, stack: Int64s, found: Int32s
) -> int:
    """Find the nodes in whose lists a row belongs, by the box that was noted for it."""
    count, height = 0, 1
    stack[0] = 0
    while height:
        height -= 1
        node = stack[height] & (_PUSHED - 1)
        pushed = stack[height] & _PUSHED
        at = quad.nodes[node]
        mask = _quarters_of(quad, node, row)
        if limits.mx_cif and not pushed and not only_one(mask):
            if not at.pushed or at.child < 0:
                found[count] = node
                count += 1
                continue
            pushed = _PUSHED
        if at.child < 0:
            found[count] = node
            count += 1
            continue
        for nth in range(4):
            if mask >> nth & 1:
                stack[height] = at.child + nth | pushed
                height += 1
    return count


@lean_kernel
def insert_in_quadtree(
    quad: PtQuadtreeArrays,
    rows: Rows,
    labels: Int32s,
    frequency: Int64s,
    ids: Int32s,
    limits: SplitLimits,
    new: Int32s,
    start: int,
    stack: Int64s,
    found: Int32s,
    todo: Int32s,
    span: Int64s,
) -> tuple[int, int]:
    """Insert rows from `start` on; give how far that went, and what there was too little of.

    Leaves that should be divided afterwards are noted in `todo`, as many as fit.
    """
    for at in range(start, len(new)):
        row = new[at]
        number = ids[row] if len(ids) else row
        for nth in range(holding_nodes(quad, limits, row, stack, found)):
            node = quad.nodes[found[nth]]
            if not holds(quad.lists, node.list, node.count, number):
                block = insert_sorted(quad.lists, node.list, node.count, row, number)
                if block < 0:
                    return at, NO_LISTS
                node.list = block
                node.count += 1
                quad.counts[ENTRIES] += 1
                crowded = node.child < 0 and node.count >= limits.tau_num
                if crowded and node.level < limits.deepest and span[1] + 4 < len(todo):
                    todo[span[1]] = found[nth]
                    span[1] += 1
            if _pivot_for(quad, rows, labels, frequency, found[nth], row) != DONE:
                return at, NO_SETS
    return len(new), DONE


@lean_kernel
def withdraw_from_quadtree(
    quad: PtQuadtreeArrays,
    ids: Int32s,
    limits: SplitLimits,
    old: Int32s,
    start: int,
    stack: Int64s,
    found: Int32s,
) -> tuple[int, int]:
    """Take rows from `start` on out of all lists; ends as `insert_in_quadtree` does."""
    for at in range(start, len(old)):
        row = old[at]
        number = ids[row] if len(ids) else row
        for nth in range(holding_nodes(quad, limits, row, stack, found)):
            node = quad.nodes[found[nth]]
            if holds(quad.lists, node.list, node.count, number):
                block = remove_sorted(quad.lists, node.list, node.count, number)
                if block < 0:
                    return at, NO_LISTS
                node.list = block
                node.count -= 1
                quad.counts[ENTRIES] -= 1
    return len(old), DONE


@lean_kernel
def push_down(
    quad: PtQuadtreeArrays, limits: SplitLimits, ids: Int32s, order: Int32s, budget: int,
    stack: Int64s, found: Int32s,
) -> int:  # fmt: skip
    """Move the rows of inner nodes of an MX-CIF quadtree into their leaves, within a budget."""
    cells = quad.lists.cells
    for node in order:
        at = quad.nodes[node]
        if at.pushed or at.child < 0:
            continue
        at.pushed = 1
        copies = 0
        for entry in range(at.list, at.list + at.count):
            copies += holding_nodes(quad, limits, cells[0, entry], stack, found)
        if copies - at.count > budget:
            at.pushed = 0
            continue
        for entry in range(at.list, at.list + at.count):
            row = cells[0, entry]
            number = ids[row] if len(ids) else row
            for nth in range(holding_nodes(quad, limits, row, stack, found)):
                leaf = quad.nodes[found[nth]]
                if not holds(quad.lists, leaf.list, leaf.count, number):
                    block = insert_sorted(quad.lists, leaf.list, leaf.count, row, number)
                    if block < 0:
                        at.pushed = 0  # to be gone through again, past the rows that are there
                        return NO_LISTS
                    leaf.list = block
                    leaf.count += 1
        budget -= copies - at.count
        quad.counts[ENTRIES] += copies - at.count
        give_back(quad.lists, at.list, at.count)
        at.count = 0
    return DONE
