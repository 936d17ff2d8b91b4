"""Keeps the load of a pipeline even: measures it, has better plans made, and moves to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.partition.adjust.versions import differing
from nearcast.partition.load import balance_of
from nearcast.partition.prepare import evenly
from nearcast.spark.driver.adjusting import Allowance, Pace, PlanTransition
from nearcast.spark.driver.balancing import Balancer
from nearcast.spark.driver.carrying import Carried
from nearcast.spark.driver.history import History
from nearcast.spark.driver.loads import LoadCounters, messages_in
from nearcast.spark.packed import StepEvents
from nearcast.spark.reports.report import Advice, Moved, WorkerReport
from nearcast.spark.workers.messages import cut_in_two


class Adjuster:
    """Measures the steps of a pipeline, and adjusts its plan."""

    def __init__(
        self, history: History, allowance: Allowance | None, balancer: Balancer | None
    ) -> None:
        self._history = history
        self._way = PlanTransition(history.state, allowance)
        self._balancer = balancer or Balancer("off")
        self._loads = LoadCounters(history.state)
        self._pace = Pace()
        self._carried: list[
            int
        ] = []  # by worker: operations of this step that only move subscriptions
        self._advice: Advice | None = None
        self._carrying_s = 0.0
        if history.plan is not None:
            self._loads.recall(history.plan)

    @property
    def searching(self) -> bool:
        """Whether a better plan is being made in the background."""
        return self._balancer.searching

    @property
    def spent_s(self) -> float:
        """Seconds of CPU that the driver has spent on making better plans and moving to them."""
        return self._balancer.spent_s + self._carrying_s

    def take_over(self) -> Carried | None:
        """Switch to another version of the plan with this step, if one is due."""
        history = self._history
        assert history.plan is not None  # noqa: S101 - a step is placed once there is a plan
        self._pace.begin()
        self._hear()
        messages = self._loads.messages_by_cell(history.plan)
        after = self._way.next_version(history.plan, history.cell_bytes, messages, self._pace.bytes)
        if after is None:
            return None
        started = time.thread_time()
        carried = history.follow_with(after)
        self._carrying_s += time.thread_time() - started
        self._carried = [len(shard) for shard in carried.shards]
        self._way.allowance.spend(carried.bytes)
        return carried

    def moved(self, carried: Carried) -> Moved:
        """Report what was carried, and how many cells are still to move."""
        plan = self._history.plan
        assert plan is not None  # noqa: S101 - it took over from another
        target = self._way.target(plan)
        left = 0 if target is None else len(differing(plan, target))
        return Moved(carried.cells, carried.subscriptions, carried.messages, carried.bytes, left)

    def measure(
        self,
        events: StepEvents,
        messages: npt.NDArray[np.bool_],
        workers: list[WorkerReport],
    ) -> None:
        """Record where messages were and what workers did; keep some of the messages.

        What was carried is not counted: it is a single effort that belongs to no cell.
        """
        plan = self._history.plan
        carried, self._carried = self._carried, []
        self._pace.end(bool(carried))
        if carried:
            workers = [
                replace(one, operations=one.operations - carried[one.worker]) for one in workers
            ]
        if plan is None or plan.kind != "grid":
            return
        boxes = cut_in_two(events.places[messages])
        self._loads.observe(plan, time.time(), workers, boxes, messages_in(events.sample))
        self._loads.write()

    def advice(self) -> Advice | None:
        """Check whether loads have become uneven; return advice if a better plan was found."""
        plan, balancer = self._history.plan, self._balancer
        if plan is None or balancer.mode == "off":
            return None
        self._hear()
        if self._way.target(plan) is None:
            balancer.look(plan, self._loads, self._standing)
        advice, self._advice = self._advice, None
        return advice

    def _hear(self) -> None:
        """Adopt a better plan that was found in the background."""
        found = self._balancer.found()
        if found is None:
            return
        taken = self._balancer.mode == "auto"
        if taken:
            self._history.state.write_target(found.target)
        self._advice = Advice(
            round(balance_of(found.before), 4), round(balance_of(found.after), 4),
            len(found.cells), found.bytes, found.target.workers, taken,
        )  # fmt: skip

    def _standing(self, most: int) -> tuple[Callable[[], pa.Table], int]:
        """A sample of at most `most` subscriptions, and how many there are."""
        live = self._history.booleans
        some = live[evenly(len(live), most)]
        return self._history.registrar.known.kept(some), len(live)
