"""Ways to spread weights over workers, and the weights of cells that the baselines spread."""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.partition.grid import Grid, count_cells
from nearcast.partition.sample import Sample


def heaviest_first(weights: Floats, workers: int) -> Int32s:
    """Give each weight, from the heaviest down, to the worker that has least."""
    chosen = np.empty(len(weights), np.int32)
    loads = [(0.0, worker) for worker in range(workers)]
    heapify(loads)
    for at in np.argsort(-weights, kind="stable").tolist():
        load, worker = loads[0]
        chosen[at] = worker
        heapreplace(loads, (load + float(weights[at]), worker))
    return chosen


def runs(weights: Floats, workers: int) -> Int32s:
    """Cut a sequence into as many runs as there are workers, about equally heavy."""
    weights = or_even(weights)
    middle = np.cumsum(weights) - weights / 2
    chosen: Int32s = (middle / weights.sum() * workers).astype(np.int32)
    return np.minimum(chosen, np.int32(workers - 1))


def or_even(weights: Floats) -> Floats:
    """Give the weights, or where they say nothing, equal ones."""
    return weights if weights.sum() > 0 else np.ones(len(weights))


def cell_weights(sample: Sample, grid: Grid) -> Floats:
    """Give for each cell its share of the messages plus its share of the rows.

    A worker's load by definition 1 of PS2Stream is a product of both. It is even where both are,
    which products of single cells (definition 3), added up, do not bring about.
    """
    messages, rows = np.zeros(grid.cells, np.int64), np.zeros(grid.cells, np.int64)
    count_cells(grid, sample.messages.boxes, messages)
    count_cells(grid, sample.rows.boxes, rows)
    shares: Floats = messages / max(messages.sum(), 1) + rows / max(rows.sum(), 1)
    return shares
