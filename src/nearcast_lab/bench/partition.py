"""`nearcast bench partition`: what plans make of the workloads of PS2Stream, simulated.

Plans are made from the population and from sampled messages, and simulated with messages that no
partitioner has seen. What work costs is measured on this machine's worker index first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from nearcast.errors import InvalidValue
from nearcast.index import Batch
from nearcast.partition.auto import auto
from nearcast.partition.grid import Grid
from nearcast.partition.hybrid import hybrid
from nearcast.partition.load import MEASURED, WorkCosts
from nearcast.partition.plan import Plan
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.sample import (
    Sample,
    SampleMessages,
    messages_of,
    rows_of,
    sample_of,
)
from nearcast.partition.simulate import SimulationReport, Simulator, population_of
from nearcast_lab.bench.checks import Check, at_least, at_most
from nearcast_lab.progress import Progress
from nearcast_lab.simulators.calibrate import calibrate
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads.sts_arrays import StsArrays

REFERENCE = "hybrid"
"""What other partitioners are compared with."""

_OURS = "auto"
_GAINS = {8: 1.5, 32: 2.0, 128: 1.3}  # of the bound, over the reference, by number of workers
_BALANCES = {8: 1.10, 32: 1.25, 128: 1.45}
_DOMINATE = 0.5  # the share of candidates in the load from which on they dominate
_AS_GOOD = 0.95  # of the best of all
_MOST_PLANNING_S = 60.0

UNSEEN = 1 << 24
"""The number of the first message that is simulated: plans are made without those from it on."""


class PartitionSetup(NamedTuple):
    """What to simulate."""

    workloads: Sequence[str]
    workers: Sequence[int]
    partitioners: Sequence[str]
    subscriptions: int
    messages: int
    sampled: int
    columns: int
    rows: int
    filters: Sequence[bool] = (True, False)
    measure: bool = True
    seed: int = 1


class PartitionReport(TypedDict):
    """One plan, simulated.

    `of_hybrid` is its bound by that of the paper's `hybrid`, `if_even` what that would be if all
    workers had the same to do: no plan that does as much work can have more. `plan_s` is CPU.
    """

    workload: str
    subscriptions: int
    messages: int
    partitioner: str
    plan_s: float
    of_hybrid: float | None
    if_even: float | None
    simulated: SimulationReport


class PartitionOutcome(TypedDict):
    """Everything that was simulated, and by which costs."""

    check_ns: float
    message_ns: float
    operation_ns: float
    reports: list[PartitionReport]
    bars: list[Check]


def measure_partition(arrangement: PartitionSetup, progress: Progress) -> PartitionOutcome:
    """Plan and simulate everything."""
    costs = MEASURED
    if arrangement.measure:
        progress("measuring what work costs on this machine")
        costs = calibrate()
    reports: list[PartitionReport] = []
    for workload in arrangement.workloads:
        reports += _measure(arrangement, workload, costs, progress)
    return PartitionOutcome(
        check_ns=costs.check_ns,
        message_ns=costs.message_ns,
        operation_ns=costs.operation_ns,
        reports=reports,
        bars=checks_of(reports),
    )


def _measure(
    arrangement: PartitionSetup, workload: str, costs: WorkCosts, progress: Progress
) -> list[PartitionReport]:
    progress(f"{workload}: making subscriptions and messages")
    made = StsArrays.named(workload, arrangement.seed)
    ratio = made.options.ratio
    conjuncts = made.conjuncts(0, arrangement.subscriptions)
    rows = rows_of(conjuncts.boxes, conjuncts.starts, conjuncts.terms, conjuncts.owners)
    sampled = sampled_messages(made.messages(0, arrangement.sampled))
    sample = sample_of(rows, sampled, operations=round(arrangement.sampled / ratio))
    unseen = sampled_messages(made.messages(UNSEEN, UNSEEN + arrangement.messages))
    simulator = Simulator(population_of(rows, unseen, arrangement.messages / ratio), costs)
    grid = Grid(*made.space, arrangement.columns, arrangement.rows)
    reports = []
    for workers in arrangement.workers:
        here: list[PartitionReport] = []
        for name in arrangement.partitioners:
            progress(f"{workload}, {workers} workers: {name}")
            plan, taken = cpu_of(make_plan, name, sample, workers, grid, costs)
            here += [
                PartitionReport(
                    workload=workload,
                    subscriptions=arrangement.subscriptions,
                    messages=arrangement.messages,
                    partitioner=name,
                    plan_s=taken,
                    of_hybrid=None,
                    if_even=None,
                    simulated=simulator.run(plan, wanted).report,
                )
                for wanted in arrangement.filters
            ]
        reports += _compared(here)
    return reports


def sampled_messages(batch: Batch) -> SampleMessages:
    """Give messages of a workload with hashed terms."""
    return messages_of(batch.boxes, batch.starts, batch.terms)


def make_plan(name: str, sample: Sample, workers: int, grid: Grid, costs: WorkCosts) -> Plan:
    """Plan by name; those that weigh real costs get the measured ones."""
    if name == "auto":
        return auto(sample, workers, grid, costs)
    if name == "hybrid":
        return hybrid(sample, workers, grid, "definition-1", costs)
    if name == "hybrid-real":
        return hybrid(sample, workers, grid, "real", costs)
    if name not in PARTITIONERS:
        raise InvalidValue("--partitioner", name, f"one of {', '.join(PARTITIONERS)}")
    return PARTITIONERS[name](sample, workers, grid)


def _compared(reports: list[PartitionReport]) -> list[PartitionReport]:
    """Compare each with the reference, which has the filter if it was simulated with it."""
    rates = [
        report["simulated"]["messages_per_s"]
        for report in sorted(reports, key=lambda each: not each["simulated"]["wanted"])
        if report["partitioner"] == REFERENCE
    ]
    if rates and np.isfinite(rates[0]):
        for report in reports:
            ratio = report["simulated"]["messages_per_s"] / rates[0]
            report["of_hybrid"] = ratio
            report["if_even"] = ratio * report["simulated"]["balance"]
    return reports


def checks_of(reports: Sequence[PartitionReport]) -> list[Check]:
    """Check `auto` where it was simulated with the filter.

    The gain over the paper's `hybrid` is checked only where candidates dominate the load of both.
    """
    checks: list[Check] = []
    runs: dict[tuple[str, int], dict[str, PartitionReport]] = {}
    for report in reports:
        if report["simulated"]["wanted"]:
            run = report["workload"], report["simulated"]["workers"]
            runs.setdefault(run, {})[report["partitioner"]] = report
    for (workload, workers), by in runs.items():
        if _OURS not in by:
            continue
        ours, label = by[_OURS], f"{workload}, {workers} workers: "
        dominate = all(
            by[name]["simulated"]["candidate_share"] >= _DOMINATE
            for name in (_OURS, REFERENCE)
            if name in by
        )
        if ours["of_hybrid"] is not None and workers in _GAINS and dominate:
            checks.append(at_least(f"{label}bound by hybrid's", ours["of_hybrid"], _GAINS[workers]))
        best = max(each["simulated"]["messages_per_s"] for each in by.values())
        share = ours["simulated"]["messages_per_s"] / best
        checks.append(at_least(f"{label}bound by the best", share, _AS_GOOD))
        if workers in _BALANCES:
            balance = ours["simulated"]["balance"]
            checks.append(at_most(f"{label}heaviest by the mean", balance, _BALANCES[workers]))
        checks.append(at_most(f"{label}seconds of planning", ours["plan_s"], _MOST_PLANNING_S))
    return checks
