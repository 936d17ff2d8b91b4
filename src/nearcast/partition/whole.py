"""`hash` and `shared`: plans that look at neither place nor text.

- `hash`: subscriptions are spread by their ids, and every worker sees every message.
- `shared`: every worker holds every subscription, and messages are spread. On one node, whose
  processes can share one index in memory, this is the fastest way.
"""

from __future__ import annotations

import numpy as np

from nearcast.partition.grid import Grid
from nearcast.partition.plan import Kind, Plan
from nearcast.partition.sample import Sample, frequent_terms


def by_hash(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan to spread subscriptions by their ids."""
    return _whole("hash", sample, workers, grid)


def shared(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan to split nothing."""
    return _whole("shared", sample, workers, grid)


def _whole(kind: Kind, sample: Sample, workers: int, grid: Grid) -> Plan:
    cells = np.zeros(grid.cells, np.int32)
    return Plan(kind, workers, kind, grid, cells, (), *frequent_terms(sample.messages))
