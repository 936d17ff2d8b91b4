"""Matching: the lists of the message's terms in the cells it touches."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.gi2.grid import Gi2Grid, column_of, line_of, unpack
from nearcast.index.gi2.lists import CellLists, block_of, count_of, key_of, place_of
from nearcast.index.gi2.records import BOX, COARSENESS, Bounds32, row_of
from nearcast.index.table import Rows
from nearcast.index.verify import Bitmap, accepts, clear_terms, has_term, set_terms


@inner
def _may_match(arena: Int32s, bounds: Bounds32, at: int, box: Any, bitmap: Bitmap) -> bool:
    """Return whether an inline record leaves it open that its row matches."""
    return bool(
        bounds[at, BOX] <= box[2]
        and bounds[at, BOX + 2] >= box[0]
        and bounds[at, BOX + 1] <= box[3]
        and bounds[at, BOX + 3] >= box[1]
        and has_term(bitmap, arena[at, 1])
        and has_term(bitmap, arena[at, 2])
        and has_term(bitmap, arena[at, 3])
    )


@inner
def _is_sure(arena: Int32s, bounds: Bounds32, at: int, box: Any) -> bool:
    """Return whether an inline record that may match settles it, without the table."""
    return bool(
        arena[at, 0] >= 0
        and bounds[at, BOX] + COARSENESS <= box[2]
        and bounds[at, BOX + 2] - COARSENESS >= box[0]
        and bounds[at, BOX + 1] + COARSENESS <= box[3]
        and bounds[at, BOX + 3] - COARSENESS >= box[1]
    )


@inner
def _is_first(grid: Gi2Grid, span: Any, x: int, y: int, x0: int, y0: int) -> bool:
    """Return whether this is the first cell common to a row and a message that begins at x0, y0."""
    row_x0, row_y0, _, _ = unpack(grid, span)
    return bool(x == max(row_x0, x0) and y == max(row_y0, y0))


@lean_kernel
def scan(
    lists: CellLists, bounds: Bounds32, grid: Gi2Grid, rows: Rows, starts: Int64s, terms: Int32s,
    boxes: Floats, bitmap: Bitmap, hits: Int32s, met: Int64s, start: int, messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int]:  # fmt: skip
    """Match messages, as `base.collect` wants it.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. `bounds`
    are the boxes in the arena of `lists`, as 32-bit floats. `bitmap` has a bit for each term, all
    zero before and after. `hits` has room for the slots of the longest message's terms. The keys of
    lists in which a deleted row was met go to `met[1:]`, as many as fit, and `met[0]` counts them;
    without room for any, no row of the lists is deleted. Pairs go to `messages` and `found`.
    """
    inline = lists.arena.shape[1] > 1
    any_dead = len(met) > 1
    written = candidates = 0
    for message in range(start, len(boxes)):
        mark, seen = written, candidates
        first, last = starts[message], starts[message + 1]
        box = boxes[message]
        set_terms(bitmap, terms, first, last)
        # Find the cells that the message touches.
        x0, y0 = column_of(grid, box[0]), line_of(grid, box[1])
        x1, y1 = column_of(grid, box[2]), line_of(grid, box[3])
        several = x0 != x1 or y0 != y1
        fits = True
        for cell in range((x1 - x0 + 1) * (y1 - y0 + 1)):
            x, y = x0 + cell % (x1 - x0 + 1), y0 + cell // (x1 - x0 + 1)
            # All slots are looked up before any list is read, so that the memory delivers many
            # of them at once.
            hit = 0
            for at in range(first, last):
                place = place_of(lists.slots, key_of(y * grid.side + x, terms[at]))
                hits[hit] = place
                hit += lists.slots[place, 0] != 0
            # Read the lists. Inline records rule most rows out, or in, without the table.
            for nth in range(hit):
                slot = lists.slots[hits[nth]]
                block = block_of(slot)
                count = count_of(slot)
                candidates += count
                for at in range(block, block + count):
                    if inline and not _may_match(lists.arena, bounds, at, box, bitmap):
                        continue
                    row = row_of(lists.arena[at, 0])
                    if any_dead and rows.owner[row] < 0:
                        if met[0] + 1 < len(met) and met[met[0]] != np.int64(slot[0]):
                            met[0] += 1
                            met[met[0]] = np.int64(slot[0])
                        continue
                    sure = inline and _is_sure(lists.arena, bounds, at, box)
                    if not (sure or accepts(rows, row, box[0], box[1], box[2], box[3], bitmap)):
                        continue
                    # A row that shares several cells with the message is reported from one.
                    if several and not _is_first(grid, lists.spans[row], x, y, x0, y0):
                        continue
                    if written == len(found):
                        fits = False
                        break
                    messages[written] = message
                    found[written] = row
                    written += 1
                if not fits:
                    break
            if not fits:
                break
        clear_terms(bitmap, terms, first, last)
        if not fits:
            return message, mark, seen
    return len(boxes), written, candidates
