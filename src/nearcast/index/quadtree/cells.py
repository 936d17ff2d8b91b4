"""Which cells of a quadtree a row is kept in: the cost model of the IQ-Tree.

Cells are squares of whole numbers: the finest have size 1, the root has size 2 ** depth. A row's
box becomes the finest cells that it touches, so that two boxes that share a point share a cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner
from nearcast.arrays.types import Floats, Int64s
from nearcast.index.gi2.grid import Gi2Grid, grid_over

DEEPEST = 15
MOST_CELLS = 1024
"""The most cells that a row is kept in."""
_FINENESS = 128


class QuadtreeSpace(NamedTuple):
    """The space that a quadtree divides, and where in it messages are expected."""

    grid: Gi2Grid
    depth: int
    below: Floats  # (n + 1, n + 1): the share of messages west and south of each corner


def space_over(
    extent: tuple[float, float, float, float], depth: int, lons: Floats, lats: Floats
) -> QuadtreeSpace:
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
    return QuadtreeSpace(grid, depth, below)


@inner
def _below(below: Floats, x: float, y: float) -> float:
    """Give the share of messages west and south of a corner, in units of the table."""
    i, j = min(int(x), _FINENESS - 1), min(int(y), _FINENESS - 1)
    a, b = x - i, y - j
    return float(
        (1 - a) * ((1 - b) * below[i, j] + b * below[i, j + 1])
        + a * ((1 - b) * below[i + 1, j] + b * below[i + 1, j + 1])
    )  # fmt: skip


@inner
def share_of(space: QuadtreeSpace, x0: int, y0: int, x1: int, y1: int) -> float:
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


class CoverScratch(NamedTuple):
    """What `cover` works in: `cells[0]` counts the cells chosen, which follow it."""

    cells: Int64s
    frames: Int64s  # by level: column and line of a cell, its next quarter, cells before it
    costs: Floats  # by level: of keeping a cell, and of its quarters so far


def work_space() -> CoverScratch:
    """Make room to work in."""
    return CoverScratch(
        np.zeros(MOST_CELLS, np.int64),
        np.zeros((DEEPEST + 1, 4), np.int64),
        np.zeros((DEEPEST + 1, 2)),
    )


@inner
def _may_divide(
    space: QuadtreeSpace,
    x0: int,
    y0: int,
    x1: int,
    y1: int,
    weight: float,
    toll: float,
    level: int,
    work: CoverScratch,
) -> bool:
    """Note what it costs to keep a row in a cell, and say whether its quarters may cost less."""
    size = 1 << (space.depth - level)
    left, low = work.frames[level, 0] * size, work.frames[level, 1] * size
    right, high = left + size - 1, low + size - 1
    whole = 1.0 + weight * share_of(space, left, low, right, high)
    work.costs[level, 0], work.costs[level, 1] = whole, toll
    x0, y0, x1, y1 = max(x0, left), max(y0, low), min(x1, right), min(y1, high)
    inside = x0 == left and y0 == low and x1 == right and y1 == high
    # Every level above may still have three cells to add.
    if inside or size == 1 or work.cells[0] + 3 * space.depth + 4 > len(work.cells):
        return False
    half = size >> 1
    across, upward = 1 + (x0 < left + half <= x1), 1 + (y0 < low + half <= y1)
    return bool(weight * share_of(space, x0, y0, x1, y1) + across * upward + toll < whole)


@inner
def cover(
    space: QuadtreeSpace,
    x0: int,
    y0: int,
    x1: int,
    y1: int,
    weight: float,
    toll: float,
    work: CoverScratch,
) -> None:
    """Choose the disjoint cells that keep a row at the least cost.

    The row covers the finest cells from (x0, y0) to (x1, y1). A cell costs what it takes to put the
    row there, 1, and what `weight` makes of the share of messages that fall into it; each level
    further down costs `toll`. The cells chosen are in `work.cells`; `CoverScratch` says what the
    other arrays hold.
    """
    # Begin with the root.
    cells, frames, costs = work.cells, work.frames, work.costs
    cells[0] = level = 0
    frames[0, 0] = frames[0, 1] = frames[0, 3] = 0
    frames[0, 2] = -1
    while level >= 0:
        quarter = frames[level, 2]
        # On the first visit decide whether dividing the cell may cost less than keeping it.
        if quarter < 0:
            divides = _may_divide(space, x0, y0, x1, y1, weight, toll, level, work)
            quarter = 0 if divides else 4
            if not divides:
                costs[level, 1] = costs[level, 0]
        half = 1 << (space.depth - level) >> 1
        # Find the next quarter that the row meets.
        column, line = 0, 0
        while quarter < 4:
            column = 2 * frames[level, 0] + (quarter & 1)
            line = 2 * frames[level, 1] + (quarter >> 1)
            west, south = column * half, line * half
            if west <= x1 and west + half > x0 and south <= y1 and south + half > y0:
                break
            quarter += 1
        # Descend while the quarters so far cost less than the whole cell.
        if quarter < 4 and costs[level, 1] < costs[level, 0]:
            frames[level, 2] = quarter + 1
            level += 1
            frames[level, 0], frames[level, 1] = column, line
            frames[level, 2], frames[level, 3] = -1, cells[0]
            continue
        # The whole cell is cheaper: it takes the place of the cells chosen within it.
        if costs[level, 1] >= costs[level, 0]:
            mark = frames[level, 3]
            cells[0] = mark + 1
            cells[mark + 1] = code_of(level, frames[level, 0], frames[level, 1])
            costs[level, 1] = costs[level, 0]
        # Add the cost to that of the parent.
        level -= 1
        if level >= 0:
            costs[level, 1] += costs[level + 1, 1]
