"""Messages that come and messages that end."""

from __future__ import annotations

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.active.kernels.cells import add_entry, cell_at, drop_entry, room_wanted
from nearcast.active.kernels.heap import has_ended, pop, push
from nearcast.active.kernels.layout import (
    CLASS_BITS,
    COUNT,
    EDGES,
    END,
    GIVEN,
    HEAD,
    LEVEL,
    LINE,
    LIVE,
    MESSAGE,
    NOTHING,
    PIECE,
    SLOTS,
    TERMS,
    UNIT,
    USED,
    WIDEST,
    ActiveArrays,
    class_for,
    give_back,
    room_in_arena,
    room_to_take,
    signature,
    single,
    take,
)
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s

TOGETHER = 16
"""Messages that come or end together: their cache misses overlap."""


@inlined
def _is_point(box: Floats, at: int) -> bool:
    return bool((box[at, 0] == box[at, 2]) & (box[at, 1] == box[at, 3]))


@inlined
def _ask_for_edges(state: ActiveArrays, head: int) -> None:
    """Ask for the edges of a list, if it is divided: all of those of a small one."""
    level = wide(state.heads[head + LEVEL])
    if level > 0:
        edges = wide(state.heads[head + EDGES]) * UNIT
        prefetch(state.ints, edges)
        prefetch(state.ints, edges + (wide(1) << level))


@inner
def _find_cells(state: ActiveArrays, head: int, x: float, y: float) -> int:
    """Find the cell of a place, and ask for it, or for the entries of a list without cells."""
    cell = cell_at(state, head, x, y)
    if cell != NOTHING:
        prefetch(state.ints, cell)
    else:
        base = wide(state.heads[head + PIECE]) * UNIT
        prefetch(state.ints, base)
        prefetch(state.ints, base + wide(state.heads[head + COUNT]) * UNIT)
    return cell


@inner
def _ask_for_new(
    state: ActiveArrays,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    start: int,
    stop: int,
    cells: Int64s,
) -> None:
    """Find the cells of new messages, a step at a time for all of them, and ask for those."""
    for at in range(starts[start], starts[stop]):
        prefetch(state.heads, wide(terms[at]) * HEAD)
    given = wide(state.counts[GIVEN])
    for at in range(max(wide(0), given - (stop - start)), given):
        prefetch(state.messages, wide(state.spare[at]) * MESSAGE)
        prefetch(state.messages, wide(state.spare[at]) * MESSAGE + END)
    for at in range(starts[start], starts[stop]):
        _ask_for_edges(state, wide(terms[at]) * HEAD)
    base = starts[start]
    for i in range(start, stop):
        if _is_point(boxes, i):
            x, y = single(boxes[i, 0]), single(boxes[i, 1])
            for at in range(starts[i], starts[i + 1]):
                cells[at - base] = _find_cells(state, wide(terms[at]) * HEAD, x, y)
        else:
            for at in range(starts[i], starts[i + 1]):
                cells[at - base] = NOTHING
    for at in range(starts[stop] - base):
        cell = cells[at]
        if cell != NOTHING:
            end = wide(state.ints[cell]) + (wide(state.ints[cell + 1]) >> CLASS_BITS)
            prefetch(state.ints, end * UNIT)


@inner
def _new_slot(state: ActiveArrays) -> int:
    counts = state.counts
    if counts[GIVEN] > 0:
        counts[GIVEN] -= 1
        return wide(state.spare[counts[GIVEN]])
    counts[SLOTS] += 1
    return wide(counts[SLOTS] - 1)


