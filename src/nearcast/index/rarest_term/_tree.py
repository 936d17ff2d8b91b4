"""The tree of one run: choosing a leaf, splitting what is full, keeping bounding boxes tight."""

from __future__ import annotations

from typing import Any

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import LANES, bit_count, greatest, least, least_growth, lowest
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Int32s
from nearcast.index.rarest_term._layout import (
    ARRANGED_BOX,
    BOUND,
    CHILDREN,
    COUNT,
    FULL,
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
    RarestTermArrays,
    empty_box,
    new_block,
    release,
)
from nearcast.index.rarest_term._split import MARGIN, best_part

ALL_LANES = 2**LANES - 1
_KEPT = 7  # fields of a record that a leaf keeps


@inlined
def choose_child(memory: Float32s, ints: Int32s, node: int, record: Float32s, at: int) -> int:
    """Find the child whose bounding box grows least by taking in the box of a record."""
    base = node * RECORD
    box = record[at], record[at + 1], record[at + 2], record[at + 3]
    lane = least_growth(memory, base, box[0], box[1], box[2], box[3], MARGIN, wide(0))
    child: int = wide(ints[base + CHILDREN + lane])
    return child


@inner
def tighten(memory: Float32s, ints: Int32s, block: int) -> None:
    """Let all nodes above a block know its present bounding box."""
    base = block * RECORD
    parent = wide(ints[base + PARENT])
    while parent != ROOT:
        x0, y0 = least(memory, base), least(memory, base + 16)
        x1, y1 = greatest(memory, base + 32), greatest(memory, base + 48)
        own = base + BOUND
        if (
            (memory[own] == x0)
            & (memory[own + 1] == y0)
            & (memory[own + 2] == x1)
            & (memory[own + 3] == y1)
        ):
            return
        memory[own], memory[own + 1], memory[own + 2], memory[own + 3] = x0, y0, x1, y1
        base = parent // LANES * LANES * RECORD
        lane = base + parent % LANES
        memory[lane], memory[lane + 16] = x0, y0
        memory[lane + 32], memory[lane + 48] = x1, y1
        parent = wide(ints[base + PARENT])


@inner
def settle(memory: Float32s, leaf: int) -> None:
    """Let the present bounding box of a leaf be its arranged box."""
    base = leaf * RECORD
    memory[base + ARRANGED_BOX], memory[base + ARRANGED_BOX + 1] = (
        least(memory, base),
        least(memory, base + 16),
    )
    memory[base + ARRANGED_BOX + 2] = greatest(memory, base + 32)
    memory[base + ARRANGED_BOX + 3] = greatest(memory, base + 48)


@inner
def part_to_leave(memory: Float32s, at: int, x0: Any, y0: Any, x1: Any, y1: Any) -> tuple[int, Any]:
    """Choose which entries of a full block, and perhaps the new one, bit 16, go to a new block.

    The part with more of those that are there already stays where it is. Gives the area of both
    parts too.
    """
    part, area = best_part(memory, at, x0, y0, x1, y1, MARGIN)
    if bit_count(part & ALL_LANES) > LANES // 2:
        part ^= 2 * ALL_LANES + 1
    return part, area


@inlined
def note_full(ints: Int32s, node: int, lane: int, full: bool) -> None:
    """Note in a node whether the child in a lane is full."""
    at, bit = node * RECORD + FULL, 1 << lane
    noted = wide(ints[at])
    ints[at] = noted | bit if full else noted & ~bit


@inner
def leaf_beside(
    memory: Float32s, ints: Int32s, parent: int, record: Float32s, at: int, area: Any
) -> int:
    """Find a leaf with room beside a full one that had better take a record than that is split.

    `parent` is where the full leaf hangs, `area` is what its two parts would have together. What
    counts is how much area there is more in the end. Gives ROOT if there is no such leaf.
    """
    node, lane = parent // LANES * LANES, parent % LANES
    base = node * RECORD
    there = (1 << wide(ints[base + COUNT])) - 1
    note_full(ints, node, lane, True)
    full = wide(ints[base + FULL])
    if there & ~full == 0:
        return ROOT
    x0, y0, x1, y1 = record[at], record[at + 1], record[at + 2], record[at + 3]
    other = base + least_growth(memory, base, x0, y0, x1, y1, MARGIN, full)
    growth = _area_with(memory, other, x0, y0, x1, y1) - _area(memory, other)
    if growth >= area - _area(memory, base + lane):
        return ROOT
    leaf: int = wide(ints[other + CHILDREN])
    if ints[leaf * RECORD + COUNT] == LANES:
        note_full(ints, node, other - base, True)
        return ROOT
    return leaf


@inlined
def _area(memory: Float32s, at: int) -> Any:
    """Give the area of the box in a lane of a node, with its margin."""
    across = memory[at + 32] - memory[at] + MARGIN
    return across * (memory[at + 48] - memory[at + 16] + MARGIN)


