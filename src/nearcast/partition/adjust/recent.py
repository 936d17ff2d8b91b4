"""Current rows and recent messages, on the grid of a plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition import keys as key_choice
from nearcast.partition.digest import hits_of, hold, sums
from nearcast.partition.grid import Grid, spans_of
from nearcast.partition.load import MEASURED, WorkCosts
from nearcast.partition.owners import owners_of
from nearcast.partition.plan import BLOCK, Plan
from nearcast.partition.prepare import evenly
from nearcast.partition.routing import route_rows
from nearcast.partition.sample import SampleMessages, SampleRows
from nearcast.partition.tables import Terms

ROW_BYTES = 64
"""What a row takes beside its terms, where nothing better is known."""

_MOST_PLACED = 150_000
_MOST_CELLS = 4096  # that a row meets, if it is weighed
_TRUSTED = 0.25, 4.0  # how far what hits cost may be off


class RecentWork(NamedTuple):
    """What adjustment looks at: hits of messages, and rows with their bytes.

    A *hit* is a message at a cell with the key of a row nearby, as in `digest`. A row represents
    `scale` rows, and `row_ns` is what each costs a worker while the messages arrive.
    """

    grid: Grid
    hit_cell: Int32s
    hit_key: Terms
    hit_message: Int32s
    hit_cost: Floats
    message_ns: float
    boxes: Floats
    keys: Terms
    bytes: Floats
    row_ns: float
    scale: float

    def reweighed(self, plan: Plan, busy_ns: Floats, messages: Floats | None = None) -> RecentWork:
        """Scale what hits cost so that each worker has as much to do as was measured.

        What an index looks at can only be estimated from a sample; what a worker did is known.
        `messages` is how many each handled meanwhile. Without it, workers took as long for
        the messages at hand as is estimated, all together.
        """
        if len(busy_ns) != plan.workers:
            raise InvalidValue("busy_ns", len(busy_ns), f"one for each of {plan.workers} workers")
        worker = owners_of(plan, self.hit_cell, self.hit_key)
        hits = sums(worker, self.hit_cost, plan.workers)
        pairs = np.unique(self.hit_message.astype(np.int64) * plan.workers + worker)
        rest = self.message_ns * np.bincount(pairs % plan.workers, minlength=plan.workers)
        held = route_rows(plan, self.boxes, self.keys)[1]
        rest += self.row_ns * np.bincount(held, minlength=plan.workers)
        if messages is None:
            scale = float((hits + rest).sum()) / max(float(busy_ns.sum()), 1e-300)
        else:
            scale = len(pairs) / max(float(messages.sum()), 1e-300)
        left = np.maximum(busy_ns * scale - rest, 0.0)
        usual = float(left.sum()) / max(float(hits.sum()), 1e-300)
        factor = np.divide(left, hits, out=np.full(plan.workers, usual), where=hits > 0)
        low, high = _TRUSTED
        return self._replace(
            hit_cost=self.hit_cost * np.clip(factor, low * usual, high * usual)[worker]
        )


def recent_of(
    plan: Plan,
    rows: SampleRows,
    messages: SampleMessages,
    operations: float = 0.0,
    sizes: Int64s | None = None,
    costs: WorkCosts = MEASURED,
    updates: float = 0.0,
) -> RecentWork:
    """Put rows and messages on the grid of a plan.

    `operations` counts the rows that came or went while the messages arrived, `updates` the pairs
    that these came to; `sizes` are the bytes of each row. Of very many rows some represent all in
    what is carried; rows that meet thousands of cells are left out there, as about every worker
    holds them anyway.
    """
    if sizes is None:
        sizes = ROW_BYTES + 8 * np.diff(rows.starts)
    keys = key_choice.choose(plan.arrays, rows.starts, rows.terms)
    held = hold(rows, keys, plan.grid, BLOCK)
    hits = hits_of(held, messages)
    met_ns = costs.update_ns * updates / max(int(hits.met.sum()), 1)
    placed = evenly(rows.size, _MOST_PLACED)
    scale = rows.size / max(len(placed), 1)
    x0, y0, x1, y1 = spans_of(plan.grid, rows.boxes[placed]).astype(np.int64).T
    placed = placed[(x1 - x0 + 1) * (y1 - y0 + 1) <= _MOST_CELLS]
    return RecentWork(
        grid=plan.grid,
        hit_cell=(hits.row.astype(np.int64) * plan.grid.columns + hits.column).astype(np.int32),
        hit_key=held.keys[hits.key],
        hit_message=hits.message,
        hit_cost=costs.check_ns * hits.candidates + met_ns * hits.met,
        message_ns=costs.message_ns,
        boxes=rows.boxes[placed],
        keys=keys[placed],
        bytes=np.asarray(sizes[placed] * scale, np.float64),
        row_ns=costs.operation_ns * operations / max(len(placed), 1),
        scale=scale,
    )
