"""How a pipeline ranks: by which scheme, on how many workers, and what tasks are told of a step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from nearcast.engine.settings import Settings
from nearcast.partition.plan import Plan
from nearcast.spark.history import History
from nearcast.spark.node import LogStep
from nearcast.spark.ranked.dealing import MOST_AT_ONCE, Dealing
from nearcast.spark.ranked.work import RankedWork
from nearcast.spark.report import WorkerReport
from nearcast.spark.state import PipelineState
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    from nearcast.spark.tasks import TaskInput, TaskReport

_VOCABULARY = "history.parquet"


class RankingTaskRunner(Protocol):
    """Runs the tasks of a step."""

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Match the messages of a step, and rank them."""
        ...


class RankingDriver:
    """Goes beside the history of a pipeline, and tells the tasks that rank what they need."""

    at_once = MOST_AT_ONCE
    """Buckets that may change hands with one step."""

    def __init__(self, scheme: str, workers: int, *, adjust: bool = False) -> None:
        self.scheme = scheme
        self._dealing = Dealing(workers)
        self._adjust = adjust
        self._since = 0  # the step with which buckets last changed hands
        self._vocabulary: str | None = None
        self.moved = 0
        """How many buckets changed hands with the last step."""
        self.spread = 0
        """How often subscriptions were spread over those that find for them."""
        self.recalled = 0
        """How many were asked for from nothing before the last step."""

    def begin(self, state: PipelineState, settings: Settings) -> None:
        """Keep what tasks have to know of the settings where they can find it."""
        self._dealing.recall(state)
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
        """What is to be done in the step after those that are done; None if nobody ranks."""
        if not history.ranks_in(log):
            return None
        settings, dealing = history.settings, self._dealing
        self.moved = dealing.move(history.state, self.at_once)
        files = history.window.following(step.number)
        known = [*history.steps, step][-len(files) - 1 :]
        # Buckets are handed over by those that have just taken the step before, and nobody else.
        first = step.number - 1 if self.moved else self._since
        known = [each for each in known if each.number >= first]
        if self.moved:
            self._since = step.number
        files = files[len(files) + 1 - len(known) :]
        first, next = history.before
        return RankedWork(
            scheme=self.scheme,
            workers=dealing.workers,
            buckets=dealing.buckets,
            window=settings.window,
            space=settings.space,
            vocabulary=self._vocabulary,
            steps=known,
            files=files,
            before=history.window.covering(first, next),
            first=first,
            next=next,
        )

    def run(self, runner: RankingTaskRunner, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Let a step be matched and ranked."""
        return runner.run(work, plan)

    def look(self, workers: Sequence[WorkerReport]) -> None:
        """See what workers did in a step that is done."""
        if self._adjust:
            self._dealing.look(workers)


def digest_of(history: Vocabulary) -> str:
    """Tells a history from any other that would weigh terms otherwise."""
    counted = (f"{term} {history.document_frequency(term)}" for term in _terms(history))
    text = "\n".join([str(history.documents), *sorted(counted)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _terms(history: Vocabulary) -> list[str]:
    return [history.term(number) for number in range(len(history))]
