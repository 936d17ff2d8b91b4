"""Quadtrees whose nodes have inverted lists: nodes in one array, all lists in one hash.

A node is known by its number; its list of a term is the list of (number, term) in `gi2.lists`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.gi2.grid import pack, unpack
from nearcast.index.gi2.lists import (
    CellLists,
    append,
    block_of,
    count_of,
    key_of,
    place_of,
    shorten,
)
from nearcast.index.gi2.records import rarest_term
from nearcast.index.quadtree.cells import CoverScratch, QuadtreeSpace, cover
from nearcast.index.table import Rows

ENTRIES = 4
"""Where a node counts the entries of its own lists, behind its four children."""
TOP, FREE, ROWS = 0, 1, 2
"""Places in `Forest.counts`: nodes in use or freed, the first freed node or -1, rows."""
NOTHING = -1
NO_NODE = -3

Floats32 = npt.NDArray[np.float32]


class Forest(NamedTuple):
    """Nodes, and what is kept of each row."""

    roots: Int32s  # one root for all, or one for each term; -1 for none
    nodes: Int32s  # (n, 8): four children or -1, entries, mask; a freed node names the next one
    masks: npt.NDArray[np.uint64]  # in `nodes`: the terms of a node's lists, a bit for several
    counts: Int64s
    keys: Int32s  # by row: the term of its lists, or -1
    weights: Floats32  # by row: how much the cost model made of that term


def masks_of(nodes: Int32s) -> npt.NDArray[np.uint64]:
    """Give the masks of nodes, which lie with them so that one cache line has both."""
    return nodes.view(np.uint64)[:, 3]


def room_for(count: int) -> Int32s:
    """Make room for `count` nodes."""
    nodes: Int32s = Memory().array("", (count, 8), np.int32)
    return nodes


@inner
def bit_of(term: int) -> Any:
    """Give the bit of a term in masks."""
    return np.uint64(1) << ((np.uint64(term) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58))


@inner
def _new_node(forest: Forest) -> int:
    node = forest.counts[FREE]
    if node >= 0:
        forest.counts[FREE] = forest.nodes[node, 0]
    else:
        node = forest.counts[TOP]
        if node == len(forest.nodes):
            return NO_NODE
        forest.counts[TOP] += 1
    for at in range(4):
        forest.nodes[node, at] = NOTHING
    forest.nodes[node, ENTRIES] = 0
    forest.masks[node] = np.uint64(0)
    return int(node)


@inner
def _step(code: int, level: int) -> int:
    """Give which quarter leads from a level towards a cell."""
    below = (code >> 32) - level - 1
    return int((code >> below & 1) | (code >> 16 >> below & 1) << 1)


@inner
def _reach(forest: Forest, root: int, code: int) -> int:
    """Find the node of a cell, and make what is missing on the way."""
    node = root
    for level in range(code >> 32):
        quarter = _step(code, level)
        child = forest.nodes[node, quarter]
        if child < 0:
            child = _new_node(forest)
            if child < 0:
                return NO_NODE
            forest.nodes[node, quarter] = child
        node = child
    return node


@lean_kernel
def insert_rows(
    forest: Forest,
    lists: CellLists,
    space: QuadtreeSpace,
    toll: float,
    rows: Rows,
    frequency: Int64s,
    chances: Floats32,
    new: Int32s,
    progress: Int64s,
    work: CoverScratch,
) -> int:
    """Put rows into the lists of their cells, until done (0) or something is full.

    `new` holds the rows, `frequency` how frequent each term is, and `chances` by term what a
    message's share of space weighs against a copy. `progress` says how many rows, and how many
    cells of the next one, are done.
    """
    while progress[0] < len(new):
        row = new[progress[0]]
        # Note what the row is kept by: its rarest term, the weight of that, and its box.
        if progress[1] == 0:
            key = rarest_term(rows, row, frequency)
            forest.keys[row] = key
            forest.weights[row] = chances[min(key, len(chances) - 1)]
            lists.spans[row] = pack(space.grid, rows.box[row])
        key = forest.keys[row]
        # Find the root, one for all terms or one for each.
        tree = key if len(forest.roots) > 1 else 0
        if forest.roots[tree] < 0:
            root = _new_node(forest)
            if root < 0:
                return NO_NODE
            forest.roots[tree] = root
        # Choose its cells, and append the row to the list of each.
        x0, y0, x1, y1 = unpack(space.grid, lists.spans[row])
        cover(space, x0, y0, x1, y1, forest.weights[row], toll, work)
        cells = work.cells
        while progress[1] < cells[0]:
            node = _reach(forest, forest.roots[tree], cells[1 + progress[1]])
            if node < 0:
                return NO_NODE
            at = append(lists, key_of(node, key))
            if at < 0:
                return int(at)
            lists.arena[at, 0] = row
            forest.nodes[node, ENTRIES] += 1
            forest.masks[node] |= bit_of(key)
            progress[1] += 1
        forest.counts[ROWS] += 1
        progress[0] += 1
        progress[1] = 0
    return 0


@inner
def _is_bare(forest: Forest, node: int) -> bool:
    children = 0
    for at in range(4):
        children += forest.nodes[node, at] >= 0
    return bool(children == 0 and forest.nodes[node, ENTRIES] == 0)


@inner
def _prune(forest: Forest, tree: int, code: int) -> None:
    """Free the node of a cell and those above it, as far as they have nothing any more."""
    level = code >> 32
    while level >= 0:
        node, above, way = forest.roots[tree], NOTHING, 0
        for at in range(level):
            above, way = node, _step(code, at)
            node = forest.nodes[node, way]
        if not _is_bare(forest, node):
            return
        if above >= 0:
            forest.nodes[above, way] = NOTHING
        else:
            forest.roots[tree] = NOTHING
        forest.nodes[node, 0] = forest.counts[FREE]
        forest.counts[FREE] = node
        level -= 1


@lean_kernel
def delete_rows(
    forest: Forest,
    lists: CellLists,
    space: QuadtreeSpace,
    toll: float,
    old: Int32s,
    work: CoverScratch,
) -> None:
    """Take rows out of the lists of their cells, which are found as they were when they came."""
    for row in old:
        key = forest.keys[row]
        if key < 0:
            continue  # has left before
        tree = key if len(forest.roots) > 1 else 0
        x0, y0, x1, y1 = unpack(space.grid, lists.spans[row])
        cover(space, x0, y0, x1, y1, forest.weights[row], toll, work)
        cells = work.cells
        for cell in range(cells[0]):
            code = cells[1 + cell]
            node = _reach(forest, forest.roots[tree], code)
            slot = lists.slots[place_of(lists.slots, key_of(node, key))]
            block, count = block_of(slot), count_of(slot)
            at = block
            while lists.arena[at, 0] != row:
                at += 1
            lists.arena[at, 0] = lists.arena[block + count - 1, 0]
            shorten(lists, slot, count - 1)
            forest.nodes[node, ENTRIES] -= 1
            _prune(forest, tree, code)
        forest.keys[row] = NOTHING
        forest.counts[ROWS] -= 1
