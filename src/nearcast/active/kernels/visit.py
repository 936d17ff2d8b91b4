"""Which entries of a list a move may concern: those between the old and the new region.

Both regions are given by their bounding boxes, rounded to 32 bits as entries are. Rounding keeps
order, so an entry outside a rounded box is outside the exact one, and one strictly inside it is
inside. Cells that lie strictly inside both regions are passed over; what is left is proportional
to the area that changed hands.
"""

from __future__ import annotations

import math

from nearcast._jit import inlined, inner
from nearcast.active.kernels.cells import strip_of
from nearcast.active.kernels.entries import CAME, KNOWN_BITS, UNSURE, WENT
from nearcast.active.kernels.layout import (
    CELL,
    CLASS_BITS,
    COUNT,
    EDGES,
    HEAD,
    LEVEL,
    LINE,
    MESSAGE,
    PIECE,
    SIGNATURE,
    SLOT,
    UNIT,
    ActiveArrays,
    single,
)
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s

_RADIAN, _HALF_RADIAN = math.pi / 180.0, math.pi / 360.0
_NEAR = 2e-5  # degrees: more than rounding to 32 bits can move a coordinate
_AHEAD = 8  # messages ahead that are asked for
_SHRINK = 1e-9  # relative: more than rounding in a chord

PLAN = 12
"""Numbers that are noted of a move: its term and the signature of its query; columns and lines, as
west, south, east, north, of the old and of the new box; and where its cells, and then what was
found in them, end."""
TERM, SIGN, STRIPS, UPTO = 0, 1, 2, 10


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
    state: ActiveArrays, columns: int, lines: int, level: int, line: int, old: Floats, new: Floats
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


@inlined
def _note_cells(state: ActiveArrays, first: int, last: int, cells: Int64s, count: int) -> int:
    """Note the cells of a line that are not empty, and ask for their entries."""
    for cell in range(first, last + CELL, CELL):
        word = state.ints[cell + 1]
        if word >= 1 << CLASS_BITS:
            base = wide(state.ints[cell]) * UNIT
            number = wide(word) >> CLASS_BITS
            for line in range(base, base + number * UNIT, LINE):
                prefetch(state.ints, line)
            cells[count] = base
            cells[count + 1] = number
            count += 2
    return count


@inlined
def find_strips(state: ActiveArrays, head: int, sides: Float32s, plan: Int64s, at: int) -> None:
    """Find the columns and lines of a divided list that an old and a new box reach from and to.

    `sides` has the old box at 2 * `at` and the new one behind it; an old box from inf to -inf is
    none. What is found goes to `plan`, and the cells at the ends of lines are asked for.
    """
    level = wide(state.heads[head + LEVEL])
    columns = wide(state.heads[head + EDGES]) * UNIT
    lines = columns + (wide(1) << level)
    memory = state.memory
    for box in range(2):
        side, to = 8 * at + 4 * box, at * PLAN + STRIPS + 4 * box
        plan[to] = strip_of(memory, columns, level, sides[side])
        plan[to + 1] = strip_of(memory, lines, level, sides[side + 1])
        plan[to + 2] = strip_of(memory, columns, level, sides[side + 2])
        plan[to + 3] = strip_of(memory, lines, level, sides[side + 3])
    if sides[8 * at] > sides[8 * at + 2]:
        to = at * PLAN + STRIPS
        plan[to] = plan[to + 1] = 1
        plan[to + 2] = plan[to + 3] = 0
    piece = wide(state.heads[head + PIECE]) * UNIT
    for box in range(2):
        to = at * PLAN + STRIPS + 4 * box
        for line in range(plan[to + 1], plan[to + 3] + 1):
            start = piece + (line << level) * CELL
            prefetch(state.ints, start + plan[to] * CELL)
            prefetch(state.ints, start + plan[to + 2] * CELL)


