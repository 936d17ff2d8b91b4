"""How dense subscriptions lie: how many meet a box of the map, in all and by cells of a grid."""

from __future__ import annotations

from math import ceil, log2, log10
from typing import Any

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.geo import Box

COLUMNS = 64
"""About how many cells lie side by side in a view."""
_FINEST = 24  # cells of two metres
_SMALL_GRID = 1 << 20
_DIGITS = 5


class Density:
    """The bounding boxes of subscriptions at one moment, as columns that are fast to count.

    >>> boxes = np.array([[1.0, 1.0, 3.0, 3.0], [50.0, 50.0, 51.0, 51.0]])
    >>> Density(boxes).summary(Box(0, 0, 10, 10))
    {'count': 1, 'cells': [[2.0, 2.0, 1]], 'size': 0.17578125}
    """

    def __init__(self, boxes: Floats) -> None:
        self._west, self._south, self._east, self._north = np.ascontiguousarray(boxes.T)
        # The finest cell of each centre; that of a coarser grid is a shift away.
        self._column = _cell(self._west, self._east, 180.0)
        self._row = _cell(self._south, self._north, 90.0)

    def __len__(self) -> int:
        return len(self._west)

    def summary(self, view: Box) -> dict[str, Any]:
        """Count the boxes that meet a view, in all and by the cells of their centres.

        Cells are fixed to the world, so that they stay in place when the map is dragged. For each
        there is the mean of the centres in it, and their number.
        """
        meets = (self._north >= view.south) & (self._south <= view.north)
        if view.west <= view.east:
            width = view.east - view.west
            meets &= (self._east >= view.west) & (self._west <= view.east)
        else:
            width = view.east - view.west + 360.0
            meets &= (self._east >= view.west) | (self._west <= view.east)
        level = min(_FINEST, max(0, round(log2(360.0 * COLUMNS / max(width, 1e-9)))))
        size = 360.0 / 2**level
        seen = slice(None) if meets.all() else np.flatnonzero(meets)
        lons = self._west[seen] + self._east[seen]  # twice the centres
        lats = self._south[seen] + self._north[seen]
        columns = _from_first(self._column[seen] >> (_FINEST - level))
        rows = _from_first(self._row[seen] >> (_FINEST - level))
        height = int(rows.max(initial=0)) + 1
        key = columns.astype(np.int64) * height + rows
        if int(key.max(initial=0)) >= _SMALL_GRID:  # counting is faster than sorting, if it fits
            key = np.unique(key, return_inverse=True)[1]
        everywhere = np.bincount(key)
        taken = np.flatnonzero(everywhere)
        counts = everywhere[taken]
        digits = max(_DIGITS, ceil(-log10(size)) + 2)
        means = (np.bincount(key, sums)[taken] / (2 * counts) for sums in (lons, lats))
        places = (np.round(mean, digits).tolist() for mean in means)
        cells = [list(each) for each in zip(*places, counts.tolist(), strict=True)]
        return {"count": len(lons), "cells": cells, "size": size}


def _cell(low: Floats, high: Floats, from_edge: float) -> Int32s:
    scale = 2.0**_FINEST / 360.0
    finest: Int32s = ((low + high) * (scale / 2) + from_edge * scale).astype(np.int32)
    return finest


def _from_first(cells: Int32s) -> Int32s:
    """Count cells from the first that is used, so that their numbers stay small."""
    counted: Int32s = cells - cells.min(initial=1 << 30)
    return counted
