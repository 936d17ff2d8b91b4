"""`space-kd`: a kd-tree with a leaf for each worker (PS2Stream, section VI-B, after AQWA, Tornado).

Every cut runs along borders of cells, across the longer side of its part of the space, where the
loads of both sides are nearest to the numbers of workers they are for. The leaves are laid down in
the grid, so that a cell is looked up at once.
"""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.partition._spread import cell_weights, or_even
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample, frequent_terms

_LITTLE = 1e-9  # of the load, for each cell: where nothing is known, cuts are even


def space_kd(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan by halving the space, and its halves, by load."""
    cells = kd_cells(cell_weights(sample, grid), workers, grid)
    return Plan("space-kd", workers, "grid", grid, cells, (), *frequent_terms(sample.messages))


def kd_cells(weights: Floats, workers: int, grid: Grid) -> Int32s:
    """Give the worker of each cell, for any weights of cells."""
    loads = or_even(weights).reshape(grid.rows, grid.columns)
    loads = loads + loads.sum() * _LITTLE
    shape = ((grid.north - grid.south) / grid.rows, (grid.east - grid.west) / grid.columns)
    cells = np.empty((grid.rows, grid.columns), np.int32)
    pending = [(loads, cells, 0, workers)]
    while pending:
        part, into, first, count = pending.pop()
        if count == 1 or part.size == 1:
            into[:] = first
            continue
        axis = int(part.shape[1] * shape[1] >= part.shape[0] * shape[0])
        if part.shape[axis] == 1:
            axis = 1 - axis
        fewer = count // 2
        cut = _cut(part.sum(axis=1 - axis), fewer / count)
        low, high = np.split(part, [cut], axis)
        low_into, high_into = np.split(into, [cut], axis)
        pending.append((low, low_into, first, fewer))
        pending.append((high, high_into, first + fewer, count - fewer))
    return cells.ravel()


def _cut(lines: Floats, share: float) -> int:
    """Find where to cut so that the part before is nearest to its share, and neither is empty."""
    before = np.cumsum(lines)[:-1]
    return int(np.argmin(np.abs(before - share * lines.sum()))) + 1
