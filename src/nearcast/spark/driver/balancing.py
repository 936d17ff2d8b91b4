"""Keeps a running pipeline balanced: checks the measured loads, and makes better plans.

The check costs next to nothing, and is made after every step that completes a window of loads
(`loads`). When loads were too uneven in two windows in a row, a better plan is made in the
background while the pipeline runs. It becomes the target (`adjusting`), or is only reported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s
from nearcast.errors import InvalidValue
from nearcast.partition import keys as key_choice
from nearcast.partition.adjust.local import adjust, worker_loads
from nearcast.partition.adjust.meter import BalanceWatch
from nearcast.partition.adjust.migration import carried_bytes
from nearcast.partition.adjust.pieces import pieces_of
from nearcast.partition.adjust.recent import RecentWork, recent_of
from nearcast.partition.adjust.replan import propose
from nearcast.partition.adjust.versions import differing, in_line
from nearcast.partition.auto import auto
from nearcast.partition.grid import Grid
from nearcast.partition.load import balance_of
from nearcast.partition.plan import Plan
from nearcast.partition.registry import partitioner_named
from nearcast.partition.routing import route_rows
from nearcast.partition.sample import Sample, SampleRows, sample_of
from nearcast.partition.simulate import made_whole
from nearcast.spark.driver.adjusting import Allowance
from nearcast.spark.driver.loads import LoadCounters, Measured
from nearcast.spark.driver.placing import sizes_of
from nearcast.spark.driver.planning import COSTS, rows_in
from nearcast.spark.operations import OTHER
from nearcast.spark.reports.logs import log_event

Mode = Literal["off", "suggest", "auto"]
MODES: tuple[Mode, ...] = ("off", "suggest", "auto")

Standing = Callable[[int], tuple[Callable[[], pa.Table], int]]
"""Samples at most n subscriptions, and returns how many there are.

