"""Building all lists at once, cell by cell.

Rows are sorted by cell first. The lists of one cell are then counted and filled in arrays over
the terms, which stay in the caches, and every block gets its final size at once.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import lean_kernel
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.gi2.grid import Gi2Grid, Spans, pack, spans_for, unpack
from nearcast.index.gi2.lists import (
    ENTRIES,
    LISTS,
    SIZES,
    SLOTS,
    TOP,
    CellLists,
    describe,
    fresh_lists,
    key_of,
    kind_for,
    place_of,
)
from nearcast.index.gi2.records import Bounds32, rarest_term, write_record
from nearcast.index.table import Rows, Table


@lean_kernel
def _assign(
    rows: Rows,
    live: Int32s,
    frequency: Int64s,
    grid: Gi2Grid,
    spans: Spans,
    keys: Int32s,
    ends: Int64s,
) -> None:
    """Find the cells and the key term of each row, and count the rows of each cell."""
    for row in live:
        keys[row] = rarest_term(rows, row, frequency)
        span = pack(grid, rows.box[row])
        spans[row] = span
        x0, y0, x1, y1 = unpack(grid, span)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                ends[y * grid.side + x + 1] += 1


@lean_kernel
def _by_cell(live: Int32s, grid: Gi2Grid, spans: Spans, places: Int64s, ordered: Int32s) -> None:
    for row in live:
        x0, y0, x1, y1 = unpack(grid, spans[row])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                cell = y * grid.side + x
                ordered[places[cell]] = row
                places[cell] += 1


@lean_kernel
def _measure(ordered: Int32s, ends: Int64s, keys: Int32s, counts: Int32s) -> tuple[int, int]:
    """Count the lists, and the entries of all their blocks."""
    lists = entries = 0
    for cell in range(len(ends) - 1):
        for at in range(ends[cell], ends[cell + 1]):
            counts[keys[ordered[at]]] += 1
        for at in range(ends[cell], ends[cell + 1]):
            key = keys[ordered[at]]
            if counts[key] > 0:
                lists += 1
                entries += SIZES[kind_for(counts[key])]
                counts[key] = 0
    return lists, entries


@lean_kernel
def _fill(
    lists: CellLists, bounds: Bounds32, rows: Rows, frequency: Int64s,
    ordered: Int32s, ends: Int64s, keys: Int32s, counts: Int32s, places: Int32s,
) -> None:  # fmt: skip
    top = 0
    for cell in range(len(ends) - 1):
        for at in range(ends[cell], ends[cell + 1]):
            counts[keys[ordered[at]]] += 1
        for at in range(ends[cell], ends[cell + 1]):
            row = ordered[at]
            key = keys[row]
            if counts[key] > 0:
                place = place_of(lists.slots, key_of(cell, key))
                kind = kind_for(counts[key])
                lists.slots[place, 0] = key_of(cell, key)
                describe(lists.slots[place], top, kind, counts[key])
                places[key] = top
                top += SIZES[kind]
                counts[key] = 0
                lists.counts[LISTS] += 1
            write_record(lists.arena, bounds, places[key], rows, row, key, frequency)
            places[key] += 1
    lists.counts[TOP] = top
    lists.counts[SLOTS] = lists.counts[LISTS]
    lists.counts[ENTRIES] = len(ordered)


def build_lists(table: Table, grid: Gi2Grid, width: int) -> CellLists:
    """Put all live rows of a table into lists."""
    rows, live, frequency = table.rows, table.live_rows(), table.frequency
    spans = spans_for(len(table), grid.side)
    keys = np.empty(len(table), np.int32)
    ends = np.zeros(grid.side * grid.side + 1, np.int64)
    _assign(rows, live, frequency, grid, spans, keys, ends)
    np.cumsum(ends, out=ends)
    ordered = np.empty(ends[-1], np.int32)
    _by_cell(live, grid, spans, ends[:-1].copy(), ordered)
    counts = np.zeros(len(frequency), np.int32)
    lists = fresh_lists(*_measure(ordered, ends, keys, counts), width, spans)
    places = np.empty(len(frequency), np.int32)
    bounds = lists.arena.view(np.float32)
    _fill(lists, bounds, rows, frequency, ordered, ends, keys, counts, places)
    return lists
