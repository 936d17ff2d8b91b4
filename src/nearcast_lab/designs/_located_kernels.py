"""Kernels of messages in lists by (place, term), found through a hash."""

from __future__ import annotations

from typing import NamedTuple

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.active.kernels.candidates import (
    Ops,
    ask_for_candidates,
    keep_matching,
    report,
)
from nearcast.active.kernels.cells import add_entry, drop_entry, room_wanted
from nearcast.active.kernels.change import terms_at
from nearcast.active.kernels.entries import CAME, WENT, pick_entries
from nearcast.active.kernels.heap import has_ended, pop, push
from nearcast.active.kernels.layout import (
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
    ActiveArrays,
    class_for,
    give_back,
    room_in_arena,
    room_to_take,
    signature,
    single,
    take,
)
from nearcast.active.kernels.moves import DONE, MORE_FOUND, MORE_ROOM
from nearcast.active.kernels.places import (
    Places,
    cover,
    is_inside_both,
    places_of_point,
    strips_of,
)
from nearcast.active.kernels.visit import keep_only
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s
from nearcast.index.table import Rows


class Hash(NamedTuple):
    """Finds the number of a list by its place and its term."""

    keys: Int64s
    values: Int32s
    lists: Int64s  # one number: how many there are


class LocatedScratch(NamedTuple):
    """Work space of kernels: as many numbers in each as there are places, twice in `cells`."""

    cells: Int64s
    best: Floats
    marks: Int64s
    stamp: Int64s  # one number, which grows
    strips: Int64s  # of the old box, and of the new one
    work: Float32s


@inlined
def key_of(place: int, term: int) -> int:
    """Give the key of a list."""
    return wide(place) << 32 | wide(term)


@inlined
def start_of(keys: Int64s, key: int) -> int:
    """Give where the search for a key starts."""
    return (key * 7046029254386353131 >> 20) & (len(keys) - 1)


@inner
def find_key(keys: Int64s, key: int) -> int:
    """Find the slot of a key, or the free slot that it would get."""
    mask = len(keys) - 1
    at = start_of(keys, key)
    while keys[at] != key and keys[at] != NOTHING:
        at = (at + 1) & mask
    return wide(at)


@lean_kernel
def rehash(table: Hash, fresh: Hash) -> None:
    """Enter all keys of one hash into another."""
    for at in range(len(table.keys)):
        if table.keys[at] != NOTHING:
            to = find_key(fresh.keys, table.keys[at])
            fresh.keys[to], fresh.values[to] = table.keys[at], table.values[at]


@inner
def list_for(table: Hash, key: int) -> int:
    """Find the head of a list, and make the list if there is none; there must be room."""
    at = find_key(table.keys, key)
    if table.keys[at] == NOTHING:
        table.keys[at], table.values[at] = key, table.lists[0]
        table.lists[0] += 1
    return wide(table.values[at]) * HEAD


@inner
def room_in(state: ActiveArrays, table: Hash, key: int) -> int:
    """Give how many units one more entry under a key may take."""
    at = find_key(table.keys, key)
    if table.keys[at] == NOTHING:
        return wide(1)
    return room_wanted(state.heads, state.ints, wide(table.values[at]) * HEAD, wide(NOTHING))


