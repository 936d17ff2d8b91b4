"""A uniform grid over the space: the cells that routing tables speak of.

Cells are numbered `row * columns + column` from the south-west. What lies outside the grid belongs
to the cells at its edge, so every place has a cell. A column never decreases from west to east, nor
a row from south to north; everything that is proved about routing rests on that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast._jit import inlined, inner, kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.geo import WORLD, Box

_THINNEST = 1e-6  # degrees; a space of less is widened, so that numbers of cells stay small
_MOST_CELLS = 1 << 24


class Grid(NamedTuple):
    """`columns` x `rows` cells of equal size between the borders, which are in degrees."""

    west: float
    south: float
    east: float
    north: float
    columns: int
    rows: int

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return self.columns * self.rows


def grid_over(space: Box = WORLD, columns: int | None = None, rows: int = 64) -> Grid:
    """Lay a grid over a space: by default 64 rows, and 128 columns where it is wide, else 64."""
    west, south, east, north = space.west, space.south, space.east, space.north
    if west > east:
        west, east = WORLD.west, WORLD.east  # a space across the antimeridian
    east, north = max(east, west + _THINNEST), max(north, south + _THINNEST)
    if columns is None:
        columns = 128 if east - west > 1.4 * (north - south) else 64
    return checked(Grid(west, south, east, north, columns, rows))


def checked(grid: Grid) -> Grid:
    """Give the grid back, or say what is wrong with it."""
    borders = np.array(grid[:4], dtype=np.float64)
    if not (
        np.isfinite(borders).all()
        and grid.east - grid.west >= _THINNEST / 2
        and grid.north - grid.south >= _THINNEST / 2
    ):
        raise InvalidValue("grid", tuple(grid), "borders with west < east and south < north")
    if grid.columns < 1 or grid.rows < 1 or grid.cells > _MOST_CELLS:
        raise InvalidValue("grid", tuple(grid), f"1 to {_MOST_CELLS} cells")
    return grid


@inlined
def column_of(grid: Grid, lon: float) -> int:
    """Give the column of a longitude."""
    column = int((lon - grid.west) * (grid.columns / (grid.east - grid.west)))
    return min(max(column, 0), grid.columns - 1)


@inlined
def row_of(grid: Grid, lat: float) -> int:
    """Give the row of a latitude."""
    row = int((lat - grid.south) * (grid.rows / (grid.north - grid.south)))
    return min(max(row, 0), grid.rows - 1)


@inlined
def cell_of(grid: Grid, lon: float, lat: float) -> int:
    """Give the cell of a place."""
    return row_of(grid, lat) * grid.columns + column_of(grid, lon)


@inner
def span_of(grid: Grid, box: Any) -> tuple[int, int, int, int]:
    """Give the first column, first row, last column and last row that a plain box meets."""
    return (
        column_of(grid, box[0]),
        row_of(grid, box[1]),
        column_of(grid, box[2]),
        row_of(grid, box[3]),
    )


@kernel
def spans_of(grid: Grid, boxes: Floats) -> Int32s:
    """Give the spans of many boxes: first column, first row, last column, last row."""
    spans = np.empty((len(boxes), 4), np.int32)
    for at in range(len(boxes)):
        x0, y0, x1, y1 = span_of(grid, boxes[at])
        spans[at, 0], spans[at, 1], spans[at, 2], spans[at, 3] = x0, y0, x1, y1
    return spans


@kernel
def cells_of(grid: Grid, boxes: Floats) -> tuple[Int32s, Int32s]:
    """Give every cell that each box meets, as pairs: the number of the box, the cell."""
    count = 0
    for at in range(len(boxes)):
        x0, y0, x1, y1 = span_of(grid, boxes[at])
        count += (x1 - x0 + 1) * (y1 - y0 + 1)
    numbers, cells = np.empty(count, np.int32), np.empty(count, np.int32)
    filled = 0
    for at in range(len(boxes)):
        x0, y0, x1, y1 = span_of(grid, boxes[at])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                numbers[filled] = at
                cells[filled] = y * grid.columns + x
                filled += 1
    return numbers, cells


@kernel
def count_cells(grid: Grid, boxes: Floats, counts: Int64s) -> None:
    """Add 1 to each cell for each box that meets it."""
    for at in range(len(boxes)):
        x0, y0, x1, y1 = span_of(grid, boxes[at])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                counts[y * grid.columns + x] += 1


@kernel
def weigh_cells(grid: Grid, boxes: Floats, weights: Int64s, sums: Int64s) -> None:
    """Add the weight of each box to each cell that it meets."""
    for at in range(len(boxes)):
        x0, y0, x1, y1 = span_of(grid, boxes[at])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                sums[y * grid.columns + x] += weights[at]
