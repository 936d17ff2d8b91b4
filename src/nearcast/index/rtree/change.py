"""Rows that come and go: least enlargement, and division of full nodes on the way down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.rtree.tree import (
    DONE,
    FULLEST,
    HIGHEST,
    LEVEL,
    NO_NODE,
    NO_SLOT,
    NOTHING,
    PARENT,
    PLACE,
    ROOT,
    ROWS,
    SLOTS,
    TOP,
    RTreeArrays,
    forget_row,
    note_row,
    note_upward,
)
from nearcast.index.table import Rows

_ONE = np.uint64(1)


class SplitScratch(NamedTuple):
    """What a division works in."""

    under: Int32s  # rows below an entry
    stack: Int32s
    centres: Floats
    order: Int32s


def work_space(rows: int) -> SplitScratch:
    """Make room to divide a tree of that many rows."""
    return SplitScratch(
        np.empty(rows, np.int32),
        np.empty(64 * HIGHEST, np.int32),
        np.empty(64),
        np.empty(64, np.int32),
    )


@inner
def free_place(tree: RTreeArrays, node: int) -> int:
    """Give the first place of a node that is free, or -1."""
    for place in range(tree.entries.shape[1]):
        if not tree.used[node] >> np.uint64(place) & _ONE:
            return place
    return NOTHING


@inner
def _take_place(tree: RTreeArrays, node: int, place: int, entry: int) -> None:
    tree.entries[node, place] = entry
    tree.used[node] |= _ONE << np.uint64(place)
    if tree.nodes[node, LEVEL] == 0:
        tree.where[entry] = node * tree.entries.shape[1] + place
    else:
        tree.nodes[entry, PARENT], tree.nodes[entry, PLACE] = node, place


@inner
def _new_node(tree: RTreeArrays, level: int) -> int:
    node = tree.counts[TOP]
    tree.counts[TOP] += 1
    tree.nodes[node, LEVEL] = level
    tree.nodes[node, PARENT] = tree.nodes[node, PLACE] = NOTHING
    tree.used[node] = tree.masks[node] = np.uint64(0)
    for side in range(4):
        tree.boxes[node, side] = np.inf if side < 2 else -np.inf
    return int(node)


@inner
def _extend(tree: RTreeArrays, node: int, boxes: Floats, other: int) -> None:
    """Let the box of a node cover another box."""
    box = tree.boxes[node]
    box[0], box[1] = min(box[0], boxes[other, 0]), min(box[1], boxes[other, 1])
    box[2], box[3] = max(box[2], boxes[other, 2]), max(box[3], boxes[other, 3])


@inner
def _rows_under(tree: RTreeArrays, node: int, place: int, work: SplitScratch) -> int:
    """Collect the rows below an entry, and count them."""
    if tree.nodes[node, LEVEL] == 0:
        work.under[0] = tree.entries[node, place]
        return 1
    count, height = 0, 1
    work.stack[0] = tree.entries[node, place]
    while height:
        height -= 1
        at = work.stack[height]
        for entry in range(tree.entries.shape[1]):
            if tree.used[at] >> np.uint64(entry) & _ONE:
                if tree.nodes[at, LEVEL] == 0:
                    work.under[count] = tree.entries[at, entry]
                    count += 1
                else:
                    work.stack[height] = tree.entries[at, entry]
                    height += 1
    return count


@inner
def _sort_entries(tree: RTreeArrays, boxes: Floats, node: int, work: SplitScratch) -> None:
    """Order the entries of a full node along the axis on which their centres spread more."""
    fanout = tree.entries.shape[1]
    widest, axis = -1.0, 0
    for side in range(2):
        low, high = np.inf, -np.inf
        for place in range(fanout):
            entry = tree.entries[node, place]
            centre = boxes[entry, side] + boxes[entry, side + 2]
            low, high = min(low, centre), max(high, centre)
        if high - low > widest:
            widest, axis = high - low, side
    for place in range(fanout):
        entry = tree.entries[node, place]
        centre = boxes[entry, axis] + boxes[entry, axis + 2]
        at = place
        while at > 0 and work.centres[at - 1] > centre:
            work.centres[at], work.order[at] = work.centres[at - 1], work.order[at - 1]
            at -= 1
        work.centres[at], work.order[at] = centre, place


@inner
def _slots_needed(tree: RTreeArrays, rows: Rows, node: int, work: SplitScratch) -> int:
    """Bound the slots that the division of a node can take."""
    needed = 0
    for place in range(tree.entries.shape[1]):
        for at in range(_rows_under(tree, node, place, work)):
            needed += 2 * rows.required[work.under[at]]
    return needed


@inner
def _divide(
    tree: RTreeArrays, rows: Rows, frequency: Int64s, terms: int, node: int, work: SplitScratch
) -> bool:
    """Divide a full node whose parent is not full, if there are slots enough.

    `frequency` holds how frequent each term is; `terms` says which terms of a row its nodes note
    (ALL, ONE or LEVELS). `work` is scratch, as `SplitScratch` says. Gives False if there are too
    few slots.
    """
    # Make sure of the slots before anything is changed.
    needed = _slots_needed(tree, rows, node, work)
    if tree.counts[SLOTS] + needed >= FULLEST * len(tree.slots):
        return False
    # A root gets a parent, and the node a sibling beside it.
    fanout, level = tree.entries.shape[1], tree.nodes[node, LEVEL]
    parent = tree.nodes[node, PARENT]
    if parent < 0:
        parent = _new_node(tree, level + 1)
        tree.counts[ROOT] = parent
        _take_place(tree, parent, 0, node)
        _extend(tree, parent, tree.boxes, node)
    half = _new_node(tree, level)
    own, other = tree.nodes[node, PLACE], free_place(tree, parent)
    _take_place(tree, parent, other, half)
    # Order the entries along one axis; the upper half moves to the sibling.
    if level == 0:
        _sort_entries(tree, rows.box, node, work)
    else:
        _sort_entries(tree, tree.boxes, node, work)
    # All terms are taken from the parent's entry before those that stay are noted there again.
    for turn in range(2):
        for nth in range(fanout):
            place = work.order[nth]
            moves = nth >= fanout // 2
            for at in range(_rows_under(tree, node, place, work)):
                row = work.under[at]
                if turn == 0:
                    forget_row(tree, rows, row, parent, own)
                    if moves:
                        forget_row(tree, rows, row, node, place)
                        note_row(tree, rows, frequency, terms, row, half, nth - fanout // 2)
                        note_row(tree, rows, frequency, terms, row, parent, other)
                elif not moves:
                    note_row(tree, rows, frequency, terms, row, parent, own)
    # Move the entries, and fit both boxes to what they hold.
    for side in range(4):
        tree.boxes[node, side] = np.inf if side < 2 else -np.inf
    for nth in range(fanout):
        place = work.order[nth]
        entry = tree.entries[node, place]
        into = node if nth < fanout // 2 else half
        if into == half:
            tree.used[node] &= ~(_ONE << np.uint64(place))
            _take_place(tree, half, nth - fanout // 2, entry)
        if level == 0:
            _extend(tree, into, rows.box, entry)
        else:
            _extend(tree, into, tree.boxes, entry)
    return True


@inner
def _child_for(tree: RTreeArrays, node: int, box: Floats, row: int, halves: int) -> int:
    """Give the child whose box grows the least to cover a row, the smaller one of equals.

    With `halves`, a child that was just divided, only itself and its new sibling are asked: any
    other one may be full.
    """
    best, least, smallest = NOTHING, np.inf, np.inf
    for place in range(tree.entries.shape[1]):
        if not tree.used[node] >> np.uint64(place) & _ONE:
            continue
        child = tree.entries[node, place]
        if halves >= 0 and child != halves and child != tree.counts[TOP] - 1:
            continue
        own = tree.boxes[child]
        area = max(own[2] - own[0], 0.0) * max(own[3] - own[1], 0.0)
        grown = (max(own[2], box[row, 2]) - min(own[0], box[row, 0])) * (
            max(own[3], box[row, 3]) - min(own[1], box[row, 1])
        )
        if best < 0 or grown - area < least or (grown - area == least and area < smallest):
            best, least, smallest = child, grown - area, area
    return best


@lean_kernel
def insert_rows(
    tree: RTreeArrays, rows: Rows, frequency: Int64s, terms: int, new: Int32s, work: SplitScratch,
    progress: Int64s,
) -> int:  # fmt: skip
    """Put rows into leaves, until done or something is full; `progress[0]` rows are done."""
    while progress[0] < len(new):
        row = new[progress[0]]
        if tree.where[row] < 0:
            if tree.counts[TOP] + HIGHEST + 2 > len(tree.nodes):
                return NO_NODE
            node = tree.counts[ROOT]
            if free_place(tree, node) < 0:
                if not _divide(tree, rows, frequency, terms, node, work):
                    return NO_SLOT
                node = tree.counts[ROOT]
            _extend(tree, node, rows.box, row)
            while tree.nodes[node, LEVEL] > 0:
                child = _child_for(tree, node, rows.box, row, NOTHING)
                if free_place(tree, child) < 0:
                    if not _divide(tree, rows, frequency, terms, child, work):
                        return NO_SLOT
                    child = _child_for(tree, node, rows.box, row, child)
                _extend(tree, child, rows.box, row)
                node = child
            _take_place(tree, node, free_place(tree, node), row)
            tree.counts[ROWS] += 1
        if not note_upward(tree, rows, frequency, terms, row):
            return NO_SLOT
        progress[0] += 1
    return DONE


@lean_kernel
def delete_rows(tree: RTreeArrays, rows: Rows, old: Int32s) -> None:
    """Take rows out of their leaves; the nodes above keep their boxes and terms."""
    fanout = tree.entries.shape[1]
    for row in old:
        if tree.where[row] < 0:
            continue  # has left before
        node, place = tree.where[row] // fanout, tree.where[row] % fanout
        forget_row(tree, rows, row, node, place)
        tree.used[node] &= ~(_ONE << np.uint64(place))
        tree.where[row] = NOTHING
        tree.counts[ROWS] -= 1
