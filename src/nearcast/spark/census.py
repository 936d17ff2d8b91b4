"""How much each cell of a plan's grid has: messages that came, rows of subscriptions, their bytes.

Also how many messages are active there. The driver counts as it goes. Rows and bytes follow from
what was routed, so they are counted again after a stop; messages are those since the plan was made,
as far as they were written down: twice in a few seconds at most, and never waited for. What stands
in several cells counts in each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats
from nearcast.partition.grid import Grid, count_cells, weigh_cells
from nearcast.spark.sealed import seal, unseal
from nearcast.spark.state import PipelineState

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
        """Count the rows that begin and those that are gone, as routers are told of them."""
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
        """Write the counts down, if that was not done just now; `active` says what is active."""
        now = time.monotonic()
        if now - self._written < _EVERY_S:
            return
        self._written = now
        self.active[:] = 0
        count_cells(self.grid, active(), self.active)
        busy = np.flatnonzero(self.messages | self.rows | self.active)
        told: dict[str, Any] = {"plan": self.plan, "cells": busy.tolist()}
        told |= {name: getattr(self, name)[busy].tolist() for name in _COUNTS}
        state.files.write(_NAME, seal(told), durable=False)

    def recall(self, state: PipelineState) -> None:
        """Take up the count of messages that was written last, if it was for the same plan."""
        told = read_census(state)
        if told is not None and told["plan"] == self.plan and len(told["cells"]):
            self.messages[told["cells"]] = told["messages"]


def read_census(state: PipelineState) -> dict[str, Any] | None:
    """The counts that were written last: `plan`, and lists `cells` and one for each count."""
    if not state.files.exists(_NAME):
        return None
    try:
        return unseal(state.files.read(_NAME))
    except (OSError, ValueError):
        return None
