"""`space-grid`: a grid whose cells are shared out (PS2Stream, section VI-B, after SpatialHadoop).

The cells are taken in lines from south to north, to and fro, and cut into one run a worker, about
equally heavy. How the paper shares out its 64 x 64 cells it does not say; neighbours are kept
together here, because a row is held by every worker whose cells it meets.
"""

from __future__ import annotations

import numpy as np

from nearcast.partition._spread import cell_weights, runs
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample, frequent_terms


def space_grid(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan by cutting the lines of a grid into runs."""
    order = np.arange(grid.cells).reshape(grid.rows, grid.columns)
    order[1::2] = order[1::2, ::-1]
    path = order.ravel()
    cells = np.empty(grid.cells, np.int32)
    cells[path] = runs(cell_weights(sample, grid)[path], workers)
    return Plan("space-grid", workers, "grid", grid, cells, (), *frequent_terms(sample.messages))
