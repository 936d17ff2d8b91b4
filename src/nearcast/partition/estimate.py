"""How much each worker would have to do by a plan, estimated from hits: quick, to within 15 %."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.partition.digest import Digest, add_hits
from nearcast.partition.owners import owners_of
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_rows
from nearcast.partition.tables import Terms


class Traced(NamedTuple):
    """A digest with the keys behind its units of text, for plans that know other units."""

    digest: Digest
    hit_keys: Terms
    row_boxes: Floats
    row_keys: Terms


def estimate_loads(plan: Plan, traced: Traced) -> Floats:
    """Give the load of each worker, in nanoseconds for the messages of the digest.

    For plans of kind "grid" over any grid: a hit is a place as well as a cell.
    """
    d = traced.digest
    loads = np.zeros(plan.workers)
    add_hits(d.message, hit_workers(plan, traced), d.cost, d.message_ns, loads)
    held = route_rows(plan, traced.row_boxes, traced.row_keys)[1]
    return loads + d.row_ns * np.bincount(held, minlength=plan.workers)


def hit_workers(plan: Plan, traced: Traced) -> Int32s:
    """Give the worker of each hit."""
    d, grid = traced.digest, plan.grid
    columns = d.column.astype(np.int64) * grid.columns // d.grid.columns
    rows = d.row.astype(np.int64) * grid.rows // d.grid.rows
    return owners_of(plan, (rows * grid.columns + columns).astype(np.int32), traced.hit_keys)
