"""How far a pipeline is behind its server, what its workers did last, and by which plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from nearcast.errors import NearcastError
from nearcast.partition.plan import Plan
from nearcast.server.spark.folders import PipelineFolders
from nearcast.spark.driver.state import open_state
from nearcast.spark.reports.report import (
    BatchReport,
    WorkerReport,
    balance,
    by_worker,
    read_report,
    reported_batches,
)

LEVEL_S = 3.0
"""A pipeline that is behind by less has caught up: a step takes about a second."""

_MOST_READ = 100


class PipelineProgress:
    """What a server knows of a pipeline: the events it has accepted, and the reports of batches.

    `settled` gives how many events the pipeline is done with; `seq` of them were accepted before.
    """

    def __init__(
        self,
        folders: PipelineFolders,
        seq: int,
        settled: Callable[[], int],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._path = str(folders.state)
        self._settled = settled
        self._clock = clock
        self._seq = seq
        self._waiting = deque([(seq, clock())])  # the last event of a batch, and when it came
        self._report: BatchReport | None = None
        self._plan: Plan | None = None
        self._known: dict[int, WorkerReport] = {}  # what each did when it last had anything to do

    def accepted(self, seq: int) -> None:
        """Note that the server has accepted events up to a number."""
        if seq > self._seq:
            self._seq = seq
            self._waiting.append((seq, self._clock()))

    def read(self) -> dict[str, Any]:
        """The progress as JSON values; it reads files, so it is called in a thread."""
        settled = self._settled()
        while self._waiting and self._waiting[0][0] <= settled:
            self._waiting.popleft()
        behind_s = self._clock() - self._waiting[0][1] if self._waiting else 0.0
        report, plan = self._latest()
        state = "starting" if report is None else "level" if behind_s <= LEVEL_S else "behind"
        return {
            "state": state,
            "behind_events": max(0, self._seq - settled),
            "behind_s": round(behind_s, 1),
            "batch": None if report is None else _batch(report),
            "plan": None if plan is None else _plan(plan),
            "workers": [] if report is None else self._workers(report, plan),
        }

    def _workers(self, report: BatchReport, plan: Plan | None) -> list[dict[str, Any]]:
        """All workers; one without a share in the batch did nothing, and holds what it held."""
        busy = {each.worker: each for each in _by_worker(report)}
        idle = {
            worker: WorkerReport(worker, rows=one.rows, bytes=one.bytes, active=one.active)
            for worker, one in self._known.items()
        }
        count = max([0 if plan is None else plan.workers, *(worker + 1 for worker in busy)])
        return [
            _worker(busy.get(worker) or idle.get(worker) or WorkerReport(worker))
            for worker in range(count)
        ]

    def _latest(self) -> tuple[BatchReport | None, Plan | None]:
        """The report of the last batch, and its plan; those of before while a file is replaced."""
        try:
            last = -1 if self._report is None else self._report.batch
            for number in reported_batches(self._path)[-_MOST_READ:]:
                if number > last:
                    self._report = read_report(self._path, number)
                    self._known |= {each.worker: each for each in _by_worker(self._report)}
            report, plan = self._report, self._plan
            if report is not None and (plan is None or plan.number != report.plan):
                self._plan = open_state(self._path).plan(report.plan)
        except (NearcastError, OSError):
            pass  # the pipeline is changing its state
        return self._report, self._plan


def _batch(report: BatchReport) -> dict[str, Any]:
    return {
        "number": report.batch,
        "events": report.events,
        "updates": report.updates,
        "seconds": round(report.total_s, 3),
        "committed_at": report.committed_at,
        "balance": round(balance(by_worker(report.workers)), 2),
        "subscriptions": report.subscriptions,
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "number": plan.number,
        "partitioner": plan.scheme,
        "kind": plan.kind,
        "workers": plan.workers,
    }


def _by_worker(report: BatchReport) -> list[WorkerReport]:
    """What each worker did that matched or ranked anything."""
    return by_worker([*report.workers, *report.rankers])


def _worker(one: WorkerReport) -> dict[str, Any]:
    return {
        "worker": one.worker,
        "load_s": round(one.load, 4),
        "lag_s": round(one.lag, 4),
        "messages": one.messages,
        "updates": one.updates,
        "rows": one.rows,
        "active": one.active,
        "bytes": one.bytes,
    }