@lean_kernel
def add_messages(
    state: ActiveArrays, starts: Int64s, terms: Int32s, boxes: Floats, ends: Floats, start: int,
    slots: Int32s, due: Int32s, cells: Int64s, only: int,
) -> tuple[int, int]:  # fmt: skip
    """Take in messages from `start` on, as long as there is room, and write down their slots.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`, and it is
    active until `ends[m]`. Its slot goes to `slots[m]`. Gives the next message, and how many lists
    are in `due` that had better be divided again; it stops when there may be no room for more of
    them. `cells` is scratch with room for the terms of a group. With `only` all messages are in the
    list of that one number.
    """
    heads, ints, counts = state.heads, state.ints, state.counts
    late = wide(0)
    for group in range(start, len(boxes), TOGETHER):
        above = min(group + TOGETHER, len(boxes))
        if late + starts[above] - starts[group] + TOGETHER > len(due):
            return group, late
        # Find the cells of a group of messages, so that their cache misses overlap.
        _ask_for_new(state, starts, terms, boxes, group, above, cells)
        base = starts[group]
        for i in range(group, above):
            first, stop = starts[i], starts[i + 1]
            if counts[GIVEN] == 0 and counts[SLOTS] == len(state.messages):
                return i, late
            # Count the units that the message needs, and stop if the arena lacks them.
            point = _is_point(boxes, i)
            lists = heads if point else state.areas
            x, y = single(boxes[i, 0]), single(boxes[i, 1])
            own = class_for((stop - first + UNIT) // UNIT)
            wanted = room_to_take(own)
            sign = wide(0)
            single_cell = wide(NOTHING)
            if only >= 0:
                single_cell = cell_at(state, only * HEAD, x, y) if point else wide(NOTHING)
                wanted += room_wanted(lists, ints, only * HEAD, single_cell)
            for at in range(first, stop):
                if only < 0:
                    wanted += room_wanted(lists, ints, wide(terms[at]) * HEAD, cells[at - base])
                sign |= signature(terms[at])
            if counts[USED] + wanted > room_in_arena(state):
                return i, late
            # Write its record and its terms.
            slot = _new_slot(state)
            slots[i] = slot
            counts[WIDEST] = max(counts[WIDEST], stop - first)
            for side in range(4):
                state.messages[slot, side] = boxes[i, side]
            piece = take(state, own)
            state.messages[slot, END] = ends[i]
            state.messages[slot, TERMS] = piece
            ints[piece * UNIT] = stop - first
            for at in range(first, stop):
                ints[piece * UNIT + 1 + at - first] = terms[at]
            # Enter it into the lists of its terms.
            for at in range(first, stop if only < 0 else first + 1):
                term = wide(terms[at]) if only < 0 else wide(only)
                cell = cells[at - base] if only < 0 else single_cell
                if add_entry(state, lists, term * HEAD, cell, x, y, slot, sign) and point:
                    due[late] = term
                    late += 1
            # Note when it ends.
            push(state.heap, state.due_at, counts[LIVE], slot, ends[i])
            counts[LIVE] += 1
    return len(boxes), late


@inlined
def terms_at(state: ActiveArrays, slot: int) -> int:
    """Give where the terms of a message are, their number first."""
    return wide(state.messages[slot, TERMS]) * UNIT


@inner
def _ask_for_old(state: ActiveArrays, gone: Int32s, start: int, stop: int, cells: Int64s) -> None:
    """Find the cells of messages that end, a step at a time for all of them, and ask for those."""
    ints, heads, messages = state.ints, state.heads, state.messages
    for i in range(start, stop):
        piece = terms_at(state, wide(gone[i]))
        prefetch(ints, piece)
    for i in range(start, stop):
        piece = terms_at(state, wide(gone[i]))
        for at in range(piece + 1, piece + 1 + ints[piece]):
            prefetch(heads, wide(ints[at]) * HEAD)
    for i in range(start, stop):
        piece = terms_at(state, wide(gone[i]))
        for at in range(piece + 1, piece + 1 + ints[piece]):
            _ask_for_edges(state, wide(ints[at]) * HEAD)
    count = wide(0)
    for i in range(start, stop):
        slot = wide(gone[i])
        piece, point = terms_at(state, slot), _is_point(messages, slot)
        x, y = single(messages[slot, 0]), single(messages[slot, 1])
        for at in range(piece + 1, piece + 1 + ints[piece]):
            cells[count] = NOTHING
            if point:
                head = wide(ints[at]) * HEAD
                cells[count] = _find_cells(state, head, x, y)
                if cells[count] == NOTHING:
                    base = wide(heads[head + PIECE]) * UNIT
                    entries = min(wide(heads[head + COUNT]), wide(LINE))
                    for line in range(base + LINE, base + entries * UNIT, LINE):
                        prefetch(ints, line)
            count += 1
    for at in range(count):
        if cells[at] != NOTHING:
            base = wide(ints[cells[at]]) * UNIT
            entries = min(wide(ints[cells[at] + 1]) >> CLASS_BITS, wide(LINE))
            for line in range(base, base + entries * UNIT, LINE):
                prefetch(ints, line)


@inner
def _is_empty(state: ActiveArrays, term: int) -> bool:
    areas = state.areas
    return state.heads[term * HEAD + COUNT] == 0 and (
        term * HEAD >= len(areas) or areas[term * HEAD + COUNT] == 0
    )


@inlined
def _take_out(
    state: ActiveArrays,
    slot: int,
    cells: Int64s,
    used: int,
    emptied: Int32s,
    empty: int,
    due: Int32s,
    late: int,
    only: int,
) -> tuple[int, int]:
    """Remove a message; note terms that no message has any more, and lists to divide again."""
    ints = state.ints
    point = _is_point(state.messages, slot)
    lists = state.heads if point else state.areas
    piece = terms_at(state, slot)
    count = wide(ints[piece])
    single_cell = wide(NOTHING)
    if only >= 0 and point:
        x, y = single(state.messages[slot, 0]), single(state.messages[slot, 1])
        single_cell = cell_at(state, only * HEAD, x, y)
    for at in range(count if only < 0 else 1):
        term = wide(ints[piece + 1 + at]) if only < 0 else wide(only)
        cell = cells[used + at] if only < 0 else single_cell
        if drop_entry(state, lists, term * HEAD, cell, slot) and point:
            due[late] = term
            late += 1
        if only < 0 and _is_empty(state, term):
            emptied[empty] = term
            empty += 1
    give_back(state, piece // UNIT, class_for((count + UNIT) // UNIT))
    state.spare[state.counts[GIVEN]] = slot
    state.counts[GIVEN] += 1
    return empty, late


@lean_kernel
def expire(
    state: ActiveArrays,
    now: float,
    most: int,
    gone: Int32s,
    emptied: Int32s,
    due: Int32s,
    cells: Int64s,
    only: int,
) -> tuple[int, int, int]:
    """Take out at most `most` messages that have ended by now.

    Gives how many slots are in `gone`, terms that no message has any more in `emptied`, and
    lists in `due`. It stops early when there may be no room for more of those. `cells` has as
    much room as `due`.
    """
    counts, ints = state.counts, state.ints
    count = empty = late = wide(0)
    while count < most and max(empty, late) + TOGETHER * (counts[WIDEST] + 1) <= len(due):
        start = count
        while count < most and count - start < TOGETHER:
            if counts[LIVE] == 0 or not has_ended(state, now):
                break
            gone[count] = pop(state.heap, state.due_at, counts[LIVE])
            prefetch(state.messages, wide(gone[count]) * MESSAGE)
            prefetch(state.messages, wide(gone[count]) * MESSAGE + END)
            counts[LIVE] -= 1
            count += 1
        if count == start:
            break
        _ask_for_old(state, gone, start, count, cells)
        used = wide(0)
        for i in range(start, count):
            length = wide(ints[terms_at(state, wide(gone[i]))])
            empty, late = _take_out(
                state, wide(gone[i]), cells, used, emptied, empty, due, late, only
            )
            used += length
    return count, empty, late


@lean_kernel
def count_terms(state: ActiveArrays, slots: Int32s, lengths: Int64s) -> None:
    """Write how many terms the message in `slots[i]` has to `lengths[i + 1]`."""
    for i in range(len(slots)):
        lengths[i + 1] = state.ints[terms_at(state, wide(slots[i]))]


@lean_kernel
def copy_messages(
    state: ActiveArrays, slots: Int32s, starts: Int64s, terms: Int32s, boxes: Floats, ends: Floats
) -> None:
    """Write down the messages in some slots."""
    for i in range(len(slots)):
        slot = wide(slots[i])
        piece = terms_at(state, slot) + 1
        for at in range(starts[i], starts[i + 1]):
            terms[at] = state.ints[piece + at - starts[i]]
        for side in range(4):
            boxes[i, side] = state.messages[slot, side]
        ends[i] = state.messages[slot, END]


@lean_kernel
def pop_ended(state: ActiveArrays, now: float, gone: Int32s) -> int:
    """Take messages that have ended by now out of the heap only, as many as `gone` has room for."""
    counts = state.counts
    for i in range(len(gone)):
        if counts[LIVE] == 0 or not has_ended(state, now):
            return i
        gone[i] = pop(state.heap, state.due_at, counts[LIVE])
        counts[LIVE] -= 1
    return len(gone)
