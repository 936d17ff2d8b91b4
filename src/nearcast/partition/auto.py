"""`auto`: several ways of planning, compared on messages that none of them has seen.

No scheme is best everywhere, and the load that PS2Stream balances (definition 1) is not what its
workers have to do. So plans are made in several ways, each on the real cost of a worker's index
where it can be, and the one whose heaviest worker has least to do with the held-out messages is
taken (of some that are about as good, the one that is so by more of its workers): as counted by
that index in `simulate`, not as estimated while planning.

The parts: bisection by space and text (`bisect`), by space alone (a kd-tree on real load), by text
only within cells of about the size of H2's blocks ("space-first"), all three evened out (`refine`);
ranges of the Hilbert curve; `hybrid` as in the paper and with the real cost; `text-metric`.

If one term in one cell is more than a good part of a worker's share, the grid is made finer first:
nothing smaller than that can be given to a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition.bisect import By, bisect
from nearcast.partition.digest import Digest, sums
from nearcast.partition.estimate import estimate_loads, hit_workers
from nearcast.partition.grid import Grid
from nearcast.partition.hybrid import Load, planned
from nearcast.partition.kdt import layout_of
from nearcast.partition.layout import Layout, loads_of
from nearcast.partition.load import MEASURED, WorkCosts, rate_of
from nearcast.partition.plan import BLOCK, Plan
from nearcast.partition.prepare import Prepared, prepare
from nearcast.partition.refine import Refinement
from nearcast.partition.sample import Sample, joined_messages, take_messages
from nearcast.partition.simulate import Simulator, population_of
from nearcast.partition.text import text_metric

_MOST_CELLS = 1 << 20
_MOST_OF_A_SHARE = 0.5  # that one term in one cell may be
_WORTHWHILE = 0.9  # what a finer grid must leave of the heaviest at most
_STEPS = 4  # of evening out, for each worker
_HOPELESS = 0.85  # of the best estimate: not simulated
_CORRECTED = 2  # of the best plans are evened out again
_MOST_CORRECTIONS = 2
_AS_GOOD = 0.96  # of the highest bound: within what luck does
_MOST_SIMULATED = 200_000  # messages of each part
_TRUSTED = 0.5, 2.0  # how far an estimate of what hits cost a worker may be off


class Candidate(NamedTuple):
    """A plan, how it came about, and the messages a second that its heaviest worker allows."""

    name: str
    plan: Plan
    messages_per_s: float
    balance: float
    steady_per_s: float  # what the heaviest quarter of the workers allows


def auto(
    sample: Sample,
    workers: int,
    grid: Grid,
    costs: WorkCosts = MEASURED,
    finer: bool = True,
    whole: bool = False,
) -> Plan:
    """Plan in several ways and take the best, with cells as given or `finer` ones if need be.

    `whole` says that workers hold subscriptions of several rows whole (`simulate`).
    """
    made = fine_enough if finer else prepare
    prepared = made(sample, workers, grid, costs)
    candidates = portfolio(prepared, workers, costs, whole)
    best = chosen_of(candidates)
    about: dict[str, Any] = {
        "chosen": best.name,
        "messages_per_s": _rates(candidates),
        "balance": round(best.balance, 3),
        "costs_ns": list(costs),
    }
    return best.plan.changed(scheme="auto", number=1, about=about)


def chosen_of(candidates: Sequence[Candidate]) -> Candidate:
    """Choose the plan with the highest bound, or of those about as good the steadiest.

    The bound is set by one worker, and so depends on few messages: a few hundredths may as well
    be luck. What the heaviest quarter of the workers has to do depends on more.
    """
    most = max(each.messages_per_s for each in candidates)
    good = [each for each in candidates if each.messages_per_s >= _AS_GOOD * most]
    return max(good, key=lambda each: each.steady_per_s)


def _steady(ns: Floats, messages: int) -> float:
    """The messages a second that the heaviest quarter of the workers allows."""
    heaviest = np.sort(ns)[-max(len(ns) // 4, 1) :]
    return rate_of(messages, heaviest.mean(keepdims=True))


def _rates(candidates: Sequence[Candidate]) -> dict[str, int | None]:
    """The bound of each."""
    return {each.name: _rounded(each.messages_per_s) for each in candidates}


def _rounded(rate: float) -> int | None:
    """A whole number for JSON; nothing if there was no load to compute a rate from."""
    return round(rate) if isfinite(rate) else None


def fine_enough(sample: Sample, workers: int, grid: Grid, costs: WorkCosts = MEASURED) -> Prepared:
    """Put a sample on a grid, doubled as long as a term in a cell is too much and that helps."""
    prepared = prepare(sample, workers, grid, costs)
    heaviest = _heaviest_atom(prepared.fit)
    while workers > 1 and 4 * grid.cells <= _MOST_CELLS:
        if heaviest * workers <= _MOST_OF_A_SHARE * _all_load(prepared.fit):
            break
        grid = grid._replace(columns=2 * grid.columns, rows=2 * grid.rows)
        finer = prepare(sample, workers, grid, costs)
        before, heaviest = heaviest, _heaviest_atom(finer.fit)
        if heaviest > _WORTHWHILE * before:
            break
        prepared = finer
    return prepared


def _heaviest_atom(d: Digest) -> float:
    """The most that a term in a cell costs, with its part of the messages' own cost."""
    cell = d.row.astype(np.int64) * d.grid.columns + d.column
    _, number = np.unique(cell * d.units.size + d.unit, return_inverse=True)
    each = np.bincount(d.message, minlength=1)[d.message]
    return float(sums(number.reshape(-1), d.cost + d.message_ns / each, 1).max())


