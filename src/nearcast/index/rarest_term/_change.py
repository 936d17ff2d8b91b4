"""Rows that come, go and move."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, lean_kernel
from nearcast.index.rarest_term._lanes import prefetch
from nearcast.index.rarest_term._layout import (
    BLOCK,
    COUNT,
    KEY,
    LANES,
    LEAF_RUN,
    LEAVES,
    LIVE,
    NOWHERE,
    OF_KEY,
    PARENT,
    RECORD,
    RECORDS,
    ROOT,
    ROW,
    ROWS,
    RUNS,
    SHORT,
    USED,
    Float32s,
    State,
    empty_box,
    new_block,
    release,
    room_for,
    take_records,
    wide,
)
from nearcast.index.rarest_term._rows import rarest_terms, write_box, write_record
from nearcast.index.rarest_term._tree import (
    choose_child,
    drop_leaf,
    split_leaf,
    tighten,
    write_lane,
)
from nearcast.index.table import Int32s, Int64s, Rows

LONELY = 3
"""Rows of a leaf that are too few to keep it when others are deleted."""
AHEAD = 32
"""Rows that are got ready together: their cache misses overlap."""
MOST_UNITS = 24 * LANES
"""More than one insertion can take: a block for each level of a tree, and some."""


@inlined
def _has_room(state: State, insertions: int) -> bool:
    return bool(state.counts[USED] + insertions * MOST_UNITS <= len(state.ints) // RECORD)


@inlined
def _copy_record(state: State, unit: int, record: Int32s, at: int) -> None:
    base = unit * RECORD
    for field in range(RECORD):
        state.ints[base + field] = record[at + field]
    row = record[at + ROW]
    state.places[row if row >= 0 else ~row] = unit


@lean_kernel
def _put_short(state: State, record: Int32s, at: int, key: int) -> None:
    """Add a record to a run of plain records, which may have to become a longer one, or a leaf."""
    size, start = wide(state.runs[2 * key]), wide(state.runs[2 * key + 1])
    for unit in range(start, start + size):
        if state.memory[unit * RECORD] == np.inf:
            _copy_record(state, unit, record, at)
            return
    if size < SHORT:
        room = room_for(size + 1)
        longer = take_records(state, room)
        for i in range(size):
            _copy_record(state, longer + i, state.ints, (start + i) * RECORD)
        _copy_record(state, longer + size, record, at)
        for i in range(size + 1, room):
            empty_box(state.memory, (longer + i) * RECORD, 1)
        state.runs[2 * key], state.runs[2 * key + 1] = room, longer
    else:
        leaf = new_block(state, key)
        for i in range(size):
            write_lane(state, leaf, i, state.ints, (start + i) * RECORD)
        write_lane(state, leaf, size, record, at)
        state.ints[leaf * RECORD + COUNT] = size + 1
        state.counts[LEAVES] += 1
        state.runs[2 * key], state.runs[2 * key + 1] = LEAF_RUN, leaf
    state.counts[RECORDS] -= size
    release(state, start, size)


@lean_kernel
def _take_out(state: State, row: int) -> None:
    """Remove the record of a row that is somewhere."""
    memory, ints = state.memory, state.ints
    place = wide(state.places[row])
    state.places[row] = NOWHERE
    state.counts[LIVE] -= 1
    if place < 0:
        leaf, lane = ~place // LANES * LANES, ~place % LANES
        base = leaf * RECORD
        empty_box(memory, base + lane, 16)
        ints[base + COUNT] -= 1
        if ints[base + COUNT] == 0:
            drop_leaf(state, leaf)
        return
    empty_box(memory, place * RECORD, 1)
    key = wide(ints[place * RECORD + KEY])
    size, start = wide(state.runs[2 * key]), wide(state.runs[2 * key + 1])
    for unit in range(start, start + size):
        if memory[unit * RECORD] != np.inf:
            return
    state.counts[RECORDS] -= size
    release(state, start, size)
    state.runs[2 * key] = 0
    state.counts[RUNS] -= 1


@lean_kernel
def insert_rows(
    state: State, rows: Rows, frequency: Int64s, added: Int32s, start: int, scratch: Int32s
) -> int:
    """Add rows from `added[start]` on; stop and say where when an array has to grow first."""
    runs, memory, ints = state.runs, state.memory, state.ints
    floats = scratch.view(np.float32)
    while start < len(added):
        count = min(AHEAD, len(added) - start)
        if not _has_room(state, count):
            return start
        for i in range(count):
            key = write_record(rows, added[start + i], frequency, floats, scratch, i * RECORD)
            if 2 * key >= len(runs):
                return start
            prefetch(runs, 2 * key)
        for i in range(count):
            key = wide(scratch[i * RECORD + KEY])
            kind, base = runs[2 * key], wide(runs[2 * key + 1]) * RECORD
            if kind > 0:
                prefetch(ints, base)
            elif kind < 0:
                for line in range(0, BLOCK, 16):
                    prefetch(ints, base + line)
        for at in range(0, count * RECORD, RECORD):
            # Where the record will go, as far as can be told now.
            key = wide(scratch[at + KEY])
            kind, unit = wide(runs[2 * key]), wide(runs[2 * key + 1])
            if kind < LEAF_RUN:
                base = choose_child(memory, ints, unit, floats, at) * RECORD
                for line in range(0, BLOCK, 16):
                    prefetch(ints, base + line)
            elif kind > 0:
                for base in range(unit * RECORD, (unit + kind) * RECORD, RECORD):
                    row = wide(ints[base + ROW])
                    prefetch(state.places, row if row >= 0 else ~row)
        state.counts[LIVE] += count
        for at in range(0, count * RECORD, RECORD):
            key = wide(scratch[at + KEY])
            kind, unit = wide(runs[2 * key]), wide(runs[2 * key + 1])
            if kind == 0:
                unit = take_records(state, wide(1))
                _copy_record(state, unit, scratch, at)
                runs[2 * key], runs[2 * key + 1] = 1, unit
                state.counts[RUNS] += 1
                continue
            if kind > 0:
                _put_short(state, scratch, at, key)
                continue
            while kind < LEAF_RUN:
                unit = choose_child(memory, ints, unit, floats, at)
                kind += 1
            base = unit * RECORD
            filled = ints[base + COUNT]
            if filled == LANES:
                split_leaf(state, unit, scratch, floats, at)
                continue
            lane = 0
            while memory[base + lane] != np.inf:  # only an empty box begins there
                lane += 1
            write_lane(state, unit, lane, scratch, at)
            ints[base + COUNT] = filled + 1
            tighten(memory, ints, unit)
        start += count
    return start


@lean_kernel
def delete_rows(state: State, gone: Int32s, lonely: Int32s) -> int:
    """Remove rows that are there; list in `lonely` those of the last few in a leaf.

    They had better be inserted again elsewhere, so that their leaf is free.
    """
    places, ints = state.places, state.ints
    count = 0
    for i in range(len(gone)):
        if i + AHEAD < len(gone):
            prefetch(places, wide(gone[i + AHEAD]))
            place = wide(places[gone[i + AHEAD // 2]])
            if place >= 0:
                prefetch(state.ints, place * RECORD)
            elif place != NOWHERE:
                base = ~place // LANES * BLOCK
                for line in (0, 16, 32, 48, 112):
                    prefetch(state.ints, base + line)
        place = wide(places[gone[i]])
        if place == NOWHERE:
            continue
        _take_out(state, gone[i])
        if place < 0:
            base = ~place // LANES * BLOCK
            if ints[base + COUNT] == LONELY and ints[base + PARENT] != ROOT:
                for lane in range(base, base + LANES):
                    if state.memory[lane] != np.inf:
                        row = ints[lane + ROWS]
                        lonely[count] = row if row >= 0 else ~row
                        count += 1
    return count


@lean_kernel
def _fits(memory: Float32s, ints: Int32s, leaf: int, box: Float32s) -> bool:
    """Tell whether a box lies inside the bounding box of a leaf.

    Letting leaves grow a little at each move would let them sprawl in the end.
    """
    parent = wide(ints[leaf * RECORD + PARENT])
    if parent == ROOT:
        return True
    at = parent // LANES * BLOCK + parent % LANES
    return bool(
        (memory[at] <= box[0])
        & (memory[at + 16] <= box[1])
        & (memory[at + 32] >= box[2])
        & (memory[at + 48] >= box[3])
    )


@lean_kernel
def move_rows(state: State, rows: Rows, moved: Int32s, far: Int32s, box: Float32s) -> int:
    """Take over new boxes of rows in place; list in `far` those that had better move house.

    In `box` one is put together.
    """
    memory, ints = state.memory, state.ints
    count = 0
    for row in moved:
        place = wide(state.places[row])
        if place >= 0:
            write_box(rows.box, row, memory, place * RECORD)
        elif place != NOWHERE:
            write_box(rows.box, row, box, wide(0))
            leaf, lane = ~place // LANES * LANES, ~place % LANES
            if _fits(memory, ints, leaf, box):
                for plane in range(4):
                    memory[leaf * RECORD + plane * 16 + lane] = box[plane]
                tighten(memory, ints, leaf)
            else:
                far[count] = row
                count += 1
    return count


@lean_kernel
def stale_rows(
    state: State, rows: Rows, frequency: Int64s, start: int, stop: int, stale: Int32s
) -> int:
    """List in `stale` those of some rows whose key is twice as frequent as the best they have."""
    count = 0
    for row in range(start, stop):
        place = wide(state.places[row])
        if place == NOWHERE:
            continue
        if place >= 0:
            key = wide(state.ints[place * RECORD + KEY])
        else:
            key = wide(state.ints[~place // LANES * BLOCK + OF_KEY])
        best, _, _ = rarest_terms(rows.terms, rows.first[row], rows.required[row], frequency)
        if best < len(frequency) and key < len(frequency):
            if 2 * frequency[best] < frequency[key]:
                stale[count] = row
                count += 1
        elif key < len(frequency):
            stale[count] = row
            count += 1
    return count
