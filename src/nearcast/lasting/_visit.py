"""Which entries of a list a move may concern: those between the old and the new region.

Both regions are given by their bounding boxes, rounded to 32 bits as entries are. Rounding keeps
order, so an entry outside a rounded box is outside the exact one, and one strictly inside it is
inside. Cells that lie strictly inside both regions are passed over; what is left is proportional
to the area that changed hands.
"""

from __future__ import annotations

import math
from typing import Any

from nearcast._jit import inner, inner_inlined
from nearcast.index.rarest_term._lanes import prefetch
from nearcast.index.table import Floats, Int32s, Int64s
from nearcast.lasting._cells import strip_of
from nearcast.lasting._layout import (
    CELL,
    CLASS_BITS,
    COUNT,
    EDGES,
    HEAD,
    LEVEL,
    PIECE,
    SIGNATURE,
    SLOT,
    UNIT,
    Float32s,
    State,
    single,
    wide,
)

_RADIAN, _HALF_RADIAN = math.pi / 180.0, math.pi / 360.0
_NEAR = 2e-5  # degrees: more than rounding to 32 bits can move a coordinate
_SHRINK = 1e-9  # relative: more than rounding in a chord

UNSURE, CAME, WENT = 0, 1, 2
"""What is known of a candidate."""
KNOWN_BITS = 2


@inner
def chord(circle: Floats, lat: float) -> float:
    """Give how far east and west of its centre a circle surely reaches at a latitude, or -1."""
    if circle[2] < 0.0 or circle[2] > 1.0:
        return -1.0
    half = math.sin((lat - circle[1]) * _HALF_RADIAN)
    rest = circle[2] - half * half
    flat = math.cos(lat * _RADIAN) * math.cos(circle[1] * _RADIAN)
    if rest <= 0.0 or flat <= 0.0 or rest >= flat:
        return -1.0
    return 2.0 * math.asin(math.sqrt(rest / flat)) / _RADIAN * (1.0 - _SHRINK) - 2.0 * _NEAR


@inner
def _sure_span(
    state: State, columns: int, lines: int, level: int, line: int, old: Floats, new: Floats
) -> tuple[int, int]:
    """Give the columns, first and last, whose cells in a line lie inside both of two circles."""
    strips = wide(1) << level
    if line == 0 or line == strips - 1:
        return wide(1), wide(0)
    low = state.memory[lines + line - 1] - _NEAR
    high = state.memory[lines + line] + _NEAR
    reach_old = min(chord(old, low), chord(old, high))
    if reach_old <= 0.0:
        return wide(1), wide(0)
    reach_new = min(chord(new, low), chord(new, high))
    if reach_new <= 0.0:
        return wide(1), wide(0)
    west = max(old[0] - reach_old, new[0] - reach_new)
    east = min(old[0] + reach_old, new[0] + reach_new)
    if west >= east:
        return wide(1), wide(0)
    first = strip_of(state.memory, columns, level, single(west)) + 1
    return first, strip_of(state.memory, columns, level, single(east)) - 1


@inner_inlined
def _note_cells(state: State, first: int, last: int, cells: Int64s, count: int) -> int:
    """Note the cells of a line that are not empty, and ask for their entries."""
    for cell in range(first, last + CELL, CELL):
        word = state.ints[cell + 1]
        if word >= 1 << CLASS_BITS:
            base = wide(state.ints[cell]) * UNIT
            prefetch(state.ints, base)
            cells[count] = base
            cells[count + 1] = wide(word) >> CLASS_BITS
            count += 2
    return count


