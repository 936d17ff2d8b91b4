"""Plans by place alone, or by nothing: what PS2Stream compares itself with (section VI-B)."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.grid import Grid, count_cells
from nearcast.partition.plan import Kind, Plan
from nearcast.partition.sample import Sample, frequent_terms

_LITTLE = 1e-9  # of the load, for each cell of a kd-tree: where nothing is known, cuts are even
_LEAVES = 4  # of an R-tree, for each worker
_TOGETHER = 256  # cells looked at together, which bounds the memory


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


def by_hash(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`hash`: subscriptions are spread by their ids, and every worker sees every message."""
    return _whole("hash", sample, workers, grid)


def shared(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`shared`: every worker holds every subscription, and messages are spread.

    On one node, whose processes can share one index in memory, this is the fastest way.
    """
    return _whole("shared", sample, workers, grid)


def _whole(kind: Kind, sample: Sample, workers: int, grid: Grid) -> Plan:
    cells = np.zeros(grid.cells, np.int32)
    return Plan(kind, workers, kind, grid, cells, (), *frequent_terms(sample.messages))


def space_grid(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`space-grid`: a grid whose cells are shared out (after SpatialHadoop).

    The cells are taken in lines from south to north, to and fro, and cut into one run a worker,
    about equally heavy. How the paper shares out its 64 x 64 cells it does not say; neighbours are
    kept together here, because a row is held by every worker whose cells it meets.
    """
    order = np.arange(grid.cells).reshape(grid.rows, grid.columns)
    order[1::2] = order[1::2, ::-1]
    path = order.ravel()
    cells = np.empty(grid.cells, np.int32)
    cells[path] = runs(cell_weights(sample, grid)[path], workers)
    return Plan("space-grid", workers, "grid", grid, cells, (), *frequent_terms(sample.messages))


def space_kd(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`space-kd`: a kd-tree with a leaf for each worker (after AQWA, Tornado).

    Every cut runs along borders of cells, across the longer side of its part of the space, where
    the loads of both sides are nearest to the numbers of workers they are for. The leaves are laid
    down in the grid, so that a cell is looked up at once.
    """
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


def space_rtree(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`space-rtree`: leaves of an R-tree, shared out (after SpatialHadoop).

    The places of the messages are packed into leaves by sort-tile-recursive: slices from west to
    east with equally many places, each cut from south to north likewise. A cell belongs to the leaf
    whose box grows least by taking it in, as at an insertion. The leaves, in their order of
    packing, are cut into one run a worker, about equally heavy.
    """
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
