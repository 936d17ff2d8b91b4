"""A tree made at once: tiles of rows sorted by place, level by level."""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.rtree.tree import LEVEL, PARENT, PLACE, ROOT, ROWS, TOP, RTreeArrays, tree_for
from nearcast.index.table import Table

_FILLED = 0.75


def _tiles(boxes: Floats, capacity: int) -> Int64s:
    """Order boxes so that each run of `capacity` of them lies together (sort-tile-recursive)."""
    lons, lats = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]
    nodes = -(-len(boxes) // capacity)
    strip = -(-nodes // max(1, round(float(np.sqrt(nodes))))) * capacity
    by_lon = np.argsort(lons, kind="stable")
    strips = np.empty(len(boxes), np.int64)
    strips[by_lon] = np.arange(len(boxes)) // strip
    return np.lexsort((lats, strips)).astype(np.int64)


def packed(table: Table, rows: Int32s, fanout: int, room: int) -> RTreeArrays:
    """Make a tree of rows; its inverted files are yet to be filled."""
    capacity = max(2, int(_FILLED * fanout))
    levels: list[tuple[Int64s, Floats]] = [(rows.astype(np.int64), table.rows.box[rows])]
    nodes = 0
    sizes: list[int] = []
    while len(sizes) == 0 or sizes[-1] > 1:
        sizes.append(max(1, -(-(sizes[-1] if sizes else len(rows)) // capacity)))
    tree = tree_for(2 * sum(sizes) + 64, fanout, room, len(table))
    for level, size in enumerate(sizes):
        entries, boxes = levels[-1]
        order = _tiles(boxes, capacity) if len(entries) else np.empty(0, np.int64)
        node, place = nodes + np.arange(len(order)) // capacity, np.arange(len(order)) % capacity
        own = slice(nodes, nodes + size)
        tree.nodes[own, LEVEL] = level
        tree.nodes[own, PARENT] = tree.nodes[own, PLACE] = -1
        tree.entries[node, place] = entries[order]
        filled = np.bincount(node - nodes, minlength=size).astype(np.uint64)
        tree.used[own] = (np.uint64(1) << filled) - np.uint64(1)
        if level == 0:
            tree.where[entries[order]] = node * fanout + place
        else:
            tree.nodes[entries[order], PARENT] = node
            tree.nodes[entries[order], PLACE] = place
        if len(order):
            heads = np.arange(0, len(order), capacity)
            low = np.minimum.reduceat(boxes[order, :2], heads, axis=0)
            high = np.maximum.reduceat(boxes[order, 2:], heads, axis=0)
            tree.boxes[own] = np.hstack((low, high))
        levels.append((np.arange(nodes, nodes + size, dtype=np.int64), tree.boxes[own].copy()))
        nodes += size
    tree.counts[TOP], tree.counts[ROOT], tree.counts[ROWS] = nodes, nodes - 1, len(rows)
    return tree
