"""`space-rtree`: leaves of an R-tree, shared out (PS2Stream, section VI-B, after SpatialHadoop).

The places of the messages are packed into leaves by sort-tile-recursive: slices from west to east
with equally many places, each cut from south to north likewise. A cell belongs to the leaf whose
box grows least by taking it in, as at an insertion. The leaves, in their order of packing, are cut
into one run a worker, about equally heavy.
"""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np

from nearcast.arrays.types import Floats, Int64s
from nearcast.partition._spread import cell_weights, runs
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample, frequent_terms

_LEAVES = 4  # for each worker
_TOGETHER = 256  # cells looked at together, which bounds the memory


def space_rtree(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan by packing an R-tree and sharing out its leaves."""
    leaves = _packed(sample.messages.boxes[:, :2], _LEAVES * workers, grid)
    leaf = _leaf_of_cells(leaves, grid)
    loads = np.bincount(leaf, cell_weights(sample, grid), len(leaves))
    cells = runs(loads.astype(np.float64), workers)[leaf]
    return Plan("space-rtree", workers, "grid", grid, cells, (), *frequent_terms(sample.messages))


def _packed(points: Floats, count: int, grid: Grid) -> Floats:
    """Give the boxes of at most that many leaves over the points; at least the space as one."""
    if not len(points):
        return np.array([grid[:4]], np.float64)
    points = points[np.argsort(points[:, 0], kind="stable")]
    slices = ceil(sqrt(count))
    boxes: list[Floats] = []
    for number, part in enumerate(np.array_split(points, slices)):
        ordered = part[np.argsort(part[:, 1], kind="stable")]
        tiles = np.array_split(ordered, ceil(count / slices))
        tiles = tiles[::-1] if number % 2 else tiles  # to and fro: runs stay together
        boxes.extend(np.concatenate((t.min(axis=0), t.max(axis=0))) for t in tiles if len(t))
    return np.array(boxes)


def _leaf_of_cells(leaves: Floats, grid: Grid) -> Int64s:
    """Give for each cell the leaf that grows least; of equals the smallest, then the first."""
    width, height = (grid.east - grid.west) / grid.columns, (grid.north - grid.south) / grid.rows
    numbers = np.arange(grid.cells)
    west = grid.west + (numbers % grid.columns) * width
    south = grid.south + (numbers // grid.columns) * height
    cells = np.column_stack((west, south, west + width, south + height))
    area = (leaves[:, 2] - leaves[:, 0]) * (leaves[:, 3] - leaves[:, 1])
    leaf = np.empty(len(cells), np.int64)
    for start in range(0, len(cells), _TOGETHER):
        some = cells[start : start + _TOGETHER, None]
        low = np.minimum(some[:, :, :2], leaves[None, :, :2])
        high = np.maximum(some[:, :, 2:], leaves[None, :, 2:])
        grown = (high - low).prod(axis=2) - area
        least = grown.min(axis=1, keepdims=True)
        leaf[start : start + _TOGETHER] = np.where(grown <= least, area, np.inf).argmin(axis=1)
    return leaf