@inlined
def _area_with(memory: Float32s, at: int, x0: Any, y0: Any, x1: Any, y1: Any) -> Any:
    """Give the area of the box in a lane after it has taken in another."""
    across = max(memory[at + 32], x1) - min(memory[at], x0) + MARGIN
    return across * (max(memory[at + 48], y1) - min(memory[at + 16], y0) + MARGIN)


@inlined
def write_lane(state: RarestTermArrays, leaf: int, lane: int, record: Int32s, at: int) -> None:
    """Write a record to a lane of a leaf."""
    base, ints = leaf * RECORD + lane, state.ints
    for field in range(4):
        ints[base + 16 * field] = record[at + field]
    row = record[at + ROW]
    ints[base + ROWS] = row
    ints[base + SECONDS] = record[at + SECOND]
    ints[base + THIRDS] = record[at + THIRD]
    state.places[row if row >= 0 else ~row] = ~(leaf + lane)


@inner
def write_child(memory: Float32s, ints: Int32s, node: int, lane: int, child: int) -> None:
    """Write a child and its present bounding box to a lane of a node."""
    at, base = node * RECORD + lane, child * RECORD
    x0, y0 = least(memory, base), least(memory, base + 16)
    x1, y1 = greatest(memory, base + 32), greatest(memory, base + 48)
    memory[at], memory[at + 16], memory[at + 32], memory[at + 48] = x0, y0, x1, y1
    own = base + BOUND
    memory[own], memory[own + 1], memory[own + 2], memory[own + 3] = x0, y0, x1, y1
    ints[at + CHILDREN] = child
    ints[base + PARENT] = node + lane
    note_full(ints, node, lane, ints[base + COUNT] == LANES)


@inner
def split_leaf(state: RarestTermArrays, leaf: int, record: Int32s, at: int, leaving: int) -> None:
    """Divide a full leaf and one record more, which is at `at`, into two leaves."""
    memory, ints, base = state.memory, state.ints, leaf * RECORD
    other = new_block(state, wide(ints[base + OF_KEY]))
    start, count = other * RECORD, wide(0)
    moving = leaving & ALL_LANES
    while moving:
        lane = lowest(moving)
        moving &= moving - 1
        for field in range(_KEPT):
            ints[start + 16 * field + count] = ints[base + 16 * field + lane]
        empty_box(memory, base + lane, 16)
        row = ints[start + ROWS + count]
        state.places[row if row >= 0 else ~row] = ~(other + count)
        count += 1
    stay = LANES - count
    if leaving > ALL_LANES:
        write_lane(state, other, count, record, at)
        count += 1
    else:
        write_lane(state, leaf, lowest(leaving), record, at)
        stay += 1
    ints[base + COUNT] = stay
    ints[start + COUNT] = count
    state.counts[LEAVES] += 1
    settle(memory, leaf)
    settle(memory, other)
    _attach(state, leaf, other)


@inner
def _split_node(state: RarestTermArrays, node: int, child: int) -> int:
    """Part a full node and one child more in two nodes, and give the new one."""
    memory, ints = state.memory, state.ints
    base, start = node * RECORD, child * RECORD
    x0, y0 = least(memory, start), least(memory, start + 16)
    x1, y1 = greatest(memory, start + 32), greatest(memory, start + 48)
    leaving, _ = part_to_leave(memory, base, x0, y0, x1, y1)
    other = new_block(state, wide(ints[base + OF_KEY]))
    stay = count = wide(0)
    full = wide(ints[base + FULL])
    for lane in range(LANES):
        if leaving >> lane & 1:
            _move_child(ints, node, lane, other, count)
            note_full(ints, other, count, full >> lane & 1 == 1)
            count += 1
        else:
            _move_child(ints, node, lane, node, stay)
            note_full(ints, node, stay, full >> lane & 1 == 1)
            stay += 1
    for lane in range(stay, LANES):
        empty_box(memory, base + lane, 16)
    if leaving > ALL_LANES:
        write_child(memory, ints, other, count, child)
        count += 1
    else:
        write_child(memory, ints, node, stay, child)
        stay += 1
    ints[base + COUNT] = stay
    ints[other * RECORD + COUNT] = count
    state.counts[NODES] += 1
    return other


@inlined
def _move_child(ints: Int32s, node: int, lane: int, other: int, place: int) -> None:
    """Write a child and its known bounding box to another lane."""
    source, target = node * RECORD + lane, other * RECORD + place
    for plane in range(5):
        ints[target + 16 * plane] = ints[source + 16 * plane]
    ints[wide(ints[target + CHILDREN]) * RECORD + PARENT] = other + place


@inner
def _attach(state: RarestTermArrays, old: int, new: int) -> None:
    """Put `new` beside `old`, which gave half of its entries to it, under the same node."""
    memory, ints = state.memory, state.ints
    while True:
        parent = wide(ints[old * RECORD + PARENT])
        if parent == ROOT:
            key = wide(ints[old * RECORD + OF_KEY])
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


@inner
def drop_leaf(state: RarestTermArrays, leaf: int) -> None:
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
            note_full(ints, node, lane, wide(ints[base + FULL]) >> last & 1 == 1)
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
