"""Counts for each cell of a plan's grid: messages, rows of subscriptions, bytes, active messages.

The driver counts with every step. Rows and bytes follow from what was routed, so they are counted
again after a stop. Messages are those since the plan was made; their counts are written every few
seconds without waiting for the disk, so the last may be lost. What is in several cells counts in
each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats
from nearcast.partition.grid import Grid, count_cells, weigh_cells
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.sealed import seal, unseal

_NAME = "cells.json"
_EVERY_S = 5.0
_COUNTS = ("messages", "rows", "bytes", "active")


class Census:
    """Counts for each cell of a grid."""

    def __init__(self, grid: Grid, plan: int) -> None:
        self.grid = grid
        self.plan = plan
        self.messages, self.rows, self.bytes, self.active = np.zeros((4, grid.cells), np.int64)
        self._written = 0.0

    def change(self, changes: pa.Table) -> None:
        """Count the rows that begin and end, from the changes that routers get."""
        if not len(changes):
            return
        boxes = changes["box"].combine_chunks().flatten().to_numpy().reshape(-1, 4)
        deltas = changes["delta"].to_numpy().astype(np.int64)
        weigh_cells(self.grid, boxes, deltas, self.rows)
        weigh_cells(self.grid, boxes, deltas * changes["bytes"].to_numpy(), self.bytes)

    def came(self, boxes: Floats) -> None:
        """Count messages."""
        count_cells(self.grid, boxes, self.messages)

    def write(self, state: PipelineState, active: Callable[[], Floats]) -> None:
        """Write the counts, at most every few seconds; `active` gives the boxes of messages."""
        now = time.monotonic()
        if now - self._written < _EVERY_S:
            return
        self._written = now
        self.active[:] = 0
        count_cells(self.grid, active(), self.active)
        busy = np.flatnonzero(self.messages | self.rows | self.active)
        stored: dict[str, Any] = {"plan": self.plan, "cells": busy.tolist()}
        stored |= {name: getattr(self, name)[busy].tolist() for name in _COUNTS}
        state.files.write(_NAME, seal(stored), durable=False)

    def recall(self, state: PipelineState) -> None:
        """Restore the counts of messages that were written last, if they are for the same plan."""
        stored = read_census(state)
        if stored is not None and stored["plan"] == self.plan and len(stored["cells"]):
            self.messages[stored["cells"]] = stored["messages"]


def read_census(state: PipelineState) -> dict[str, Any] | None:
    """The counts that were written last: `plan`, and lists `cells` and one for each count."""
    if not state.files.exists(_NAME):
        return None
    try:
        return unseal(state.files.read(_NAME))
    except (OSError, ValueError):
        return None
