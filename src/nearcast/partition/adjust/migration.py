"""What has to be carried from worker to worker when one plan follows another.

`transfers` says, for the current rows, what each worker has to get and may forget. From the batch
on that takes the new version, rows and messages are routed by the new plan, and the worker that
answered for a pair under the old one does so no longer: so no pair is lost and none is found twice,
provided that every worker has its transfers by then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Int32s, Int64s
from nearcast.partition import keys as key_choice
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_rows
from nearcast.partition.sample import SampleRows
from nearcast.partition.tables import Terms


class Transfers(NamedTuple):
    """What workers get and forget, as pairs of a row and a worker.

    Row `row[i]` goes from `source[i]`, which had it, to `destination[i]`, which did not; then
    `forget_worker[i]` may forget `forget_row[i]`.
    """

    row: Int32s
    source: Int32s
    destination: Int32s
    forget_row: Int32s
    forget_worker: Int32s


def transfers(before: Plan, after: Plan, rows: SampleRows) -> Transfers:
    """Say what of the standing rows has to be carried, and what may be forgotten."""
    most = max(before.workers, after.workers)
    old, new = (
        np.unique(row.astype(np.int64) * most + worker)
        for row, worker in (_held(plan, rows) for plan in (before, after))
    )
    coming = np.setdiff1d(new, old, assume_unique=True)
    going = np.setdiff1d(old, new, assume_unique=True)
    row = coming // most
    # Any worker that had the row may hand it over: the first.
    had = old[np.minimum(np.searchsorted(old, row * most), max(len(old) - 1, 0))]
    return Transfers(
        row.astype(np.int32),
        (had % most).astype(np.int32),
        (coming % most).astype(np.int32),
        (going // most).astype(np.int32),
        (going % most).astype(np.int32),
    )


def carried_bytes(before: Plan, after: Plan, rows: SampleRows, sizes: Int64s) -> int:
    """The bytes of rows that workers have to get."""
    return int(sizes[transfers(before, after, rows).row].sum())


def held_bytes(plan: Plan, rows: SampleRows, sizes: Int64s) -> int:
    """The bytes that all workers hold by a plan."""
    return int(sizes[_held(plan, rows)[0]].sum())


def _held(plan: Plan, rows: SampleRows) -> tuple[Int32s, Int32s]:
    keys: Terms = key_choice.choose(plan.arrays, rows.starts, rows.terms)
    return route_rows(plan, rows.boxes, keys, rows.owners)
