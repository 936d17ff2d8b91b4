"""Which cells are selected for moving, by every method from the same cells and for the same gap."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.adjust.change import Shifts, shifted
from nearcast.partition.adjust.local import worker_loads
from nearcast.partition.adjust.migration import carried_bytes
from nearcast.partition.adjust.pieces import Pieces, pieces_of
from nearcast.partition.adjust.rebalance import Rebalancer
from nearcast.partition.adjust.recent import RecentWork
from nearcast.partition.owners import owners_of
from nearcast.partition.plan import Plan
from nearcast.partition.sample import SampleRows
from nearcast_lab.designs.migration_choice import at_random, by_size, dynamic, greedy
from nearcast_lab.timing import cpu_of, least_cpu_of

_DP_UNITS = 4000  # into which DP rounds the bytes that GR finds
_TIMES = 3
_GIVERS = 3  # workers that are relieved, one after the other
_HOTTER = 1.5  # times what the messages of a worker cost before


class Selection(TypedDict):
    """Cells that one method selects.

    `by_definition` adds up the sizes of the cells, as definition 4 does; `carried` are the bytes
    that really have to go to the destination; `heavier` is the load of the heaviest of all workers
    that gave or took, in means, afterwards. For several workers that give, bytes are added up.
    """

    workers: int
    method: str
    load: str
    cells: int
    of_cells: int
    by_definition: float
    carried: float
    heavier: float
    ms: float


class _OverloadedCells(NamedTuple):
    """The cells of one worker that has too much, and what it should give away."""

    plan: Plan
    recent: RecentWork
    pieces: Pieces
    giver: int
    taker: int
    amount: float
    rows: SampleRows
    sizes: Int64s

    @property
    def mine(self) -> Int64s:
        """The pieces of the worker."""
        return np.flatnonzero(self.pieces.worker == self.giver)


def measure_selections(
    plan: Plan, recent: RecentWork, rows: SampleRows, sizes: Int64s
) -> list[Selection]:
    """Let every method relieve a worker that has become hot: some workers, one after the other.

    Its messages cost half as much again, as in a city with a festival. Half of what it then has
    more than the lightest worker is to be given away.
    """
    loads = worker_loads(plan, pieces_of(plan, recent), recent)
    found = [
        _relieved(plan, recent, giver, rows, sizes)
        for giver in np.argsort(-loads)[:_GIVERS].tolist()
    ]
    return [_added_up(list(each)) for each in zip(*found, strict=True)]


def _relieved(
    plan: Plan, recent: RecentWork, giver: int, rows: SampleRows, sizes: Int64s
) -> list[Selection]:
    hot = owners_of(plan, recent.hit_cell, recent.hit_key) == giver
    recent = recent._replace(hit_cost=np.where(hot, _HOTTER, 1.0) * recent.hit_cost)
    pieces = pieces_of(plan, recent)
    loads = worker_loads(plan, pieces, recent)
    taker = int(np.argmin(loads))
    gap = float(loads[giver] - loads[taker]) / 2
    cells = _OverloadedCells(plan, recent, pieces, giver, taker, gap, rows, sizes)
    others = np.flatnonzero(np.arange(plan.workers) != giver)
    return [
        *_as_published(cells, "real", pieces.load),
        *_as_published(cells, "definition 3", pieces.by_definition),
        _ours(cells, "ours, to one", np.array([taker])),
        _ours(cells, "ours", others),
    ]


def _added_up(some: list[Selection]) -> Selection:
    """Add up what one method selected for several workers."""
    added = some[0].copy()
    added["cells"] = sum(each["cells"] for each in some)
    added["of_cells"] = sum(each["of_cells"] for each in some)
    added["by_definition"] = sum(each["by_definition"] for each in some)
    added["carried"] = sum(each["carried"] for each in some)
    added["heavier"] = max(each["heavier"] for each in some)
    added["ms"] = max(each["ms"] for each in some)
    return added


def _as_published(
    cells: _OverloadedCells, load: str, weights: Floats, slow: bool = True
) -> list[Selection]:
    """Select by DP (if there is time), GR, SI and RA, with one kind of load."""
    mine = cells.mine
    own, sizes = weights[mine], cells.pieces.size[mine]
    total = float(cells.pieces.load[mine].sum())
    part = min(cells.amount / total, 1.0) * float(own.sum())
    unit = max(float(sizes[greedy(own, sizes, part)].sum()) / _DP_UNITS, 1.0)
    ways: dict[str, Callable[[Floats, Floats, float], Int64s]] = {
        "DP": partial(dynamic, unit=unit),
        "GR": greedy,
        "SI": by_size,
        "RA": at_random,
    }
    if not slow:
        del ways["DP"]
    found = []
    for method, way in ways.items():
        times = 1 if method == "DP" else _TIMES
        chosen, seconds = least_cpu_of(times, way, own, sizes, part)
        to = np.full(len(chosen), cells.taker, np.int32)
        found.append(_selection(cells, mine[chosen], to, method, load, seconds))
    return found


def measure_large_selection(
    plan: Plan, recent_for: Callable[[Plan], RecentWork], rows: SampleRows, sizes: Int64s
) -> list[Selection]:
    """Select from all cells there are: one worker has them all, and gives a tenth to another."""
    both = plan.changed(workers=2, cell_worker=np.zeros(plan.grid.cells, np.int32), maps=())
    recent = recent_for(both)
    pieces = pieces_of(both, recent)
    gap = float(pieces.load.sum()) / 10
    cells = _OverloadedCells(both, recent, pieces, 0, 1, gap, rows, sizes)
    found = _as_published(cells, "real", pieces.load, slow=False)
    return [*found, _ours(cells, "ours", np.array([1]))]


def _ours(cells: _OverloadedCells, method: str, takers: Int64s) -> Selection:
    """Select by ours. What is held where is known before, as it is while a pipeline runs."""
    pieces, least = cells.pieces, np.inf
    for _ in range(_TIMES):
        rebalancer = Rebalancer(pieces, cells.recent, cells.plan.workers, pieces.load)
        moves, seconds = cpu_of(rebalancer.shed, cells.giver, cells.amount, takers)
        least = min(least, seconds)
    return _selection(cells, moves.piece, moves.destination, method, "real", least)


def _selection(
    cells: _OverloadedCells,
    moved: npt.NDArray[np.integer],
    to: Int32s,
    method: str,
    load: str,
    seconds: float,
) -> Selection:
    """Say what a selection takes to carry, and what it leaves the workers that take part with."""
    plan, pieces = cells.plan, cells.pieces
    after = shifted(plan, Shifts(pieces.cell[moved], pieces.worker[moved], to))
    loads = worker_loads(after, pieces_of(after, cells.recent), cells.recent)
    part = [cells.giver, *np.unique(to).tolist()]
    return Selection(
        workers=plan.workers,
        method=method,
        load=load,
        cells=len(moved),
        of_cells=len(cells.mine),
        by_definition=float(pieces.size[moved].sum()),
        carried=float(carried_bytes(plan, after, cells.rows, cells.sizes)),
        heavier=float(loads[part].max() / loads.mean()),
        ms=1e3 * seconds,
    )
