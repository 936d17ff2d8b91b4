"""The figures of `nearcast bench spark-adjust`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from nearcast.partition.load import balance_of
from nearcast.spark.driver.planning import COSTS
from nearcast_lab.bench.checks import Check, at_most
from nearcast_lab.bench.processes import Cpu

if TYPE_CHECKING:
    from nearcast.arrays.types import Floats
    from nearcast.spark.reports.report import BatchReport

BALANCED = 1.3
"""What the heaviest worker may have, by the mean, once a drift has settled."""

_SLOWER = 2.0  # how much longer a batch may take while cells change hands
_MORE_CPU = 0.05  # how much more CPU than with foresight


class FedBatch(NamedTuple):
    """A batch that a stream has taken; `adjusting_s` of its CPU went into searching and cutting."""

    seconds: float
    cpu: Cpu
    report: BatchReport
    adjusting_s: float = 0.0


class Interval(TypedDict):
    """One arm in one interval.

    - `worst`: counted work of the heaviest worker by the mean, in the worst batch; as here and
      below, of those with which nothing was carried, which is work too;
    - `settled_after`: batches until no batch was above `BALANCED` any more, None if never;
    - `cpu_balance`, `work_balance`: the heaviest worker by the mean from then on (or over all),
      by CPU and by counted work;
    - `moves`, `last_move`: batches with which cells changed hands, and the last of them;
    - `moving_p99_s`, `still_p99_s`: how long batches took that moved something, and all others;
    - `cpu_s`: of all processes; `driver_cpu_s`, `worker_cpu_s`: of it, that of the driver, and
      that of the tasks of workers;
    - `adjusting_cpu_s`: what went into adjusting: searching for plans and cutting out what is
      carried, and what the tasks took more when they got it.
    """

    drift: str
    workers: int
    interval: int
    arm: str
    worst: float
    settled_after: int | None
    cpu_balance: float
    work_balance: float
    moves: int
    last_move: int
    moved_bytes: int
    moved_subscriptions: int
    moving_s: list[float]
    still_s: list[float]
    cpu_s: float
    driver_cpu_s: float
    worker_cpu_s: float
    adjusting_cpu_s: float
    updates: int


@dataclass(frozen=True)
class ArmRun:
    """What an arm has found in all intervals: how many updates, and a digest of them."""

    drift: str
    workers: int
    arm: str
    updates: int
    digest: str


class SparkAdjustOutcome(TypedDict):
    """Everything that was measured."""

    subscriptions: int
    batches: int
    intervals: list[Interval]
    runs: list[ArmRun]
    bars: list[Check]


def interval_of(
    drift: str, workers: int, number: int, arm: str, fed: Sequence[FedBatch]
) -> Interval:
    """Say what an interval came to."""
    cpu, work = (np.array([one(each.report, workers) for each in fed]) for one in (_cpu, _work))
    moves = [at for at, each in enumerate(fed) if each.report.moved is not None]
    balances = [1.0 if at in moves else balance_of(each) for at, each in enumerate(work)]
    above = [at for at, balance in enumerate(balances) if balance > BALANCED]
    first = above[-1] + 1 if above else 0
    settled = first if first < len(fed) else None
    since = [at for at in range(first if settled is not None else 0, len(fed)) if at not in moves]
    moved = [each.report.moved for each in fed if each.report.moved is not None]
    return Interval(
        drift=drift,
        workers=workers,
        interval=number,
        arm=arm,
        worst=max(balances),
        settled_after=settled,
        cpu_balance=balance_of(cpu[since].sum(axis=0)),
        work_balance=balance_of(work[since].sum(axis=0)),
        moves=len(moves),
        last_move=moves[-1] + 1 if moves else 0,
        moved_bytes=sum(each.bytes for each in moved),
        moved_subscriptions=sum(each.subscriptions for each in moved),
        moving_s=[fed[at].seconds for at in moves],
        still_s=[fed[at].seconds for at in range(len(fed)) if at not in moves],
        cpu_s=sum(each.cpu.total for each in fed),
        driver_cpu_s=sum(each.cpu.driver for each in fed),
        worker_cpu_s=float(cpu.sum()),
        adjusting_cpu_s=_adjusting(fed, cpu.sum(axis=1), moves),
        updates=sum(each.report.updates for each in fed),
    )


def _adjusting(fed: Sequence[FedBatch], tasks_s: Floats, moves: Sequence[int]) -> float:
    """The CPU that went into adjusting: it is distinct even on a busy machine."""
    others = [at for at in range(len(fed)) if at not in moves]
    usual = float(np.median(tasks_s[others])) if others else 0.0
    more = sum(max(float(tasks_s[at]) - usual, 0.0) for at in moves)
    return more + sum(each.adjusting_s for each in fed)


def _cpu(report: BatchReport, workers: int) -> Floats:
    seconds = np.zeros(workers)
    for one in report.workers:
        seconds[one.worker] += one.load
    return seconds


def _work(report: BatchReport, workers: int) -> Floats:
    """What workers had to do, in nanoseconds, by what they did."""
    done = np.zeros(workers)
    for one in report.workers:
        done[one.worker] += (
            COSTS.check_ns * one.candidates
            + COSTS.message_ns * one.messages
            + COSTS.operation_ns * one.operations
            + COSTS.update_ns * one.updates
        )
    return done


def p99(seconds: Sequence[float]) -> float:
    """What all but one in a hundred took at most; 0 of nothing."""
    return float(np.quantile(np.array(seconds), 0.99)) if len(seconds) else 0.0


def checks_of(intervals: Sequence[Interval], runs: Sequence[ArmRun]) -> list[Check]:
    """Compare what was found with the limits of each figure."""
    checks = []
    for drift, workers in dict.fromkeys((each["drift"], each["workers"]) for each in intervals):
        label = f"{drift}, {workers} workers"
        here = [each for each in intervals if (each["drift"], each["workers"]) == (drift, workers)]
        arms = {name: [each for each in here if each["arm"] == name] for name in _names(here)}
        for each in arms["auto"]:
            promise = f"{label}, interval {each['interval']}: heaviest CPU by mean"
            checks.append(at_most(promise, each["cpu_balance"], BALANCED))
        moving = [second for each in arms["auto"] for second in each["moving_s"]]
        still = [second for each in arms["off"] for second in each["still_s"]]
        if moving:
            promise = f"{label}: p99 of a batch that moves, by others"
            checks.append(at_most(promise, p99(moving) / p99(still), _SLOWER))
        auto, oracle = (sum(each["cpu_s"] for each in arms[name]) for name in ("auto", "oracle"))
        checks.append(
            at_most(f"{label}: CPU above that of the oracle", auto / oracle - 1, _MORE_CPU)
        )
        most = sum(each["cpu_s"] for each in arms["off"])
        spent = sum(each["adjusting_cpu_s"] for each in arms["auto"])
        checks.append(at_most(f"{label}: CPU of adjusting by that of all", spent / most, _MORE_CPU))
        found = {
            (run.updates, run.digest)
            for run in runs
            if (run.drift, run.workers) == (drift, workers)
        }
        checks.append(at_most(f"{label}: different sets of updates", len(found), 1.0))
    return checks


def _names(intervals: Sequence[Interval]) -> list[str]:
    return list(dict.fromkeys(each["arm"] for each in intervals))
