"""The list of a term: finding the cell of a place, adding and removing entries, dividing."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.active.kernels.entries import not_above, of_slot
from nearcast.active.kernels.layout import (
    CELL,
    CLASS,
    CLASS_BITS,
    CLASSES,
    COUNT,
    EDGES,
    ENTRIES,
    HEAD,
    LEVEL,
    LINE,
    NOTHING,
    PIECE,
    SLOT,
    UNIT,
    USED,
    ActiveArrays,
    class_for,
    give_back,
    room_in_arena,
    room_to_take,
    size_of,
    take,
)
from nearcast.arrays.lanes import bit_count, lowest
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Int32s

PER_CELL = 4
"""Entries that a cell has on average when a list is divided; four times as many divide it again."""
UNDIVIDED = 64
"""The longest list without cells."""
DEEPEST = 12
"""The finest division: 2^DEEPEST columns and lines."""
SAMPLE = 4096
"""How many entries, evenly spread over the list, decide where the edges go."""

_MASK = CLASSES - 1


@inlined
def strip_of(memory: Float32s, edges: int, level: int, x: float) -> int:
    """Find the strip of a coordinate: the number of edges that are not beyond it."""
    at, step = wide(0), wide(1) << level
    while step > LINE:
        step >>= 1
        at += step * wide(memory[edges + at + step - 1] <= x)  # no branch to foretell
    # The last edge is not one within: what is looked for is never beyond it.
    within = not_above(memory, edges + at, x) & ((wide(1) << (step - 1)) - 1)
    return at + wide(bit_count(within))


@inlined
def level_for(count: int) -> int:
    """Give how finely a list of that many entries is to be divided."""
    level = wide(0)
    if count > UNDIVIDED:
        while level < DEEPEST and (wide(PER_CELL) << (2 * level + 2)) <= count:
            level += 1
    return level


@inlined
def _is_due(count: int, level: int) -> bool:
    """Return whether a list had better be divided again, finer or coarser."""
    if level == 0:
        return count > UNDIVIDED
    cells = wide(1) << (2 * level)
    if count > 4 * PER_CELL * cells and level < DEEPEST:
        return True
    return PER_CELL * cells > 16 * count


@inner
def cell_at(state: ActiveArrays, head: int, x: float, y: float) -> int:
    """Give where the cell of a place is; NOTHING for a list without cells."""
    level = wide(state.heads[head + LEVEL])
    if level == 0:
        return wide(NOTHING)
    edges = wide(state.heads[head + EDGES]) * UNIT
    column = strip_of(state.memory, edges, level, x)
    line = strip_of(state.memory, edges + (wide(1) << level), level, y)
    return wide(state.heads[head + PIECE]) * UNIT + ((line << level) + column) * CELL


@inner
def room_wanted(lists: Int32s, ints: Int32s, head: int, cell: int) -> int:
    """Give how many units one more entry may take."""
    if cell == NOTHING:
        count, kind = wide(lists[head + COUNT]), wide(lists[head + CLASS])
    else:
        count, kind = wide(ints[cell + 1]) >> CLASS_BITS, wide(ints[cell + 1]) & _MASK
    if count == 0:
        return wide(1)
    return room_to_take(kind + 2) if count == size_of(kind) else wide(0)


@inner
def _grown(state: ActiveArrays, piece: int, count: int, kind: int) -> tuple[int, int]:
    """Give a piece of entries more room: its unit and class."""
    if count == 0:
        return take(state, wide(0)), wide(0)
    if count < size_of(kind):
        return piece, kind
    larger = class_for(count + 1)
    fresh = take(state, larger)
    for at in range(count * UNIT):
        state.ints[fresh * UNIT + at] = state.ints[piece * UNIT + at]
    give_back(state, piece, kind)
    return fresh, larger


@inlined
def add_entry(
    state: ActiveArrays,
    lists: Int32s,
    head: int,
    cell: int,
    x: float,
    y: float,
    slot: int,
    sign: int,
) -> bool:
    """Add an entry to a list, in its cell; say whether the list had better be divided again."""
    ints = state.ints
    if cell == NOTHING:
        count = wide(lists[head + COUNT])
        piece, kind = _grown(state, wide(lists[head + PIECE]), count, wide(lists[head + CLASS]))
        lists[head + PIECE], lists[head + CLASS] = piece, kind
    else:
        count = wide(ints[cell + 1]) >> CLASS_BITS
        piece, kind = _grown(state, wide(ints[cell]), count, wide(ints[cell + 1]) & _MASK)
        ints[cell], ints[cell + 1] = piece, (count + 1) << CLASS_BITS | kind
    at = (piece + count) * UNIT
    state.memory[at], state.memory[at + 1] = x, y
    ints[at + SLOT], ints[at + 3] = slot, sign
    lists[head + COUNT] += 1
    state.counts[ENTRIES] += 1
    return _is_due(wide(lists[head + COUNT]), wide(lists[head + LEVEL]))


@inner
def _place_in(ints: Int32s, piece: int, count: int, slot: int) -> int:
    stop = (piece + count) * UNIT
    for at in range(piece * UNIT, stop, LINE):
        found = of_slot(ints, at, slot)
        if found:
            place = at + lowest(found)
            return wide((place - piece * UNIT) // UNIT) if place < stop else wide(NOTHING)
    return wide(NOTHING)


@inlined
def _fits(state: ActiveArrays, units: int) -> bool:
    return bool(state.counts[USED] + units <= room_in_arena(state))


@inlined
def drop_entry(state: ActiveArrays, lists: Int32s, head: int, cell: int, slot: int) -> bool:
    """Take the entry of a slot out; say whether the list had better be divided again."""
    ints = state.ints
    if cell == NOTHING:
        piece, count = wide(lists[head + PIECE]), wide(lists[head + COUNT])
        kind = wide(lists[head + CLASS])
    else:
        piece, count = wide(ints[cell]), wide(ints[cell + 1]) >> CLASS_BITS
        kind = wide(ints[cell + 1]) & _MASK
    place = _place_in(ints, piece, count, slot)
    if place == NOTHING:
        return False
    count -= 1
    to, last = (piece + place) * UNIT, (piece + count) * UNIT
    for at in range(UNIT):
        ints[to + at] = ints[last + at]
    if count == 0:
        give_back(state, piece, kind)
    elif 3 * count < size_of(kind) and _fits(state, size_of(kind)):
        smaller = class_for(count + (count >> 1))
        fresh = take(state, smaller)
        for at in range(count * UNIT):
            ints[fresh * UNIT + at] = ints[piece * UNIT + at]
        give_back(state, piece, kind)
        piece, kind = fresh, smaller
    if cell == NOTHING:
        lists[head + PIECE], lists[head + CLASS] = piece, kind
    else:
        ints[cell], ints[cell + 1] = piece, count << CLASS_BITS | kind
    lists[head + COUNT] -= 1
    state.counts[ENTRIES] -= 1
    return _is_due(wide(lists[head + COUNT]), wide(lists[head + LEVEL]))


@inner
def _room_to_divide(entries: int) -> int:
    """Give how many units dividing a list may take, at most."""
    level = level_for(entries)
    return 4 * entries + (wide(2) << (2 * level)) + (wide(2) << level) + 64


@lean_kernel
def longest(state: ActiveArrays, due: Int32s, count: int) -> tuple[int, int]:
    """Give the entries of the longest of some lists, and the units that dividing it may take."""
    most = wide(0)
    for i in range(count):
        most = max(most, wide(state.heads[wide(due[i]) * HEAD + COUNT]))
    return most, _room_to_divide(most)


@lean_kernel
def divide(
    state: ActiveArrays,
    due: Int32s,
    count: int,
    scratch: Int32s,
    sample: Float32s,
    start: int,
    even: bool,
) -> int:
    """Divide lists again that are still due; stop in front of one that there is no room for.

    `scratch` has room for the entries of the longest list, `sample` for SAMPLE numbers. Cells are
    of equal size if `even`.
    """
    for i in range(start, count):
        head = wide(due[i]) * HEAD
        entries, level = wide(state.heads[head + COUNT]), wide(state.heads[head + LEVEL])
        if not _is_due(entries, level):
            continue
        if not _fits(state, _room_to_divide(entries)):
            return i
        _collect(state, head, scratch)
        _lay_out(state, head, scratch, entries, sample, even)
    return count


@inner
def _collect(state: ActiveArrays, head: int, scratch: Int32s) -> None:
    """Copy the entries of a list, and give its pieces back."""
    heads, ints = state.heads, state.ints
    level, piece = wide(heads[head + LEVEL]), wide(heads[head + PIECE])
    filled = wide(0)
    if level == 0:
        count = wide(heads[head + COUNT])
        for at in range(count * UNIT):
            scratch[at] = ints[piece * UNIT + at]
        if count > 0:
            give_back(state, piece, wide(heads[head + CLASS]))
        return
    for cell in range(piece * UNIT, piece * UNIT + (CELL << (2 * level)), CELL):
        count = wide(ints[cell + 1]) >> CLASS_BITS
        if count > 0:
            base = wide(ints[cell]) * UNIT
            for at in range(count * UNIT):
                scratch[filled + at] = ints[base + at]
            filled += count * UNIT
            give_back(state, wide(ints[cell]), wide(ints[cell + 1]) & _MASK)
    give_back(state, piece, class_for(wide(1) << (2 * level - 1)))
    give_back(state, wide(heads[head + EDGES]), class_for(wide(1) << (level - 1)))


@inner
def _sift(values: Float32s, start: int, stop: int) -> None:
    """Let the first of a heap sink to its place."""
    at, value = wide(start), values[start]
    while 2 * at + 1 < stop:
        below = 2 * at + 1
        if below + 1 < stop and values[below + 1] > values[below]:
            below += 1
        if values[below] <= value:
            break
        values[at] = values[below]
        at = below
    values[at] = value


@inner
def _sort(values: Float32s, count: int) -> None:
    """Sort numbers, by heapsort: numba's own takes seconds to compile."""
    for start in range(count // 2 - 1, -1, -1):
        _sift(values, start, count)
    for stop in range(count - 1, 0, -1):
        values[0], values[stop] = values[stop], values[0]
        _sift(values, 0, stop)


@inner
def _write_edges(
    state: ActiveArrays, edges: int, level: int, scratch: Int32s, entries: int, axis: int,
    sample: Float32s, even: bool,
) -> None:  # fmt: skip
    """Write the edges of strips in one direction, and an end that is never reached."""
    step = (entries + SAMPLE - 1) // SAMPLE
    count = wide(0)
    values = scratch.view(np.float32)
    for i in range(0, entries, step):
        sample[count] = values[i * UNIT + axis]
        count += 1
    _sort(sample, count)
    strips = wide(1) << level
    low, high = sample[0], sample[count - 1]
    for edge in range(strips - 1):
        if even:
            state.memory[edges + edge] = low + (high - low) * (edge + 1) / strips
        else:
            state.memory[edges + edge] = sample[(edge + 1) * count // strips]
    state.memory[edges + strips - 1] = np.inf


@inner
def _lay_out(
    state: ActiveArrays, head: int, scratch: Int32s, entries: int, sample: Float32s, even: bool
) -> None:
    """Write entries into a list that has given its pieces back."""
    heads, ints = state.heads, state.ints
    values = scratch.view(np.float32)
    level = level_for(entries)
    heads[head + LEVEL] = level
    if level == 0:
        if entries > 0:
            kind = class_for(entries)
            piece = take(state, kind)
            heads[head + PIECE], heads[head + CLASS] = piece, kind
            for at in range(entries * UNIT):
                ints[piece * UNIT + at] = scratch[at]
        return
    cells = take(state, class_for(wide(1) << (2 * level - 1))) * UNIT
    edges = take(state, class_for(wide(1) << (level - 1))) * UNIT
    heads[head + PIECE], heads[head + EDGES] = cells // UNIT, edges // UNIT
    _write_edges(state, edges, level, scratch, entries, 0, sample, even)
    _write_edges(state, edges + (wide(1) << level), level, scratch, entries, 1, sample, even)
    for cell in range(cells, cells + (CELL << (2 * level))):
        ints[cell] = 0
    # First count, then take each cell a piece that fits, then fill.
    for i in range(entries):
        ints[cell_at(state, head, values[i * UNIT], values[i * UNIT + 1]) + 1] += 1
    for cell in range(cells, cells + (CELL << (2 * level)), CELL):
        count = wide(ints[cell + 1])
        if count > 0:
            kind = class_for(count)
            ints[cell], ints[cell + 1] = take(state, kind), kind
    for i in range(entries):
        cell = cell_at(state, head, values[i * UNIT], values[i * UNIT + 1])
        count = wide(ints[cell + 1]) >> CLASS_BITS
        to = (wide(ints[cell]) + count) * UNIT
        for at in range(UNIT):
            ints[to + at] = scratch[i * UNIT + at]
        ints[cell + 1] += 1 << CLASS_BITS
