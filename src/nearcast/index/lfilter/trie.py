"""The MBRTrie (section 3.1): the terms of rows as paths, with ranges of ids and boxes at nodes.

The leaf that the paper hangs under the last term of a path is kept in the node of that term: `held`
rows from `rows` on. Rows are numbered in the order of their term sets, with ids left out between
them for rows to come. The children of a node are in a block in order of their labels, with empty
slots between them that repeat the label before, so that few have to move for a new one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.ap_tree.cost import sorted_ranks
from nearcast.index.lfilter.arena import (
    Arena,
    allocate,
    give_back,
    lengthen,
    lower_bound,
    new_arena,
    room_for,
)
from nearcast.index.table import Rows

NODE = np.dtype(
    [
        ("west", np.float32), ("south", np.float32), ("east", np.float32), ("north", np.float32),
        ("first", np.int32), ("count", np.int32),  # children
        ("rows", np.int32), ("held", np.int32),  # rows whose last term this is
        ("low", np.int32), ("high", np.int32),  # ids of all rows below
    ]
)  # fmt: skip
LAST_ID = 2**31 - 1
NODES, STRIDE, DEPTH = 0, 1, 2
"""Places in `Trie.counts`: nodes, ids that a row takes of its own, and terms of the longest row."""
DONE, NO_NODES, NO_KIDS, NO_ROWS, NO_IDS = 0, 1, 2, 3, 4
"""How an insertion ended, and what there was too little of."""
_LEVELS = 8


class MbrTrieArrays(NamedTuple):
    """The trie as kernels read and change it; its root is node 0."""

    nodes: npt.NDArray[Any]
    kids: Arena  # labels; nodes, or -1 in an empty slot
    rows: Arena
    ids: Int32s  # by row
    counts: Int64s
    levels: Int64s  # nodes on each level, the deepest ones together


def empty_trie(rows: int, root: bool = True) -> MbrTrieArrays:
    """Make a trie of a root alone, or of nothing, to take the place of one."""
    nodes = np.zeros(64, NODE)
    nodes[0] = (np.inf, np.inf, -np.inf, -np.inf, 0, 0, 0, 0, LAST_ID, -1)
    levels = np.zeros(_LEVELS, np.int64)
    levels[0] = 1
    counts = np.array([root, 1 << 10, 0], np.int64)
    return MbrTrieArrays(
        nodes, new_arena(2, 64), new_arena(1, 64), np.zeros(rows, np.int32), counts, levels
    )


@inner
def below(value: float) -> Any:
    """Round to single precision, downward."""
    rounded = np.float32(value)
    return np.nextafter(rounded, np.float32(-np.inf)) if rounded > value else rounded


@inner
def above(value: float) -> Any:
    """Round to single precision, upward."""
    rounded = np.float32(value)
    return np.nextafter(rounded, np.float32(np.inf)) if rounded < value else rounded


@inner
def _widen(trie: MbrTrieArrays, node: int, rows: Rows, row: int) -> None:
    """Let the box of a node cover that of a row."""
    at = trie.nodes[node]
    at.west = min(at.west, below(rows.box[row, 0]))
    at.south = min(at.south, below(rows.box[row, 1]))
    at.east = max(at.east, above(rows.box[row, 2]))
    at.north = max(at.north, above(rows.box[row, 3]))


@inner
def slot_of(trie: MbrTrieArrays, node: int, label: int) -> int:
    """Give the slot of the first child whose label is not below `label`, or the end of all."""
    first = trie.nodes[node].first
    return lower_bound(trie.kids.cells, 0, first, first + room_for(trie.nodes[node].count), label)


@inner
def _spread(arena: Arena, block: int, count: int) -> int:
    """Move full children to a block with empty slots between them."""
    fresh = allocate(arena, wide(count + 1))
    if fresh < 0:
        return fresh
    cells, room, taken = arena.cells, room_for(count + 1), 0
    for slot in range(room):
        new = taken < count and slot == taken * room // count
        cells[0, fresh + slot] = cells[0, block + taken] if new else cells[0, fresh + slot - 1]
        cells[1, fresh + slot] = cells[1, block + taken] if new else -1
        taken += new
    give_back(arena, block, count)
    return fresh


@inner
def _insert_kid(arena: Arena, block: int, count: int, label: int, kid: int) -> int:
    """Put a child among its siblings; give where they are now, or NO_ROOM."""
    cells = arena.cells
    if count == 0:
        block = allocate(arena, wide(1))
        if block >= 0:
            cells[0, block], cells[1, block] = label, kid
        return block
    if count == room_for(count):
        block = _spread(arena, block, count)
        if block < 0:
            return block
    end = block + room_for(count + 1)
    place = lower_bound(cells, 0, block, end, label)
    left, right = place - 1, place
    while True:  # the nearest empty slot
        if left >= block and cells[1, left] < 0:
            for slot in range(left, place - 1):
                cells[0, slot], cells[1, slot] = cells[0, slot + 1], cells[1, slot + 1]
            place -= 1
            break
        if right < end and cells[1, right] < 0:
            for slot in range(right, place, -1):
                cells[0, slot], cells[1, slot] = cells[0, slot - 1], cells[1, slot - 1]
            break
        left -= 1
        right += 1
    cells[0, place], cells[1, place] = label, kid
    return block


@inner
def _step(trie: MbrTrieArrays, node: int, label: int, depth: int, bounds: Int64s) -> int:
    """Give the child of a node for a label, made if need be, and note the ids around it.

    `bounds` has the last id before all rows of the child, and the first id behind them. Gives
    -NO_NODES or -NO_KIDS when there is no room for the child.
    """
    at, cells = trie.nodes[node], trie.kids.cells
    if at.held:
        bounds[0] = max(bounds[0], trie.ids[trie.rows.cells[0, at.rows + at.held - 1]])
    slot, end = slot_of(trie, node, label), at.first + room_for(at.count)
    before = slot - 1
    while before >= at.first and cells[1, before] < 0:
        before -= 1
    if before >= at.first:
        bounds[0] = max(bounds[0], trie.nodes[cells[1, before]].high)
    kid, behind = -1, slot
    if slot < end and cells[0, slot] == label:
        kid, behind = cells[1, slot], slot + 1
        while behind < end and cells[1, behind] < 0:
            behind += 1
    if behind < end:
        bounds[1] = min(bounds[1], trie.nodes[cells[1, behind]].low)
    if kid >= 0:
        return int(kid)
    kid = trie.counts[NODES]
    if kid == len(trie.nodes):
        return -NO_NODES
    block = _insert_kid(trie.kids, at.first, at.count, label, kid)
    if block < 0:
        return -NO_KIDS
    at.first = block
    at.count += 1
    new = trie.nodes[kid]
    new.west = new.south = np.inf
    new.east = new.north = -np.inf
    new.first = new.count = new.rows = new.held = 0
    new.low, new.high = LAST_ID, -1
    trie.counts[NODES] += 1
    trie.levels[min(depth + 1, len(trie.levels) - 1)] += 1
    return int(kid)


@inner
def _insert(
    trie: MbrTrieArrays, rows: Rows, labels: Int32s, row: int, path: Int32s, bounds: Int64s
) -> int:
    """Put a row into the leaf of its terms, with an id between its neighbours.

    `labels` holds the label of each term. `path` is scratch: the labels of the row, and then the
    nodes on its path. `bounds` is scratch too: the last id before the row, and the first id behind
    it. Gives DONE, or what there was no room for.
    """
    # Walk down the path of the sorted labels, and make the nodes that are missing.
    count = rows.required[row]
    sorted_ranks(rows, labels, row, path, 0)
    bounds[0], bounds[1] = -1, LAST_ID
    node = wide(0)
    for depth in range(count):
        node = _step(trie, node, path[depth], depth, bounds)
        if node < 0:
            return -node
        path[count + depth] = node
    # Choose an id: behind the rows of the leaf, before those of its children.
    at = trie.nodes[node]
    if at.held:
        bounds[0] = max(bounds[0], trie.ids[trie.rows.cells[0, at.rows + at.held - 1]])
    if at.count:
        bounds[1] = min(bounds[1], trie.nodes[trie.kids.cells[1, at.first]].low)
    low, high = bounds[0], bounds[1]
    if high - low < 2:
        return NO_IDS
    if at.held:
        number = low + 1
    elif low < 0 and high < LAST_ID:
        number = max(high - trie.counts[STRIDE], high // 2)
    elif high == LAST_ID:
        number = min(low + trie.counts[STRIDE], low + (high - low) // 2)
    else:
        number = low + (high - low) // 2
    # Append the row to the leaf.
    block = lengthen(trie.rows, at.rows, at.held)
    if block < 0:
        return NO_ROWS
    trie.rows.cells[0, block + at.held] = row
    at.rows = block
    at.held += 1
    trie.ids[row] = number
    trie.counts[DEPTH] = max(trie.counts[DEPTH], count)
    # Widen the id ranges and boxes on the path, the root included.
    for depth in range(-1, count):
        node = wide(path[count + depth]) if depth >= 0 else wide(0)
        trie.nodes[node].low = min(trie.nodes[node].low, number)
        trie.nodes[node].high = max(trie.nodes[node].high, number)
        _widen(trie, node, rows, row)
    return DONE


@lean_kernel
def insert_in_trie(
    trie: MbrTrieArrays,
    rows: Rows,
    labels: Int32s,
    new: Int32s,
    start: int,
    path: Int32s,
    bounds: Int64s,
) -> tuple[int, int]:
    """Insert rows from `start` on; give how far that went, and what there was too little of."""
    for at in range(start, len(new)):
        ended = _insert(trie, rows, labels, new[at], path, bounds)
        if ended != DONE:
            return at, ended
    return len(new), DONE


@lean_kernel
def move_in_trie(
    trie: MbrTrieArrays, rows: Rows, labels: Int32s, moved: Int32s, path: Int32s
) -> None:
    """Let the boxes on the paths of rows cover where they are now."""
    for row in moved:
        sorted_ranks(rows, labels, row, path, 0)
        node = wide(0)
        _widen(trie, node, rows, row)
        for depth in range(rows.required[row]):
            node = wide(trie.kids.cells[1, slot_of(trie, node, path[depth])])
            _widen(trie, node, rows, row)