def _all_load(d: Digest) -> float:
    messages = len(np.unique(d.message))
    return float(d.cost.sum()) + d.message_ns * messages + d.row_ns * len(d.spans)


def portfolio(
    prepared: Prepared, workers: int, costs: WorkCosts = MEASURED, whole: bool = False
) -> list[Candidate]:
    """Make all plans, and measure on held-out messages those that may be the best.

    What is hopeless by its estimate is left out. The best are evened out again, with what the
    index really looks at, as long as that helps.
    """
    maker = _Maker(prepared, workers, costs, whole)
    drafts = maker.drafts()
    best = max(draft.estimate for draft in drafts)
    measured = [maker.measured(each) for each in drafts if each.estimate >= _HOPELESS * best]
    candidates = [each.candidate for each in measured]
    measured.sort(key=lambda each: -each.candidate.messages_per_s)
    for one in [each for each in measured if each.draft.refinement is not None][:_CORRECTED]:
        last = one
        for _ in range(_MOST_CORRECTIONS):
            again = maker.corrected(last)
            if again is None:
                break
            candidates.append(again.candidate)
            if again.candidate.messages_per_s <= last.candidate.messages_per_s:
                break
            last = again
    return candidates


class _Draft(NamedTuple):
    name: str
    plan: Plan
    estimate: float
    refinement: Refinement | None = None


class _Measured(NamedTuple):
    draft: _Draft
    candidate: Candidate
    hit_ns: Floats  # what looking and reporting took each worker, for the messages to plan by


