"""Kernels of lists by (cell, term) behind a hash."""

from __future__ import annotations

from nearcast._jit import inner, lean_kernel
from nearcast.index.rarest_term._lanes import prefetch
from nearcast.index.table import Floats, Int32s, Int64s, Rows
from nearcast.lasting._cells import add_entry, drop_entry, room_wanted
from nearcast.lasting._change import pop, push, terms_at
from nearcast.lasting._layout import (
    COUNT,
    END,
    GIVEN,
    HEAD,
    LIVE,
    NOTHING,
    PIECE,
    SLOTS,
    TERMS,
    UNIT,
    USED,
    Float32s,
    State,
    class_for,
    give_back,
    signature,
    single,
    size_of,
    take,
    wide,
)
from nearcast.lasting._moves import DONE, MORE_FOUND, MORE_ROOM, Ops, keep_matching, report
from nearcast.lasting._visit import pick_entries


@inner
def _slot_of(keys: Int64s, key: int) -> int:
    mask = len(keys) - 1
    at = (key * 7046029254386353131 >> 20) & mask
    while keys[at] != key and keys[at] != NOTHING:
        at = (at + 1) & mask
    return wide(at)


@inner
def _strip(x: float, low: float, high: float, cells: int) -> int:
    return max(wide(0), min(wide(cells - 1), wide((x - low) / (high - low) * cells)))


@inner
def _key(space: Floats, cells: int, x: float, y: float, term: int) -> int:
    column = _strip(x, space[0], space[2], cells)
    line = _strip(y, space[1], space[3], cells)
    return (line * cells + column) << 32 | wide(term)


@lean_kernel
def rehash(keys: Int64s, values: Int32s, new_keys: Int64s, new_values: Int32s) -> None:
    """Enter all keys of one table into another."""
    for at in range(len(keys)):
        if keys[at] != NOTHING:
            to = _slot_of(new_keys, keys[at])
            new_keys[to], new_values[to] = keys[at], values[at]