The caller runs the function that it gets to put the sample together.
"""

MOST_SUBSCRIPTIONS = 100_000
"""The size of a sample of subscriptions; smaller if there are few workers."""
_FOR_A_WORKER = 2_500  # of them, enough to estimate its load to a few percent

_FEWEST_MESSAGES = 500  # for each worker, in a window
_SECONDS_A_MINUTE = 6.0  # of CPU, for looking for better plans
_MOST_IN_VAIN = 6  # how often the wait is doubled at most
_WORTHWHILE = 0.97  # a better plan must reduce the heaviest load to this share of it
_EVEN, _UNEVEN = 1.05, 1.2  # heaviest load by the mean: good enough, and too uneven
_MUCH = 0.05  # a gain that counts as large


class Suggestion(NamedTuple):
    """A better plan: the loads of workers with the current plan and with it, and its cost."""

    target: Plan
    before: Floats  # by worker: its share of the load now
    after: Floats
    cells: Int32s  # that move
    bytes: int  # that are carried

    @property
    def gain(self) -> float:
        """How much more load the busiest worker has now than with the plan; 0.1 is a tenth more."""
        return float(self.before.max() / max(self.after.max(), 1e-300)) - 1.0


def suggest(
    plan: Plan,
    begun: pa.Table,
    measured: Measured,
    *,
    of: int | None = None,
    workers: int | None = None,
    rebuild: bool | None = None,
) -> Suggestion | None:
    """Find a plan that evens out the measured loads; None if there is no better one.

    `begun` is a sample of the `of` subscriptions there are. By default the plan is changed cell by
    cell, and rebuilt if that gains little and loads stay uneven; `rebuild` forces one or the other.
    For another number of `workers` the plan is always rebuilt.
    """
    if plan.kind != "grid":
        raise InvalidValue("plan", plan.kind, "a plan by place and text: others have no cells")
    rows = rows_in(begun)
    scale = 1.0 if of is None or not len(begun) else of / len(begun)
    last = np.argsort(begun["kind"].to_numpy() == OTHER, kind="stable")
    sizes = (sizes_of(begun)[last] * scale).astype(np.int64)[rows.owners]
    handled = measured.workers.counted("messages")
    updates = measured.share * float(measured.workers.counted("updates").sum())
    recent = recent_of(plan, rows, measured.messages, 0.0, sizes, COSTS, updates)
    # Workers have counted each operation they got, so an operation counts once for each copy.
    operations = measured.share * float(measured.workers.counted("operations").sum())
    copies = len(route_rows(plan, recent.boxes, recent.keys)[1])
    recent = recent._replace(row_ns=COSTS.operation_ns * operations / max(copies, 1))
    if measured.plan == plan.number and handled.any():
        recent = recent.reweighed(plan, measured.workers.loads(COSTS), handled)
    found, before = None, _loads(plan, recent)
    rescaled = workers is not None and workers != plan.workers
    if not rescaled and not rebuild:
        after = adjust(plan, recent, _EVEN)
        if after is not None:
            found = _suggestion(plan, before, in_line(plan, after), recent, rows, sizes)
    if rescaled or rebuild or (rebuild is None and not _is_enough(before, found)):
        sample = sample_of(rows, measured.messages, round(operations / _copies(plan, rows)))
        made = propose(plan, sample, workers, costs=COSTS, partitioner=_same_way(plan), whole=True)
        if (rescaled or rebuild or made.worthwhile) and made.plan.kind == "grid":
            other = _suggestion(plan, before, made.plan, recent, rows, sizes)
            if rescaled or rebuild or other.gain > (0.0 if found is None else found.gain):
                found = other
    if found is None or not (len(found.cells) or rescaled):
        return None
    return found if rescaled or rebuild or found.gain >= 1 / _WORTHWHILE - 1 else None


def _copies(plan: Plan, rows: SampleRows) -> float:
    """How many workers hold a subscription, on average."""
    keys = key_choice.choose(plan.arrays, rows.starts, rows.terms)
    held = route_rows(plan, rows.boxes, keys)
    _, holders = made_whole(held, rows.owners, plan.workers)
    return max(len(holders), 1) / max(len(np.unique(rows.owners)), 1)


def _is_enough(before: Floats, found: Suggestion | None) -> bool:
    """Whether a plan that was changed cell by cell is even, or gains much."""
    if found is None:
        return balance_of(before) <= _UNEVEN
    return balance_of(found.after) <= _UNEVEN or found.gain >= _MUCH


def _same_way(plan: Plan) -> Callable[[Sample, int, Grid], Plan]:
    """The partitioner by which a plan was made, for a plan in the same line."""
    partition = partitioner_named(str(plan.about.get("asked", "auto")))
    if partition is auto:  # all versions of a line have the same cells
        partition = partial(auto, costs=COSTS, finer=False, whole=True)
    return lambda sample, workers, grid: in_line(plan, partition(sample, workers, grid))


def _loads(plan: Plan, recent: RecentWork) -> Floats:
    return worker_loads(plan, pieces_of(plan, recent), recent)


def _suggestion(
    plan: Plan, before: Floats, target: Plan, recent: RecentWork, rows: SampleRows, sizes: Any
) -> Suggestion:
    after = _loads(target, recent)
    total = max(float(before.sum()), 1e-300)
    return Suggestion(
        target,
        before / total,
        after / total,
        differing(plan, target),
        carried_bytes(plan, target, rows, sizes),
    )


class Balancer:
    """Checks the loads after every step, and has a better plan made when they are uneven.

    Making one takes CPU from the stream: no more than a tenth of one core on average, and less
    and less often while no better plan is found.
    """

    def __init__(
        self,
        mode: Mode,
        *,
        clock: Callable[[], float] = time.monotonic,
        beside: bool = True,
        watch: BalanceWatch | None = None,
        fewest_messages: int = _FEWEST_MESSAGES,
    ) -> None:
        if mode not in MODES:
            raise InvalidValue("adjust", mode, f"one of {', '.join(MODES)}")
        self.mode = mode
        self._beside = beside
        self._watch = watch or BalanceWatch()
        self._fewest = fewest_messages
        self._effort = Allowance(_SECONDS_A_MINUTE, clock)
        self.spent_s = 0.0
        """Seconds of CPU spent on making better plans."""
        self._in_vain = 0
        self._wait = 0  # windows to skip
        self._future: Future[tuple[Suggestion | None, float]] | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def searching(self) -> bool:
        """Whether a better plan is being made, or is ready and was not yet taken."""
        return self._future is not None

    def found(self) -> Suggestion | None:
        """The suggestion that is ready, if any; each is returned once."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        error = future.exception()
        if error is not None:  # the stream continues with its plan
            log_event("adjustment failed", level=logging.WARNING, error=repr(error))
        suggestion, seconds = (None, 0.0) if error is not None else future.result()
        self._effort.spend(seconds)
        self.spent_s += seconds
        if suggestion is None:
            self._in_vain = min(self._in_vain + 1, _MOST_IN_VAIN)
            self._wait = 2**self._in_vain
        else:
            self._in_vain = 0
            self._watch.calm()
        return suggestion

    def look(self, plan: Plan, loads: LoadCounters, standing: Standing) -> None:
        """Check the loads; `standing` samples the subscriptions there are."""
        if self.mode == "off" or plan.kind != "grid" or plan.workers < 2 or self.searching:
            return
        seen = loads.full_window(self._fewest * plan.workers)
        if seen is None:
            return
        self._wait = max(self._wait - 1, 0)
        if not self._watch.look(seen):
            self._in_vain = self._wait = 0
            return
        if self._wait or self._effort.left <= 0:
            return
        begun, of = standing(min(_FOR_A_WORKER * plan.workers, MOST_SUBSCRIPTIONS))
        measured = loads.lately()
        if self._beside:
            self._threads = self._threads or ThreadPoolExecutor(1, "nearcast-balancer")
            self._future = self._threads.submit(_searched, plan, begun, measured, of)
        else:
            self._future = Future()
            self._future.set_result(_searched(plan, begun, measured, of))

    def close(self) -> None:
        """Wait for the plan that is being made, and make no more."""
        if self._threads is not None:
            self._threads.shutdown()


def _searched(
    plan: Plan, begun: Callable[[], pa.Table], measured: Measured, of: int
) -> tuple[Suggestion | None, float]:
    """Make a better plan; return it with the seconds of CPU that it took."""
    started = time.thread_time()
    found = suggest(plan, begun(), measured, of=of)
    return found, time.thread_time() - started
