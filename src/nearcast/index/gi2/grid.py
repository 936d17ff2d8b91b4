"""Cells of a uniform grid, and the cells that a row is in packed into one number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner

Spans = npt.NDArray[Any]
"""For each row its cells (`pack`); for a deleted row how many lists still hold it."""

_THINNEST = 1e-9


class Gi2Grid(NamedTuple):
    """`side` x `side` cells; what lies outside the extent belongs to the cells at its edge."""

    west: float
    south: float
    per_lon: float
    per_lat: float
    side: int
    bits: int  # of a column or row number in a packed span


def grid_over(extent: tuple[float, float, float, float], side: int) -> Gi2Grid:
    """Lay a grid over an extent: west, south, east, north."""
    west, south, east, north = extent
    return Gi2Grid(
        west,
        south,
        side / max(east - west, _THINNEST),
        side / max(north - south, _THINNEST),
        side,
        8 if side <= 256 else 16,
    )


def spans_for(count: int, side: int) -> Spans:
    """Make room for the spans of that many rows."""
    return np.zeros(count, np.uint32 if side <= 256 else np.uint64)


@inner
def column_of(grid: Gi2Grid, lon: float) -> int:
    """Give the column of a longitude; it never decreases from west to east."""
    return min(max(int((lon - grid.west) * grid.per_lon), 0), grid.side - 1)


@inner
def line_of(grid: Gi2Grid, lat: float) -> int:
    """Give the line of a latitude; it never decreases from south to north."""
    return min(max(int((lat - grid.south) * grid.per_lat), 0), grid.side - 1)


@inner
def pack(grid: Gi2Grid, box: Any) -> int:
    """Pack the first column and line and the last column and line that a box touches."""
    bits = grid.bits
    return (
        column_of(grid, box[0])
        | line_of(grid, box[1]) << bits
        | column_of(grid, box[2]) << 2 * bits
        | line_of(grid, box[3]) << 3 * bits
    )


@inner
def unpack(grid: Gi2Grid, span: Any) -> tuple[Any, Any, Any, Any]:
    """Give the first column, first line, last column and last line of a span."""
    bits = grid.bits
    number = np.int64(span)
    mask = (1 << bits) - 1
    return (
        number & mask,
        number >> bits & mask,
        number >> 2 * bits & mask,
        number >> 3 * bits & mask,
    )


@inner
def cells_in(grid: Gi2Grid, span: Any) -> Any:
    """Count the cells of a span."""
    x0, y0, x1, y1 = unpack(grid, span)
    return (x1 - x0 + 1) * (y1 - y0 + 1)