@lean_kernel
def add_located(
    state: ActiveArrays,
    table: Hash,
    places: Places,
    frequency: Int64s,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    ends: Floats,
    start: int,
    slots: Int32s,
    tools: LocatedScratch,
) -> int:
    """Add messages from number `start` on while there is room; return the first one not added.

    `terms[starts[i]:starts[i + 1]]` are the terms of message i, `boxes[i]` its box, which is
    listed by its south-west corner, and `ends[i]` when it ends. `frequency` counts messages by term
    and is updated; `slots[i]` receives the slot of message i.
    """
    ints, counts, cells = state.ints, state.counts, tools.cells
    for i in range(start, len(boxes)):
        first, stop = starts[i], starts[i + 1]
        x, y = single(boxes[i, 0]), single(boxes[i, 1])
        # Bring the hash entries of all lists into the cache.
        for at in range(first, stop):
            for cell in range(places_of_point(places, terms[at], x, y, cells)):
                prefetch(table.keys, start_of(table.keys, key_of(cells[cell], terms[at])))
        # Stop if the hash, the slots or the arena lack room.
        own = class_for((stop - first + UNIT) // UNIT)
        wanted = room_to_take(own)
        if 2 * (table.lists[0] + (stop - first) * (places.levels + 1)) > len(table.keys):
            return i
        if counts[GIVEN] == 0 and counts[SLOTS] == len(state.messages):
            return i
        sign = wide(0)
        for at in range(first, stop):
            sign |= signature(terms[at])
            for cell in range(places_of_point(places, terms[at], x, y, cells)):
                wanted += room_in(state, table, key_of(cells[cell], terms[at]))
        if counts[USED] + wanted > room_in_arena(state):
            return i
        # Store the message in a slot, one that was freed if there is one.
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
        # Store its terms, and enter it into the list of each place and term.
        ints[piece * UNIT] = stop - first
        for at in range(first, stop):
            ints[piece * UNIT + 1 + at - first] = terms[at]
            frequency[terms[at]] += 1
            for cell in range(places_of_point(places, terms[at], x, y, cells)):
                head = list_for(table, key_of(cells[cell], terms[at]))
                add_entry(state, state.heads, head, wide(NOTHING), x, y, slot, sign)
        # Schedule its end.
        push(state.heap, state.due_at, counts[LIVE], slot, ends[i])
        counts[LIVE] += 1
    return len(boxes)


@lean_kernel
def expire_located(
    state: ActiveArrays, table: Hash, places: Places, frequency: Int64s, now: float, gone: Int32s,
    tools: LocatedScratch,
) -> int:  # fmt: skip
    """Remove messages that have ended by now; `gone` gets their slots, as many as it holds."""
    ints, counts, cells = state.ints, state.counts, tools.cells
    for i in range(len(gone)):
        if counts[LIVE] == 0 or not has_ended(state, now):
            return i
        slot = pop(state.heap, state.due_at, counts[LIVE])
        counts[LIVE] -= 1
        gone[i] = slot
        piece = terms_at(state, slot)
        x, y = single(state.messages[slot, 0]), single(state.messages[slot, 1])
        length = wide(ints[piece])
        for at in range(piece + 1, piece + 1 + length):
            for cell in range(places_of_point(places, ints[at], x, y, cells)):
                prefetch(table.keys, start_of(table.keys, key_of(cells[cell], ints[at])))
        for at in range(piece + 1, piece + 1 + length):
            frequency[ints[at]] -= 1
            for cell in range(places_of_point(places, ints[at], x, y, cells)):
                head = list_for(table, key_of(cells[cell], ints[at]))
                drop_entry(state, state.heads, head, wide(NOTHING), slot)
        give_back(state, piece // UNIT, class_for((length + UNIT) // UNIT))
        state.spare[counts[GIVEN]] = slot
        counts[GIVEN] += 1
    return len(gone)


@inner
def cover_both(
    places: Places, term: int, old: Float32s, new: Float32s, tools: LocatedScratch
) -> tuple[int, int, int]:
    """Find the places of an old and of a new box, those of the new one behind the others.

    Gives where each of the two ends, and a mark that only places of both have.
    """
    strips, cells, marks = tools.strips, tools.cells, tools.marks
    strips_of(places, old, strips[:4])
    strips_of(places, new, strips[4:])
    before = cover(places, term, strips[:4], tools.best, cells, wide(0))
    after = cover(places, term, strips[4:], tools.best, cells, before)
    tools.stamp[0] += 2
    stamp = tools.stamp[0]
    for at in range(before):
        marks[cells[at]] = stamp
    for at in range(before, after):
        if marks[cells[at]] == stamp:
            marks[cells[at]] = stamp + 1
    return before, after, stamp + 1


@lean_kernel
def located_moves(
    state: ActiveArrays, table: Hash, places: Places, frequency: Int64s, rows: Rows, which: Int32s,
    events: Int32s, times: Floats, boxes: Floats, start: int, found: Int32s, out_events: Int32s,
    out_slots: Int32s, out_ops: Ops, tools: LocatedScratch,
) -> tuple[int, int, int]:  # fmt: skip
    """Find the messages that come and go when rows get other boxes; like `moves`.

    `which[i]` is a row of `rows` that gets `boxes[i]`, by the event `events[i]` at the time
    `times[events[i]]`; `frequency` counts messages by term. `found` is work space for slots. The
    outcome goes to `out_events`, `out_slots` and `out_ops`, an element for each change. Returns the
    first row that was not done, how many changes were written, and why it stopped.

    A place that covers only one of the two boxes holds what went, or what came; one that covers
    both may hold either, unless it lies inside both boxes.
    """
    written, cells = wide(0), tools.cells
    old, new = tools.work[:4], tools.work[4:8]
    for i in range(start, len(which)):
        # Find the rarest required term; if no message has it, nothing changes.
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
        # Collect the places where something may change, with what their messages can have done.
        for side in range(4):
            old[side], new[side] = rows.box[row, side], boxes[i, side]
        before, after, both = cover_both(places, best, old, new, tools)
        kept = wide(0)
        for at in range(after):
            shared = tools.marks[cells[at]] == both
            if shared and (
                at >= before
                or is_inside_both(places, cells[at], tools.strips[:4], tools.strips[4:])
            ):
                continue
            key = key_of(cells[at], best)
            prefetch(table.keys, start_of(table.keys, key))
            # The two lowest bits: 0 for a place of both boxes, or WENT, or CAME.
            cells[kept] = key << 2 | wide(0 if shared else (WENT if at < before else CAME))
            kept += 1
        # Pick the messages of these places that the move may concern.
        filled = wide(0)
        for at in range(kept):
            place = find_key(table.keys, cells[at] >> 2)
            if table.keys[place] == NOTHING:
                continue
            head = wide(table.values[place]) * HEAD
            count = wide(state.heads[head + COUNT])
            if filled + count > len(found):
                return i, mark, MORE_FOUND
            mine, wanted = filled, cells[at] & 3
            filled = pick_entries(
                state, wide(state.heads[head + PIECE]) * UNIT, count, old, new, True, sign, found,
                filled,
            )  # fmt: skip
            if wanted != 0 and places.levels > 0:
                # Cells of the two boxes may be nested, and hold the same messages.
                filled = keep_only(state, rows.box[row], boxes[i], found, mine, filled, wanted)
        # Keep those whose text matches, and write down what changes.
        ask_for_candidates(state, found, filled)
        filled = keep_matching(state, rows, row, times[events[i]], found, wide(0), filled, wide(-1))
        if written + filled > len(out_slots):
            return i, mark, MORE_ROOM
        written = report(
            state, rows, row, boxes, boxes[:0], i, events[i], found, wide(0), filled, out_events,
            out_slots, out_ops, written,
        )  # fmt: skip
    return len(which), written, DONE
