"""Rows that come, go and move."""

from __future__ import annotations

import numpy as np

from nearcast._jit import kernel
from nearcast.index.rarest_term._lanes import LANES, lowest, meets, rounded_down, rounded_up
from nearcast.index.rarest_term._layout import (
    KEY,
    LEAF,
    LEAF_COUNT,
    LEAF_KEY,
    LEAF_PARENT,
    LEAF_RUN,
    LIVE,
    NODE,
    NODE_COUNT,
    NOWHERE,
    RECORD,
    ROOT,
    ROW,
    ROWS,
    RUNS,
    SECONDS,
    SHORT,
    THIRDS,
    USED_LEAVES,
    USED_NODES,
    USED_RECORDS,
    Float32s,
    State,
    free_records,
    new_leaf,
    new_records,
    room_for,
)
from nearcast.index.rarest_term._rows import frequency_of, rarest_terms, write_record
from nearcast.index.rarest_term._tree import (
    MARGIN,
    choose_child,
    drop_leaf,
    empty_lane,
    split_leaf,
    tighten_above_leaf,
    write_lane,
)
from nearcast.index.table import Int32s, Int64s, Rows

_SLACK = 16  # more leaves or nodes than one insertion can take
_LOOSE = 2.0  # a move in place may let the area of its leaf grow by this factor


@kernel
def _has_room(state: State) -> bool:
    counts = state.counts
    return bool(
        counts[USED_RECORDS] + SHORT <= len(state.records) // RECORD
        and counts[USED_LEAVES] + _SLACK <= len(state.leaves) // LEAF
        and counts[USED_NODES] + _SLACK <= len(state.nodes) // NODE
    )


@kernel
def _copy_record(state: State, at: int, record: Int32s, start: int) -> None:
    base = at * RECORD
    for field in range(RECORD):
        state.record_ints[base + field] = record[start + field]
    row = state.record_ints[base + ROW]
    state.places[row if row >= 0 else ~row] = at


@kernel
def _empty_record(state: State, at: int) -> None:
    base = at * RECORD
    state.records[base] = state.records[base + 1] = np.inf
    state.records[base + 2] = state.records[base + 3] = -np.inf


@kernel
def _put_short(state: State, record: Float32s, ints: Int32s, key: int) -> None:
    """Add a record to a run of plain records, which may have to become a longer one, or a leaf."""
    size, start = state.runs[2 * key], state.runs[2 * key + 1]
    for at in range(start, start + size):
        if state.records[at * RECORD] == np.inf:
            _copy_record(state, at, ints, 0)
            return
    if size < SHORT:
        longer = new_records(state, size + 1)
        room = room_for(size + 1)
        for i in range(size):
            _copy_record(state, longer + i, state.record_ints, (start + i) * RECORD)
        _copy_record(state, longer + size, ints, 0)
        for i in range(size + 1, room):
            _empty_record(state, longer + i)
        state.runs[2 * key] = room
        state.runs[2 * key + 1] = longer
    else:
        leaf = new_leaf(state, key, ROOT)
        for i in range(size):
            write_lane(state, leaf, i, state.records, state.record_ints, (start + i) * RECORD)
        write_lane(state, leaf, size, record, ints, 0)
        state.leaf_ints[leaf * LEAF + LEAF_COUNT] = size + 1
        state.runs[2 * key] = LEAF_RUN
        state.runs[2 * key + 1] = leaf
    free_records(state, start, size)


@kernel
def _put(state: State, record: Float32s, ints: Int32s) -> None:
    """Add one record to its run."""
    state.counts[LIVE] += 1
    key = ints[KEY]
    kind, at = state.runs[2 * key], state.runs[2 * key + 1]
    if kind == 0:
        at = new_records(state, 1)
        _copy_record(state, at, ints, 0)
        state.runs[2 * key] = 1
        state.runs[2 * key + 1] = at
        state.counts[RUNS] += 1
        return
    if kind > 0:
        _put_short(state, record, ints, key)
        return
    while kind < LEAF_RUN:
        at = choose_child(state, at, record[0], record[1], record[2], record[3])
        kind += 1
    base = at * LEAF
    count = state.leaf_ints[base + LEAF_COUNT]
    if count == LANES:
        split_leaf(state, at, record, ints, 0)
        return
    # Of all boxes only an empty one begins at +inf.
    lane = 0
    while state.leaves[base + lane] != np.inf:
        lane += 1
    write_lane(state, at, lane, record, ints, 0)
    state.leaf_ints[base + LEAF_COUNT] = count + 1
    tighten_above_leaf(state, at)


