"""Where the lists of the compared indexes are: in cells of a grid, or of a quadtree.

A *place* is the number of a cell. Cells are found from coordinates rounded to 32 bits, which keeps
order: whatever lies inside a box lies in one of the cells between those of its corners.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int64s


class Places(NamedTuple):
    """A grid of `cells` x `cells`, or, with `levels`, a quadtree with 2^levels of them below.

    `space` is what the cells divide. `depth` is how many levels the quadtree of a term has, by
    term; one beyond its end has `deepest`. `weight` says, by place, how many messages come into a
    cell between two moves of a subscription, `share` how large a part of all messages has a term.
    """

    space: Floats
    cells: int
    levels: int
    depth: npt.NDArray[np.int8]
    deepest: int
    weight: Floats
    share: Floats
    update: float  # what it costs to hold a subscription in one more cell, in verifications


@inlined
def first_of_level(level: int) -> int:
    """Give the first place of a level of a quadtree."""
    return ((wide(1) << (2 * level)) - 1) // 3


def places_in(cells: int, levels: int) -> int:
    """How many places there are."""
    return ((1 << (2 * levels + 2)) - 1) // 3 if levels else cells * cells


@inner
def strip(x: float, low: float, high: float, cells: int) -> int:
    """Find the strip of a coordinate; what is outside belongs to the first or the last."""
    return max(wide(0), min(wide(cells - 1), wide((x - low) / (high - low) * cells)))


@inlined
def _depth_of(places: Places, term: int) -> int:
    return wide(places.depth[term]) if term < len(places.depth) else wide(places.deepest)


@inner
def places_of_point(places: Places, term: int, x: float, y: float, out: Int64s) -> int:
    """Write down the places where a message with a term is kept: all cells around its point."""
    cells, space = places.cells, places.space
    column = strip(x, space[0], space[2], cells)
    line = strip(y, space[1], space[3], cells)
    if places.levels == 0:
        out[0] = line * cells + column
        return wide(1)
    depth = _depth_of(places, term)
    for level in range(depth + 1):
        up = places.levels - level
        out[level] = first_of_level(level) + ((line >> up) << level) + (column >> up)
    return depth + 1


@inner
def strips_of(places: Places, box: Float32s, strips: Int64s) -> None:
    """Write down the strips of a box's sides, at the finest level."""
    for side in range(4):
        axis = side & 1
        strips[side] = strip(box[side], places.space[axis], places.space[axis + 2], places.cells)


@inner
def _weigh(places: Places, strips: Int64s, depth: int, share: float, best: Floats) -> None:
    """Compute from below what the best choice of cells costs; negative where a cell is divided."""
    for level in range(depth, -1, -1):
        up, base = places.levels - level, first_of_level(level)
        finer = base + (wide(1) << (2 * level))
        south, north = strips[1] >> up, strips[3] >> up
        west, east = strips[0] >> up, strips[2] >> up
        for line in range(south, north + 1):
            for column in range(west, east + 1):
                cell = base + (line << level) + column
                best[cell] = places.weight[cell] * share + places.update
                if level == depth:
                    continue
                below = 0.0
                for y in range(
                    max(2 * line, strips[1] >> (up - 1)),
                    min(2 * line + 1, strips[3] >> (up - 1)) + 1,
                ):
                    for x in range(
                        max(2 * column, strips[0] >> (up - 1)),
                        min(2 * column + 1, strips[2] >> (up - 1)) + 1,
                    ):
                        below += abs(best[finer + (y << (level + 1)) + x])
                if below < best[cell]:
                    best[cell] = -below


@inner
def _chosen(
    places: Places, strips: Int64s, depth: int, best: Floats, out: Int64s, start: int
) -> int:
    """Write down the cells that are not divided and lie in none that is not."""
    count = wide(start)
    for level in range(depth + 1):
        up, base = places.levels - level, first_of_level(level)
        finer = base + (wide(1) << (2 * level))
        for line in range(strips[1] >> up, (strips[3] >> up) + 1):
            for column in range(strips[0] >> up, (strips[2] >> up) + 1):
                cell = base + (line << level) + column
                if best[cell] > 0.0:
                    out[count] = cell
                    count += 1
                if best[cell] >= 0.0 and level < depth:
                    for y in range(2 * line, 2 * line + 2):
                        for x in range(2 * column, 2 * column + 2):
                            best[finer + (y << (level + 1)) + x] = 0.0
    return count


@inner
def cover(places: Places, term: int, strips: Int64s, best: Floats, out: Int64s, start: int) -> int:
    """Write down, from `start` on, the places where a subscription is held; give where they end.

    In a grid these are all cells that its box touches. In a quadtree they are those that cost
    least: a cell costs `update`, and a verification for every message that comes into it with the
    term. `best` has room for a number for each place.
    """
    if places.levels == 0:
        count = wide(start)
        for line in range(strips[1], strips[3] + 1):
            for column in range(strips[0], strips[2] + 1):
                out[count] = line * places.cells + column
                count += 1
        return count
    depth = _depth_of(places, term)
    share = places.share[term] if term < len(places.share) else 0.0
    _weigh(places, strips, depth, share, best)
    return _chosen(places, strips, depth, best, out, start)


@inner
def is_inside_both(places: Places, place: int, old: Int64s, new: Int64s) -> bool:
    """Return whether a cell lies strictly inside two boxes that are given by their strips."""
    up, base = wide(0), wide(0)
    columns = wide(places.cells)
    if places.levels > 0:
        up, columns = wide(places.levels), wide(1)
        while place >= base + columns * columns:
            base += columns * columns
            columns *= 2
            up -= 1
    column, line = (place - base) % columns, (place - base) // columns
    return bool(
        (max(old[0], new[0]) >> up < column)
        & (column < min(old[2], new[2]) >> up)
        & (max(old[1], new[1]) >> up < line)
        & (line < min(old[3], new[3]) >> up)
    )
