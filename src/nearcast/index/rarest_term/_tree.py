"""The tree of one run: choosing a leaf, splitting what is full, keeping bounding boxes tight."""

from __future__ import annotations

import numpy as np

from nearcast._jit import kernel
from nearcast.index.rarest_term._lanes import LANES, greatest, least
from nearcast.index.rarest_term._layout import (
    CHILDREN,
    LEAF,
    LEAF_COUNT,
    LEAF_KEY,
    LEAF_PARENT,
    LEAF_RUN,
    NODE,
    NODE_COUNT,
    NODE_KEY,
    NODE_PARENT,
    RECORD,
    ROOT,
    ROW,
    ROWS,
    SECOND,
    SECONDS,
    THIRD,
    THIRDS,
    RUNS,
    Float32s,
    State,
    free_leaf,
    free_node,
    new_leaf,
    new_node,
)
from nearcast.index.table import Int32s, Int64s

MARGIN = 1e-3
"""Degrees added to both sides of a box before areas are compared, so that lines and points count."""
_LEAST_PART, _MOST_PART = 6, 11  # how many of 17 entries the first part of a split may have


@kernel
def choose_child(state: State, node: int, x0: float, y0: float, x1: float, y1: float) -> int:
    """Find the child whose bounding box grows least by taking in a box."""
    base = node * NODE
    boxes = state.nodes
    best = 0
    least_growth = least_area = np.inf
    for lane in range(base, base + state.node_ints[base + NODE_COUNT]):
        west, south = boxes[lane], boxes[lane + 16]
        east, north = boxes[lane + 32], boxes[lane + 48]
        area = (east - west + MARGIN) * (north - south + MARGIN)
        width = max(east, x1) - min(west, x0) + MARGIN
        height = max(north, y1) - min(south, y0) + MARGIN
        growth = width * height - area
        if growth < least_growth or (growth == least_growth and area < least_area):
            best, least_growth, least_area = lane, growth, area
    return state.node_ints[best + CHILDREN]


