"""Which cells of a quadtree a row is kept in: the cost model of the IQ-Tree.

Cells are squares of whole numbers: the finest have size 1, the root has size 2 ** depth. A row's
box becomes the finest cells that it touches, so that two boxes that share a point share a cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner
from nearcast.index.gi2.grid import Grid, grid_over
from nearcast.index.table import Floats, Int64s

DEEPEST = 15
MOST_CELLS = 1024
"""A row is kept in so many cells at most."""
_FINENESS = 128


class Space(NamedTuple):
    """The space that a quadtree divides, and where in it messages are expected."""

    grid: Grid
    depth: int
    below: Floats  # (n + 1, n + 1): the share of messages west and south of each corner


def space_over(
    extent: tuple[float, float, float, float], depth: int, lons: Floats, lats: Floats
) -> Space:
    """Lay a quadtree over an extent; messages are expected where places are given, or anywhere."""
    grid = grid_over(extent, 1 << depth)._replace(bits=16)
    shares = np.full((_FINENESS, _FINENESS), 1.0 / _FINENESS**2)
    if len(lons):
        west, south, east, north = extent
        ranges = [(west, max(east, west + 1e-9)), (south, max(north, south + 1e-9))]
        counts, _, _ = np.histogram2d(lons, lats, _FINENESS, ranges)
        # A tenth of them may come from anywhere: what was seen is not all there is.
        shares = 0.1 * shares + 0.9 * counts / max(1.0, counts.sum())
    below = np.zeros((_FINENESS + 1, _FINENESS + 1))
    below[1:, 1:] = shares.cumsum(axis=0).cumsum(axis=1)
    return Space(grid, depth, below)


@inner
def _below(below: Floats, x: float, y: float) -> float:
    """Give the share of messages west and south of a corner, in units of the table."""
    i, j = min(int(x), _FINENESS - 1), min(int(y), _FINENESS - 1)
    a, b = x - i, y - j
    return (
        (1 - a) * ((1 - b) * below[i, j] + b * below[i, j + 1])
        + a * ((1 - b) * below[i + 1, j] + b * below[i + 1, j + 1])
    )  # fmt: skip


@inner
def share_of(space: Space, x0: int, y0: int, x1: int, y1: int) -> float:
    """Give the share of messages expected in the finest cells from (x0, y0) to (x1, y1)."""
    unit = _FINENESS / (1 << space.depth)
    west, south, east, north = x0 * unit, y0 * unit, (x1 + 1) * unit, (y1 + 1) * unit
    below = space.below
    return (
        _below(below, east, north)
        - _below(below, west, north)
        - _below(below, east, south)
        + _below(below, west, south)
    )


@inner
def code_of(level: int, x: int, y: int) -> int:
    """Give a cell's level, column and line as one number."""
    return level << 32 | y << 16 | x


@inner
def cover(
    space: Space, x0: int, y0: int, x1: int, y1: int, weight: float, toll: float,
    level: int, x: int, y: int, cells: Int64s,
) -> float:  # fmt: skip
    """Choose the cells within a cell that keep a row at the least cost, and give that cost.

    A cell costs what it takes to put the row there, 1, and what `weight` makes of the share of
    messages that fall into it; each level further down costs `toll`. The cells are disjoint and
    cover what the row has of this cell. They are appended to `cells`, whose first number counts
    them.
    """
    size = 1 << (space.depth - level)
    left, low = x * size, y * size
    right, high = left + size - 1, low + size - 1
    part_x0, part_y0 = max(x0, left), max(y0, low)
    part_x1, part_y1 = min(x1, right), min(y1, high)
    mark = cells[0]
    inside = part_x0 == left and part_y0 == low and part_x1 == right and part_y1 == high
    whole = 1.0 + weight * share_of(space, left, low, right, high)
    half = size >> 1
    if not inside and size > 1 and mark + 3 * space.depth + 4 < len(cells):
        across = 1 + (part_x0 < left + half <= part_x1)
        upward = 1 + (part_y0 < low + half <= part_y1)
        least = weight * share_of(space, part_x0, part_y0, part_x1, part_y1)
        if least + across * upward + toll < whole:
            total = toll
            for quarter in range(4):
                child_x, child_y = 2 * x + (quarter & 1), 2 * y + (quarter >> 1)
                if (
                    child_x * half <= part_x1
                    and child_x * half + half - 1 >= part_x0
                    and child_y * half <= part_y1
                    and child_y * half + half - 1 >= part_y0
                    and total < whole
                ):
                    total += cover(
                        space, x0, y0, x1, y1, weight, toll, level + 1, child_x, child_y, cells
                    )
            if total < whole:
                return total
    cells[0] = mark + 1
    cells[mark + 1] = code_of(level, x, y)
    return whole
