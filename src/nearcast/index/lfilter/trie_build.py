"""An MBRTrie of many rows at once, level by level."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.ap_tree.cost import ranked_terms
from nearcast.index.lfilter.arena import Arena, arena_of, laid_out
from nearcast.index.lfilter.trie import (
    DEPTH,
    LAST_ID,
    NODE,
    NODES,
    STRIDE,
    MbrTrieArrays,
    empty_trie,
)
from nearcast.index.table import Table

_SPARE = 8


def build_trie(table: Table, chosen: Int32s, labels: Int32s) -> MbrTrieArrays:
    """Make the trie of some rows."""
    if not len(chosen):
        return empty_trie(len(table))
    starts, ranks = ranked_terms(table.rows, labels, chosen)
    lengths = np.diff(starts)
    deepest = int(lengths.max())
    node = np.zeros(len(chosen), np.int64)  # where each row has come to
    edges, parents, names = [0, 1], [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    for level in range(deepest):
        further = np.flatnonzero(lengths > level)
        # Labels may be negative; as 32 bits above a parent they must not borrow from it.
        label = ranks[starts[further] + level].astype(np.int64)
        key = (node[further] << 32) + label + (1 << 31)
        found, node_of = np.unique(key, return_inverse=True)
        node[further] = edges[-1] + node_of
        parents.append(found >> 32)
        names.append((found & 0xFFFFFFFF) - (1 << 31))
        edges.append(edges[-1] + len(found))
    return _laid_out(table, chosen, node, edges, np.concatenate(parents), np.concatenate(names))


def _laid_out(
    table: Table, chosen: Int32s, node: Int64s, edges: list[int], parent: Int64s, label: Int64s
) -> MbrTrieArrays:
    """Number the rows of a trie whose nodes are known, and write everything down.

    The nodes of a level follow those of the level above, ordered by parent and label.
    """
    count = edges[-1]
    order = np.argsort(node, kind="stable")
    rows, leaf = chosen[order], node[order]
    nodes = np.zeros(count + count // _SPARE + 64, NODE)
    made = nodes[:count]
    held = np.bincount(leaf, minlength=count)
    kids = np.bincount(parent[1:], minlength=count)
    width = _widths(held, parent, edges)
    base, stride = _numbered(held, width, parent, edges)
    made["held"], made["count"] = held, kids
    lists = _row_lists(made, rows, held)
    children = _kid_lists(made, kids, label)
    # Rows of one leaf have ids that follow each other, with room behind the last.
    within = np.arange(len(rows)) - np.repeat(np.cumsum(held) - held, held)
    numbers = base[leaf] * stride + within
    ids = np.zeros(len(table), np.int32)
    ids[rows] = numbers
    made["low"] = base * stride
    high = np.full(count, -1, np.int64)
    np.maximum.at(high, leaf, numbers)
    _bounds_of_leaves(made, table.rows.box[rows], leaf)
    for low, top in zip(edges[-2:0:-1], edges[:1:-1], strict=True):
        np.maximum.at(high, parent[low:top], high[low:top])
        for side, better in _SIDES.items():
            better.at(made[side], parent[low:top], made[side][low:top])
    made["high"] = high
    counts = np.zeros(3, np.int64)
    counts[NODES], counts[STRIDE], counts[DEPTH] = count, stride, len(edges) - 2
    levels = empty_trie(0).levels
    sizes = np.diff(edges)
    levels[: len(sizes)] = sizes[: len(levels)]
    levels[-1] += sizes[len(levels) :].sum()
    return MbrTrieArrays(nodes, children, lists, ids, counts, levels)


_SIDES: dict[str, Any] = {
    "west": np.minimum, "south": np.minimum, "east": np.maximum, "north": np.maximum,
}  # fmt: skip


def _widths(held: Int64s, parent: Int64s, edges: list[int]) -> Int64s:
    """Give the room for ids that each node gets, in rows.

    Behind its rows a node has as much room again as they take: what grows at its end, as with
    terms that come in order, needs new numbers for all only after it has doubled.
    """
    size = held.astype(np.int64)
    width = np.zeros(len(held), np.int64)
    for low, top in zip(edges[-2::-1], edges[:0:-1], strict=True):
        width[low:top] += held[low:top] + size[low:top]
        if low:
            np.add.at(size, parent[low:top], size[low:top])
            np.add.at(width, parent[low:top], width[low:top])
    return width


def _numbered(held: Int64s, width: Int64s, parent: Int64s, edges: list[int]) -> tuple[Int64s, int]:
    """Give the number at which each node begins, in units of a stride, and the stride."""
    base = np.zeros(len(held), np.int64)
    base[0] = width[0] // 2  # room in front, where terms that are new in the order go
    for low, top in pairwise(edges[1:]):
        above = parent[low:top]
        ahead = np.cumsum(width[low:top]) - width[low:top]
        new = np.concatenate([[True], above[1:] != above[:-1]])
        ahead -= np.repeat(ahead[new], np.diff(np.append(np.flatnonzero(new), top - low)))
        base[low:top] = base[above] + held[above] + ahead
    return base, max(1, min(1 << 16, LAST_ID // (2 * int(width[0]) + 2)))


def _row_lists(made: npt.NDArray[Any], rows: Int32s, held: Int64s) -> Arena:
    where, _, used = laid_out(held)
    made["rows"] = where
    cells = np.empty((1, used + used // _SPARE + 64), np.int32)
    cells[0, np.repeat(where - (np.cumsum(held) - held), held) + np.arange(len(rows))] = rows
    return arena_of(cells, used)


def _kid_lists(made: npt.NDArray[Any], kids: Int64s, label: Int64s) -> Arena:
    """Write children into their slots, spread evenly, and labels again into the slots between."""
    where, sizes, used = laid_out(kids)
    made["first"] = where
    cells = np.empty((2, used + used // _SPARE + 64), np.int32)
    nth = np.arange(1, len(label)) - np.repeat(1 + np.cumsum(kids) - kids, kids)
    slots = np.repeat(where, kids) + nth * np.repeat(sizes, kids) // np.repeat(kids, kids)
    cells[1, :used] = -1
    cells[1, slots] = np.arange(1, len(label))
    last = np.zeros(used, np.int64)
    last[slots] = slots
    cells[0, slots] = label[1:]
    cells[0, :used] = cells[0, np.maximum.accumulate(last)]
    return arena_of(cells, used)


def _bounds_of_leaves(made: npt.NDArray[Any], boxes: npt.NDArray[np.float64], leaf: Int64s) -> None:
    """Let the boxes of nodes cover those of the rows in their own leaves, rounded outward."""
    made["west"] = made["south"] = np.inf
    made["east"] = made["north"] = -np.inf
    for column, (side, better) in enumerate(_SIDES.items()):
        exact = boxes[:, column]
        rounded = exact.astype(np.float32)
        outside = np.float32(-np.inf if better is np.minimum else np.inf)
        inward = rounded > exact if better is np.minimum else rounded < exact
        rounded[inward] = np.nextafter(rounded[inward], outside)
        better.at(made[side], leaf, rounded)