@inlined
def list_cells(
    state: ActiveArrays, head: int, plan: Int64s, at: int, round: bool, circles: Floats,
    moves: bool, cells: Int64s, count: int,
) -> int:  # fmt: skip
    """Note where the entries of a list are that a move may concern; -1 if there is no room.

    Of two regions that do not overlap each is visited, else the lines of both, without the cells
    inside both. If the regions are `round`, `circles` has the old and the new one, (2, 3). The
    strips of both are in `plan`. What is found goes to `cells`, which has `count` numbers already:
    for each cell the place of its entries, and how many there are.
    """
    # Read the strips of the old and the new region.
    level = wide(state.heads[head + LEVEL])
    piece = wide(state.heads[head + PIECE]) * UNIT
    columns = wide(state.heads[head + EDGES]) * UNIT
    lines = columns + (wide(1) << level)
    strips = at * PLAN + STRIPS
    west_old, south_old = plan[strips], plan[strips + 1]
    east_old, north_old = plan[strips + 2], plan[strips + 3]
    west_new, south_new = plan[strips + 4], plan[strips + 5]
    east_new, north_new = plan[strips + 6], plan[strips + 7]
    # Lines to visit; without a move, only those of the new region.
    south, north = south_new, north_new
    if moves:
        south, north = min(south_old, south_new), max(north_old, north_new)
    apart = moves and (west_old > east_new or west_new > east_old)
    # Cells inside both boxes: nothing changes there.
    sure_south = sure_west = wide(1)
    sure_north = sure_east = wide(0)
    if moves and not round:
        sure_west = max(west_old, west_new) + 1
        sure_east = min(east_old, east_new) - 1
        sure_south = max(south_old, south_new) + 1
        sure_north = min(north_old, north_new) - 1
    for line in range(south, north + 1):
        of_old = south_old <= line <= north_old
        of_new = south_new <= line <= north_new
        if not (of_old or of_new):
            continue
        start = piece + (line << level) * CELL
        # Both regions are on this line, apart from each other: visit each.
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
        # Else one run from the westmost to the eastmost column.
        west = west_new if not of_old else west_old
        east = east_new if not of_old else east_old
        if of_old and of_new:
            west, east = min(west_old, west_new), max(east_old, east_new)
        if count + 2 * (east - west + 1) > len(cells):
            return wide(-1)
        # Leave out the cells that are inside both regions.
        first, last = sure_west, sure_east
        if round:
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
def pick_numbered(
    state: ActiveArrays,
    base: int,
    count: int,
    old: Float32s,
    new: Float32s,
    found: Int32s,
    filled: int,
) -> int:
    """Do what `pick_entries` does, of lists that say no more than which messages there are.

    Each message is looked at, as in the plain lists that designs are compared with.
    """
    messages, ints = state.messages, state.ints
    for at in range(base + SLOT, base + count * UNIT, UNIT):
        if at + _AHEAD * UNIT < base + count * UNIT:
            prefetch(messages, wide(ints[at + _AHEAD * UNIT]) * MESSAGE)
        slot = wide(ints[at])
        x, y = single(messages[slot, 0]), single(messages[slot, 1])
        in_old = (x >= old[0]) & (x <= old[2]) & (y >= old[1]) & (y <= old[3])
        in_new = (x >= new[0]) & (x <= new[2]) & (y >= new[1]) & (y <= new[3])
        well_old = (x > old[0]) & (x < old[2]) & (y > old[1]) & (y < old[3])
        well_new = (x > new[0]) & (x < new[2]) & (y > new[1]) & (y < new[3])
        if (in_old | in_new) and not (well_old & well_new):
            found[filled] = (slot << KNOWN_BITS) | UNSURE
            filled += 1
    return filled


@inner
def pick_areas(state: ActiveArrays, head: int, sign: int, found: Int32s, filled: int) -> int:
    """Write down the slots of all range messages of a term; `found` has room for all."""
    base = wide(state.areas[head + PIECE]) * UNIT
    for at in range(base, base + wide(state.areas[head + COUNT]) * UNIT, UNIT):
        if (state.ints[at + SIGNATURE] & sign) == sign:
            found[filled] = (state.ints[at + SLOT] << KNOWN_BITS) | UNSURE
            filled += 1
    return filled


@inlined
def entries_of(state: ActiveArrays, term: int) -> int:
    """Give how many active messages have a term."""
    if term * HEAD >= len(state.heads):
        return wide(0)
    count = wide(state.heads[term * HEAD + COUNT])
    if term * HEAD < len(state.areas):
        count += state.areas[term * HEAD + COUNT]
    return count


@inner
def _change_of(messages: Floats, slot: int, old: Floats, new: Floats) -> int:
    """Say exactly whether a point message came or went; UNSURE if neither."""
    x, y = messages[slot, 0], messages[slot, 1]
    before = old[0] <= x <= old[2] and old[1] <= y <= old[3]
    after = new[0] <= x <= new[2] and new[1] <= y <= new[3]
    if before == after:
        return UNSURE
    return CAME if after else WENT


@inner
def keep_only(
    state: ActiveArrays,
    old: Floats,
    new: Floats,
    found: Int32s,
    start: int,
    filled: int,
    wanted: int,
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
