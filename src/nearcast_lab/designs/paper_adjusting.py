"""A local adjustment as PS2Stream makes it (section V-A), to compare ours with.

The most loaded worker gives to the least loaded one. First its most loaded cells are split by text
or merged, where the load by definition 3 falls; then cells are selected whose loads add up to half
of what lies between the two. That is repeated until the two are close enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearcast.arrays.types import Floats, Int64s
from nearcast.partition.adjust.change import Shifts, shifted, split
from nearcast.partition.adjust.local import MOST_LOADED, one_shift, worker_loads
from nearcast.partition.adjust.pieces import Pieces, pieces_of
from nearcast.partition.adjust.recent import RecentWork
from nearcast.partition.adjust.text import content_of, in_both, share_of
from nearcast.partition.plan import Plan
from nearcast_lab.designs.migration_choice import greedy

SIGMA = 1.1
"""The load of the heaviest worker by that of the lightest at which enough was done."""

Select = Callable[[Floats, Floats, float], Int64s]


def adjust_as_published(
    plan: Plan,
    recent: RecentWork,
    sigma: float = SIGMA,
    select: Select = greedy,
    most: int | None = None,
    real: bool = False,
) -> Plan | None:
    """Move cells from the heaviest worker to the lightest; nothing if they are even.

    That is done at most so often, by default once for every four workers. With `real`, the load
    of a cell is what it really costs; else messages times rows, as the paper has it.
    """
    now = plan
    for _ in range(-(-plan.workers // 4) if most is None else most):
        pieces = pieces_of(now, recent)
        loads = worker_loads(now, pieces, recent)
        giver, taker = int(np.argmax(loads)), int(np.argmin(loads))
        if loads[giver] <= sigma * loads[taker]:
            break
        before = now
        now = _first_phase(now, recent, pieces, giver, taker)
        if now is not before:
            pieces = pieces_of(now, recent)
        mine = np.flatnonzero(pieces.worker == giver)
        weights = (pieces.load if real else pieces.by_definition)[mine]
        part = float(loads[giver] - loads[taker]) / 2 / float(loads[giver])
        amount = part * float(weights.sum())
        if amount <= 0:
            break
        chosen = mine[select(weights, pieces.size[mine], amount)]
        count = len(chosen)
        shifts = Shifts(
            pieces.cell[chosen],
            np.full(count, giver, np.int32),
            np.full(count, taker, np.int32),
        )
        now = shifted(now, shifts)
    return None if now is plan else now.changed(number=plan.number + 1)


def _first_phase(plan: Plan, recent: RecentWork, pieces: Pieces, giver: int, taker: int) -> Plan:
    """Split or merge the most loaded cells of a worker, where the load of definition 3 falls."""
    mine = np.flatnonzero(pieces.worker == giver)
    loads = pieces.by_definition
    is_split = plan.split_cells
    for piece in mine[np.argsort(-loads[mine])[:MOST_LOADED]].tolist():
        cell = int(pieces.cell[piece])
        content = content_of(plan, recent, cell, giver)
        if not is_split[cell]:
            share = share_of(content, recent.message_ns, float(pieces.load[piece]) / 2)
            if share is None:
                continue
            places = np.flatnonzero(np.isin(content.terms, share.terms)).astype(np.int32)
            rest = np.flatnonzero(~np.isin(content.terms, share.terms)).astype(np.int32)
            part = len(places) / len(content.terms)
            after = pieces.rows[piece] * (
                part * content.messages(places) + (1 - part) * content.messages(rest)
            )
            if after < loads[piece]:
                plan = split(plan, cell, share.terms, taker)
            continue
        there = np.flatnonzero((pieces.cell == cell) & (pieces.worker == taker))
        if len(there):
            other = int(there[0])
            both = in_both(content, content_of(plan, recent, cell, taker))
            messages = pieces.messages[piece] + pieces.messages[other] - both
            if messages * (pieces.rows[piece] + pieces.rows[other]) < loads[piece] + loads[other]:
                plan = shifted(plan, one_shift(cell, giver, taker))
    return plan
