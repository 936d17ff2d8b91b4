"""The driver's part of ranking: the scheme, the number of workers, and the work of each step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from nearcast.engine.settings import Settings
from nearcast.partition.plan import Plan
from nearcast.spark.driver.bucket_assignment import MOST_AT_ONCE, BucketAssignment
from nearcast.spark.driver.history import History
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.reports.report import WorkerReport
from nearcast.spark.topk.by_engine import ENGINE
from nearcast.spark.workers.node import LogStep
from nearcast.spark.workers.ranked_work import RankedWork
from nearcast.spark.workers.task import TaskInput, TaskReport, TaskRunner
from nearcast.text import Vocabulary

_VOCABULARY = "history.parquet"


class RankingDriver:
    """Follows the history of a pipeline, and prepares the work of the tasks that rank."""

    at_once = MOST_AT_ONCE
    """Buckets that may move with one step."""

    def __init__(self, scheme: str, workers: int, *, adjust: bool = False) -> None:
        self.scheme = scheme
        self._assignment = BucketAssignment(workers)
        self._adjust = adjust
        self._since = 0  # the step with which buckets last moved
        self._vocabulary: str | None = None
        self.moved = 0
        """How many buckets moved with the last step."""
        self.spread = 0
        """How often subscriptions were distributed over finders."""
        self.recalled = 0
        """How many subscriptions had their buffers rebuilt before the last step."""

    def begin(self, state: PipelineState, settings: Settings) -> None:
        """Store the settings that tasks need in the state of the pipeline."""
        self._assignment.restore(state)
        history = settings.history
        if history is None or not history.documents:
            return
        self._vocabulary = _VOCABULARY
        if not state.files.exists(_VOCABULARY):
            with TemporaryDirectory() as folder:
                path = Path(folder) / _VOCABULARY
                history.save(path)
                state.files.write(_VOCABULARY, path.read_bytes())

    def work(self, history: History, step: LogStep, log: pa.Table) -> RankedWork | None:
        """The work of the step after those that are done; None without top-k subscriptions."""
        if not history.ranks_in(log):
            return None
        settings, assignment = history.settings, self._assignment
        self.moved = assignment.move(history.state, self.at_once)
        files = history.window.following(step.number)
        known = [*history.steps, step][-len(files) - 1 :]
        # Only workers that have just taken the previous step can hand buckets over.
        first = step.number - 1 if self.moved else self._since
        known = [each for each in known if each.number >= first]
        if self.moved:
            self._since = step.number
        files = files[len(files) + 1 - len(known) :]
        first, next = history.before
        living = history.living_before
        return RankedWork(
            scheme=ENGINE if history.uneven else self.scheme,
            workers=assignment.workers,
            buckets=assignment.buckets,
            window=settings.window,
            space=settings.space,
            vocabulary=self._vocabulary,
            steps=known,
            files=files,
            before=history.window.covering(first, next),
            first=first,
            next=next,
            living=None if living is None else living.numbers,
            ends=None if living is None else living.ends,
        )

    def run(self, runner: TaskRunner, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Run the tasks of a step, which match and rank."""
        return runner.run(work, plan)

    def observe(self, workers: Sequence[WorkerReport]) -> None:
        """Look at the loads of workers in a step that is done."""
        if self._adjust:
            self._assignment.observe(workers)


def digest_of(history: Vocabulary) -> str:
    """A digest that differs for histories that weigh terms differently."""
    counted = (f"{term} {history.document_frequency(term)}" for term in _terms(history))
    text = "\n".join([str(history.documents), *sorted(counted)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _terms(history: Vocabulary) -> list[str]:
    return [history.term(number) for number in range(len(history))]
