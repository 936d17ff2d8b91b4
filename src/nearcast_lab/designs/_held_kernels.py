"""Kernels of subscriptions in lists by (place, term): the rarest of their terms, some cells."""

from __future__ import annotations

from nearcast._jit import inner, lean_kernel
from nearcast.active.kernels.cells import add_entry, drop_entry
from nearcast.active.kernels.layout import (
    COUNT,
    HEAD,
    NOTHING,
    PIECE,
    SLOT,
    UNIT,
    USED,
    ActiveArrays,
    room_in_arena,
    single,
)
from nearcast.active.kernels.places import Places, places_of_point
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.table import Rows
from nearcast.index.verify import Bitmap, accepts, clear_terms, set_terms
from nearcast_lab.designs._located_kernels import (
    Hash,
    LocatedScratch,
    cover_both,
    find_key,
    key_of,
    list_for,
    room_in,
)

_NONE = 1e300  # a side from here on belongs to a box that is not there


@lean_kernel
def rarest_of(rows: Rows, which: Int32s, frequency: Int64s, keys: Int32s) -> None:
    """Write down the rarest required term of each row, by row."""
    for row in which:
        first = wide(rows.first[row])
        best = wide(rows.terms[first])
        for at in range(first + 1, first + rows.required[row]):
            term = wide(rows.terms[at])
            if frequency[term] < frequency[best]:
                best = term
        keys[row] = best


@lean_kernel
def hold_rows(
    state: ActiveArrays, table: Hash, places: Places, which: Int32s, terms: Int32s, old: Floats,
    new: Floats, start: int, tools: LocatedScratch,
) -> int:  # fmt: skip
    """Take rows out of the places of their old boxes, and put them into those of the new ones.

    `which` holds rows, `terms` the term that each row of the table is listed under, `old` and `new`
    the boxes of `which`; one that begins at inf means no box. Stops at, and returns the place in
    `which` of, the first row that there is no room for.
    """
    cells, counts = tools.cells, state.counts
    was, now = tools.work[:4], tools.work[4:8]
    for i in range(start, len(which)):
        row, term = wide(which[i]), wide(terms[which[i]])
        leaves, comes = old[i, 0] < _NONE, new[i, 0] < _NONE
        for side in range(4):
            was[side] = old[i, side] if leaves else new[i, side]
            now[side] = new[i, side] if comes else old[i, side]
        # Find the places of both boxes.
        before, after, both = cover_both(places, term, was, now, tools)
        # A box that is not there has no places: those found for it are the other one's.
        gone = before if leaves else wide(0)
        come = after if comes else before
        moves = leaves and comes
        # Stop if the hash or the arena lacks room.
        wanted = wide(0)
        if 2 * (table.lists[0] + come - before) > len(table.keys):
            return i
        for at in range(before, come):
            if not (moves and tools.marks[cells[at]] == both):
                wanted += room_in(state, table, key_of(cells[at], term))
        if counts[USED] + wanted > room_in_arena(state):
            return i
        # Move the row from the places of the old box only to those of the new box only.
        for at in range(gone):
            if not (moves and tools.marks[cells[at]] == both):
                head = list_for(table, key_of(cells[at], term))
                drop_entry(state, state.heads, head, wide(NOTHING), row)
        for at in range(before, come):
            if not (moves and tools.marks[cells[at]] == both):
                head = list_for(table, key_of(cells[at], term))
                add_entry(state, state.heads, head, wide(NOTHING), 0.0, 0.0, row, wide(0))
    return len(which)


@inner
def _scan_list(
    state: ActiveArrays, head: int, rows: Rows, boxes: Floats, message: int, bitmap: Bitmap,
    messages: Int32s, found: Int32s, written: int,
) -> int:  # fmt: skip
    """Verify the rows of a list; -1 if there is no room for those that match."""
    base = wide(state.heads[head + PIECE]) * UNIT
    for at in range(base + SLOT, base + wide(state.heads[head + COUNT]) * UNIT, UNIT):
        row = state.ints[at]
        if accepts(
            rows, row, boxes[message, 0], boxes[message, 1], boxes[message, 2],
            boxes[message, 3], bitmap,
        ):  # fmt: skip
            if written == len(found):
                return wide(-1)
            messages[written], found[written] = message, row
            written += 1
    return wide(written)


@lean_kernel
def match_held(
    state: ActiveArrays, table: Hash, places: Places, rows: Rows, starts: Int64s, terms: Int32s,
    boxes: Floats, bitmap: Bitmap, start: int, messages: Int32s, found: Int32s, cells: Int64s,
) -> tuple[int, int, int]:  # fmt: skip
    """Verify the rows in the lists of each message's terms, in all cells around its point."""
    written = candidates = wide(0)
    for message in range(start, len(boxes)):
        mark, seen = written, candidates
        first, stop = starts[message], starts[message + 1]
        x, y = single(boxes[message, 0]), single(boxes[message, 1])
        set_terms(bitmap, terms, first, stop)
        for term in range(first, stop):
            for cell in range(places_of_point(places, terms[term], x, y, cells)):
                at = find_key(table.keys, key_of(cells[cell], terms[term]))
                if written < 0 or table.keys[at] == NOTHING:
                    continue
                head = wide(table.values[at]) * HEAD
                candidates += state.heads[head + COUNT]
                written = _scan_list(
                    state, head, rows, boxes, message, bitmap, messages, found, written
                )
        clear_terms(bitmap, terms, first, stop)
        if written < 0:
            return message, mark, seen
    return len(boxes), written, candidates