class _Maker:
    """Makes and measures the plans of one portfolio."""

    def __init__(self, prepared: Prepared, workers: int, costs: WorkCosts, whole: bool) -> None:
        self._prepared = prepared
        self._workers = workers
        self._costs = costs
        self._grid = prepared.fit.grid
        self._sample = prepared.sample
        parts = [
            take_messages(part, np.arange(min(part.size, _MOST_SIMULATED), dtype=np.int64))
            for part in (prepared.sample.held_out, prepared.sample.messages)
        ]
        self._ends = [parts[0].size, parts[0].size + parts[1].size]
        arrived = max(self._sample.messages.size + self._sample.held_out.size, 1)
        operations = self._sample.operations / arrived * self._ends[1]
        population = population_of(self._sample.rows, joined_messages(parts), operations)
        self._simulator = Simulator(population, costs, whole=whole)

    def drafts(self) -> list[_Draft]:
        """Plan in every way."""
        coarse = max(BLOCK, self._grid.columns // 64)
        return [
            self._bisection("bisection", "both", 1),
            self._bisection("kd", "space", 1),
            self._bisection("space-first", "space-first", coarse),
            self._drawn("hilbert", hilbert_ranges(self._prepared.fit, self._workers)),
            self._draft("hybrid", self._hybrid("definition-1")),
            self._draft("hybrid-real", self._hybrid("real")),
            self._draft("text-metric", text_metric(self._sample, self._workers, self._grid)),
        ]

    def _hybrid(self, load: Load) -> Plan:
        return planned(self._prepared, self._workers, load)

    def _bisection(self, name: str, by: By, step: int) -> _Draft:
        fit = self._prepared.fit
        refinement = Refinement(fit, bisect(fit, self._workers, by, step), self._workers)
        refinement.run(_STEPS * self._workers)
        return self._drawn(name, self._layout(refinement), refinement)

    def _layout(self, refinement: Refinement) -> Layout:
        return layout_of(refinement.tree(), self._grid, self._prepared.fit.units)

    def _drawn(self, name: str, layout: Layout, refinement: Refinement | None = None) -> _Draft:
        plan = self._prepared.plan(name, self._workers, layout, {})
        return self._draft(name, plan, refinement)

    def _draft(self, name: str, plan: Plan, refinement: Refinement | None = None) -> _Draft:
        heaviest = float(estimate_loads(plan, self._prepared.check_traced).max())
        return _Draft(name, plan, 1.0 / max(heaviest, 1e-9), refinement)

    def measured(self, draft: _Draft) -> _Measured:
        """Count the work of workers for the held-out messages, and for those to plan by."""
        check, fit = self._simulator.run_parts(draft.plan, self._ends)
        report = check.report
        found = Candidate(
            draft.name,
            draft.plan,
            report["messages_per_s"],
            report["balance"],
            _steady(check.loads.ns(self._costs), self._ends[0]),
        )
        costs, done = self._costs, fit.loads
        hits = costs.check_ns * done.candidates + costs.update_ns * done.updates
        return _Measured(draft, found, np.asarray(hits))

    def corrected(self, measured: _Measured) -> _Measured | None:
        """Even out once more, with hits as expensive as the index says they are at each worker.

        Nothing, if that leaves the plan as it is.
        """
        draft, refinement = measured.draft, measured.draft.refinement
        if refinement is None:
            return None
        traced = self._prepared.fit_traced
        fit = traced.digest
        worker = hit_workers(draft.plan, traced)
        simulated = fit.message < self._ends[1] - self._ends[0]
        cost = np.where(simulated, fit.cost, 0.0)
        estimated = np.bincount(worker, cost, minlength=self._workers)
        ratio = np.clip(measured.hit_ns / np.maximum(estimated, fit.check_ns), *_TRUSTED)
        refinement.reweigh(fit._replace(cost=fit.cost * ratio[worker]))
        refinement.run(_STEPS * self._workers)

        name = f"{draft.name} again" if ", corrected" in draft.name else f"{draft.name}, corrected"
        plan = self._prepared.plan(draft.name, self._workers, self._layout(refinement), {})
        if plan == draft.plan:
            return None
        return self.measured(_Draft(name, plan, draft.estimate, refinement))


def hilbert_order(grid: Grid) -> Int64s:
    """Give the place of each cell on the curve that fills the square around the grid."""
    size = 1 << (max(grid.columns, grid.rows) - 1).bit_length()
    cells = np.arange(grid.cells, dtype=np.int64)
    x, y = cells % grid.columns, cells // grid.columns
    place = np.zeros(grid.cells, np.int64)
    side = size // 2
    while side:
        right, upper = (x & side) > 0, (y & side) > 0
        place += side * side * ((3 * right) ^ upper)
        # The curve in a quarter is the whole one, turned so that the ends meet.
        flip = ~upper & right
        x, y = np.where(flip, size - 1 - x, x), np.where(flip, size - 1 - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        side //= 2
    return place


def hilbert_ranges(digest: Digest, workers: int, passes: int = 6) -> Layout:
    """Cut the Hilbert curve into one range a worker, evenly by load.

    Rows that a cut repeats are not known before it is made, so each pass weighs cells by what the
    worker that had them did in the pass before.
    """
    grid, units = digest.grid, digest.units.size
    order = np.argsort(hilbert_order(grid))
    weights = _cell_weights(digest)
    best, heaviest = None, np.inf
    for _ in range(passes):
        along = weights[order]
        before = np.cumsum(along) - along / 2
        chosen = np.empty(grid.cells, np.int32)
        share = max(float(along.sum()), 1e-300) / workers
        chosen[order] = np.minimum((before / share).astype(np.int32), workers - 1)
        owners = np.repeat(np.arange(workers, dtype=np.int32)[:, None], units, axis=1)
        layout = Layout(chosen.reshape(grid.rows, grid.columns), owners)
        loads = loads_of(layout, digest, workers)
        if loads.max() < heaviest or best is None:
            best, heaviest = layout, float(loads.max())
        had = sums(chosen, weights, workers)
        weights = weights * np.divide(loads, had, out=np.ones(workers), where=had > 0)[chosen]
    if best is None:
        raise InvalidValue("passes", passes, "1 or more")
    return best


def _cell_weights(d: Digest) -> Floats:
    """The cost of hits in each cell, and of rows at their middles; a little for every cell."""
    cells = d.grid.cells
    hits = d.row.astype(np.int64) * d.grid.columns + d.column
    each = np.bincount(d.message, minlength=1)[d.message]
    weights = sums(hits, d.cost + d.message_ns / each, cells)
    middle = (d.spans[:, 1] + d.spans[:, 3]) // 2 * d.grid.columns
    middle += (d.spans[:, 0] + d.spans[:, 2]) // 2
    weights = weights + d.row_ns * np.bincount(middle, minlength=cells)
    return np.asarray(weights + max(float(weights.sum()), 1.0) * 1e-6 / cells)
