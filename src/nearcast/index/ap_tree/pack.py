"""Packing: a copy of the tree without what its changes have left behind, and its figures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.in_kernels import taller
from nearcast.index.ap_tree.tree import (
    CHILD,
    CUTS,
    EDGES,
    ENTRIES,
    KEYWORD,
    LEAF,
    NODES,
    REGIONS,
    SLOTS,
    ApTreeArrays,
    new_tree,
)


class Figures(NamedTuple):
    """What the nodes of a tree add up to."""

    keyword: int
    spatial: int
    leaves: int
    slots: int
    cuts: int
    edges: int
    regions: int
    entries: int
    height: int


@kernel
def figures(tree: ApTreeArrays) -> Figures:
    """Count what is in use."""
    keyword = spatial = leaves = cuts = edges = entries = 0
    slots = regions = deepest = 1
    stack, height = np.empty((64, 2), np.int64), 1
    stack[0, 0], stack[0, 1] = 0, 1
    while height:
        height -= 1
        node, depth = stack[height, 0], stack[height, 1]
        deepest = max(deepest, depth)
        first, count, kind = tree.nodes[node].first, tree.nodes[node].count, tree.nodes[node].kind
        parent = tree.nodes[node].parent
        if parent >= 0 and tree.nodes[parent].region != tree.nodes[node].region:
            regions += 1
        if kind == LEAF:
            leaves += 1
            entries += count
            continue
        slots += count + 1
        if kind == KEYWORD:
            keyword += 1
            cuts += count
        else:
            spatial += 1
            edges += tree.nodes[node].room + count // tree.nodes[node].room - 2
        stack = taller(stack, height + count + 1)
        for slot in range(first, first + count + 1):
            if tree.slots[slot, CHILD] >= 0:
                stack[height, 0], stack[height, 1] = tree.slots[slot, CHILD], depth + 1
                height += 1
    return Figures(keyword, spatial, leaves, slots, cuts, edges, regions, entries, deepest)


@inner_counting
def _copy_line(old: Any, source: int, new: Any, target: int) -> None:
    for column in range(old.shape[1]):
        new[target, column] = old[source, column]


@kernel
def _copy(old: ApTreeArrays, new: ApTreeArrays) -> None:
    """Copy the nodes in use into empty arenas, level by level.

    The arenas of `new` have room for exactly what is in use. `source` holds the old number of each
    new node.
    """
    # The root has slot 0 and region 0.
    sizes = new.sizes
    sizes[NODES] = sizes[SLOTS] = sizes[REGIONS] = 1
    new.nodes[0] = old.nodes[0]
    _copy_line(old.slots, 0, new.slots, 0)
    _copy_line(old.regions, old.nodes[0].region, new.regions, 0)
    new.nodes[0].region = 0
    source = np.zeros(len(new.nodes), np.int64)
    node = 0
    while node < sizes[NODES]:
        # A copied node still points into the old arenas until its turn comes.
        first, count, kind = new.nodes[node].first, new.nodes[node].count, new.nodes[node].kind
        aux = new.nodes[node].aux
        # A leaf: its entries.
        if kind == LEAF:
            at = sizes[ENTRIES]
            for i in range(count):
                new.entries[at + i] = old.entries[first + i]
            new.nodes[node].first = at
            new.nodes[node].room = count
            sizes[ENTRIES] += count
            node += 1
            continue
        # Its cuts or edges.
        if kind == KEYWORD:
            at = sizes[CUTS]
            for i in range(count):
                new.cuts[at + i, 0] = old.cuts[aux + i, 0]
                new.cuts[at + i, 1] = old.cuts[aux + i, 1]
            sizes[CUTS] += count
        else:
            at = sizes[EDGES]
            number = new.nodes[node].room + count // new.nodes[node].room - 2
            for i in range(number):
                new.edges[at + i] = old.edges[aux + i]
            sizes[EDGES] += number
        new.nodes[node].aux = at
        # Its slots, and its children, which are appended to the new nodes.
        base = sizes[SLOTS]
        new.nodes[node].first = base
        sizes[SLOTS] += count + 1
        for bucket in range(count + 1):
            _copy_line(old.slots, first + bucket, new.slots, base + bucket)
            child = old.slots[first + bucket, CHILD]
            if child < 0:
                continue
            fresh = sizes[NODES]
            sizes[NODES] += 1
            new.nodes[fresh] = old.nodes[child]
            source[fresh] = child
            new.slots[base + bucket, CHILD] = fresh
            new.nodes[fresh].parent = node
            new.nodes[fresh].slot = base + bucket
            # A child has the region of its parent, or one of its own.
            region = old.nodes[child].region
            if region == old.nodes[source[node]].region:
                new.nodes[fresh].region = new.nodes[node].region
            else:
                _copy_line(old.regions, region, new.regions, sizes[REGIONS])
                new.nodes[fresh].region = sizes[REGIONS]
                sizes[REGIONS] += 1
        node += 1


def packed(tree: ApTreeArrays) -> ApTreeArrays:
    """Give the same tree without gaps, level by level."""
    live = figures(tree)
    nodes = live.keyword + live.spatial + live.leaves
    fresh = new_tree(nodes, live.slots, live.cuts, live.edges, live.regions, live.entries)
    _copy(tree, fresh)
    return fresh
