"""The driver of distributed top-k: which finders hold which subscriptions, and when to rebuild.

Buffers and thresholds are on nodes only, from step to step. They are rebuilt from the window, in
portions, when a pipeline starts, when a node has lost any, and when subscriptions are distributed
differently, for example to more or fewer workers: an *epoch* begins.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from nearcast.engine.settings import Settings
from nearcast.errors import StateError
from nearcast.partition.plan import Plan
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.partition.topk.spread import Spread
from nearcast.spark.driver.history import History
from nearcast.spark.driver.ranking import RankingDriver
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.operations import RANKED, begun_in, of_kind
from nearcast.spark.reports.build_progress import ALL_WORKERS, reporting_progress
from nearcast.spark.reports.report import WorkerReport
from nearcast.spark.topk.dskype.messages import DskypeWork, Portion, WindowMessages
from nearcast.spark.topk.dskype.ranking_context import FOLDER, dskype_work
from nearcast.spark.topk.dskype.spreading import spread_for
from nearcast.spark.topk.dskype.terms import terms_of
from nearcast.spark.topk.reading import RankedSubscriptions
from nearcast.spark.topk.window import read_messages
from nearcast.spark.workers.node import LogStep
from nearcast.spark.workers.ranked_work import BUCKETS, RankedWork
from nearcast.spark.workers.task import LeftFile, TaskInput, TaskReport, TaskRunner
from nearcast.text import idf_of

PORTION = 100_000
"""Subscriptions whose buffers are rebuilt together."""
GROWN = 4
"""How many times as many subscriptions there must be before they are distributed again."""
_SUBSCRIPTIONS, _MESSAGES = 500_000, 20_000
"""At most how many a spread is made from; it groups only terms of subscriptions that it knows."""
_TRIES = 5
_UNEVEN = 1.5  # load of the busiest worker, divided by the average
_TIMES = 3
_IDLE_S = 0.05  # total load in a step, below which it says nothing


class Distributed(RankingDriver):
    """Ranks with one of the distribution mechanisms."""

    at_once = BUCKETS  # all together, because all buffers are rebuilt anyway

    def __init__(self, scheme: str, workers: int, *, adjust: bool = False) -> None:
        super().__init__(scheme, workers, adjust=adjust)
        self._spread: Spread | None = None
        self._spread_from = 0  # subscriptions
        self._epochs = 0
        self._left: list[LeftFile] | None = None  # by the last step; None before an epoch
        self._last = -1  # the last step that was taken in this epoch
        self._subscriptions = 0
        self._uneven, self._patience = 0, _TIMES  # steps in a row

    def begin(self, state: PipelineState, settings: Settings) -> None:
        """Start, and remove what an earlier run left."""
        super().begin(state, settings)
        self._files = state.files
        self._files.remove(FOLDER)

    def work(self, history: History, step: LogStep, log: pa.Table) -> RankedWork | None:
        """The work of the next step; None without top-k subscriptions.

        What no mechanism knows is ranked by the engines of workers, from then on.
        """
        ranked = super().work(history, step, log)
        if ranked is None or history.uneven:
            return ranked
        self._subscriptions = history.ranked
        self._tidy(step.number)
        count = history.count_ranked(log)
        if self._is_outgrown(count):
            self._spread = self._new_spread(history, ranked, log)
            self._spread_from = max(count, 1)
            self._left = None
            self.spread += 1
        if self._last != step.number - 1:
            self._left = None
        assert self._spread is not None  # noqa: S101 - just made, if there was none
        return DskypeWork(
            **vars(ranked),
            spread=self._spread.to_bytes(),
            finders=self._spread.workers,
            epoch=self._epochs,
            base=None,
            left=self._left or [],
            portion=None,
        )

    def _is_outgrown(self, count: int) -> bool:
        """Whether `count` subscriptions need another spread."""
        if self._spread is None or self.moved:
            return True
        # A hash of the id is as good for few as for many.
        return count > GROWN * self._spread_from and not self._spread.by_id

    def _tidy(self, step: int) -> None:
        for name in self._files.names(FOLDER):
            if name.isdigit() and int(name) < step - 1:
                self._files.remove(f"{FOLDER}/{name}")

    def run(self, runner: TaskRunner, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Take a step; begin an epoch before it if buffers are missing, or turn out to be."""
        self.recalled = 0
        if not isinstance(work.ranked, DskypeWork):
            return runner.run(work, plan)
        for attempt in range(_TRIES):
            if attempt or self._left is None:
                self._begin_epoch(runner, work, plan)
            reports = runner.run(work, plan)
            if not any(each.role == "lost" for each in reports):
                self._left = _left_by(reports)
                self._last = work.steps[-1].number
                return reports
            logging.getLogger("nearcast.spark").warning(
                "step %d: a node lost its buffers; they are rebuilt", work.steps[-1].number
            )
        raise StateError(
            f"{work.state}: nodes lost their buffers {_TRIES} times in a row; make sure that the "
            "folder for them has enough room on every node (NEARCAST_CACHE sets it)"
        )

    def observe(self, workers: Sequence[WorkerReport]) -> None:
        """Look at the loads of workers; distribute subscriptions again if they stay uneven.

        That is expensive, so each time the loads must be uneven for longer.
        """
        loads = [one.load for one in workers]
        if not self._adjust or sum(loads) < _IDLE_S:
            return
        if self._spread is None or self._spread.by_id:
            return  # a spread by id would be the same again
        uneven = max(loads) * len(loads) > _UNEVEN * sum(loads)
        self._uneven = self._uneven + 1 if uneven else 0
        if self._uneven >= self._patience:
            self._spread, self._uneven = None, 0
            self._patience *= 4

    def _begin_epoch(self, runner: TaskRunner, work: TaskInput, plan: Plan) -> None:
        """Rebuild the buffers of all subscriptions that there were before the step."""
        self._epochs += 1
        self.recalled += self._subscriptions
        step = replace(dskype_work(work), epoch=self._epochs, base=[], left=[])
        base: list[LeftFile] = []
        portions = -(-self._subscriptions // PORTION)
        with reporting_progress(self._files, ALL_WORKERS) as progress:
            for number in range(portions):
                progress(number * PORTION, self._subscriptions)
                asked = replace(step, portion=Portion(number, portions))
                reports = runner.run(replace(work, parts=[], save=False, ranked=asked), plan)
                base += _left_by(reports)
        work.ranked = replace(step, base=base)

    def _new_spread(self, history: History, ranked: RankedWork, log: pa.Table) -> Spread:
        """Make a spread from the current subscriptions and the messages of the step."""
        begun = of_kind(begun_in(log), RANKED)
        owners = np.flatnonzero(history.is_ranked)
        some = history.registrar.definitions(_few(owners, _SUBSCRIPTIONS).astype(np.int32))
        new = pa.array(_few(np.arange(len(begun)), _SUBSCRIPTIONS))
        known = pa.concat_tables([some, begun.take(new)])
        settings = history.settings
        given = settings.history
        idf = idf_of(given) if given is not None and given.documents else None
        terms, _ = terms_of(known["query"].combine_chunks(), settings, idf)
        wanted = RankedSubscriptions.read(known, terms)
        rows = read_messages(self._files, ranked.files[-1])
        rows = rows.take(pa.array(_few(np.flatnonzero(rows["number"].to_numpy() >= 0), _MESSAGES)))
        texts, counts = terms_of(rows["text"].combine_chunks(), settings, idf)
        messages = WindowMessages.read(rows, texts, counts)
        return spread_for(self.scheme, ranked.workers, settings, wanted, messages)


def _few(places: np.ndarray, enough: int) -> np.ndarray:
    """At most `enough` of the places, evenly spaced."""
    return places[:: max(1, -(-len(places) // enough))]


def _left_by(reports: list[TaskReport]) -> list[LeftFile]:
    return [left for report in reports for left in report.left]


def ranking_for(scheme: str, workers: int, *, adjust: bool = False) -> RankingDriver:
    """The driver's part of a ranking scheme."""
    kind = Distributed if scheme in MECHANISMS else RankingDriver
    return kind(scheme, workers, adjust=adjust)
