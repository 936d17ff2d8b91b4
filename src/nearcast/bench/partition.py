"""`nearcast bench partition`: what plans make of the workloads of PS2Stream, simulated.

Plans are made from the population and from sampled messages, and simulated with messages that no
partitioner has seen. What work costs is measured on this machine's worker index first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple, TypedDict

import numpy as np

from nearcast.errors import InvalidValue
from nearcast.index import Batch
from nearcast.partition.auto import auto
from nearcast.partition.calibrate import calibrate
from nearcast.partition.grid import Grid
from nearcast.partition.hybrid import hybrid
from nearcast.partition.load import MEASURED, Costs
from nearcast.partition.plan import Plan
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.sample import (
    Sample,
    SampleMessages,
    messages_of,
    rows_of,
    sample_of,
)
from nearcast.partition.simulate import Report, Simulator, population_of
from nearcast.workloads.sts_arrays import StsArrays

REFERENCE = "hybrid"
"""What other partitioners are compared with."""

UNSEEN = 1 << 24
"""The number of the first message that is simulated: nobody plans with those from it on."""

Tell = Callable[[str], None]


class Arrangement(NamedTuple):
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
    """One plan, simulated; `of_hybrid` is its bound by that of the paper's `hybrid`."""

    workload: str
    subscriptions: int
    messages: int
    partitioner: str
    plan_s: float
    of_hybrid: float | None
    simulated: Report


class Outcome(TypedDict):
    """Everything that was simulated, and by which costs."""

    check_ns: float
    message_ns: float
    operation_ns: float
    reports: list[PartitionReport]


def measure_partition(arrangement: Arrangement, tell: Tell) -> Outcome:
    """Plan and simulate everything."""
    costs = MEASURED
    if arrangement.measure:
        tell("measuring what work costs on this machine")
        costs = calibrate()
    reports: list[PartitionReport] = []
    for workload in arrangement.workloads:
        reports += _measure(arrangement, workload, costs, tell)
    return Outcome(
        check_ns=costs.check_ns,
        message_ns=costs.message_ns,
        operation_ns=costs.operation_ns,
        reports=reports,
    )


def _measure(
    arrangement: Arrangement, workload: str, costs: Costs, tell: Tell
) -> list[PartitionReport]:
    tell(f"{workload}: making subscriptions and messages")
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
            tell(f"{workload}, {workers} workers: {name}")
            started = perf_counter()
            plan = make_plan(name, sample, workers, grid, costs)
            taken = perf_counter() - started
            here += [
                PartitionReport(
                    workload=workload,
                    subscriptions=arrangement.subscriptions,
                    messages=arrangement.messages,
                    partitioner=name,
                    plan_s=taken,
                    of_hybrid=None,
                    simulated=simulator.run(plan, wanted).report,
                )
                for wanted in arrangement.filters
            ]
        reports += _compared(here)
    return reports


def sampled_messages(batch: Batch) -> SampleMessages:
    """Give messages of a workload with hashed terms."""
    return messages_of(batch.boxes, batch.starts, batch.terms)


def make_plan(name: str, sample: Sample, workers: int, grid: Grid, costs: Costs) -> Plan:
    """Plan by name; those that weigh real costs are told the measured ones."""
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
            report["of_hybrid"] = report["simulated"]["messages_per_s"] / rates[0]
    return reports
