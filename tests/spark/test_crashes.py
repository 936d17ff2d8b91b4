"""A pipeline that dies between any two changes it makes to files gives every update once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from boolean_logs import scanned
from crashes import Crash, Crashes
from nearcast.partition.plan import Plan
from nearcast.spark.driver.feed import BatchFeed
from nearcast.spark.inline import InlineRunner
from nearcast.spark.packed import ReadInput
from nearcast.spark.workers.task import TaskInput, TaskReport
from small_pipeline import Small, churn, write_events

T = TypeVar("T")


class Tried:
    """Runs tasks again that died, as Spark does when a Python worker was killed."""

    def __init__(self, crashes: Crashes, below: Path) -> None:
        self._crashes, self._below = crashes, below
        self._inner = InlineRunner()
        self.tasks = self._inner.tasks
        self.deaths = 0

    def read(self, work: ReadInput) -> None:
        self._tried(partial(self._inner.read, work))

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        return self._tried(partial(self._inner.run, work, plan))

    def _tried(self, run: Callable[[], T]) -> T:
        while True:
            try:
                with self._crashes.anywhere_new(self._below):
                    return run()
            except Crash:
                self.deaths += 1


PLANS = [("shared", 1), ("space-kd", 3), ("hash", 2)]
BATCHES, ROWS = 36, 20


def test_a_crash_at_any_point_loses_nothing_and_repeats_nothing(
    tmp_path: Path, crashes: Crashes
) -> None:
    """It dies between any two changes of files, also while it recovers, and is cut otherwise."""
    log = churn(BATCHES * ROWS)
    small = Small(tmp_path)
    expected, refused = scanned(log, small.settings)
    feed: BatchFeed | None = None
    deaths = 0
    for batch, path in enumerate(write_events(tmp_path / "in", log, BATCHES, 5)):
        replan = batch % 6 == 0
        if replan:
            small.partitioner, small.workers = PLANS[batch // 6 % len(PLANS)]
            feed = None
        taken = False
        while not taken:
            try:
                with crashes.anywhere_new(tmp_path):
                    feed = feed or small.open(replan)
                    small.take(feed, batch, [path])
                    taken = True
            except Crash:
                feed = None
                deaths += 1
                small.step_rows = 5 if deaths % 3 else 10
    small.check(expected)
    assert small.refused() == refused
    assert deaths == crashes.deaths
    assert len(crashes.known) > 200


def test_a_task_that_dies_at_any_point_is_run_again(tmp_path: Path, crashes: Crashes) -> None:
    """What it had begun to change on its node is not believed."""
    batches = 12
    log = churn(batches * ROWS, seed=3)
    small = Small(tmp_path)
    small.runner = runner = Tried(crashes, tmp_path)
    expected, _ = scanned(log, small.settings)
    feed: BatchFeed | None = None
    for batch, path in enumerate(write_events(tmp_path / "in", log, batches, 5)):
        if batch % 4 == 0:
            small.partitioner, small.workers = PLANS[batch // 4]
            feed = small.open(replan=True)
        assert feed is not None
        small.take(feed, batch, [path])
    small.check(expected)
    assert runner.deaths == crashes.deaths
    assert len(crashes.known) > 50
