"""Ranges of the Hilbert curve: neighbours on the curve are neighbours in space."""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition.digest import Digest, sums
from nearcast.partition.grid import Grid
from nearcast.partition.layout import Layout, loads_of


def hilbert_order(grid: Grid) -> Int64s:
    """Give the place of each cell on the curve that fills the square around the grid."""
    size = 1 << (max(grid.columns, grid.rows) - 1).bit_length()
    cells = np.arange(grid.cells, dtype=np.int64)
    x, y = cells % grid.columns, cells // grid.columns
    place = np.zeros(grid.cells, np.int64)
    side = size // 2
    while side:
        right, upper = (x & side) > 0, (y & side) > 0
        place += side * side * ((3 * right) ^ upper)
        # The curve in a quarter is the whole one, turned so that the ends meet.
        flip = ~upper & right
        x, y = np.where(flip, size - 1 - x, x), np.where(flip, size - 1 - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        side //= 2
    return place


def hilbert_ranges(digest: Digest, workers: int, passes: int = 6) -> Layout:
    """Cut the curve into one range a worker, evenly by load.

    Rows that a cut repeats are not known before it is made, so each pass weighs cells by what the
    worker that had them did in the pass before.
    """
    grid, units = digest.grid, digest.units.size
    order = np.argsort(hilbert_order(grid))
    weights = _cell_weights(digest)
    best, heaviest = None, np.inf
    for _ in range(passes):
        along = weights[order]
        before = np.cumsum(along) - along / 2
        chosen = np.empty(grid.cells, np.int32)
        share = max(float(along.sum()), 1e-300) / workers
        chosen[order] = np.minimum((before / share).astype(np.int32), workers - 1)
        owners = np.repeat(np.arange(workers, dtype=np.int32)[:, None], units, axis=1)
        layout = Layout(chosen.reshape(grid.rows, grid.columns), owners)
        loads = loads_of(layout, digest, workers)
        if loads.max() < heaviest or best is None:
            best, heaviest = layout, float(loads.max())
        had = sums(chosen, weights, workers)
        weights = weights * np.divide(loads, had, out=np.ones(workers), where=had > 0)[chosen]
    if best is None:
        raise InvalidValue("passes", passes, "1 or more")
    return best


def _cell_weights(d: Digest) -> Floats:
    """The cost of hits in each cell, and of rows at their middles; a little for every cell."""
    cells = d.grid.cells
    hits = d.row.astype(np.int64) * d.grid.columns + d.column
    each = np.bincount(d.message, minlength=1)[d.message]
    weights = sums(hits, d.cost + d.message_ns / each, cells)
    middle = (d.spans[:, 1] + d.spans[:, 3]) // 2 * d.grid.columns
    middle += (d.spans[:, 0] + d.spans[:, 2]) // 2
    weights = weights + d.row_ns * np.bincount(middle, minlength=cells)
    return np.asarray(weights + max(float(weights.sum()), 1.0) * 1e-6 / cells)
