"""What a move changes: active messages that came into a region, and those that left it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, inner_inlined, lean_kernel
from nearcast.geo.kernels import box_meets_circle
from nearcast.index.rarest_term._lanes import prefetch
from nearcast.index.table import CIRCLE, EXCLUDES, POLYGON, Floats, Int32s, Int64s, Rows
from nearcast.index.verify import accepts_place
from nearcast.lasting._layout import (
    COUNT,
    EDGES,
    END,
    HEAD,
    LEVEL,
    MESSAGE,
    PIECE,
    TERMS,
    UNIT,
    Float32s,
    State,
    signature,
    wide,
)
from nearcast.lasting._visit import (
    CAME,
    KNOWN_BITS,
    UNSURE,
    WENT,
    entries_of,
    list_cells,
    pick_areas,
    pick_entries,
)

Ops = npt.NDArray[np.int8]
GROUP = 16
"""Moves whose cache misses overlap."""
KNOWN = (1 << KNOWN_BITS) - 1
_NEAR = 8  # candidates ahead for which a message is asked for

DONE, MORE_CELLS, MORE_FOUND, MORE_ROOM = 0, 1, 2, 3
"""Why a kernel stopped: it had finished, or one of the arrays it writes to is too short."""


@inner
def has_term(ints: Int32s, piece: int, term: int) -> bool:
    """Tell whether a message has a term."""
    at, stop = piece + 1, piece + 1 + ints[piece]
    while at < stop and ints[at] != term:
        at += 1
    return bool(at < stop)


@inner
def accepts_terms(rows: Rows, row: int, ints: Int32s, piece: int, only: int) -> bool:
    """Tell whether a message has all required and no excluded terms of a row."""
    at = wide(rows.first[row])
    stop = at + rows.required[row]
    if rows.required[row] > 1 or only >= 0:
        while at < stop:
            if not has_term(ints, piece, rows.terms[at]):
                return False
            at += 1
    if rows.flags[row] & EXCLUDES:
        at = stop + 1
        stop = at + rows.terms[stop]
        while at < stop:
            if has_term(ints, piece, rows.terms[at]):
                return False
            at += 1
    return True


@inner
def _choose_term(state: State, rows: Rows, row: int, only: int) -> tuple[int, int]:
    """Give the term of a row that the fewest messages have, -1 if some term has none.

    Gives also the signature of the others.
    """
    best, least, sign = wide(-1), wide(2**62), wide(0)
    first = wide(rows.first[row])
    for at in range(first, first + rows.required[row]):
        term = wide(rows.terms[at])
        count = entries_of(state, term)
        if count < least:
            best, least = term, count
        sign |= signature(term)
    if only >= 0:
        return wide(only), sign
    if least == 0:
        return wide(-1), sign
    return best, sign


@inner_inlined
def _ask_for_list(state: State, term: int) -> None:
    head = term * HEAD
    base = wide(state.heads[head + PIECE]) * UNIT
    if state.heads[head + LEVEL] == 0:
        for line in range(base, base + wide(state.heads[head + COUNT]) * UNIT, 16):
            prefetch(state.ints, line)
    else:
        prefetch(state.ints, wide(state.heads[head + EDGES]) * UNIT)


@inner
def _ask_for_group(
    state: State,
    rows: Rows,
    which: Int32s,
    start: int,
    stop: int,
    chosen: Int64s,
    only: int,
) -> None:
    """Find the lists of some rows, a step at a time for all of them, and ask for them."""
    for i in range(start, stop):
        row = wide(which[i])
        prefetch(rows.box, row * 4)
        prefetch(rows.first, row)
        prefetch(rows.required, row)
        prefetch(rows.flags, row)
    for i in range(start, stop):
        prefetch(rows.terms, wide(rows.first[which[i]]))
    for i in range(start, stop):
        first = wide(rows.first[which[i]])
        for at in range(first, first + rows.required[which[i]]):
            if wide(rows.terms[at]) * HEAD < len(state.heads):
                prefetch(state.heads, wide(rows.terms[at]) * HEAD)
    for i in range(start, stop):
        term, sign = _choose_term(state, rows, which[i], only)
        chosen[2 * (i - start)], chosen[2 * (i - start) + 1] = term, sign
        if term >= 0:
            _ask_for_list(state, term)


@inner
def _candidates(
    state: State, term: int, sign: int, old: Float32s, new: Float32s, circles: Any, moves: bool,
    boxes: bool, cells: Int64s, found: Int32s,
) -> tuple[int, int]:  # fmt: skip
    """Write down the slots of messages of a term that a move may concern, and say if it did."""
    head = term * HEAD
    wanted = entries_of(state, term)
    if wanted > len(found):
        return wide(0), wide(MORE_FOUND)
    filled = wide(0)
    if term * HEAD < len(state.areas):
        filled = pick_areas(state, head, sign, found, filled)
    if state.heads[head + LEVEL] == 0:
        base = wide(state.heads[head + PIECE]) * UNIT
        count = wide(state.heads[head + COUNT])
        return pick_entries(state, base, count, old, new, boxes, sign, found, filled), wide(DONE)
    listed = list_cells(state, head, old, new, circles, moves, cells)
    if listed < 0:
        return wide(0), wide(MORE_CELLS)
    for at in range(0, listed, 2):
        filled = pick_entries(state, cells[at], cells[at + 1], old, new, boxes, sign, found, filled)
    return filled, wide(DONE)


@inner
def keep_matching(
    state: State, rows: Rows, row: int, now: float, found: Int32s, filled: int, only: int
) -> int:
    """Keep the messages that are active and whose text matches a row."""
    messages = state.messages
    alone = only < 0 and rows.required[row] == 1 and rows.flags[row] & EXCLUDES == 0
    if alone and messages[state.heap[0], END] > now:
        return filled  # all that have the one term match, and none has ended
    kept = wide(0)
    for i in range(filled):
        if i + _NEAR < filled:
            prefetch(messages, (wide(found[i + _NEAR]) >> KNOWN_BITS) * MESSAGE)
        if i + _NEAR // 2 < filled:
            slot = wide(found[i + _NEAR // 2]) >> KNOWN_BITS
            prefetch(state.ints, wide(messages[slot, TERMS]) * UNIT)
        slot = wide(found[i]) >> KNOWN_BITS
        if messages[slot, END] > now and accepts_terms(
            rows, row, state.ints, wide(messages[slot, TERMS]) * UNIT, only
        ):
            found[kept] = found[i]
            kept += 1
    return kept


@inner
def report(
    state: State, rows: Rows, row: int, boxes: Floats, circles: Any, move: int, event: int,
    found: Int32s, filled: int, out_events: Int32s, out_slots: Int32s, out_ops: Ops, written: int,
) -> int:  # fmt: skip
    """Write down which candidates came or went; what is not known of one is decided exactly."""
    messages = state.messages
    for at in range(filled):
        slot, known = wide(found[at]) >> KNOWN_BITS, found[at] & KNOWN
        if known == UNSURE:
            west, south = messages[slot, 0], messages[slot, 1]
            east, north = messages[slot, 2], messages[slot, 3]
            before = accepts_place(rows, row, west, south, east, north)
            after = (
                boxes[move, 0] <= east and boxes[move, 2] >= west
                and boxes[move, 1] <= north and boxes[move, 3] >= south
            )  # fmt: skip
            if circles is not None and after:
                after = box_meets_circle(
                    west, south, east, north, circles[move, 0], circles[move, 1], circles[move, 2]
                )
            if before == after:
                continue
            known = CAME if after else WENT
        out_events[written] = event
        out_slots[written] = slot
        out_ops[written] = known
        written += 1
    return written


@lean_kernel
def moves(
    state: State, rows: Rows, which: Int32s, events: Int32s, times: Floats, boxes: Floats,
    circles: Any, start: int, cells: Int64s, found: Int32s, out_events: Int32s, out_slots: Int32s,
    out_ops: Ops, work: Float32s, chosen: Int64s, pair: Floats, only: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Find what changes when rows get other boxes, or circles, than the table has.

    Row `which[i]` moves in event `events[i]` to `boxes[i]` and, if `circles` is not None and it
    is one, to the circle `circles[i]`. No row may stand there twice, and none be a polygon. Gives
    the row that it stopped in front of, what is written, and why it stopped. `work` has room for
    8 numbers, `chosen` for two for each of GROUP, `pair` for two circles.
    """
    written = wide(0)
    old, new = work[:4], work[4:8]
    for group in range(start, len(which), GROUP):
        stop = min(group + GROUP, len(which))
        _ask_for_group(state, rows, which, group, stop, chosen, only)
        for i in range(group, stop):
            term, sign = chosen[2 * (i - group)], chosen[2 * (i - group) + 1]
            if term < 0:
                continue
            row, mark = wide(which[i]), written
            for side in range(4):
                old[side], new[side] = rows.box[row, side], boxes[i, side]
            if circles is None:
                filled, trouble = _candidates(
                    state, term, sign, old, new, None, True, True, cells, found
                )
            else:
                shape = rows.terms[rows.first[row] - 1]
                for field in range(3):
                    pair[0, field] = rows.circles[shape, field]
                    pair[1, field] = circles[i, field]
                filled, trouble = _candidates(
                    state, term, sign, old, new, pair, True, False, cells, found
                )
            if trouble != DONE:
                return i, mark, trouble
            filled = keep_matching(state, rows, row, times[events[i]], found, filled, only)
            if written + filled > len(out_slots):
                return i, mark, MORE_ROOM
            written = report(
                state, rows, row, boxes, circles, i, events[i], found, filled, out_events,
                out_slots, out_ops, written,
            )  # fmt: skip
    return len(which), written, DONE


