"""The routing table, cached on every node that dispatches, which follows the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.memory import Memory
from nearcast.partition.grid import Grid
from nearcast.partition.wanted import WantedKeys
from nearcast.spark.operations import boxes_in

CHANGES = pa.schema(
    [
        ("delta", pa.int8()),
        ("box", pa.list_(pa.float64(), 4)),
        ("key", pa.uint64()),
        ("bytes", pa.int64()),  # about what the subscription takes where it is held
    ]
)
"""Rows that begin (+1) with a step, and those (-1) that ended with the step before."""


class Router:
    """A table of the terms that subscriptions need in each cell; it follows a log."""

    def __init__(self, memory: Memory, described: Mapping[str, Any] | None = None) -> None:
        """Make an empty one, or attach to the one that `describe` described."""
        self._memory = memory
        self.wanted = WantedKeys.attach(memory, described) if described else None

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to it in its memory."""
        return {} if self.wanted is None else self.wanted.describe()

    def apply(self, changes: pa.Table) -> None:
        """Take one step: what begins with it, then what ended before it."""
        if self.wanted is None:
            metadata = changes.schema.metadata or {}
            grid = [float(part) for part in metadata[b"grid"].decode().split(",")]
            self.wanted = WantedKeys(
                Grid(grid[0], grid[1], grid[2], grid[3], int(grid[4]), int(grid[5])),
                memory=self._memory,
            )
        for delta, change in ((1, self.wanted.add_rows), (-1, self.wanted.remove_rows)):
            rows = changes.filter(pc.equal(changes["delta"], delta)).combine_chunks()
            if len(rows):
                change(boxes_in(rows), rows["key"].to_numpy())


def changes_schema(grid: Grid) -> pa.Schema:
    """The schema of changes, with the grid that they are for."""
    return CHANGES.with_metadata({"grid": ",".join(repr(part) for part in grid)})
