"""Rows that come, go and move."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.arrays.lanes import LANES, first_empty, prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s
from nearcast.index.rarest_term._layout import (
    ARRANGED_BOX,
    BLOCK,
    BOUND,
    COUNT,
    KEY,
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
    RarestTermArrays,
    empty_box,
    new_block,
    release,
    room_for,
    take_records,
)
from nearcast.index.rarest_term._rows import rarest_terms, write_box, write_record
from nearcast.index.rarest_term._tree import (
    choose_child,
    drop_leaf,
    leaf_beside,
    note_full,
    part_to_leave,
    split_leaf,
    tighten,
    write_lane,
)
from nearcast.index.table import Parts

LONELY = 3
"""Rows of a leaf that are too few to keep it when others are deleted."""
SLACK = 0.1
"""How far a moved row may lie outside the arranged box of its leaf, as a share of its width."""
AHEAD = 32
"""Rows that are got ready together: their cache misses overlap."""
# Work space behind the records that are got ready: where each is in its tree, and levels below it.
_UNITS = AHEAD * RECORD
_LEVELS = _UNITS + AHEAD
SCRATCH = _LEVELS + AHEAD
"""How many numbers the work space has."""
MOST_UNITS = 24 * LANES
"""More than one insertion can take: a block for each level of a tree, and some."""


@inlined
def _has_room(state: RarestTermArrays, insertions: int) -> bool:
    return bool(state.counts[USED] + insertions * MOST_UNITS <= len(state.ints) // RECORD)


@inlined
def _copy_record(state: RarestTermArrays, unit: int, record: Int32s, at: int) -> None:
    base = unit * RECORD
    for field in range(RECORD):
        state.ints[base + field] = record[at + field]
    row = record[at + ROW]
    state.places[row if row >= 0 else ~row] = unit


@inner
def _put_in_leaf(
    state: RarestTermArrays, leaf: int, scratch: Int32s, floats: Float32s, at: int
) -> None:
    """Add a record to a leaf; if it is full, to one beside it, or it is split."""
    memory, ints, base = state.memory, state.ints, leaf * RECORD
    parent = wide(ints[base + PARENT])
    if ints[base + COUNT] == LANES:
        leaving, area = part_to_leave(
            memory, base, floats[at], floats[at + 1], floats[at + 2], floats[at + 3]
        )
        leaf = ROOT if parent == ROOT else leaf_beside(memory, ints, parent, floats, at, area)
        if leaf == ROOT:
            split_leaf(state, base // RECORD, scratch, at, leaving)
            return
        base = leaf * RECORD
        parent = wide(ints[base + PARENT])
    write_lane(state, leaf, first_empty(memory, base), scratch, at)
    ints[base + COUNT] += 1
    if parent != ROOT:
        note_full(ints, parent // LANES * LANES, parent % LANES, ints[base + COUNT] == LANES)
        _let_in(memory, base, floats, at)
        tighten(memory, ints, leaf)


@inlined
def _let_in(memory: Float32s, base: int, floats: Float32s, at: int) -> None:
    """Widen the arranged box of a leaf for a record that is added."""
    for side in range(2):
        memory[base + ARRANGED_BOX + side] = min(
            memory[base + ARRANGED_BOX + side], floats[at + side]
        )
        memory[base + ARRANGED_BOX + side + 2] = max(
            memory[base + ARRANGED_BOX + side + 2], floats[at + side + 2]
        )


@inner
def _put_short(
    state: RarestTermArrays, record: Int32s, floats: Float32s, at: int, key: int
) -> None:
    """Add a record to a run that was short, and may have become a longer one, or a tree."""
    size, start = wide(state.runs[2 * key]), wide(state.runs[2 * key + 1])
    if size < 0:
        for _ in range(LEAF_RUN - size):
            start = choose_child(state.memory, state.ints, start, floats, at)
        _put_in_leaf(state, start, record, floats, at)
        return
    if size == 0:
        unit = take_records(state, wide(1))
        _copy_record(state, unit, record, at)
        state.runs[2 * key], state.runs[2 * key + 1] = 1, unit
        state.counts[RUNS] += 1
        return
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


@inner
def _take_out(state: RarestTermArrays, row: int) -> None:
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


@inlined
def _ask_for_block(ints: Int32s, unit: int) -> None:
    for line in range(unit * RECORD, unit * RECORD + BLOCK, 16):
        prefetch(ints, line)


@inlined
def _ask_for_places(state: RarestTermArrays, at: int, step: int, count: int) -> None:
    """Ask for the places of rows, whose numbers are `step` apart from `at` on."""
    for i in range(count):
        row = wide(state.ints[at + i * step])
        prefetch(state.places, row if row >= 0 else ~row)


@inner
def _find_leaves(state: RarestTermArrays, scratch: Int32s, floats: Float32s, count: int) -> None:
    """Find the leaf for each of some records whose key has leaves, and ask for what comes next.

    They go down their trees together, a level at a time: their cache misses overlap. The leaf is
    written in place of the key, inverted. It stays a leaf of that key whatever happens to others.
    """
    runs, memory, ints = state.runs, state.memory, state.ints
    deepest = wide(0)
    for i in range(count):
        key = wide(scratch[i * RECORD + KEY])
        kind, unit = wide(runs[2 * key]), wide(runs[2 * key + 1])
        scratch[_UNITS + i], scratch[_LEVELS + i] = unit, LEAF_RUN - kind
        deepest = max(deepest, LEAF_RUN - kind)
        if kind > 0:
            prefetch(ints, unit * RECORD)
            prefetch(ints, (unit + kind - 1) * RECORD)
        elif kind < 0:
            _ask_for_block(ints, unit)
    for level in range(deepest, 0, -1):
        for i in range(count):
            if scratch[_LEVELS + i] >= level:
                unit = choose_child(memory, ints, wide(scratch[_UNITS + i]), floats, i * RECORD)
                scratch[_UNITS + i] = unit
                scratch[_LEVELS + i] = level - 1
                _ask_for_block(ints, unit)
    for i in range(count):
        at, unit = i * RECORD, wide(scratch[_UNITS + i])
        if scratch[_LEVELS + i] == 0:
            scratch[at + KEY] = ~unit
            if ints[unit * RECORD + COUNT] == LANES:
                _ask_for_places(state, unit * RECORD + ROWS, 1, LANES)
        else:
            size = LEAF_RUN - wide(scratch[_LEVELS + i])
            _ask_for_places(state, unit * RECORD + ROW, RECORD, size)


@lean_kernel
def insert_rows(
    runs: Int32s, places: Int32s, counts: Int64s, memory: Float32s,
    box: Floats, flags: npt.NDArray[np.uint8], first: Int32s, required: Int32s, terms: Int32s,
    frequency: Int64s, added: Int32s, start: int, scratch: Int32s,
) -> int:  # fmt: skip
    """Add rows from `added[start]` on; stop and say where when an array has to grow first.

    Tuples of arrays would make the call of this kernel take longer than to insert a row.
    """
    state = RarestTermArrays(runs, places, counts, memory, memory.view(np.int32))
    rows = Parts(box, flags, first, required, terms)
    floats = scratch.view(np.float32)
    while start < len(added):
        count = min(AHEAD, len(added) - start)
        if not _has_room(state, count):
            return start
        for i in range(count):
            row = added[start + i]
            for at in range(first[row], first[row] + required[row]):
                prefetch(frequency, wide(terms[at]))
        for i in range(count):
            key = write_record(rows, added[start + i], frequency, floats, scratch, i * RECORD)
            if 2 * key >= len(runs):
                return start
            prefetch(runs, 2 * key)
        _find_leaves(state, scratch, floats, count)
        state.counts[LIVE] += count
        for at in range(0, count * RECORD, RECORD):
            key = wide(scratch[at + KEY])
            if key >= 0:
                _put_short(state, scratch, floats, at, key)
            else:
                _put_in_leaf(state, ~key, scratch, floats, at)
        start += count
    return start


@lean_kernel
def delete_rows(state: RarestTermArrays, gone: Int32s, lonely: Int32s) -> int:
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


@inner
def _fits(memory: Float32s, ints: Int32s, leaf: int, box: Float32s) -> bool:
    """Return whether a box lies inside the bounding box that a leaf had when it was arranged.

    It may lie outside a little. Leaves that could grow at each move would sprawl in the end.
    """
    if ints[leaf * RECORD + PARENT] == ROOT:
        return True
    at = leaf * RECORD + ARRANGED_BOX
    across = (memory[at + 2] - memory[at]) * SLACK
    along = (memory[at + 3] - memory[at + 1]) * SLACK
    return bool(
        (memory[at] - across <= box[0])
        & (memory[at + 1] - along <= box[1])
        & (memory[at + 2] + across >= box[2])
        & (memory[at + 3] + along >= box[3])
    )


@inlined
def _ask_for_moves(state: RarestTermArrays, rows: Parts, moved: Int32s, at: int) -> None:
    """Ask for what moves that come later need: first their places, then their leaves."""
    ints, count = state.ints, len(moved)
    if at + AHEAD < count:
        prefetch(state.places, wide(moved[at + AHEAD]))
        prefetch(rows.box, wide(moved[at + AHEAD]) * 4)
    if at + AHEAD // 2 < count:
        place = wide(state.places[moved[at + AHEAD // 2]])
        if place >= 0:
            prefetch(ints, place * RECORD)
        elif place != NOWHERE:
            base = ~place // LANES * BLOCK
            for line in (0, 16, 32, 48, 112):
                prefetch(ints, base + line)


@inlined
def _holds_up(memory: Float32s, own: int, lane: int) -> bool:
    """Return whether a bounding box reaches as far as it does for the box in a lane."""
    return bool(
        (memory[own] == memory[lane])
        | (memory[own + 1] == memory[lane + 16])
        | (memory[own + 2] == memory[lane + 32])
        | (memory[own + 3] == memory[lane + 48])
    )


@inlined
def _stands_out(memory: Float32s, own: int, box: Float32s) -> bool:
    """Return whether a box reaches beyond a bounding box."""
    return bool(
        (memory[own] > box[0])
        | (memory[own + 1] > box[1])
        | (memory[own + 2] < box[2])
        | (memory[own + 3] < box[3])
    )


@inner
def _tighten_all(state: RarestTermArrays, leaves: Int32s, count: int) -> None:
    """Let the nodes above some leaves, given by a place in each, know their bounding boxes."""
    memory, ints = state.memory, state.ints
    for i in range(count):
        if i + AHEAD // 4 < count:
            parent = wide(ints[wide(leaves[i + AHEAD // 4]) * RECORD + PARENT])
            for plane in range(0, 64, 16):
                prefetch(ints, parent // LANES * BLOCK + plane)
        tighten(memory, ints, wide(leaves[i]))


@lean_kernel
def move_rows(
    state: RarestTermArrays, rows: Parts, moved: Int32s, far: Int32s, loose: Int32s, box: Float32s
) -> tuple[int, int]:
    """Take over new boxes of rows in place; list in `far` those that had better move house.

    Gives how many these are, and how many others made the bounding box of their leaf larger. In
    `box` one is put together; `loose`, as long as `moved`, is for leaves whose bounding box may
    have changed. Those are seen to in the end, when what they need is there.
    """
    memory, ints = state.memory, state.ints
    count = larger = changed = wide(0)
    for i in range(len(moved)):
        _ask_for_moves(state, rows, moved, i)
        row = moved[i]
        place = wide(state.places[row])
        if place >= 0:
            write_box(rows.box, row, memory, place * RECORD)
        elif place != NOWHERE:
            write_box(rows.box, row, box, wide(0))
            leaf, lane = ~place // LANES * LANES, ~place % LANES
            if _fits(memory, ints, leaf, box):
                at, own = leaf * RECORD + lane, leaf * RECORD + BOUND
                if ints[leaf * RECORD + PARENT] != ROOT:
                    out = _stands_out(memory, own, box)
                    if out or _holds_up(memory, own, at):
                        loose[changed] = leaf
                        changed += 1
                        larger += out
                for plane in range(4):
                    memory[at + plane * 16] = box[plane]
            else:
                far[count] = row
                count += 1
    _tighten_all(state, loose, changed)
    return count, larger


@lean_kernel
def stale_rows(
    state: RarestTermArrays, rows: Parts, frequency: Int64s, start: int, stop: int, stale: Int32s
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
