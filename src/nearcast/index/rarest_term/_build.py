"""Building everything at once: full leaves, arranged by a cost that is decided place by place."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast._jit import inlined, inner, kernel, lean_kernel
from nearcast.arrays.lanes import LANES, prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Int32s, Int64s
from nearcast.index.rarest_term._layout import (
    CHILDREN,
    COUNT,
    KEY,
    LEAF_RUN,
    LEAVES,
    LIVE,
    NODES,
    RECORD,
    RUNS,
    SHORT,
    SHORT_END,
    USED,
    RarestTermArrays,
    empty_box,
    new_block,
    release,
    room_for,
    take_records,
)
from nearcast.index.rarest_term._rows import ask_for_row, rarest_terms, write_record
from nearcast.index.rarest_term._split import MARGIN
from nearcast.index.rarest_term._tree import settle, write_child, write_lane
from nearcast.index.table import Parts

_FAR, _NEAR = 16, 8  # how many rows ahead a row, and then its terms, are asked for


@kernel
def key_rows(rows: Parts, live: Int32s, frequency: Int64s, keys: Int32s, starts: Int64s) -> None:
    """Find the key of each row, and count the rows of key k in `starts[k + 1]`."""
    for i in range(len(live)):
        row = live[i]
        key, _, _ = rarest_terms(rows.terms, rows.first[row], rows.required[row], frequency)
        keys[i] = key
        starts[key + 1] += 1


@kernel
def order_rows(live: Int32s, keys: Int32s, starts: Int64s, ordered: Int32s) -> None:
    """Order rows by key; `starts[k]`, where key k begins, becomes where it ends."""
    for i in range(len(live)):
        key = keys[i]
        ordered[starts[key]] = live[i]
        starts[key] += 1


@kernel
def plan(ends: Int64s) -> tuple[int, int, int]:
    """Give how many records and blocks there will be, and how long the longest run is."""
    records = blocks = longest = 0
    start = 0
    for key in range(len(ends)):
        size = ends[key] - start
        start = ends[key]
        longest = max(longest, size)
        if size <= SHORT:
            records += room_for(size)
            continue
        level = (size + LANES - 1) // LANES
        blocks += level
        while level > 1:
            level = (level + LANES - 1) // LANES
            blocks += level
    return records, blocks, longest


@inner
def _sort_key(boxes: Float32s, i: int, axis: int) -> Any:
    at = i * RECORD
    if axis < 2:
        return boxes[at + axis] + boxes[at + axis + 2]
    return boxes[at + 2] - boxes[at] + boxes[at + 3] - boxes[at + 1]


@inner
def _best_axis(boxes: Float32s, low: int, high: int) -> int:
    """Choose by what to halve a set of boxes: centres across, centres along, or sizes.

    The cost of a set is the area of its bounding box, the odds that a message falls into it.
    Halving by centres halves the spread of the centres in one direction and leaves the largest
    side as it is; halving by size spares one half the large sides of the other.
    """
    x_low = y_low = np.float32(np.inf)
    x_high = y_high = np.float32(-np.inf)
    most_wide = most_high = np.float32(0)
    sum_wide = sum_high = 0.0
    for i in range(low, high):
        at = i * RECORD
        x0, y0, x1, y1 = boxes[at], boxes[at + 1], boxes[at + 2], boxes[at + 3]
        x_low, x_high = min(x_low, x0 + x1), max(x_high, x0 + x1)
        y_low, y_high = min(y_low, y0 + y1), max(y_high, y0 + y1)
        most_wide, most_high = max(most_wide, x1 - x0), max(most_high, y1 - y0)
        sum_wide += x1 - x0
        sum_high += y1 - y0
    spread_x, spread_y = (x_high - x_low) / 2 + MARGIN, (y_high - y_low) / 2 + MARGIN
    usual_wide, usual_high = sum_wide / (high - low), sum_high / (high - low)
    across = (spread_x / 2 + most_wide) * (spread_y + most_high)
    along = (spread_x + most_wide) * (spread_y / 2 + most_high)
    sized = (spread_x + most_wide) * (spread_y + most_high)
    sized = (sized + (spread_x + usual_wide) * (spread_y + usual_high)) / 2
    if sized < across and sized < along:
        return 2
    return 0 if across <= along else 1


@inner
def _halve(boxes: Float32s, low: int, high: int, middle: int, axis: int) -> None:
    """Reorder records so that none before `middle` comes after one behind it, by quickselect."""
    while high - low > 1:
        one, two = _sort_key(boxes, low, axis), _sort_key(boxes, (low + high) // 2, axis)
        three = _sort_key(boxes, high - 1, axis)
        pivot = max(min(one, two), min(max(one, two), three))
        i, j = low, high - 1
        while i <= j:
            while _sort_key(boxes, i, axis) < pivot:
                i += 1
            while _sort_key(boxes, j, axis) > pivot:
                j -= 1
            if i <= j:
                for field in range(RECORD):
                    one_at, other_at = i * RECORD + field, j * RECORD + field
                    boxes[one_at], boxes[other_at] = boxes[other_at], boxes[one_at]
                i += 1
                j -= 1
        if middle <= j:
            high = j + 1
        elif middle >= i:
            low = i
        else:
            return


@inner
def _arrange(boxes: Float32s, count: int, stack: Int64s) -> None:
    """Order records so that every sixteen, and every sixteen of those, lie close together."""
    unit = LANES
    while unit < count:
        unit *= LANES
    stack[0], stack[1], stack[2] = 0, count, unit
    top = 3
    while top:
        top -= 3
        low, high, unit = stack[top], stack[top + 1], stack[top + 2]
        while high - low <= unit and unit >= LANES:
            unit //= LANES
        if unit < LANES:
            continue
        parts = (high - low + unit - 1) // unit
        middle = low + parts // 2 * unit
        _halve(boxes, low, high, middle, _best_axis(boxes, low, high))
        stack[top], stack[top + 1], stack[top + 2] = low, middle, unit
        stack[top + 3], stack[top + 4], stack[top + 5] = middle, high, unit
        top += 6


@inlined
def ask_ahead(rows: Parts, places: Int32s, ordered: Int32s, at: int) -> None:
    """Ask for what rows that come later in the order need: their order is not that of memory."""
    if at + _FAR < len(ordered):
        ask_for_row(rows, places, wide(ordered[at + _FAR]))
        prefetch(rows.terms, wide(rows.first[ordered[at + _NEAR]]))


@kernel
def fill(
    state: RarestTermArrays,
    rows: Parts,
    frequency: Int64s,
    ordered: Int32s,
    ends: Int64s,
    scratch: Int32s,
) -> None:
    """Write all runs into the empty arena; `scratch` has room for the longest of them."""
    floats = scratch.view(np.float32)
    stack = np.empty(1024, np.int64)
    units = np.empty(len(scratch) // (RECORD * LANES) + 1, np.int64)
    start = 0
    for key in range(len(ends)):
        stop = ends[key]
        size = stop - start
        if size == 0:
            continue
        state.counts[RUNS] += 1
        state.counts[LIVE] += size
        if size <= SHORT:
            room = room_for(size)
            unit = take_records(state, room)
            state.runs[2 * key], state.runs[2 * key + 1] = room, unit
            for i in range(size):
                ask_ahead(rows, state.places, ordered, start + i)
                row = ordered[start + i]
                at = (unit + i) * RECORD
                write_record(rows, row, frequency, state.memory, state.ints, at)
                state.places[row] = unit + i
            for i in range(size, room):
                empty_box(state.memory, (unit + i) * RECORD, 1)
        else:
            for i in range(size):
                ask_ahead(rows, state.places, ordered, start + i)
                write_record(rows, ordered[start + i], frequency, floats, scratch, i * RECORD)
            _arrange(floats, size, stack)
            _plant(state, key, scratch, size, units)
        start = stop


@kernel
def reserve_records(state: RarestTermArrays, units: int) -> None:
    """Set a part of the empty arena aside for records, so that they lie together."""
    state.counts[SHORT_END] = units
    state.counts[USED] = (units + LANES - 1) // LANES * LANES


@inner
def _plant(state: RarestTermArrays, key: int, records: Int32s, size: int, units: Int64s) -> None:
    """Make the leaves and nodes of a run out of arranged records; `units` has room for a level."""
    level = (size + LANES - 1) // LANES
    state.counts[LEAVES] += level
    for i in range(level):
        leaf = new_block(state, key)
        units[i] = leaf
        count = min(LANES, size - i * LANES)
        for lane in range(count):
            write_lane(state, leaf, lane, records, (i * LANES + lane) * RECORD)
        state.ints[leaf * RECORD + COUNT] = count
        settle(state.memory, leaf)
    height = 0
    while level > 1:
        width = (level + LANES - 1) // LANES
        state.counts[NODES] += width
        for i in range(width):
            node = new_block(state, key)
            count = min(LANES, level - i * LANES)
            for lane in range(count):
                write_child(state.memory, state.ints, node, lane, units[i * LANES + lane])
            state.ints[node * RECORD + COUNT] = count
            units[i] = node  # those from here on have not been read yet, or are behind it
        level = width
        height += 1
    state.runs[2 * key], state.runs[2 * key + 1] = LEAF_RUN - height, units[0]


@inner
def _uproot(state: RarestTermArrays, key: int, records: Int32s, units: Int64s) -> int:
    """Copy the records of a tree, and give its blocks back; -1 if there is no room for them.

    Leaves are read before anything is given back: what was not changed is still there.
    """
    ints = state.ints
    top, end = wide(1), wide(1)
    units[0] = wide(state.runs[2 * key + 1])
    height = LEAF_RUN - wide(state.runs[2 * key])
    first = wide(0)
    for _ in range(height):
        for at in range(first, top):
            base = units[at] * RECORD
            for lane in range(ints[base + COUNT]):
                if end == len(units):
                    return -1
                units[end] = ints[base + CHILDREN + lane]
                end += 1
        first, top = top, end
    if (end - first) * LANES * RECORD > len(records):
        return -1
    size: int = wide(0)
    for at in range(first, end):
        base = units[at] * RECORD
        for lane in range(base, base + LANES):
            if state.memory[lane] != np.inf:
                for field in range(KEY):
                    records[size * RECORD + field] = ints[lane + 16 * field]
                records[size * RECORD + KEY] = key
                size += 1
    for at in range(end):
        release(state, units[at], LANES)
    state.counts[LEAVES] -= end - first
    state.counts[NODES] -= first
    return size


@lean_kernel
def rearrange(
    state: RarestTermArrays, start: int, most: int, scratch: Int32s, stack: Int64s, units: Int64s
) -> tuple[int, int]:
    """Rearrange the trees of keys from `start` on, until `most` rows have been gone over.

    Gives the next key, and how many rows there were; -1 of them if the tree of that key does not
    fit into `scratch`, or its blocks into `units`.
    """
    floats = scratch.view(np.float32)
    done = wide(0)
    for key in range(start, len(state.runs) // 2):
        if done >= most:
            return key, done
        if state.runs[2 * key] >= LEAF_RUN:
            continue
        size = _uproot(state, key, scratch, units)
        if size < 0:
            return key, (done if done > 0 else wide(-1))
        _arrange(floats, size, stack)
        _plant(state, key, scratch, size, units)
        done += size
    return len(state.runs) // 2, done