@inner
def list_cells(
    state: State, head: int, old: Float32s, new: Float32s, circles: Any, moves: bool, cells: Int64s
) -> int:
    """Note where the entries of a list are that a move may concern; -1 if there is no room.

    Of two regions that do not overlap each is visited, else the lines of both, without the cells
    inside both. `circles` is (2, 3), the old and the new one, or None for boxes.
    """
    level = wide(state.heads[head + LEVEL])
    piece = wide(state.heads[head + PIECE]) * UNIT
    columns = wide(state.heads[head + EDGES]) * UNIT
    lines = columns + (wide(1) << level)
    memory = state.memory
    west_new, east_new = (
        strip_of(memory, columns, level, new[0]),
        strip_of(memory, columns, level, new[2]),
    )
    south_new, north_new = (
        strip_of(memory, lines, level, new[1]),
        strip_of(memory, lines, level, new[3]),
    )
    if not moves:
        west_old, east_old, south_old, north_old = wide(1), wide(0), wide(1), wide(0)
        south, north = south_new, north_new
    else:
        west_old, east_old = (
            strip_of(memory, columns, level, old[0]),
            strip_of(memory, columns, level, old[2]),
        )
        south_old, north_old = (
            strip_of(memory, lines, level, old[1]),
            strip_of(memory, lines, level, old[3]),
        )
        south, north = min(south_old, south_new), max(north_old, north_new)
    apart = moves and (west_old > east_new or west_new > east_old)
    sure_south = sure_west = wide(1)
    sure_north = sure_east = wide(0)
    if moves and circles is None:
        sure_west = max(west_old, west_new) + 1
        sure_east = min(east_old, east_new) - 1
        sure_south = max(south_old, south_new) + 1
        sure_north = min(north_old, north_new) - 1
    count = wide(0)
    for line in range(south, north + 1):
        of_old = south_old <= line <= north_old
        of_new = south_new <= line <= north_new
        if not (of_old or of_new):
            continue
        start = piece + (line << level) * CELL
        if apart and of_old and of_new:
            wanted = east_old - west_old + east_new - west_new + 2
            if count + 2 * wanted > len(cells):
                return wide(-1)
            count = _note_cells(
                state, start + west_old * CELL, start + east_old * CELL, cells, count
            )
            count = _note_cells(
                state, start + west_new * CELL, start + east_new * CELL, cells, count
            )
            continue
        west = west_new if not of_old else west_old
        east = east_new if not of_old else east_old
        if of_old and of_new:
            west, east = min(west_old, west_new), max(east_old, east_new)
        if count + 2 * (east - west + 1) > len(cells):
            return wide(-1)
        first, last = sure_west, sure_east
        if circles is not None:
            first, last = wide(1), wide(0)
            if of_old and of_new and east - west > 1:
                first, last = _sure_span(state, columns, lines, level, line, circles[0], circles[1])
        elif line < sure_south or line > sure_north:
            first, last = wide(1), wide(0)
        if first > last:
            count = _note_cells(state, start + west * CELL, start + east * CELL, cells, count)
        else:
            count = _note_cells(
                state, start + west * CELL, start + (first - 1) * CELL, cells, count
            )
            count = _note_cells(state, start + (last + 1) * CELL, start + east * CELL, cells, count)
    return count


@inner
def pick_entries(
    state: State, base: int, count: int, old: Float32s, new: Float32s, boxes: bool, sign: int,
    found: Int32s, filled: int,
) -> int:  # fmt: skip
    """Write down the slots of entries that a move may concern; `found` has room for all.

    Each with what is known of it: in the new box and not in the old one (CAME), the other way
    round (WENT), or UNSURE. Of circles and polygons, which are not `boxes`, it is only known that
    what is outside their box is outside.
    """
    memory, ints = state.memory, state.ints
    x0, y0, x1, y1 = old[0], old[1], old[2], old[3]
    u0, v0, u1, v1 = new[0], new[1], new[2], new[3]
    for at in range(base, base + count * UNIT, UNIT):
        x, y = memory[at], memory[at + 1]
        in_old = (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
        in_new = (x >= u0) & (x <= u1) & (y >= v0) & (y <= v1)
        if not (in_old | in_new) or (ints[at + SIGNATURE] & sign) != sign:
            continue
        known = UNSURE
        if boxes:
            well_old = (x > x0) & (x < x1) & (y > y0) & (y < y1)
            well_new = (x > u0) & (x < u1) & (y > v0) & (y < v1)
            if well_old & well_new:
                continue
            if well_new and not in_old:
                known = CAME
            elif well_old and not in_new:
                known = WENT
        found[filled] = (ints[at + SLOT] << KNOWN_BITS) | known
        filled += 1
    return filled


@inner
def pick_areas(state: State, head: int, sign: int, found: Int32s, filled: int) -> int:
    """Write down the slots of all range messages of a term; `found` has room for all."""
    base = wide(state.areas[head + PIECE]) * UNIT
    for at in range(base, base + wide(state.areas[head + COUNT]) * UNIT, UNIT):
        if (state.ints[at + SIGNATURE] & sign) == sign:
            found[filled] = (state.ints[at + SLOT] << KNOWN_BITS) | UNSURE
            filled += 1
    return filled


@inner_inlined
def entries_of(state: State, term: int) -> int:
    """Give how many active messages have a term."""
    if term * HEAD >= len(state.heads):
        return wide(0)
    count = wide(state.heads[term * HEAD + COUNT])
    if term * HEAD < len(state.areas):
        count += state.areas[term * HEAD + COUNT]
    return count


@inner
def _change_of(messages: Floats, slot: int, old: Floats, new: Floats) -> int:
    """Tell exactly whether a point message came or went; UNSURE if neither."""
    x, y = messages[slot, 0], messages[slot, 1]
    before = old[0] <= x <= old[2] and old[1] <= y <= old[3]
    after = new[0] <= x <= new[2] and new[1] <= y <= new[3]
    if before == after:
        return UNSURE
    return CAME if after else WENT


@inner
def keep_only(
    state: State, old: Floats, new: Floats, found: Int32s, start: int, filled: int, wanted: int
) -> int:
    """Keep the candidates that came, or those that went."""
    kept = wide(start)
    for at in range(start, filled):
        slot, known = wide(found[at]) >> KNOWN_BITS, wide(found[at] & 3)
        if known == UNSURE:
            known = _change_of(state.messages, slot, old, new)
        if known == wanted:
            found[kept] = slot << KNOWN_BITS | known
            kept += 1
    return kept
