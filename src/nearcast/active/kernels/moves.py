"""What a move changes: active messages that came into a region, and those that left it."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.active.kernels.candidates import (
    KNOWN,
    Ops,
    ask_for_messages,
    ask_for_terms,
    is_alone,
    keep_matching,
    report,
)
from nearcast.active.kernels.cells import UNDIVIDED
from nearcast.active.kernels.entries import KNOWN_BITS, UNSURE, pick_entries
from nearcast.active.kernels.layout import (
    COUNT,
    EDGES,
    HEAD,
    LEVEL,
    LINE,
    PIECE,
    UNIT,
    ActiveArrays,
    signature,
)
from nearcast.active.kernels.visit import (
    PLAN,
    SIGN,
    TERM,
    UPTO,
    entries_of,
    find_strips,
    list_cells,
    pick_areas,
    pick_numbered,
)
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s
from nearcast.index.table import CIRCLE, POLYGON, Rows
from nearcast.index.verify import accepts_place

NO_CIRCLES: Floats = np.empty((0, 3))
"""The circles of moves to boxes."""

GROUP = 16
"""Moves whose cache misses overlap."""
_FEW_EDGES = 128  # those of a list that may not be in the cache

DONE, MORE_CELLS, MORE_FOUND, MORE_ROOM = 0, 1, 2, 3
"""Why a kernel stopped: it had finished, or one of the arrays it writes to is too short."""


@inner
def _choose_term(state: ActiveArrays, rows: Rows, row: int, only: int) -> tuple[int, int]:
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


@inlined
def _ask_for_list(state: ActiveArrays, term: int) -> None:
    head = term * HEAD
    level = wide(state.heads[head + LEVEL])
    if level == 0:
        base = wide(state.heads[head + PIECE]) * UNIT
        entries = min(wide(state.heads[head + COUNT]), wide(UNDIVIDED))
        for line in range(base, base + entries * UNIT, LINE):
            prefetch(state.ints, line)
    else:
        edges = wide(state.heads[head + EDGES]) * UNIT
        for line in range(edges, edges + min(wide(2) << level, wide(_FEW_EDGES)), LINE):
            prefetch(state.ints, line)


@inner
def _ask_for_rows(rows: Rows, which: Int32s, start: int) -> None:
    """Ask for a group of rows, which comes later: the first of three steps."""
    for i in range(start, min(start + GROUP, len(which))):
        row = wide(which[i])
        prefetch(rows.box, row * 4)
        prefetch(rows.first, row)
        prefetch(rows.required, row)
        prefetch(rows.flags, row)


@inner
def _ask_for_their_terms(rows: Rows, which: Int32s, start: int) -> None:
    for i in range(start, min(start + GROUP, len(which))):
        prefetch(rows.terms, wide(rows.first[which[i]]))


@inner
def _ask_for_their_heads(state: ActiveArrays, rows: Rows, which: Int32s, start: int) -> None:
    for i in range(start, min(start + GROUP, len(which))):
        first = wide(rows.first[which[i]])
        for at in range(first, first + rows.required[which[i]]):
            if wide(rows.terms[at]) * HEAD < len(state.heads):
                prefetch(state.heads, wide(rows.terms[at]) * HEAD)


@inner
def _begin(state: ActiveArrays, rows: Rows, which: Int32s, start: int) -> None:
    """Ask for the first group of rows, a step at a time."""
    _ask_for_rows(rows, which, start)
    _ask_for_their_terms(rows, which, start)
    _ask_for_their_heads(state, rows, which, start)


@inner
def _choose_lists(
    state: ActiveArrays,
    rows: Rows,
    which: Int32s,
    start: int,
    stop: int,
    plan: Int64s,
    only: int,
) -> None:
    """Choose the lists of some rows, and ask for them."""
    for i in range(start, stop):
        term, sign = _choose_term(state, rows, which[i], only)
        at = (i - start) * PLAN
        plan[at + TERM], plan[at + SIGN] = term, sign
        if term >= 0:
            _ask_for_list(state, term)


@inner
def _find_group_strips(state: ActiveArrays, count: int, sides: Float32s, plan: Int64s) -> None:
    """Find the strips of the moves of a group whose lists are divided."""
    for at in range(count):
        head = plan[at * PLAN + TERM] * HEAD
        if head >= 0 and state.heads[head + LEVEL] > 0:
            find_strips(state, head, sides, plan, at)


@inlined
def _pick(
    state: ActiveArrays,
    plan: Int64s,
    at: int,
    sides: Float32s,
    boxes: bool,
    cells: Int64s,
    start: int,
    found: Int32s,
    filled: int,
    numbered: bool,
) -> int:
    """Write down the slots of messages that a move may concern; -1 if there is no room."""
    term, sign = plan[at * PLAN + TERM], plan[at * PLAN + SIGN]
    head = term * HEAD
    if head < len(state.areas):
        if filled + wide(state.areas[head + COUNT]) > len(found):
            return wide(-1)
        filled = pick_areas(state, head, sign, found, filled)
    old, new = sides[8 * at : 8 * at + 4], sides[8 * at + 4 : 8 * at + 8]
    for cell in range(start, plan[at * PLAN + UPTO], 2):
        if filled + cells[cell + 1] > len(found):
            return wide(-1)
        if numbered:
            filled = pick_numbered(state, cells[cell], cells[cell + 1], old, new, found, filled)
        else:
            filled = pick_entries(
                state, cells[cell], cells[cell + 1], old, new, boxes, sign, found, filled
            )
    return filled


@inner
def _list_group(
    state: ActiveArrays,
    rows: Rows,
    which: Int32s,
    group: int,
    stop: int,
    circles: Floats,
    moves: bool,
    pair: Floats,
    plan: Int64s,
    cells: Int64s,
) -> int:
    """Note the cells of all moves of a group, and give the first for which there is no room."""
    listed = wide(0)
    for i in range(group, stop):
        at = (i - group) * PLAN
        term = plan[at + TERM]
        if term >= 0:
            head = term * HEAD
            if state.heads[head + LEVEL] == 0:
                if listed + 2 > len(cells):
                    return i
                cells[listed] = wide(state.heads[head + PIECE]) * UNIT
                cells[listed + 1] = wide(state.heads[head + COUNT])
                listed += 2
            else:
                round = len(circles) > 0
                if round:
                    shape = rows.terms[rows.first[which[i]] - 1]
                    for field in range(3):
                        pair[0, field] = rows.circles[shape, field]
                        pair[1, field] = circles[i, field]
                after = list_cells(state, head, plan, i - group, round, pair, moves, cells, listed)
                if after < 0:
                    return i
                listed = after
        plan[at + UPTO] = listed
    return stop


@inner
def _pick_group(
    state: ActiveArrays,
    rows: Rows,
    which: Int32s,
    events: Int32s,
    times: Floats,
    group: int,
    stop: int,
    sides: Float32s,
    plain: bool,
    plan: Int64s,
    cells: Int64s,
    found: Int32s,
    only: int,
    numbered: bool,
) -> int:
    """Write down the candidates of a group in `found`, and give the first move without room there.

    `which`, `events` and `times` are those of `moves`, `sides` has the old and new box of each move
    of the group. `plan[... + UPTO]` says where the cells of a move end in `cells`, and afterwards
    where its candidates end in `found`. Asks for messages that have to be looked at, and then for
    their terms.
    """
    # Pick the entries of the cells of each move.
    start = filled = wide(0)
    for i in range(group, stop):
        at = (i - group) * PLAN
        boxes = plain and rows.flags[which[i]] & (CIRCLE | POLYGON) == 0
        first = filled
        if plan[at + TERM] >= 0:
            after = _pick(
                state, plan, i - group, sides, boxes, cells, start, found, filled, numbered
            )
            if after < 0:
                stop = i
                break
            filled = after
            if not is_alone(state, rows, wide(which[i]), times[events[i]], only):
                ask_for_messages(state, found, first, filled)
        start = plan[at + UPTO]
        plan[at + UPTO] = filled
    # Ask for the terms, now that the messages are on their way.
    first = wide(0)
    for i in range(group, stop):
        last = plan[(i - group) * PLAN + UPTO]
        if first < last and not is_alone(state, rows, wide(which[i]), times[events[i]], only):
            ask_for_terms(state, found, first, last)
        first = last
    return stop


@lean_kernel
def moves(
    state: ActiveArrays, rows: Rows, which: Int32s, events: Int32s, times: Floats, boxes: Floats,
    circles: Floats, start: int, cells: Int64s, found: Int32s, out_events: Int32s,
    out_slots: Int32s, out_ops: Ops, sides: Float32s, plan: Int64s, pair: Floats, only: int,
    numbered: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Find what changes when rows get other boxes, or circles, than the table has.

    Row `which[i]` moves in event `events[i]`, at `times[events[i]]`, to `boxes[i]` and, if there
    are `circles`, to the circle `circles[i]`. No row may be there twice, and
    none be a polygon. Updates go to `out_events`, `out_slots` and `out_ops`. Gives the row that it
    stopped in front of, what is written, and why it stopped. Scratch: `cells` and `found` for the
    cells and candidates of a group; `sides` has room for 8 numbers and `plan` for PLAN numbers for
    each of GROUP, `pair` for two circles. If `numbered`, no use is made of what entries say besides
    the number of the message.
    """
    written, group = wide(0), wide(start)
    _begin(state, rows, which, group)
    while group < len(which):
        stop = min(group + GROUP, len(which))
        # Choose the list of each move: that of the rarest term.
        _choose_lists(state, rows, which, group, stop, plan, only)
        _ask_for_rows(rows, which, stop)
        # Old and new box, in the precision of entries; the strips they reach.
        for i in range(group, stop):
            row, side = wide(which[i]), 8 * (i - group)
            for at in range(4):
                sides[side + at], sides[side + 4 + at] = rows.box[row, at], boxes[i, at]
        _find_group_strips(state, stop - group, sides, plan)
        _ask_for_their_terms(rows, which, stop)
        # List the cells that the moves may concern.
        stop = _list_group(state, rows, which, group, stop, circles, True, pair, plan, cells)
        if stop == group:
            return group, written, MORE_CELLS
        _ask_for_their_heads(state, rows, which, stop)
        # Pick candidates from these cells.
        stop = _pick_group(
            state, rows, which, events, times, group, stop, sides, len(circles) == 0, plan, cells,
            found, only, numbered,
        )  # fmt: skip
        if stop == group:
            return group, written, MORE_FOUND
        # Check their text and time, and write the updates.
        first = wide(0)
        for i in range(group, stop):
            last, row = plan[(i - group) * PLAN + UPTO], wide(which[i])
            if first < last:
                kept = keep_matching(state, rows, row, times[events[i]], found, first, last, only)
                if written + kept - first > len(out_slots):
                    return i, written, MORE_ROOM
                written = report(
                    state, rows, row, boxes, circles, i, events[i], found, first, kept, out_events,
                    out_slots, out_ops, written,
                )  # fmt: skip
            first = last
        group = stop
    return len(which), written, DONE