@kernel
def _take_out(state: State, row: int) -> None:
    """Remove the record of a row that is somewhere."""
    place = np.int64(state.places[row])
    state.places[row] = NOWHERE
    state.counts[LIVE] -= 1
    if place < 0:
        leaf = ~place // LANES
        empty_lane(state, leaf * LEAF + ~place % LANES)
        state.leaf_ints[leaf * LEAF + LEAF_COUNT] -= 1
        if state.leaf_ints[leaf * LEAF + LEAF_COUNT] == 0:
            drop_leaf(state, leaf)
        return
    _empty_record(state, place)
    key = state.record_ints[place * RECORD + KEY]
    size, start = state.runs[2 * key], state.runs[2 * key + 1]
    for at in range(start, start + size):
        if state.records[at * RECORD] != np.inf:
            return
    free_records(state, start, size)
    state.runs[2 * key] = 0
    state.counts[RUNS] -= 1


@kernel
def insert_rows(
    state: State, rows: Rows, frequency: Int64s, added: Int32s, start: int, ints: Int32s
) -> int:
    """Add rows from `added[start]` on; stop and say where when an arena has to grow first."""
    record = ints.view(np.float32)
    for i in range(start, len(added)):
        if not _has_room(state):
            return i
        write_record(rows, added[i], frequency, record, ints, 0)
        _put(state, record, ints)
    return len(added)


@kernel
def delete_rows(state: State, gone: Int32s) -> None:
    """Remove rows; those that are not there stay so."""
    for row in gone:
        if row < len(state.places) and state.places[row] != NOWHERE:
            _take_out(state, row)


@kernel
def move_rows(state: State, rows: Rows, moved: Int32s, start: int, ints: Int32s) -> int:
    """Take over new boxes of rows, in place where the run stays in good order by that."""
    record = ints.view(np.float32)
    for i in range(start, len(moved)):
        row = moved[i]
        if row >= len(state.places) or state.places[row] == NOWHERE:
            continue
        if not _has_room(state):
            return i
        record[0], record[1] = rounded_down(rows.box[row, 0]), rounded_down(rows.box[row, 1])
        record[2], record[3] = rounded_up(rows.box[row, 2]), rounded_up(rows.box[row, 3])
        place = np.int64(state.places[row])
        if place >= 0:
            state.records[place * RECORD : place * RECORD + 4] = record[:4]
            continue
        leaf, lane = ~place // LANES, ~place % LANES
        base = leaf * LEAF
        if _fits(state, leaf, record):
            for plane in range(4):
                state.leaves[base + plane * 16 + lane] = record[plane]
            tighten_above_leaf(state, leaf)
            continue
        ints[ROW] = state.leaf_ints[base + ROWS + lane]
        ints[5] = state.leaf_ints[base + SECONDS + lane]
        ints[6] = state.leaf_ints[base + THIRDS + lane]
        ints[KEY] = state.leaf_ints[base + LEAF_KEY]
        _take_out(state, row)
        _put(state, record, ints)
    return len(moved)


@kernel
def _fits(state: State, leaf: int, box: Float32s) -> bool:
    """Tell whether a leaf may take a box in without growing much."""
    parent = np.int64(state.leaf_ints[leaf * LEAF + LEAF_PARENT])
    if parent == ROOT:
        return True
    at = parent // LANES * NODE + parent % LANES
    x0, y0 = state.nodes[at], state.nodes[at + 16]
    x1, y1 = state.nodes[at + 32], state.nodes[at + 48]
    area = (x1 - x0 + MARGIN) * (y1 - y0 + MARGIN)
    width = max(x1, box[2]) - min(x0, box[0]) + MARGIN
    height = max(y1, box[3]) - min(y0, box[1]) + MARGIN
    return bool(width * height <= _LOOSE * area)


@kernel
def refresh_rows(
    state: State, rows: Rows, frequency: Int64s, start: int, stop: int, ints: Int32s
) -> int:
    """Give rows another key where the one they have is no longer rare; say how far it came."""
    record = ints.view(np.float32)
    for row in range(start, min(stop, len(state.places))):
        place = np.int64(state.places[row])
        if place == NOWHERE:
            continue
        if not _has_room(state):
            return row
        if place >= 0:
            key = state.record_ints[place * RECORD + KEY]
        else:
            key = state.leaf_ints[~place // LANES * LEAF + LEAF_KEY]
        better, _, _ = rarest_terms(rows, row, frequency)
        if 2 * frequency_of(frequency, better) < frequency_of(frequency, key):
            write_record(rows, row, frequency, record, ints, 0)
            _take_out(state, row)
            _put(state, record, ints)
    return stop
