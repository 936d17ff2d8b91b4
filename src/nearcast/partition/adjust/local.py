"""A whole local adjustment: what to move, split and merge, and the plan after it."""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.partition.adjust.change import Shifts, shifted, split
from nearcast.partition.adjust.pieces import Pieces, pieces_of
from nearcast.partition.adjust.rebalance import Rebalancer
from nearcast.partition.adjust.recent import RecentWork
from nearcast.partition.adjust.text import content_of, in_both, share_of
from nearcast.partition.digest import sums
from nearcast.partition.load import balance_of
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_rows

LIMIT = 1.02
"""The load of the heaviest worker, in means, at which enough was done."""

MOST_LOADED = 4
"""How many of a worker's most loaded cells are looked at for splitting and merging."""

_MOST_SPLITS = 2  # for each worker
_LUCK = 1.1  # the heaviest load by the mean that a sample may show without meaning it
_ENOUGH = 0.999  # what splitting must leave of the heavier load at most


class ByteBudget:
    """About how many bytes may still be carried."""

    def __init__(self, most_bytes: float = np.inf) -> None:
        self.left = most_bytes

    def spend(self, size: float) -> None:
        """Carry some of them."""
        self.left -= size


def one_shift(cell: int, source: int, destination: int) -> Shifts:
    """Say that one piece goes."""
    fields: list[Int32s] = [np.array([n], np.int32) for n in (cell, source, destination)]
    return Shifts(*fields)


def worker_loads(plan: Plan, pieces: Pieces, recent: RecentWork) -> Floats:
    """What each worker has to do by a plan, in nanoseconds for the recent messages."""
    held = route_rows(plan, recent.boxes, recent.keys)[1]
    rows = recent.row_ns * np.bincount(held, minlength=plan.workers)
    return np.asarray(rows + sums(pieces.worker, pieces.load, plan.workers))


def adjust(
    plan: Plan, recent: RecentWork, limit: float = LIMIT, most_bytes: float = np.inf
) -> Plan | None:
    """Even a plan out by what was recent, and move as little as possible; nothing if it is even.

    The plan that is given follows the one before; about `most_bytes` are carried for it.

    First cells that two workers share are given to one of them, where that spares both work. Then
    pieces are moved (`rebalance`). When a worker is stuck with a cell that is too much to be moved,
    some terms of the cell are. Loads are smoothed, as they come from a sample; where a plan that is
    even by them is not so by far, cells are hot and not just lucky, and are taken as they are.
    """
    budget = ByteBudget(most_bytes)
    first = pieces_of(plan, recent)
    now = _merge(plan, first, recent, limit, budget)
    hot = False
    for _ in range(2 + _MOST_SPLITS * plan.workers):
        pieces = first if now is plan else pieces_of(now, recent)
        rebalancer = Rebalancer(pieces, recent, plan.workers, pieces.load if hot else None)
        piece, destination = rebalancer.run(limit, budget.left)
        if len(piece):
            budget.spend(rebalancer.carried)
            now = shifted(now, Shifts(pieces.cell[piece], pieces.worker[piece], destination))
        if balance_of(rebalancer.loads) <= limit:
            if hot or _balance(now, recent) <= _LUCK:
                break
            hot = True
            continue
        done = _split(now, recent, pieces, rebalancer, budget)
        if done is None:
            break
        now = done
    return None if now is plan else now.changed(number=plan.number + 1)


def _balance(plan: Plan, recent: RecentWork) -> float:
    return balance_of(worker_loads(plan, pieces_of(plan, recent), recent))


def _split(
    plan: Plan, recent: RecentWork, pieces: Pieces, rebalancer: Rebalancer, budget: ByteBudget
) -> Plan | None:
    """Split a hot piece of the heaviest worker, if the heavier of two has less to do then."""
    giver, taker = int(np.argmax(rebalancer.loads)), int(np.argmin(rebalancer.loads))
    heavy, light = float(rebalancer.loads[giver]), float(rebalancer.loads[taker])
    amount = min(heavy - float(rebalancer.loads.mean()), (heavy - light) / 2)
    mine = np.flatnonzero(rebalancer.owner == giver)
    for piece in mine[np.argsort(-pieces.load[mine])[:MOST_LOADED]].tolist():
        cell = int(pieces.cell[piece])
        content = content_of(plan, recent, cell, giver)
        share = share_of(content, recent.message_ns, amount)
        if share is None or max(light + share.taken_ns, heavy - share.saved_ns) > _ENOUGH * heavy:
            continue
        size = float(pieces.size[piece]) * len(share.terms) / len(content.terms)
        if size > budget.left:
            continue
        budget.spend(size)
        return split(plan, cell, share.terms, taker)
    return None


def _merge(
    plan: Plan, pieces: Pieces, recent: RecentWork, limit: float, budget: ByteBudget
) -> Plan:
    """Give shared cells of heavy workers to those that share them and have less to do.

    Both handle the messages that ask for terms of both: one of them is spared that. It is done
    only where the heavier of the two has less to do afterwards.
    """
    loads = worker_loads(plan, pieces, recent)
    shared = np.flatnonzero(plan.split_cells[pieces.cell])
    heavy = shared[loads[pieces.worker[shared]] > limit * loads.mean()]
    for piece in heavy[np.argsort(-pieces.load[heavy])[:MOST_LOADED]].tolist():
        cell, giver = int(pieces.cell[piece]), int(pieces.worker[piece])
        others = pieces.worker[shared[pieces.cell[shared] == cell]]
        others = others[loads[others] < loads[giver]]
        if not len(others):
            continue
        taker = int(others[np.argmin(loads[others])])
        both = in_both(*(content_of(plan, recent, cell, each) for each in (giver, taker)))
        load, size = float(pieces.load[piece]), float(pieces.size[piece])
        takes = loads[taker] + load - recent.message_ns * both
        if not both or size > budget.left or max(takes, loads[giver] - load) >= loads[giver]:
            continue
        loads[giver], loads[taker] = loads[giver] - load, takes
        budget.spend(size)
        plan = shifted(plan, one_shift(cell, giver, taker))
    return plan
