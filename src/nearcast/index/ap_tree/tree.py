"""The tree as flat arrays: one record a node, and arenas that nodes point into.

A node has *buckets*: the cuts of a keyword node, the cells of a spatial node, and behind them one
more for the dummy cut or cell. Bucket b of a node is slot `first + b`. Slot 0 is the root's own.
A leaf has entries instead: rows of the table.

Arenas only grow; what a node leaves behind when it changes stays until the tree is packed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, inner_counting
from nearcast.arrays.in_kernels import longer, taller
from nearcast.arrays.types import Floats, Int32s, Int64s

LEAF, KEYWORD, SPATIAL, GONE = 0, 1, 2, 3
"""Kinds of nodes; GONE marks what a rebuilt subtree has left behind."""

NODE = np.dtype(
    [
        ("kind", np.int8),
        ("keyed", np.int8),  # whether keyword partitions may follow here or below
        ("placed", np.int8),  # whether spatial partitions may follow here or below
        ("offset", np.int32),  # how many terms of a row's list are behind its rows
        ("first", np.int32),  # the first slot, or the first entry of a leaf
        ("aux", np.int32),  # the first cut or edge; for a leaf, how many entries make it split
        ("count", np.int32),  # buckets without the dummy, or entries
        ("room", np.int32),  # columns of a spatial node, or the entries a leaf has room for
        ("made", np.int32),  # rows when its buckets were made
        ("parent", np.int32),
        ("slot", np.int32),
        ("region", np.int32),
        ("copies", np.float32),  # replication on the way from the root
    ],
    align=True,
)
CHILD, OLD, NOW = 0, 1, 2
"""Columns of a slot: node or -1, rows when the node was made, rows now."""
NODES, SLOTS, CUTS, EDGES, REGIONS, ENTRIES = range(6)
"""Places in `sizes`."""


class ApTreeArrays(NamedTuple):
    """A tree as kernels read it. `sizes` says how much of each arena is in use."""

    nodes: npt.NDArray[Any]
    slots: Int32s  # (n, 3)
    cuts: Int32s  # (n, 2): first and last rank, in order within a node
    edges: Floats  # inner edges of the columns, then of the rows of a spatial node
    regions: Floats  # (n, 4): west, south, east, north, without east and north themselves
    entries: Int32s
    sizes: Int64s


def new_tree(
    nodes: int, slots: int, cuts: int, edges: int, regions: int, entries: int
) -> ApTreeArrays:
    """Allocate arenas, all of them still unused."""
    return ApTreeArrays(
        np.zeros(max(nodes, 16), NODE),
        np.zeros((max(slots, 16), 3), np.int32),
        np.zeros((max(cuts, 16), 2), np.int32),
        np.zeros(max(edges, 16), np.float64),
        np.zeros((max(regions, 16), 4), np.float64),
        np.zeros(max(entries, 16), np.int32),
        np.zeros(6, np.int64),
    )


def single_leaf(rows: Int32s, capacity: int) -> ApTreeArrays:
    """Make a tree that is one leaf with these rows."""
    tree = new_tree(16, 16, 16, 16, 16, len(rows))
    tree.entries[: len(rows)] = rows
    tree.slots[0] = (0, len(rows), len(rows))
    tree.regions[0] = (-np.inf, -np.inf, np.inf, np.inf)
    root = tree.nodes[:1]
    root["keyed"] = root["placed"] = root["copies"] = 1
    root["count"], root["room"], root["aux"], root["parent"] = len(rows), len(rows), capacity, -1
    tree.sizes[:] = (1, 1, 0, 0, 1, len(rows))
    return tree


def with_room(tree: ApTreeArrays, nodes: int, regions: int, entries: int) -> ApTreeArrays:
    """Make room for that many more nodes, regions and entries."""
    wanted = {"nodes": (NODES, nodes), "regions": (REGIONS, regions), "entries": (ENTRIES, entries)}
    grown = {}
    for field, (place, extra) in wanted.items():
        array, size = getattr(tree, field), int(tree.sizes[place])
        if size + extra > len(array):
            fresh = np.zeros((max(size + extra, 2 * len(array)), *array.shape[1:]), array.dtype)
            fresh[:size] = array[:size]
            grown[field] = fresh
    return tree._replace(**grown)


def trimmed(tree: ApTreeArrays) -> ApTreeArrays:
    """The tree without the unused ends of its arenas, not copied."""
    nodes, slots, cuts, edges, regions, entries = tree.sizes.tolist()
    return ApTreeArrays(
        tree.nodes[:nodes],
        tree.slots[:slots],
        tree.cuts[:cuts],
        tree.edges[:edges],
        tree.regions[:regions],
        tree.entries[:entries],
        tree.sizes,
    )


@inner_counting
def reserve(
    tree: ApTreeArrays, nodes: int, slots: int, cuts: int, edges: int, regions: int, entries: int
) -> ApTreeArrays:
    """Make room in the arenas for so much more."""
    sizes = tree.sizes
    return ApTreeArrays(
        longer(tree.nodes, sizes[NODES] + nodes),
        taller(tree.slots, sizes[SLOTS] + slots),
        taller(tree.cuts, sizes[CUTS] + cuts),
        longer(tree.edges, sizes[EDGES] + edges),
        taller(tree.regions, sizes[REGIONS] + regions),
        longer(tree.entries, sizes[ENTRIES] + entries),
        sizes,
    )


@inner_counting
def add_node(
    tree: ApTreeArrays, parent: int, slot: int, offset: int, keyed: bool, placed: bool
) -> int:
    """Add a leaf without entries under a slot, in the region of its parent."""
    nodes = tree.nodes
    node = tree.sizes[NODES]
    nodes[node].kind = LEAF
    nodes[node].keyed = keyed
    nodes[node].placed = placed
    nodes[node].offset = offset
    nodes[node].first = 0
    nodes[node].aux = 0
    nodes[node].count = 0
    nodes[node].room = 0
    nodes[node].made = 0
    nodes[node].parent = parent
    nodes[node].slot = slot
    nodes[node].region = nodes[parent].region
    nodes[node].copies = nodes[parent].copies
    tree.slots[slot, CHILD] = node
    tree.sizes[NODES] += 1
    return int(node)


@inner_counting
def narrow_region(tree: ApTreeArrays, parent: int, bucket: int, child: int) -> None:
    """Give a node the region of one cell of the spatial node above it."""
    at = tree.sizes[REGIONS]
    regions, region = tree.regions, tree.nodes[parent].region
    columns = tree.nodes[parent].room
    rows = tree.nodes[parent].count // columns
    column, row = bucket % columns, bucket // columns
    for side in range(4):
        regions[at, side] = regions[region, side]
    across = tree.nodes[parent].aux
    up = across + columns - 1
    if column > 0:
        regions[at, 0] = tree.edges[across + column - 1]
    if column < columns - 1:
        regions[at, 2] = tree.edges[across + column]
    if row > 0:
        regions[at, 1] = tree.edges[up + row - 1]
    if row < rows - 1:
        regions[at, 3] = tree.edges[up + row]
    tree.nodes[child].region = at
    tree.sizes[REGIONS] += 1


@inner
def find_cut(tree: ApTreeArrays, first: int, start: int, count: int, rank: int) -> int:
    """Find the first cut from `start` on that does not end before a rank; `count` if none."""
    low, high = start, count
    while low < high:
        middle = (low + high) >> 1
        if tree.cuts[first + middle, 1] < rank:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def strip_of(edges: Floats, first: int, count: int, x: float) -> int:
    """Find the strip of a coordinate among `count` strips; an edge belongs to what follows it."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) >> 1
        if edges[first + middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def is_wide(covered: int, cells: int, share: float) -> bool:
    """Return whether a row that covers `covered` cells belongs into the dummy cell."""
    return covered == cells or covered > share * cells


@inner
def rank_of(rank: Int32s, term: int) -> int:
    """Give the place of a term in the order; -1 if no row has ever required it."""
    return rank[term] if term < len(rank) else -1