@lean_kernel
def add_hashed(
    state: State, keys: Int64s, values: Int32s, count: Int64s, frequency: Int64s, space: Floats,
    cells: int, starts: Int64s, terms: Int32s, boxes: Floats, ends: Floats, start: int,
    slots: Int32s,
) -> int:  # fmt: skip
    """Take in messages from `start` on while there is room."""
    ints, counts = state.ints, state.counts
    for i in range(start, len(boxes)):
        first, stop = starts[i], starts[i + 1]
        x, y = single(boxes[i, 0]), single(boxes[i, 1])
        for at in range(first, stop):
            key = _key(space, cells, x, y, terms[at])
            prefetch(keys, (key * 7046029254386353131 >> 20) & (len(keys) - 1))
        own = class_for((stop - first + UNIT) // UNIT)
        wanted = size_of(own)
        if 2 * (count[0] + stop - first) > len(keys):
            return i
        if counts[GIVEN] == 0 and counts[SLOTS] == len(state.heap):
            return i
        sign = wide(0)
        for at in range(first, stop):
            sign |= signature(terms[at])
            place = _slot_of(keys, _key(space, cells, x, y, terms[at]))
            if keys[place] != NOTHING:
                wanted += room_wanted(state.heads, ints, wide(values[place]) * HEAD, wide(NOTHING))
            else:
                wanted += 1
        if counts[USED] + wanted > len(ints) // UNIT:
            return i
        if counts[GIVEN] > 0:
            counts[GIVEN] -= 1
            slot = wide(state.spare[counts[GIVEN]])
        else:
            slot = wide(counts[SLOTS])
            counts[SLOTS] += 1
        slots[i] = slot
        piece = take(state, own)
        for side in range(4):
            state.messages[slot, side] = boxes[i, side]
        state.messages[slot, END], state.messages[slot, TERMS] = ends[i], piece
        ints[piece * UNIT] = stop - first
        for at in range(first, stop):
            ints[piece * UNIT + 1 + at - first] = terms[at]
            key = _key(space, cells, x, y, terms[at])
            place = _slot_of(keys, key)
            if keys[place] == NOTHING:
                keys[place], values[place] = key, count[0]
                count[0] += 1
            frequency[terms[at]] += 1
            head = wide(values[place]) * HEAD
            add_entry(state, state.heads, head, wide(NOTHING), x, y, slot, sign)
        push(state.heap, state.messages, counts[LIVE], slot)
        counts[LIVE] += 1
    return len(boxes)


@lean_kernel
def expire_hashed(
    state: State, keys: Int64s, values: Int32s, frequency: Int64s, space: Floats, cells: int,
    now: float, gone: Int32s,
) -> int:  # fmt: skip
    """Take out messages that have ended by now, as many as `gone` has room for."""
    ints, counts = state.ints, state.counts
    for i in range(len(gone)):
        if counts[LIVE] == 0 or state.messages[state.heap[0], END] > now:
            return i
        slot = pop(state.heap, state.messages, counts[LIVE])
        counts[LIVE] -= 1
        gone[i] = slot
        piece = terms_at(state, slot)
        x, y = single(state.messages[slot, 0]), single(state.messages[slot, 1])
        length = wide(ints[piece])
        for at in range(piece + 1, piece + 1 + length):
            key = _key(space, cells, x, y, ints[at])
            prefetch(keys, (key * 7046029254386353131 >> 20) & (len(keys) - 1))
        for at in range(piece + 1, piece + 1 + length):
            place = _slot_of(keys, _key(space, cells, x, y, ints[at]))
            frequency[ints[at]] -= 1
            drop_entry(state, state.heads, wide(values[place]) * HEAD, wide(NOTHING), slot)
        give_back(state, piece // UNIT, class_for((length + UNIT) // UNIT))
        state.spare[counts[GIVEN]] = slot
        counts[GIVEN] += 1
    return len(gone)


@lean_kernel
def hashed_moves(
    state: State, keys: Int64s, values: Int32s, frequency: Int64s, space: Floats, cells: int,
    rows: Rows, which: Int32s, events: Int32s, times: Floats, boxes: Floats, start: int,
    found: Int32s, out_events: Int32s, out_slots: Int32s, out_ops: Ops, work: Float32s,
) -> tuple[int, int, int]:  # fmt: skip
    """Find what changes when rows get other boxes; like `moves`."""
    written = wide(0)
    old, new = work[:4], work[4:8]
    for i in range(start, len(which)):
        row, mark = wide(which[i]), written
        best, least, sign = wide(-1), wide(2**62), wide(0)
        for at in range(rows.first[row], rows.first[row] + rows.required[row]):
            term = wide(rows.terms[at])
            much = wide(frequency[term]) if term < len(frequency) else wide(0)
            sign |= signature(term)
            if much < least:
                best, least = term, much
        if least == 0:
            continue
        for side in range(4):
            old[side], new[side] = rows.box[row, side], boxes[i, side]
        west_old = _strip(old[0], space[0], space[2], cells)
        east_old = _strip(old[2], space[0], space[2], cells)
        south_old = _strip(old[1], space[1], space[3], cells)
        north_old = _strip(old[3], space[1], space[3], cells)
        west_new = _strip(new[0], space[0], space[2], cells)
        east_new = _strip(new[2], space[0], space[2], cells)
        south_new = _strip(new[1], space[1], space[3], cells)
        north_new = _strip(new[3], space[1], space[3], cells)
        filled = wide(0)
        for turn in range(2):
            west, east = (west_old, east_old) if turn == 0 else (west_new, east_new)
            south, north = (south_old, north_old) if turn == 0 else (south_new, north_new)
            for line in range(south, north + 1):
                for column in range(west, east + 1):
                    in_old = south_old <= line <= north_old and west_old <= column <= east_old
                    if turn == 1 and in_old:
                        continue
                    if max(south_old, south_new) < line < min(north_old, north_new) and max(
                        west_old, west_new
                    ) < column < min(east_old, east_new):
                        continue
                    place = _slot_of(keys, (line * cells + column) << 32 | best)
                    if keys[place] == NOTHING:
                        continue
                    head = wide(values[place]) * HEAD
                    count = wide(state.heads[head + COUNT])
                    if filled + count > len(found):
                        return i, mark, MORE_FOUND
                    filled = pick_entries(
                        state, wide(state.heads[head + PIECE]) * UNIT, count, old, new, True, sign,
                        found, filled,
                    )  # fmt: skip
        filled = keep_matching(state, rows, row, times[events[i]], found, filled, wide(-1))
        if written + filled > len(out_slots):
            return i, mark, MORE_ROOM
        written = report(
            state, rows, row, boxes, None, i, events[i], found, filled, out_events, out_slots,
            out_ops, written,
        )  # fmt: skip
    return len(which), written, DONE
