"""Rows that come, go and move."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.gi2.grid import Gi2Grid, cells_in, pack, unpack
from nearcast.index.gi2.lists import (
    CellLists,
    append,
    block_of,
    copy_entry,
    count_of,
    key_of,
    place_of,
    shorten,
)
from nearcast.index.gi2.records import Bounds32, rarest_term, row_of, write_box, write_record
from nearcast.index.table import Rows

DONE = 0


@lean_kernel
def insert_rows(
    lists: CellLists, bounds: Bounds32, grid: Gi2Grid, rows: Rows, frequency: Int64s, new: Int32s,
    progress: Int64s,
) -> int:  # fmt: skip
    """Put rows into the lists of their cells, until done or something is full.

    `progress` says how many rows, and how many cells of the next one, are done.
    """
    while progress[0] < len(new):
        row = new[progress[0]]
        key = rarest_term(rows, row, frequency)
        lists.spans[row] = pack(grid, rows.box[row])
        x0, y0, x1, y1 = unpack(grid, lists.spans[row])
        width = x1 - x0 + 1
        while progress[1] < width * (y1 - y0 + 1):
            x, y = x0 + progress[1] % width, y0 + progress[1] // width
            at = append(lists, key_of(y * grid.side + x, key))
            if at < 0:
                return int(at)
            write_record(lists.arena, bounds, at, rows, row, key, frequency)
            progress[1] += 1
        progress[0] += 1
        progress[1] = 0
    return DONE


@lean_kernel
def delete_rows(lists: CellLists, grid: Gi2Grid, old: Int32s) -> int:
    """Note for rows how many lists hold them, instead of which, and give the sum."""
    total = 0
    for row in old:
        copies = cells_in(grid, lists.spans[row])
        lists.spans[row] = copies
        total += copies
    return total


@inner
def _clean(lists: CellLists, at: int, owner: Int32s, freed: Int32s, count: int) -> int:
    """Drop deleted rows from a list; rows that no list holds any more are added to `freed`."""
    slot = lists.slots[at]
    block, entries = block_of(slot), count_of(slot)
    kept = 0
    for entry in range(block, block + entries):
        row = row_of(lists.arena[entry, 0])
        if owner[row] >= 0:
            if block + kept != entry:
                copy_entry(lists.arena, entry, block + kept)
            kept += 1
            continue
        lists.spans[row] -= lists.spans.dtype.type(1)
        if lists.spans[row] == 0:
            freed[count] = row
            count += 1
    if kept < entries:
        shorten(lists, slot, kept)
    return count


@lean_kernel
def sweep(lists: CellLists, owner: Int32s, freed: Int32s) -> int:
    """Drop deleted rows from all lists."""
    count = 0
    for at in range(len(lists.slots)):
        if count_of(lists.slots[at]) > 0:
            count = _clean(lists, at, owner, freed, count)
    return count


@lean_kernel
def clean_lists(lists: CellLists, keys: Int64s, owner: Int32s, freed: Int32s) -> int:
    """Drop deleted rows from some lists."""
    count = 0
    for key in keys:
        at = place_of(lists.slots, np.uint64(key))
        if count_of(lists.slots[at]) > 0:
            count = _clean(lists, at, owner, freed, count)
    return count


@inner
def _withdraw(
    lists: CellLists, bounds: Bounds32, rows: Rows, row: int, cell: int, keep: bool
) -> int:
    """Take a row out of the list of a cell, or renew its box there, and give the list's term.

    Frequencies may have changed since the row came, so that any of its terms can be the one.
    """
    for term in rows.terms[rows.first[row] : rows.first[row] + rows.required[row]]:
        slot = lists.slots[place_of(lists.slots, key_of(cell, term))]
        block, count = block_of(slot), count_of(slot)
        for at in range(block, block + count):
            if row_of(lists.arena[at, 0]) == row:
                if keep:
                    write_box(bounds, at, rows, row)
                else:
                    copy_entry(lists.arena, block + count - 1, at)
                    shorten(lists, slot, count - 1)
                return int(term)
    return -1


@lean_kernel
def withdraw_rows(
    lists: CellLists, bounds: Bounds32, grid: Gi2Grid, rows: Rows, moved: Int32s
) -> int:
    """Take rows whose boxes have changed out of all their lists; give the rows still to insert.

    A row that stays in its cells stays in its lists, and so is not among those, which become the
    first of `moved`.
    """
    inline = lists.arena.shape[1] > 1
    away = 0
    for row in moved:
        span = lists.spans[row]
        stays = span == pack(grid, rows.box[row])
        if not stays:
            moved[away] = row
            away += 1
        if stays and not inline:
            continue
        x0, y0, x1, y1 = unpack(grid, span)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                _withdraw(lists, bounds, rows, row, y * grid.side + x, stays)
    return away
