"""The table behind `wanted`: which keys are wanted in which cells, 16 cells to an entry.

An entry is for a key and a block of 4 x 4 cells. Its slot is one word: 48 bits of hash above
one bit for each cell in which the key is wanted. A slot of 0 is free; one without cells belonged to
an entry that is gone. Two entries with the same 48 bits would share a slot, always and everywhere,
so that counting stays right and at worst a message is sent where no row wants it.

A box that meets many blocks is entered coarsely, so that no row takes more than 16 entries: at
level 1, blocks are 4 times as wide and high and have a bit for each of 16 blocks of level 0, and so
on. There the key is wanted in all cells of a block if in any. An entry of its own counts the uses
of each level above 0, so that levels without any cost no look-up.

How often each cell of an entry was asked for is beside the slot, in `uses`: a number above 0
counts uses that all have the same cells, as with most keys; below 0 it is -1 - the row of
`counters` that has a count for each of the 16 cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner, kernel, lean_kernel
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.slots import mixed
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.grid import Grid, span_of
from nearcast.partition.plan import BLOCK
from nearcast.partition.tables import Terms

Words = npt.NDArray[np.uint64]

TAKEN, LIVE, ROWS, FREE = 0, 1, 2, 3
"""Places in the state: slots not free, entries, rows of counters ever used, first free row + 1."""

CELLS = BLOCK * BLOCK
_AHEAD = 8
_BITS = np.uint64(CELLS)
_MASK = np.uint64(0xFFFF)
_ZERO = np.uint64(0)
_ALL = (1 << CELLS) - 1
_STEP = np.uint64(0xD1342543DE82EF95)
_MOST_ENTRIES = 16
_LEVELS = 12  # enough for a grid of any allowed size, also one of a single row


@inlined
def word_of(level: int, block: int, key: np.uint64) -> np.uint64:
    """Give the hash of an entry, in the place that it has in a slot."""
    word = mixed(key ^ (np.uint64((level << 32) + block + 1) * _STEP)) & ~_MASK
    return word if word != _ZERO else _MASK + np.uint64(1)


@inner
def home_of(slots: Words, word: np.uint64) -> int:
    """Give the slot at which the search for an entry begins."""
    return np.int64((word >> _BITS) & np.uint64(len(slots) - 1))  # type: ignore[return-value]


@inner
def cells_wanted(slots: Words, word: np.uint64) -> int:
    """Give the cells of an entry as bits; 0 if there is none."""
    last = len(slots) - 1
    at = home_of(slots, word)
    while slots[at] != _ZERO:
        if (slots[at] ^ word) <= _MASK:
            return np.int64(slots[at] & _MASK)  # type: ignore[return-value]  # an int to callers
        at = (at + 1) & last
    return 0


@inlined
def _flag_of(level: int) -> np.uint64:
    """Give the hash of the entry that counts the uses of a level."""
    return word_of(level, -1, _ZERO)


@inner
def levels_in_use(slots: Words) -> int:
    """Give the levels above 0 that have entries, as bits."""
    levels = 0
    for level in range(1, _LEVELS):
        if cells_wanted(slots, _flag_of(level)):
            levels |= 1 << level
    return levels


@inner
def _wanted_coarsely(
    slots: Words, levels: int, across: int, x: int, y: int, key: np.uint64
) -> bool:
    level = 1
    while levels >> level:
        bit = (y % BLOCK) * BLOCK + x % BLOCK
        x, y, across = x // BLOCK, y // BLOCK, (across + BLOCK - 1) // BLOCK
        if levels >> level & 1:
            word = word_of(level, y * across + x, key)
            if cells_wanted(slots, word) >> bit & 1:
                return True
        level += 1
    return False


@inner
def wanted_in_block(slots: Words, levels: int, across: int, x: int, y: int, key: np.uint64) -> int:
    """Give, as bits, the cells of a block in which a key is wanted, by any of these levels.

    The block is at column x and row y of blocks, `across` to a row.
    """
    if levels != 0 and _wanted_coarsely(slots, levels, across, x, y, key):
        return _ALL
    return cells_wanted(slots, word_of(0, y * across + x, key))


@inlined
def cells_in_block(x: int, y: int, x0: int, y0: int, x1: int, y1: int) -> int:
    """Give, as bits, the cells of the block at column x and row y of blocks that are in a span."""
    left, right = max(x0 - x * BLOCK, 0), min(x1 - x * BLOCK, BLOCK - 1)
    low, high = max(y0 - y * BLOCK, 0), min(y1 - y * BLOCK, BLOCK - 1)
    line = ((1 << (right - left + 1)) - 1) << left
    bits = 0
    for row in range(low, high + 1):
        bits |= line << (row * BLOCK)
    return bits


@inner
def _give_back(uses: Int32s, counters: Int32s, state: Int64s, at: int) -> None:
    row = -1 - uses[at]
    counters[row, 0] = np.int32(state[FREE])
    state[FREE] = row + 1
    uses[at] = 0


@inner
def _counted_apart(uses: Int32s, counters: Int32s, state: Int64s, at: int, held: int) -> int:
    """Give the row with a count for each cell; make one if uses were all alike until now."""
    use = uses[at]
    if use < 0:
        return int(-1 - use)
    if state[FREE] > 0:
        row = state[FREE] - 1
        state[FREE] = counters[row, 0]
    else:
        row = state[ROWS]
        state[ROWS] += 1
    for bit in range(CELLS):
        counters[row, bit] = use if held >> bit & 1 else 0
    uses[at] = np.int32(-1 - row)
    return int(row)


@inner
def _change(
    slots: Words,
    uses: Int32s,
    counters: Int32s,
    state: Int64s,
    word: np.uint64,
    cells: int,
    delta: int,
) -> int:
    """Count the cells of one entry up or down by 1; give 1 if some were not there to go.

    `slots`, `uses` and `counters` are the table, as the module says, and `state` its counts. `word`
    is the hash of the entry, `cells` has a bit for each cell.
    """
    # Find the slot of the entry, or a free one.
    last = len(slots) - 1
    at = home_of(slots, word)
    while slots[at] != _ZERO and (slots[at] ^ word) > _MASK:
        at = (at + 1) & last
    held = int(slots[at] & _MASK)
    # A new entry, or one that comes back.
    if held == 0:
        if delta < 0:
            return 1
        state[TAKEN] += slots[at] == _ZERO
        state[LIVE] += 1
        slots[at] = word | np.uint64(cells)
        uses[at] = 1
        return 0
    # All uses have the same cells: one count does.
    if uses[at] > 0 and held == cells:
        uses[at] += delta
        if uses[at] == 0:
            slots[at] = word
            state[LIVE] -= 1
        return 0
    # Else each cell has a count of its own.
    row = _counted_apart(uses, counters, state, at, held)
    missing, left = 0, 0
    for bit in range(CELLS):
        count = counters[row, bit]
        if cells >> bit & 1:
            if count + delta < 0:
                missing = 1
            else:
                count += delta
                counters[row, bit] = np.int32(count)
        left |= (count > 0) << bit
    slots[at] = word | np.uint64(left)
    # The entry is gone; its slot stays taken.
    if left == 0:
        _give_back(uses, counters, state, at)
        state[LIVE] -= 1
    return missing


@inner
def _has_room(slots: Words, counters: Int32s, state: Int64s, entries: int) -> bool:
    return bool(
        2 * (state[TAKEN] + entries) <= len(slots) and state[ROWS] + entries <= len(counters)
    )


@inlined
def _blocks_in(x0: int, y0: int, x1: int, y1: int) -> int:
    """Count the blocks that a span meets."""
    return (x1 // BLOCK - x0 // BLOCK + 1) * (y1 // BLOCK - y0 // BLOCK + 1)


@lean_kernel
def change_boxes(
    grid: Grid,
    slots: Words,
    uses: Int32s,
    counters: Int32s,
    state: Int64s,
    boxes: Floats,
    keys: Terms,
    start: int,
    delta: int,
) -> tuple[int, int, int]:
    """Count keys in all cells of their boxes up or down by 1, for as long as there is room.

    Key `keys[i]` is wanted in `boxes[i]`, from `start` on. `slots`, `uses` and `counters` are the
    table, as the module says, and `state` its counts. Gives the number of the box that there was no
    room for, or how many boxes there are; the entries it would need; and how many entries were to
    go that were not there.
    """
    missing = 0
    for number in range(start, len(boxes)):
        # Ask early for the slots of a later box.
        ahead = number + _AHEAD
        if ahead < len(boxes):
            x0, y0, x1, y1 = span_of(grid, boxes[ahead])
            across = (grid.columns + BLOCK - 1) // BLOCK
            for y in range(y0 // BLOCK, min(y1, y0 + BLOCK) // BLOCK + 1):
                for x in range(x0 // BLOCK, min(x1, x0 + BLOCK) // BLOCK + 1):
                    at = home_of(slots, word_of(0, y * across + x, keys[ahead]))
                    prefetch(slots, at)
                    prefetch(uses, at)
        # Choose the finest level at which the box takes few entries.
        x0, y0, x1, y1 = span_of(grid, boxes[number])
        across = (grid.columns + BLOCK - 1) // BLOCK
        entries = _blocks_in(x0, y0, x1, y1)
        level = 0
        while entries > _MOST_ENTRIES:
            x0, y0, x1, y1 = x0 // BLOCK, y0 // BLOCK, x1 // BLOCK, y1 // BLOCK
            across = (across + BLOCK - 1) // BLOCK
            entries = _blocks_in(x0, y0, x1, y1)
            level += 1
        # Stop if the table is too full.
        if not _has_room(slots, counters, state, entries + 1):
            return number, entries + 1, missing
        # Count the use of the level, and then the cells.
        if level > 0:
            missing += _change(slots, uses, counters, state, _flag_of(level), 1, delta)
        for y in range(y0 // BLOCK, y1 // BLOCK + 1):
            for x in range(x0 // BLOCK, x1 // BLOCK + 1):
                word = word_of(level, y * across + x, keys[number])
                cells = cells_in_block(x, y, x0, y0, x1, y1)
                missing += _change(slots, uses, counters, state, word, cells, delta)
    return len(boxes), 0, missing


@inner
def _count_of(slots: Words, uses: Int32s, counters: Int32s, word: np.uint64, bit: int) -> int:
    last = len(slots) - 1
    at = home_of(slots, word)
    while slots[at] != _ZERO and (slots[at] ^ word) > _MASK:
        at = (at + 1) & last
    if np.int64(slots[at] & _MASK) >> bit & 1 == 0:
        return 0
    use = uses[at]
    return int(use) if use > 0 else int(counters[-1 - use, bit])


@kernel
def counts_of(
    grid: Grid, slots: Words, uses: Int32s, counters: Int32s, cells: Any, keys: Terms
) -> Int32s:
    """Give how often each key was asked for in each cell, at all levels together."""
    counts = np.zeros(len(cells), np.int32)
    for number in range(len(cells)):
        x, y, across = cells[number] % grid.columns, cells[number] // grid.columns, grid.columns
        for level in range(_LEVELS):
            bit = (y % BLOCK) * BLOCK + x % BLOCK
            x, y, across = x // BLOCK, y // BLOCK, (across + BLOCK - 1) // BLOCK
            word = word_of(level, y * across + x, keys[number])
            counts[number] += _count_of(slots, uses, counters, word, bit)
    return counts


@lean_kernel
def move_entries(slots: Words, uses: Int32s, to_slots: Words, to_uses: Int32s) -> None:
    """Enter all entries into another, free table."""
    last = len(to_slots) - 1
    for at in range(len(slots)):
        if at + _AHEAD < len(slots):
            prefetch(to_slots, home_of(to_slots, slots[at + _AHEAD]))
        if slots[at] & _MASK != _ZERO:
            to = home_of(to_slots, slots[at])
            while to_slots[to] != _ZERO:
                to = (to + 1) & last
            to_slots[to] = slots[at]
            to_uses[to] = uses[at]
