"""The tree of one run: choosing a leaf, splitting what is full, keeping bounding boxes tight."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.index.rarest_term._lanes import greatest, least, least_growth
from nearcast.index.rarest_term._layout import (
    CHILDREN,
    COUNT,
    LANES,
    LEAVES,
    NODES,
    OF_KEY,
    PARENT,
    RECORD,
    ROOT,
    ROW,
    ROWS,
    RUNS,
    SECOND,
    SECONDS,
    THIRD,
    THIRDS,
    Float32s,
    State,
    empty_box,
    new_block,
    release,
    wide,
)
from nearcast.index.table import Int32s, Int64s

MARGIN = np.float32(1e-3)
"""Degrees added to the sides of a box before areas are compared, so that lines and points count."""
_KEPT = 7  # fields of a record that a leaf keeps
_ENTRIES = LANES + 1  # of a block that has to be split
_LEAST_PART, _MOST_PART = 6, 11  # how many of them the first part may have


@inlined
def choose_child(memory: Float32s, ints: Int32s, node: int, record: Float32s, at: int) -> int:
    """Find the child whose bounding box grows least by taking in the box of a record."""
    base = node * RECORD
    box = record[at], record[at + 1], record[at + 2], record[at + 3]
    lane = least_growth(memory, base, box[0], box[1], box[2], box[3], MARGIN)
    child: int = wide(ints[base + CHILDREN + lane])
    return child


@kernel
def tighten(memory: Float32s, ints: Int32s, block: int) -> None:
    """Let all nodes above a block know its present bounding box."""
    base = block * RECORD
    parent = wide(ints[base + PARENT])
    while parent != ROOT:
        x0, y0 = least(memory, base), least(memory, base + 16)
        x1, y1 = greatest(memory, base + 32), greatest(memory, base + 48)
        base = parent // LANES * LANES * RECORD
        lane = base + parent % LANES
        if (
            (memory[lane] == x0)
            & (memory[lane + 16] == y0)
            & (memory[lane + 32] == x1)
            & (memory[lane + 48] == y1)
        ):
            return
        memory[lane], memory[lane + 16] = x0, y0
        memory[lane + 32], memory[lane + 48] = x1, y1
        parent = wide(ints[base + PARENT])


@kernel
def _best_split(boxes: Float32s, order: Int64s) -> int:
    """Order 17 boxes so that the first part and the rest have the least areas; give where to cut.

    They are tried in order of their centres, in both directions, and of their sizes: a few large
    boxes among small ones are best kept apart from them.
    """
    key = np.empty(_ENTRIES, np.float32)
    trial = np.empty(_ENTRIES, np.int64)
    tails = np.empty(_ENTRIES, np.float32)
    best, cut = np.float32(np.inf), _ENTRIES // 2
    for i in range(_ENTRIES):
        order[i] = i
    for axis in range(3):
        for i in range(_ENTRIES):
            at = i * RECORD
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
        for i in range(_ENTRIES - 1, _LEAST_PART - 1, -1):
            at = trial[i] * RECORD
            x0, y0 = min(x0, boxes[at]), min(y0, boxes[at + 1])
            x1, y1 = max(x1, boxes[at + 2]), max(y1, boxes[at + 3])
            tails[i] = (x1 - x0 + MARGIN) * (y1 - y0 + MARGIN)
        x0 = y0 = np.float32(np.inf)
        x1 = y1 = np.float32(-np.inf)
        better = False
        for i in range(_MOST_PART):
            at = trial[i] * RECORD
            x0, y0 = min(x0, boxes[at]), min(y0, boxes[at + 1])
            x1, y1 = max(x1, boxes[at + 2]), max(y1, boxes[at + 3])
            if i + 1 >= _LEAST_PART:
                cost = (x1 - x0 + MARGIN) * (y1 - y0 + MARGIN) + tails[i + 1]
                if cost < best:
                    best, cut, better = cost, i + 1, True
        if better:
            for i in range(_ENTRIES):
                order[i] = trial[i]
    return cut


@inlined
def write_lane(state: State, leaf: int, lane: int, record: Int32s, at: int) -> None:
    """Write a record to a lane of a leaf."""
    base, ints = leaf * RECORD + lane, state.ints
    for field in range(4):
        ints[base + 16 * field] = record[at + field]
    row = record[at + ROW]
    ints[base + ROWS] = row
    ints[base + SECONDS] = record[at + SECOND]
    ints[base + THIRDS] = record[at + THIRD]
    state.places[row if row >= 0 else ~row] = ~(leaf + lane)


@kernel
def write_child(memory: Float32s, ints: Int32s, node: int, lane: int, child: int) -> None:
    """Write a child and its present bounding box to a lane of a node."""
    at, base = node * RECORD + lane, child * RECORD
    memory[at], memory[at + 16] = least(memory, base), least(memory, base + 16)
    memory[at + 32], memory[at + 48] = greatest(memory, base + 32), greatest(memory, base + 48)
    ints[at + CHILDREN] = child
    ints[base + PARENT] = node + lane


@kernel
def split_leaf(state: State, leaf: int, record: Int32s, at: int) -> None:
    """Part a full leaf and one record more in two leaves."""
    base = leaf * RECORD
    entries = np.empty(_ENTRIES * RECORD, np.int32)
    for lane in range(LANES):
        for field in range(_KEPT):
            entries[lane * RECORD + field] = state.ints[base + field * 16 + lane]
    for field in range(_KEPT):
        entries[LANES * RECORD + field] = record[at + field]
    order = np.empty(_ENTRIES, np.int64)
    cut = _best_split(entries.view(np.float32), order)
    for lane in range(cut):
        write_lane(state, leaf, lane, entries, order[lane] * RECORD)
    for lane in range(cut, LANES):
        empty_box(state.memory, base + lane, 16)
    state.ints[base + COUNT] = cut
    other = new_block(state, state.ints[base + OF_KEY])
    for i in range(cut, _ENTRIES):
        write_lane(state, other, i - cut, entries, order[i] * RECORD)
    state.ints[other * RECORD + COUNT] = _ENTRIES - cut
    state.counts[LEAVES] += 1
    _attach(state, leaf, other)


@kernel
def _split_node(state: State, node: int, child: int) -> int:
    """Part a full node and one child more in two nodes, and give the new one."""
    memory, ints = state.memory, state.ints
    base = node * RECORD
    children = np.empty(_ENTRIES, np.int64)
    boxes = np.empty(_ENTRIES * RECORD, np.float32)
    for lane in range(LANES):
        children[lane] = ints[base + CHILDREN + lane]
        for plane in range(4):
            boxes[lane * RECORD + plane] = memory[base + plane * 16 + lane]
    children[LANES] = child
    start = child * RECORD
    at = LANES * RECORD
    boxes[at], boxes[at + 1] = least(memory, start), least(memory, start + 16)
    boxes[at + 2], boxes[at + 3] = greatest(memory, start + 32), greatest(memory, start + 48)
    order = np.empty(_ENTRIES, np.int64)
    cut = _best_split(boxes, order)
    for lane in range(cut):
        write_child(memory, ints, node, lane, children[order[lane]])
    for lane in range(cut, LANES):
        empty_box(memory, base + lane, 16)
    ints[base + COUNT] = cut
    other = new_block(state, ints[base + OF_KEY])
    for i in range(cut, _ENTRIES):
        write_child(memory, ints, other, i - cut, children[order[i]])
    ints[other * RECORD + COUNT] = _ENTRIES - cut
    state.counts[NODES] += 1
    return other


@kernel
def _attach(state: State, old: int, new: int) -> None:
    """Put `new` beside `old`, which gave half of its entries to it, under the same node."""
    memory, ints = state.memory, state.ints
    while True:
        parent = wide(ints[old * RECORD + PARENT])
        if parent == ROOT:
            key = ints[old * RECORD + OF_KEY]
            node = new_block(state, key)
            write_child(memory, ints, node, wide(0), old)
            write_child(memory, ints, node, wide(1), new)
            ints[node * RECORD + COUNT] = 2
            state.runs[2 * key] -= 1
            state.runs[2 * key + 1] = node
            state.counts[NODES] += 1
            return
        node = parent // LANES * LANES
        write_child(memory, ints, node, parent % LANES, old)
        count = wide(ints[node * RECORD + COUNT])
        if count < LANES:
            write_child(memory, ints, node, count, new)
            ints[node * RECORD + COUNT] = count + 1
            tighten(memory, ints, node)
            return
        new = _split_node(state, node, new)
        old = node


@kernel
def drop_leaf(state: State, leaf: int) -> None:
    """Take an empty leaf out of its tree, and nodes above that have nothing left."""
    memory, ints = state.memory, state.ints
    key = ints[leaf * RECORD + OF_KEY]
    parent = wide(ints[leaf * RECORD + PARENT])
    release(state, leaf, LANES)
    state.counts[LEAVES] -= 1
    while parent != ROOT:
        node, lane = parent // LANES * LANES, parent % LANES
        base = node * RECORD
        last = ints[base + COUNT] - 1
        if lane != last:
            for plane in range(5):
                ints[base + plane * 16 + lane] = ints[base + plane * 16 + last]
            ints[ints[base + CHILDREN + lane] * RECORD + PARENT] = parent
        empty_box(memory, base + last, 16)
        ints[base + COUNT] = last
        if last > 0:
            tighten(memory, ints, node)
            return
        parent = wide(ints[base + PARENT])
        release(state, node, LANES)
        state.counts[NODES] -= 1
    state.runs[2 * key] = 0
    state.counts[RUNS] -= 1