@kernel
def tighten(state: State, planes: Float32s, base: int, parent: int) -> None:
    """Let all nodes above a leaf or node know its present bounding box."""
    nodes = state.nodes
    while parent != ROOT:
        x0, y0 = least(planes, base), least(planes, base + 16)
        x1, y1 = greatest(planes, base + 32), greatest(planes, base + 48)
        base = (parent // LANES) * NODE
        lane = base + parent % LANES
        if (
            nodes[lane] == x0
            and nodes[lane + 16] == y0
            and nodes[lane + 32] == x1
            and nodes[lane + 48] == y1
        ):
            return
        nodes[lane], nodes[lane + 16], nodes[lane + 32], nodes[lane + 48] = x0, y0, x1, y1
        planes = nodes
        parent = state.node_ints[base + NODE_PARENT]


@kernel
def tighten_above_leaf(state: State, leaf: int) -> None:
    """Let all nodes above a leaf know its present bounding box."""
    base = leaf * LEAF
    tighten(state, state.leaves, base, state.leaf_ints[base + LEAF_PARENT])


@kernel
def best_split(boxes: Float32s, width: int, order: Int64s) -> int:
    """Order 17 boxes so that the first part and the rest have the least areas; give where to cut.

    They are tried in order of their centres, in both directions, and of their sizes: a few large
    boxes among small ones are best kept apart from them.
    """
    count = LANES + 1
    key = np.empty(count, np.float32)
    trial = np.empty(count, np.int64)
    tails = np.empty(count, np.float32)
    best, cut = np.float32(np.inf), count // 2
    for axis in range(3):
        for i in range(count):
            at = i * width
            if axis < 2:
                value = boxes[at + axis] + boxes[at + axis + 2]
            else:
                value = boxes[at + 2] - boxes[at] + boxes[at + 3] - boxes[at + 1]
            j = i
            while j > 0 and key[j - 1] > value:
                key[j], trial[j] = key[j - 1], trial[j - 1]
                j -= 1
            key[j], trial[j] = value, i
        x0 = y0 = np.float32(np.inf)
        x1 = y1 = np.float32(-np.inf)
        for i in range(count - 1, _LEAST_PART - 1, -1):
            at = trial[i] * width
            x0, y0 = min(x0, boxes[at]), min(y0, boxes[at + 1])
            x1, y1 = max(x1, boxes[at + 2]), max(y1, boxes[at + 3])
            tails[i] = (x1 - x0 + MARGIN) * (y1 - y0 + MARGIN)
        x0 = y0 = np.float32(np.inf)
        x1 = y1 = np.float32(-np.inf)
        better = False
        for i in range(_MOST_PART):
            at = trial[i] * width
            x0, y0 = min(x0, boxes[at]), min(y0, boxes[at + 1])
            x1, y1 = max(x1, boxes[at + 2]), max(y1, boxes[at + 3])
            if i + 1 >= _LEAST_PART:
                cost = (x1 - x0 + MARGIN) * (y1 - y0 + MARGIN) + tails[i + 1]
                if cost < best:
                    best, cut, better = cost, i + 1, True
        if better:
            order[:] = trial
    return cut


@kernel
def write_lane(state: State, leaf: int, lane: int, record: Float32s, ints: Int32s, at: int) -> None:
    """Write a record to a lane of a leaf."""
    base = leaf * LEAF + lane
    state.leaves[base] = record[at]
    state.leaves[base + 16] = record[at + 1]
    state.leaves[base + 32] = record[at + 2]
    state.leaves[base + 48] = record[at + 3]
    row = ints[at + ROW]
    state.leaf_ints[base + ROWS] = row
    state.leaf_ints[base + SECONDS] = ints[at + SECOND]
    state.leaf_ints[base + THIRDS] = ints[at + THIRD]
    state.places[row if row >= 0 else ~row] = ~(leaf * LANES + lane)


@kernel
def empty_lane(state: State, base: int) -> None:
    """Empty the box of a lane, given where its x0 stands."""
    state.leaves[base] = state.leaves[base + 16] = np.inf
    state.leaves[base + 32] = state.leaves[base + 48] = -np.inf


@kernel
def split_leaf(state: State, leaf: int, record: Float32s, ints: Int32s, at: int) -> None:
    """Part a full leaf and one record more in two leaves."""
    base = leaf * LEAF
    all_ints = np.empty((LANES + 1) * RECORD, np.int32)
    entries = all_ints.view(np.float32)
    for lane in range(LANES):
        for plane in range(7):
            all_ints[lane * RECORD + plane] = state.leaf_ints[base + plane * 16 + lane]
    for plane in range(7):
        all_ints[LANES * RECORD + plane] = ints[at + plane]
    order = np.empty(LANES + 1, np.int64)
    cut = best_split(entries, RECORD, order)
    for lane in range(cut):
        write_lane(state, leaf, lane, entries, all_ints, order[lane] * RECORD)
    for lane in range(cut, LANES):
        empty_lane(state, base + lane)
    state.leaf_ints[base + LEAF_COUNT] = cut
    other = new_leaf(state, state.leaf_ints[base + LEAF_KEY], ROOT)
    for i in range(cut, LANES + 1):
        write_lane(state, other, i - cut, entries, all_ints, order[i] * RECORD)
    state.leaf_ints[other * LEAF + LEAF_COUNT] = LANES + 1 - cut
    attach(state, leaf, other, 0)


@kernel
def set_parent(state: State, child: int, height: int, parent: int) -> None:
    """Tell a child, a leaf if its height is 0, where it stands."""
    if height == 0:
        state.leaf_ints[child * LEAF + LEAF_PARENT] = parent
    else:
        state.node_ints[child * NODE + NODE_PARENT] = parent


@kernel
def write_child(state: State, node: int, lane: int, child: int, height: int) -> None:
    """Write a child and its present bounding box to a lane of a node."""
    at = node * NODE + lane
    if height == 0:
        planes, base = state.leaves, child * LEAF
    else:
        planes, base = state.nodes, child * NODE
    state.nodes[at] = least(planes, base)
    state.nodes[at + 16] = least(planes, base + 16)
    state.nodes[at + 32] = greatest(planes, base + 32)
    state.nodes[at + 48] = greatest(planes, base + 48)
    state.node_ints[at + CHILDREN] = child
    set_parent(state, child, height, node * LANES + lane)


@kernel
def attach(state: State, old: int, new: int, height: int) -> None:
    """Put `new` beside `old`, which gave half of its entries to it, under the same node."""
    while True:
        if height == 0:
            parent = state.leaf_ints[old * LEAF + LEAF_PARENT]
            key = state.leaf_ints[old * LEAF + LEAF_KEY]
        else:
            parent = state.node_ints[old * NODE + NODE_PARENT]
            key = state.node_ints[old * NODE + NODE_KEY]
        if parent == ROOT:
            node = new_node(state, key, ROOT)
            write_child(state, node, 0, old, height)
            write_child(state, node, 1, new, height)
            state.node_ints[node * NODE + NODE_COUNT] = 2
            state.runs[2 * key] = LEAF_RUN - height - 1
            state.runs[2 * key + 1] = node
            return
        node = parent // LANES
        base = node * NODE
        write_child(state, node, parent % LANES, old, height)
        count = state.node_ints[base + NODE_COUNT]
        if count < LANES:
            write_child(state, node, count, new, height)
            state.node_ints[base + NODE_COUNT] = count + 1
            tighten(state, state.nodes, base, state.node_ints[base + NODE_PARENT])
            return
        new = split_node(state, node, new, height)
        old = node
        height += 1


@kernel
def split_node(state: State, node: int, child: int, height: int) -> int:
    """Part a full node and one child more in two nodes, and give the new one."""
    base = node * NODE
    children = np.empty(LANES + 1, np.int64)
    boxes = np.empty((LANES + 1) * 4, np.float32)
    for lane in range(LANES):
        children[lane] = state.node_ints[base + CHILDREN + lane]
        for plane in range(4):
            boxes[lane * 4 + plane] = state.nodes[base + plane * 16 + lane]
    children[LANES] = child
    if height == 0:
        planes, start = state.leaves, child * LEAF
    else:
        planes, start = state.nodes, child * NODE
    boxes[64], boxes[65] = least(planes, start), least(planes, start + 16)
    boxes[66], boxes[67] = greatest(planes, start + 32), greatest(planes, start + 48)
    order = np.empty(LANES + 1, np.int64)
    cut = best_split(boxes, 4, order)
    for lane in range(cut):
        write_child(state, node, lane, children[order[lane]], height)
    for lane in range(cut, LANES):
        empty_child(state, base + lane)
    state.node_ints[base + NODE_COUNT] = cut
    other = new_node(state, state.node_ints[base + NODE_KEY], ROOT)
    for i in range(cut, LANES + 1):
        write_child(state, other, i - cut, children[order[i]], height)
    state.node_ints[other * NODE + NODE_COUNT] = LANES + 1 - cut
    return other


@kernel
def empty_child(state: State, at: int) -> None:
    """Empty the lane of a node, given where its x0 stands."""
    state.nodes[at] = state.nodes[at + 16] = np.inf
    state.nodes[at + 32] = state.nodes[at + 48] = -np.inf


@kernel
def drop_leaf(state: State, leaf: int) -> None:
    """Take an empty leaf out of its tree, and nodes above that have nothing left."""
    key = state.leaf_ints[leaf * LEAF + LEAF_KEY]
    parent = state.leaf_ints[leaf * LEAF + LEAF_PARENT]
    free_leaf(state, leaf)
    height = 0
    while parent != ROOT:
        node = parent // LANES
        base = node * NODE
        last = state.node_ints[base + NODE_COUNT] - 1
        lane = parent % LANES
        if lane != last:
            for plane in range(5):
                at = base + plane * 16
                state.node_ints[at + lane] = state.node_ints[at + last]
            set_parent(state, state.node_ints[base + CHILDREN + lane], height, parent)
        empty_child(state, base + last)
        state.node_ints[base + NODE_COUNT] = last
        parent = state.node_ints[base + NODE_PARENT]
        if last > 0:
            tighten(state, state.nodes, base, parent)
            return
        free_node(state, node)
        height += 1
    state.runs[2 * key] = 0
    state.counts[RUNS] -= 1
