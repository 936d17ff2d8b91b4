"""Packing: a copy of the tree without what its changes have left behind, and its figures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import kernel
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
    Tree,
    new_tree,
    taller,
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
def figures(tree: Tree) -> Figures:
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


@kernel
def _copy(old: Tree, new: Tree) -> None:
    """Copy node after node; `source` says which one each new node is made from."""
    sizes = new.sizes
    sizes[NODES] = sizes[SLOTS] = sizes[REGIONS] = 1
    new.slots[0] = old.slots[0]
    new.nodes[0] = old.nodes[0]
    new.regions[0] = old.regions[old.nodes[0].region]
    new.nodes[0].region = 0
    source = np.zeros(len(new.nodes), np.int64)
    node = 0
    while node < sizes[NODES]:
        first, count, kind = new.nodes[node].first, new.nodes[node].count, new.nodes[node].kind
        aux = new.nodes[node].aux
        if kind == LEAF:
            at = sizes[ENTRIES]
            new.entries[at : at + count] = old.entries[first : first + count]
            new.nodes[node].first = at
            new.nodes[node].room = count
            sizes[ENTRIES] += count
            node += 1
            continue
        if kind == KEYWORD:
            at = sizes[CUTS]
            new.cuts[at : at + count] = old.cuts[aux : aux + count]
            sizes[CUTS] += count
        else:
            at = sizes[EDGES]
            number = new.nodes[node].room + count // new.nodes[node].room - 2
            new.edges[at : at + number] = old.edges[aux : aux + number]
            sizes[EDGES] += number
        new.nodes[node].aux = at
        base = sizes[SLOTS]
        new.nodes[node].first = base
        sizes[SLOTS] += count + 1
        for bucket in range(count + 1):
            new.slots[base + bucket] = old.slots[first + bucket]
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
            region = old.nodes[child].region
            if region == old.nodes[source[node]].region:
                new.nodes[fresh].region = new.nodes[node].region
            else:
                new.regions[sizes[REGIONS]] = old.regions[region]
                new.nodes[fresh].region = sizes[REGIONS]
                sizes[REGIONS] += 1
        node += 1


def packed(tree: Tree) -> Tree:
    """Give the same tree without gaps, level by level."""
    live = figures(tree)
    nodes = live.keyword + live.spatial + live.leaves
    fresh = new_tree(nodes, live.slots, live.cuts, live.edges, live.regions, live.entries)
    _copy(tree, fresh)
    return fresh

