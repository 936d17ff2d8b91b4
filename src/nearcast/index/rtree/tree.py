"""The R-tree in flat arrays, and the inverted files of its nodes in one hash.

A node has up to 64 entries: rows in a leaf, children above. Its inverted file says for a term
which entries have it, as the bits of one number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.gi2.lists import key_of, place_of
from nearcast.index.quadtree.forest import bit_of
from nearcast.index.table import Rows

LEVEL, PARENT, PLACE = 0, 1, 2
"""Columns of `Tree.nodes`: leaves have level 0; the parent, or -1, and the place among its."""
TOP, ROOT, SLOTS, ROWS = 0, 1, 2, 3
"""Places in `Tree.counts`: nodes, the root, slots taken, rows."""
ALL, ONE, LEVELS = 0, 1, 2
"""Which terms of a row its nodes know: all, its rarest, or another one at each level."""
NOTHING = -1
DONE, NO_SLOT, NO_NODE = 0, -1, -3
FULLEST = 0.7
HIGHEST = 16
"""More levels than any tree has."""

_ONE = np.uint64(1)


class RTreeArrays(NamedTuple):
    """Nodes, inverted files, and where each row is."""

    nodes: Int32s  # (n, 3)
    used: npt.NDArray[np.uint64]  # by node: the places that are taken
    entries: Int32s  # (n, fanout): rows or children
    boxes: Floats  # (n, 4)
    masks: npt.NDArray[np.uint64]  # by node: its terms, a bit for each or several
    slots: npt.NDArray[np.uint64]  # (n, 2): 0 or the key of (node, term); places
    counts: Int64s
    where: Int32s  # by row: its leaf times the fanout and its place there, or -1


def tree_for(nodes: int, fanout: int, slots: int, rows: int) -> RTreeArrays:
    """Make a tree of one empty leaf, with room for that many nodes."""
    tree = RTreeArrays(
        np.empty((nodes, 3), np.int32),
        np.zeros(nodes, np.uint64),
        np.empty((nodes, fanout), np.int32),
        np.empty((nodes, 4)),
        np.zeros(nodes, np.uint64),
        np.zeros((slots, 2), np.uint64),
        np.array([1, 0, 0, 0], np.int64),
        np.full(rows, NOTHING, np.int32),
    )
    tree.nodes[0] = (0, NOTHING, NOTHING)
    tree.boxes[0] = (np.inf, np.inf, -np.inf, -np.inf)
    return tree


@inner
def nth_rarest(rows: Rows, row: int, frequency: Int64s, nth: int) -> int:
    """Give the required term of a row that `nth` others of it are rarer than."""
    first, count = rows.first[row], rows.required[row]
    for at in range(first, first + count):
        rarer = 0
        for other in range(first, first + count):
            a, b = frequency[rows.terms[other]], frequency[rows.terms[at]]
            rarer += a < b or (a == b and other < at)
        if rarer == nth:
            return int(rows.terms[at])
    return NOTHING


@inner
def _note(tree: RTreeArrays, node: int, place: int, term: int) -> bool:
    """Note in a node's inverted file that an entry has a term, if there is room."""
    key = key_of(node, term)
    at = place_of(tree.slots, key)
    if tree.slots[at, 0] == 0:
        if tree.counts[SLOTS] >= FULLEST * len(tree.slots):
            return False
        tree.slots[at, 0] = key
        tree.counts[SLOTS] += 1
    tree.slots[at, 1] |= _ONE << np.uint64(place)
    tree.masks[node] |= bit_of(term)
    return True


@inner
def note_row(
    tree: RTreeArrays, rows: Rows, frequency: Int64s, terms: int, row: int, node: int, place: int
) -> bool:
    """Note the terms by which a row is known in a node's entry, if there is room."""
    count = rows.required[row]
    if terms == ALL:
        for at in range(rows.first[row], rows.first[row] + count):
            if not _note(tree, node, place, rows.terms[at]):
                return False
        return True
    # The rarest decides which leaves are visited, so it is right above them.
    level = tree.nodes[node, LEVEL]
    nth = min(1 - level if level < 2 else level, count - 1) if terms == LEVELS else 0
    return _note(tree, node, place, nth_rarest(rows, row, frequency, nth))


@inner
def forget_row(tree: RTreeArrays, rows: Rows, row: int, node: int, place: int) -> None:
    """Drop all terms of a row from a node's entry."""
    for at in range(rows.first[row], rows.first[row] + rows.required[row]):
        slot = place_of(tree.slots, key_of(node, rows.terms[at]))
        if tree.slots[slot, 0] != 0:
            tree.slots[slot, 1] &= ~(_ONE << np.uint64(place))


@inner
def note_upward(tree: RTreeArrays, rows: Rows, frequency: Int64s, terms: int, row: int) -> bool:
    """Note a row's terms in its leaf and in all nodes above, if there is room."""
    fanout = tree.entries.shape[1]
    node, place = tree.where[row] // fanout, tree.where[row] % fanout
    while node >= 0:
        if not note_row(tree, rows, frequency, terms, row, node, place):
            return False
        node, place = tree.nodes[node, PARENT], tree.nodes[node, PLACE]
    return True


@lean_kernel
def note_rows(
    tree: RTreeArrays, rows: Rows, frequency: Int64s, terms: int, new: Int32s, progress: Int64s
) -> int:
    """Note the terms of rows that have their places, until done or out of slots."""
    while progress[0] < len(new):
        if not note_upward(tree, rows, frequency, terms, new[progress[0]]):
            return NO_SLOT
        progress[0] += 1
    return DONE


@lean_kernel
def copy_slots(tree: RTreeArrays, slots: npt.NDArray[np.uint64]) -> int:
    """Put what the inverted files still say into another hash, and count it."""
    taken = 0
    for at in range(len(tree.slots)):
        if tree.slots[at, 1] != 0:
            place = place_of(slots, tree.slots[at, 0])
            slots[place, 0], slots[place, 1] = tree.slots[at, 0], tree.slots[at, 1]
            taken += 1
    return taken
