"""`nearcast bench adjust`: load adjustment, simulated: which cells are selected, and under drift.

The selection part gives every method the same cells and the same gap: those of workers that have
become hot. The drift part follows PS2Stream, section VI-D: Q3, whose regions change sides, a
tenth of them in each interval, in which the whole population is replaced once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from nearcast.arrays.types import Int64s
from nearcast.errors import InvalidValue
from nearcast.partition.adjust.local import adjust
from nearcast.partition.adjust.migration import carried_bytes, held_bytes
from nearcast.partition.adjust.recent import ROW_BYTES, RecentWork, recent_of
from nearcast.partition.auto import auto
from nearcast.partition.grid import Grid
from nearcast.partition.load import MEASURED
from nearcast.partition.plan import Plan
from nearcast.partition.sample import SampleMessages, SampleRows, rows_of, sample_of
from nearcast.partition.simulate import Simulator, population_of
from nearcast_lab.bench.adjust_selection import (
    Selection,
    measure_large_selection,
    measure_selections,
)
from nearcast_lab.bench.checks import Check, at_most
from nearcast_lab.bench.partition import UNSEEN, sampled_messages
from nearcast_lab.designs.paper_adjusting import adjust_as_published
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads.sts_arrays import StsArrays

METHODS = ("none", "published", "published-real", "ours", "rebuild")
"""What is done about drift: nothing, what the paper does, the same by the real load of cells, what
we do, a new plan each time."""

_FEW_WORKERS = 8
_NEAR = {True: 0.05, False: 0.10}  # of a rebuild, in bound and in bytes: for few workers, for many


class AdjustSetup(NamedTuple):
    """What to simulate."""

    workers: Sequence[int]
    subscriptions: int
    messages: int
    intervals: int
    looks: int
    columns: int
    rows: int
    methods: Sequence[str] = METHODS
    seed: int = 1


class IntervalResult(TypedDict):
    """One method after one interval: its bound, and what it had to carry for it."""

    workers: int
    interval: int
    method: str
    messages_per_s: float
    of_rebuild: float | None
    balance: float
    carried_bytes: int
    of_bytes: float
    adjust_s: float


class AdjustOutcome(TypedDict):
    """Everything that was simulated; `large_selections` are from all cells there are."""

    subscriptions: int
    selections: list[Selection]
    large_selections: list[Selection]
    steps: list[IntervalResult]
    bars: list[Check]


class _IntervalData(NamedTuple):
    """The population at the end of an interval, and messages in several parts."""

    rows: SampleRows
    sizes: Int64s
    subscriptions: int
    seen: list[SampleMessages]
    unseen: SampleMessages
    ratio: float

    def simulator(self, messages: SampleMessages) -> Simulator:
        """Count work for some of the messages."""
        return Simulator(population_of(self.rows, messages, messages.size / self.ratio), MEASURED)

    def recent(self, plan: Plan, messages: SampleMessages) -> RecentWork:
        """What adjustment gets: some messages, and how busy each worker was with them."""
        operations = self.rows.size / self.subscriptions * messages.size / self.ratio
        recent = recent_of(plan, self.rows, messages, operations, self.sizes)
        busy = self.simulator(messages).run(plan).loads.ns(MEASURED)
        return recent.reweighed(plan, busy)


class _Drift:
    """Q3 with one switch of regions in each interval."""

    def __init__(self, arrangement: AdjustSetup) -> None:
        self._arranged = arrangement
        self._made = StsArrays.named(
            "sts-q3", arrangement.seed, switch_every=arrangement.subscriptions
        )
        self.grid = Grid(*self._made.space, arrangement.columns, arrangement.rows)

    def world(self, interval: int) -> _IntervalData:
        """Make what there is at the end of an interval."""
        count, size = self._arranged.subscriptions, self._arranged.messages
        made = self._made.conjuncts(interval * count, (interval + 1) * count)
        rows = rows_of(made.boxes, made.starts, made.terms, made.owners)
        first = interval * self._arranged.looks
        seen = [
            self._messages(look * size, size) for look in range(first, first + self._arranged.looks)
        ]
        unseen = self._messages(UNSEEN + interval * size, size)
        sizes = ROW_BYTES + 8 * np.diff(rows.starts)
        return _IntervalData(rows, sizes, count, seen, unseen, self._made.options.ratio)

    def _messages(self, first: int, size: int) -> SampleMessages:
        return sampled_messages(self._made.messages(first, first + size))

    def planned(self, world: _IntervalData, workers: int) -> Plan:
        """Make a new plan from all that was seen in the interval."""
        sample = sample_of(world.rows, world.seen[-1], round(world.seen[-1].size / world.ratio))
        return auto(sample, workers, self.grid)


def measure_adjust(arrangement: AdjustSetup, progress: Progress) -> AdjustOutcome:
    """Simulate everything."""
    for method in arrangement.methods:
        if method not in METHODS:
            raise InvalidValue("--method", method, f"one of {', '.join(METHODS)}")
    drift = _Drift(arrangement)
    selections: list[Selection] = []
    steps: list[IntervalResult] = []
    worlds = [drift.world(number) for number in range(arrangement.intervals + 1)]
    for workers in arrangement.workers:
        progress(f"{workers} workers: planning")
        plan = drift.planned(worlds[0], workers)
        progress(f"{workers} workers: selecting cells")
        first = worlds[1]
        recent = first.recent(plan, first.seen[0])
        selections += measure_selections(plan, recent, first.rows, first.sizes)
        steps += _followed(arrangement, drift, worlds, plan, progress)
    progress("selecting from all cells")
    first = worlds[1]
    large = measure_large_selection(
        plan, lambda both: first.recent(both, first.seen[0]), first.rows, first.sizes
    )
    outcome = AdjustOutcome(
        subscriptions=arrangement.subscriptions,
        selections=selections,
        large_selections=large,
        steps=steps,
        bars=[],
    )
    outcome["bars"] = checks_of(outcome)
    return outcome


def _followed(
    arrangement: AdjustSetup,
    drift: _Drift,
    worlds: list[_IntervalData],
    plan: Plan,
    progress: Progress,
) -> list[IntervalResult]:
    """Let each method follow the drift from the same plan."""
    plans = dict.fromkeys(arrangement.methods, plan)
    steps: list[IntervalResult] = []
    for interval, world in enumerate(worlds[1:], start=1):
        simulator = world.simulator(world.unseen)
        here: list[IntervalResult] = []
        for method, before in plans.items():
            progress(f"{plan.workers} workers, interval {interval}: {method}")
            (after, carried), taken = cpu_of(_one_interval, drift, world, method, before)
            plans[method] = after
            report = simulator.run(after).report
            here.append(
                IntervalResult(
                    workers=plan.workers,
                    interval=interval,
                    method=method,
                    messages_per_s=report["messages_per_s"],
                    of_rebuild=None,
                    balance=report["balance"],
                    carried_bytes=carried,
                    of_bytes=carried / max(held_bytes(before, world.rows, world.sizes), 1),
                    adjust_s=taken,
                )
            )
        rebuilt = [step["messages_per_s"] for step in here if step["method"] == "rebuild"]
        for step in here:
            step["of_rebuild"] = step["messages_per_s"] / rebuilt[0] if rebuilt else None
        steps += here
    return steps


def _one_interval(drift: _Drift, world: _IntervalData, method: str, plan: Plan) -> tuple[Plan, int]:
    """Adjust a plan as often as is looked at the loads; give the last, and the bytes carried."""
    if method == "none":
        return plan, 0
    if method == "rebuild":
        after = drift.planned(world, plan.workers).changed(number=plan.number + 1)
        return after, carried_bytes(plan, after, world.rows, world.sizes)
    ways: dict[str, Callable[[Plan, RecentWork], Plan | None]] = {
        "published": adjust_as_published,
        "published-real": partial(adjust_as_published, real=True),
        "ours": adjust,
    }
    carried = 0
    for messages in world.seen:
        done = ways[method](plan, world.recent(plan, messages))
        if done is not None:
            carried += carried_bytes(plan, done, world.rows, world.sizes)
            plan = done
    return plan, carried


def checks_of(outcome: AdjustOutcome) -> list[Check]:
    """Compare what was found with the limits of each figure."""
    checks: list[Check] = []

    def check(promise: str, found: float, limit: float) -> None:
        checks.append(at_most(promise, found, limit))

    for workers in dict.fromkeys(each["workers"] for each in outcome["selections"]):
        by = {
            each["method"]: each
            for each in outcome["selections"]
            if each["workers"] == workers and each["load"] == "real"
        }
        label = f"{workers} workers: "
        gr, ours = by["GR"], by["ours"]
        check(f"{label}bytes of GR by DP", gr["by_definition"] / by["DP"]["by_definition"], 1.05)
        for other in ("SI", "RA"):
            ratio = gr["by_definition"] / by[other]["by_definition"]
            check(f"{label}bytes of GR by {other}", ratio, 0.7)
        check(f"{label}bytes carried by ours by GR", ours["carried"] / gr["carried"], 0.5)
        check(f"{label}heavier after ours less after GR", ours["heavier"] - gr["heavier"], 0.02)
    for each in outcome["large_selections"]:
        check(f"ms to select from {each['of_cells']:,} cells: {each['method']}", each["ms"], 50.0)
    for workers in dict.fromkeys(step["workers"] for step in outcome["steps"]):
        near = _NEAR[workers <= _FEW_WORKERS]
        for step in outcome["steps"]:
            if (step["workers"], step["method"]) != (workers, "ours"):
                continue
            label = f"{workers} workers, interval {step['interval']}: "
            if step["of_rebuild"] is not None:
                check(f"{label}bound below a rebuild", 1.0 - step["of_rebuild"], near)
            check(f"{label}part of the bytes carried", step["of_bytes"], near)
    return checks