@lean_kernel
def evaluate(
    state: State, rows: Rows, which: Int32s, events: Int32s, times: Floats, start: int,
    cells: Int64s, found: Int32s, out_events: Int32s, out_slots: Int32s, work: Float32s,
    chosen: Int64s, only: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Find the active messages that match rows as they stand in the table; like `moves`."""
    written, messages = wide(0), state.messages
    old, new = work[:4], work[4:8]
    for group in range(start, len(which), GROUP):
        stop = min(group + GROUP, len(which))
        _ask_for_group(state, rows, which, group, stop, chosen, only)
        for i in range(group, stop):
            term, sign = chosen[2 * (i - group)], chosen[2 * (i - group) + 1]
            if term < 0:
                continue
            row, mark = wide(which[i]), written
            for side in range(2):
                old[side], old[side + 2] = np.inf, -np.inf
            for side in range(4):
                new[side] = rows.box[row, side]
            plain = rows.flags[row] & (CIRCLE | POLYGON) == 0
            filled, trouble = _candidates(
                state, term, sign, old, new, None, False, plain, cells, found
            )
            if trouble != DONE:
                return i, mark, trouble
            filled = keep_matching(state, rows, row, times[events[i]], found, filled, only)
            if written + filled > len(out_slots):
                return i, mark, MORE_ROOM
            for at in range(filled):
                slot = wide(found[at]) >> KNOWN_BITS
                if found[at] & KNOWN == UNSURE and not accepts_place(
                    rows, row, messages[slot, 0], messages[slot, 1], messages[slot, 2],
                    messages[slot, 3],
                ):  # fmt: skip
                    continue
                out_events[written] = events[i]
                out_slots[written] = slot
                written += 1
    return len(which), written, DONE
