"""The kernels of `routing`.

Each writes pairs until it is through or has no room for a row or message that goes to everyone,
and gives the number it has come to and how many pairs it wrote.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, kernel, lean_kernel
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.slots import mixed
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.grid import Grid, cell_of, span_of
from nearcast.partition.owners import worker_of
from nearcast.partition.plan import BLOCK, MIXED, PlanArrays
from nearcast.partition.tables import Terms
from nearcast.partition.wanted_kernels import (
    CELLS,
    Words,
    cells_in_block,
    home_of,
    levels_in_use,
    wanted_in_block,
    word_of,
)

_AHEAD = 6  # messages whose slots are asked for before they are needed
_MOST_AHEAD = 32  # terms of such a message


@kernel
def owner_workers(workers: int, owners: Terms) -> Int32s:
    """Spread owners evenly, whatever their numbers are."""
    chosen = np.empty(len(owners), np.int32)
    for at in range(len(owners)):
        chosen[at] = mixed(mixed(owners[at] + np.uint64(1))) % np.uint64(workers)
    return chosen


@inner
def _send(worker: int, number: int, seen: Any, numbers: Int32s, chosen: Int32s, filled: int) -> int:
    """Write a pair that counts only if it is new; give how many there are.

    It is written without asking, because the answer cannot be foreseen and a wrong guess of the
    processor costs more than writing.
    """
    numbers[filled] = number
    chosen[filled] = worker
    new = seen[worker] != number
    seen[worker] = number
    return filled + int(new)


@lean_kernel
def route_rows(
    plan: PlanArrays,
    boxes: Floats,
    keys: Terms,
    start: int,
    seen: Int64s,
    numbers: Int32s,
    chosen: Int32s,
) -> tuple[int, int]:
    """Route rows by their keys."""
    grid = plan.grid
    filled = 0
    for number in range(start, len(boxes)):
        if filled + plan.workers >= len(numbers):
            return number, filled
        x0, y0, x1, y1 = span_of(grid, boxes[number])
        last = MIXED
        for by in range(y0 // BLOCK, y1 // BLOCK + 1):
            for bx in range(x0 // BLOCK, x1 // BLOCK + 1):
                code = plan.blocks[by * plan.block_columns + bx]
                if code != MIXED:
                    if code != last:
                        last = code
                        worker = worker_of(plan, code, keys[number])
                        filled = _send(worker, number, seen, numbers, chosen, filled)
                    continue
                for y in range(max(y0, by * BLOCK), min(y1, by * BLOCK + BLOCK - 1) + 1):
                    for x in range(max(x0, bx * BLOCK), min(x1, bx * BLOCK + BLOCK - 1) + 1):
                        code = plan.cells[y * grid.columns + x]
                        if code != last:
                            last = code
                            worker = worker_of(plan, code, keys[number])
                            filled = _send(worker, number, seen, numbers, chosen, filled)
    return len(boxes), filled


@inner
def _look_ahead(
    grid: Grid, slots: Words, starts: Int64s, terms: Terms, number: int, cell: int
) -> None:
    """Ask for the slots of a message in the block of a cell."""
    across = (grid.columns + BLOCK - 1) // BLOCK
    block = cell // grid.columns // BLOCK * across + cell % grid.columns // BLOCK
    for at in range(starts[number], min(starts[number + 1], starts[number] + _MOST_AHEAD)):
        prefetch(slots, home_of(slots, word_of(0, block, terms[at])))


@inner
def _look_ahead_in_map(
    plan: PlanArrays, starts: Int64s, terms: Terms, number: int, cell: int
) -> None:
    """Ask for the slots of a message in the text map of a cell."""
    text_map = -1 - plan.cells[cell]
    base, mask = plan.map_starts[text_map], np.uint64(plan.map_masks[text_map])
    for at in range(starts[number], min(starts[number + 1], starts[number] + _MOST_AHEAD)):
        prefetch(plan.map_slots, base + np.int64(terms[at] & mask))


@inner
def _is_wanted(
    grid: Grid, slots: Words, levels: int, box: Floats, terms: Terms, begin: int, end: int
) -> bool:
    across = (grid.columns + BLOCK - 1) // BLOCK
    x0, y0, x1, y1 = span_of(grid, box)
    for by in range(y0 // BLOCK, y1 // BLOCK + 1):
        for bx in range(x0 // BLOCK, x1 // BLOCK + 1):
            cells = cells_in_block(bx, by, x0, y0, x1, y1)
            for at in range(begin, end):
                if wanted_in_block(slots, levels, across, bx, by, terms[at]) & cells:
                    return True
    return False


@lean_kernel
def any_wanted(
    grid: Grid,
    slots: Words,
    boxes: Floats,
    starts: Int64s,
    terms: Terms,
    found: npt.NDArray[np.bool_],
) -> None:
    """Say which messages have a term that is wanted in a cell of theirs."""
    levels = levels_in_use(slots)
    for number in range(len(boxes)):
        if number + _AHEAD < len(boxes):
            cell = cell_of(grid, boxes[number + _AHEAD, 0], boxes[number + _AHEAD, 1])
            _look_ahead(grid, slots, starts, terms, number + _AHEAD, cell)
        begin, end = starts[number], starts[number + 1]
        found[number] = _is_wanted(grid, slots, levels, boxes[number], terms, begin, end)


@lean_kernel
def route_messages(
    plan: PlanArrays,
    filtered: bool,
    slots: Words,
    boxes: Floats,
    starts: Int64s,
    terms: Terms,
    start: int,
    seen: Int64s,
    numbers: Int32s,
    chosen: Int32s,
) -> tuple[int, int]:
    """Route messages by their places and terms.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. If
    `filtered`, `slots` is the table of wanted keys (`wanted_kernels`). `seen` has for each worker
    the last message sent to it. Pairs of a message and a worker go to `numbers` and `chosen`. Gives
    the message it stopped in front of, and how many pairs there are.
    """
    grid, across = plan.grid, plan.block_columns
    levels = levels_in_use(slots) if filtered else 0
    filled = 0
    for number in range(start, len(boxes)):
        if filled + plan.workers >= len(numbers):
            return number, filled
        # Ask early for the slots of a later message.
        if number + _AHEAD < len(boxes):
            cell = cell_of(grid, boxes[number + _AHEAD, 0], boxes[number + _AHEAD, 1])
            if filtered:
                _look_ahead(grid, slots, starts, terms, number + _AHEAD, cell)
            if plan.cells[cell] < 0:
                _look_ahead_in_map(plan, starts, terms, number + _AHEAD, cell)
        # A message without terms matches nothing.
        begin, end = starts[number], starts[number + 1]
        if begin == end:
            continue
        # Go through the blocks that it meets.
        x0, y0, x1, y1 = span_of(grid, boxes[number])
        single = x0 == x1 and y0 == y1
        for by in range(y0 // BLOCK, y1 // BLOCK + 1):
            for bx in range(x0 // BLOCK, x1 // BLOCK + 1):
                block = by * across + bx
                code = plan.cells[y0 * grid.columns + x0] if single else plan.blocks[block]
                # The whole block belongs to a worker that has the message already.
                if code >= 0 and seen[code] == number:
                    continue
                cells = cells_in_block(bx, by, x0, y0, x1, y1)
                # Without a filter, the worker of the block gets it whatever its terms are.
                if code >= 0 and not filtered:
                    filled = _send(code, number, seen, numbers, chosen, filled)
                    continue
                # Else each term decides, if it is wanted in a cell of the message here.
                for at in range(begin, end):
                    term = terms[at]
                    here = cells
                    if filtered:
                        here &= wanted_in_block(slots, levels, across, bx, by, term)
                        if here == 0:
                            continue
                    if code != MIXED:
                        worker = worker_of(plan, code, term)
                        filled = _send(worker, number, seen, numbers, chosen, filled)
                        if code >= 0:
                            break
                        continue
                    # A mixed block: the workers of its cells.
                    for bit in range(CELLS):
                        if here >> bit & 1:
                            y, x = by * BLOCK + bit // BLOCK, bx * BLOCK + bit % BLOCK
                            worker = worker_of(plan, plan.cells[y * grid.columns + x], term)
                            filled = _send(worker, number, seen, numbers, chosen, filled)
    return len(boxes), filled