@lean_kernel
def evaluate(
    state: ActiveArrays, rows: Rows, which: Int32s, events: Int32s, times: Floats, start: int,
    cells: Int64s, found: Int32s, out_events: Int32s, out_slots: Int32s, sides: Float32s,
    plan: Int64s, pair: Floats, only: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Find the active messages that match rows as the table has them; arguments as in `moves`.

    All are new to a row: its old box is none, from inf to -inf.
    """
    written, group, messages = wide(0), wide(start), state.messages
    _begin(state, rows, which, group)
    while group < len(which):
        stop = min(group + GROUP, len(which))
        # Choose the list of each row: that of the rarest term.
        _choose_lists(state, rows, which, group, stop, plan, only)
        _ask_for_rows(rows, which, stop)
        # No old box; the strips that the box of the table reaches.
        for i in range(group, stop):
            row, side = wide(which[i]), 8 * (i - group)
            for at in range(2):
                sides[side + at], sides[side + at + 2] = np.inf, -np.inf
            for at in range(4):
                sides[side + 4 + at] = rows.box[row, at]
        _find_group_strips(state, stop - group, sides, plan)
        _ask_for_their_terms(rows, which, stop)
        # List the cells that these rows may concern.
        stop = _list_group(state, rows, which, group, stop, pair[:0], False, pair, plan, cells)
        if stop == group:
            return group, written, MORE_CELLS
        _ask_for_their_heads(state, rows, which, stop)
        # Pick candidates from these cells.
        stop = _pick_group(
            state, rows, which, events, times, group, stop, sides, True, plan, cells, found, only,
            False,
        )  # fmt: skip
        if stop == group:
            return group, written, MORE_FOUND
        # Check their text and time, then their place where it is unsure, and write them.
        first = wide(0)
        for i in range(group, stop):
            last, row = plan[(i - group) * PLAN + UPTO], wide(which[i])
            kept = first
            if first < last:
                kept = keep_matching(state, rows, row, times[events[i]], found, first, last, only)
            if written + kept - first > len(out_slots):
                return i, written, MORE_ROOM
            for at in range(first, kept):
                slot = wide(found[at]) >> KNOWN_BITS
                if found[at] & KNOWN == UNSURE and not accepts_place(
                    rows, row, messages[slot, 0], messages[slot, 1], messages[slot, 2],
                    messages[slot, 3],
                ):  # fmt: skip
                    continue
                out_events[written] = events[i]
                out_slots[written] = slot
                written += 1
            first = last
        group = stop
    return len(which), written, DONE
