"""What has to be carried from worker to worker when one plan follows another.

This is what a running pipeline is handed. A `Migration` says between which versions of the routing
table it leads and which cells change hands; `transfers` says, for the current rows, what each
worker has to get and may forget. From the batch on that takes the new version, rows and messages
are routed by the new plan, and the worker that answered for a pair under the old one does so no
longer: so no pair is lost and none is found twice, provided that every worker has its transfers by
then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition import keys as key_choice
from nearcast.partition.adjust.change import Shifts, mixed
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_rows
from nearcast.partition.sample import SampleRows
from nearcast.partition.tables import Terms


class Migration(NamedTuple):
    """From one version of the routing table to another.

    Of `cell[i]`, `destination[i]` gets something that `source[i]` had: all of it, or some terms;
    `bytes[i]` is about what has to be carried for that. A new plan lists no cells, as all
    may have changed.
    """

    before: int  # the number of the plan that is left
    after: Plan
    cell: Int32s
    source: Int32s
    destination: Int32s
    bytes: Floats

    @property
    def total_bytes(self) -> float:
        """About what has to be carried in all."""
        return float(self.bytes.sum())


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


def migration_to(
    plan: Plan, after: Plan, shifts: Shifts | None = None, sizes: Floats | None = None
) -> Migration:
    """Write down the way from a plan to a later one."""
    if after.number <= plan.number:
        raise InvalidValue("number", after.number, f"a number above that of now, {plan.number}")
    if shifts is None:
        shifts = Shifts(*(np.empty(0, np.int32) for _ in range(3)))
    sizes = np.zeros(len(shifts.cell)) if sizes is None else sizes
    return Migration(plan.number, after, *shifts, sizes)


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


def stages(plan: Plan, migration: Migration, most_bytes: float) -> list[Migration]:
    """Cut a local migration into several, of at most that many bytes each.

    A cell is never cut: one with more bytes has a stage of its own. Each stage is a version of
    the routing table of its own, by which every pair is found.
    """
    if most_bytes <= 0:
        raise InvalidValue("most_bytes", most_bytes, "a number above 0")
    if plan.number != migration.before:
        raise InvalidValue("plan", plan.number, f"the plan with number {migration.before}")
    cells, place = np.unique(migration.cell, return_inverse=True)
    if len(cells) < 2:
        return [migration]
    stage, filled = np.zeros(len(cells), np.int64), 0.0
    for at, size in enumerate(np.bincount(place, migration.bytes).tolist()):
        if at and filled + size > most_bytes:
            stage[at:] += 1
            filled = 0.0
        filled += size
    found: list[Migration] = []
    for number in range(int(stage[-1]) + 1):
        mine = stage[place] == number
        part = Shifts(migration.cell[mine], migration.source[mine], migration.destination[mine])
        after = mixed(plan, migration.after, cells[stage == number])
        found.append(migration_to(plan, after, part, migration.bytes[mine]))
        plan = after
    return found
