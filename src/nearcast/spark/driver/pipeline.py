"""The driver of a pipeline: takes files of events, step by step, each exactly once.

    events -> readers -> registrar (driver) -> log -> shards
           -> dispatcher -> workers -> update files -> commit

A step is read by tasks, and decided and logged by the driver; tasks bring their shards up to it,
match, and write files; then the files become part of the output and the step is committed. Whatever
is cut off before the commit is done again from the same events and comes to the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int64s
from nearcast.engine.settings import Settings
from nearcast.errors import StateError
from nearcast.events.parquet import table_rows
from nearcast.partition.adjust.versions import line_of
from nearcast.partition.plan import Plan
from nearcast.spark.deciding import FINE, NOTHING
from nearcast.spark.driver.adjuster import Adjuster
from nearcast.spark.driver.adjusting import Allowance
from nearcast.spark.driver.balancing import Balancer
from nearcast.spark.driver.history import History, Upkeep, next_step
from nearcast.spark.driver.loads import MOST_OF_A_STEP
from nearcast.spark.driver.placing import PlacedStep, asked
from nearcast.spark.driver.planning import is_blind, make_plan
from nearcast.spark.driver.ranking import RankingDriver
from nearcast.spark.driver.state import Commit, Pending, PipelineState
from nearcast.spark.events import NORMAL
from nearcast.spark.included import has_messages
from nearcast.spark.io.sink import RefusedEvent
from nearcast.spark.operations import BEGUN, LASTING, begins, begun_in, unranked
from nearcast.spark.packed import ReadingOptions, ReadInput, StepEvents
from nearcast.spark.readers.slices import ALL_COLUMNS, MESSAGE_COLUMNS, Slice
from nearcast.spark.reading import dealt_slices, pack_events, read_slices
from nearcast.spark.registrar import Reading, Registrar
from nearcast.spark.reports.report import (
    BatchReport,
    WorkerReport,
    by_worker,
    prune_reports,
    write_report,
)
from nearcast.spark.workers.messages import messages_of
from nearcast.spark.workers.task import EventSlice, Laps, TaskInput, TaskReport, TaskRunner

STEP_ROWS = 500_000
"""Most events in a step: a pipeline that is behind takes fewer and larger steps."""

_REPORTS_KEPT = 1000


class Output(Protocol):
    """Takes the updates of a step, all or none."""

    folder: str

    def commit(self, step: int, names: list[str], refused: list[RefusedEvent]) -> None:
        """Take the files that tasks wrote, and no others; done twice, it is done once."""
        ...


class _LoadedStep:
    """The events of a step as they were read, and the slices that they are in."""

    def __init__(self, slices: Sequence[Slice], events: StepEvents) -> None:
        self.slices = slices
        self.events = events
        rows = np.array([each.rows for each in slices], np.int64)
        self.starts: Int64s = np.cumsum(rows) - rows
        """The row as read with which each slice begins."""

    def given(self, some: Int64s, columns: Sequence[str] = ALL_COLUMNS) -> pa.Table:
        """Some events as they were given; their slices are read again."""
        rows = self.events.rows[some]
        found = np.searchsorted(self.starts, rows, side="right") - 1
        needed, which = np.unique(found, return_inverse=True)
        tables = [self.slices[number].read(columns)[0] for number in needed.tolist()]
        sizes = np.array([len(table) for table in tables], np.int64)
        place = (np.cumsum(sizes) - sizes)[which] + rows - self.starts[found]
        return pa.concat_tables([NORMAL.empty_table(), *tables]).take(pa.array(place))


class Pipeline:
    """Takes events and writes updates, exactly once each."""

    def __init__(
        self,
        state: PipelineState,
        settings: Settings,
        choose_plan: Callable[[int, pa.Table, Any], Plan],
        output: Output,
        runner: TaskRunner,
        upkeep: Upkeep | None = None,
        allowance: Allowance | None = None,
        balancer: Balancer | None = None,
        ranking: RankingDriver | None = None,
        include: tuple[str, ...] = (),
    ) -> None:
        state.claim()
        self.state = state
        self.settings = settings = replace(settings, secret=state.secret)
        self._choose_plan = choose_plan
        self._output = output
        self._runner = runner
        self._run = f"{time.time_ns():019}"  # nodes rebuild their caches with every run
        self.history = History(state, settings, self._reread, upkeep)
        self.adjuster = Adjuster(self.history, allowance, balancer)
        self._ranking = ranking or RankingDriver("shared", runner.tasks)
        self._ranking.begin(state, settings)
        self._pending = self.history.pending
        self._broken = False
        self._include = include
        self.history.uneven |= has_messages(include)
        self._replan = self.history.plan is None or is_blind(self.history.plan)
        self._saved = self.history.snapshots()
        self._since_saved = self.history.since_base
        self.listeners: list[Callable[[BatchReport], None]] = []

    @property
    def next_seq(self) -> int:
        """The sequence number of the next event of a source without any."""
        last = self.history.last
        return 0 if last is None else last.next_seq

    @property
    def begun(self) -> int:
        """The last step that is committed, or that has to be repeated."""
        return self.history.step.number + (self._pending is not None)

    def done(self, batch: int) -> list[Slice]:
        """What an interrupted run already took of a batch of Spark."""
        found: list[Slice] = []
        for number in reversed(self.state.commits()):
            commit = self.state.commit(number)
            if commit.batch < batch:
                break
            if commit.batch == batch:
                found = [Slice(**each) for each in commit.slices] + found
        return found

    def oldest_batch(self) -> int:
        """The first batch of Spark that a log in use came from."""
        first = self.history.steps[0].number + 1
        commits = [number for number in self.state.commits() if number >= first]
        return self.state.commit(commits[0]).batch if commits else self._last_batch() + 1

    def _last_batch(self) -> int:
        return -1 if self.history.last is None else self.history.last.batch

    def has_updates(self, step: int) -> bool:
        """Whether a committed step had any updates."""
        return self.state.commit(step).updates > 0

    def resume(self) -> BatchReport | None:
        """Repeat the last step with the same events, if it was begun and not committed.

        That comes before anything else, because readers may have seen its updates.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        return self.step(pending.batch, [Slice(**each) for each in pending.slices])

    def step(self, batch: int, slices: Sequence[Slice]) -> BatchReport:
        """Take one step."""
        if self._broken or self._pending is not None:
            raise StateError(
                f"{self.state.path}: a step was cut off; open the pipeline again and call resume"
            )
        self._broken = True
        report = self._step(batch, slices)
        self._broken = False
        for listen in self.listeners:
            listen(report)
        return report

    def _step(self, batch: int, slices: Sequence[Slice]) -> BatchReport:
        clock = Laps()
        history = self.history
        number = history.step.number + 1
        given = [each.to_json() for each in slices]
        loaded = self._read(number, slices)
        clock.lap("read")
        reading = history.registrar.decide(loaded.events, loaded.given)
        history.note(reading)
        self.state.write_pending(Pending(number, batch, given))
        clock.lap("decide")
        if self._replan and (history.plan is None or reading.messages.any()):
            self._make_plan(loaded, reading)
            clock.lap("plan")
        assert history.plan is not None  # noqa: S101 - just made, if there was none
        sums, written = self.state.write_log(number, reading.log)
        history.registrar.settle(written)
        carried = self.adjuster.take_over()
        step = next_step(history.step, sums, None if carried is None else history.plan.number)
        placed = history.placed(reading.log, reading.changes, carried)
        self.state.write_routed(line_of(history.plan), f"{number:09}", placed)
        history.keep_messages(number, reading)
        ranked = self._ranking.work(history, step, reading.log)
        clock.lap("log")
        work = TaskInput(
            pipeline=self.state.id,
            run=self._run,
            state=self.state.path,
            plan=history.plan.to_bytes(),
            steps=[*history.steps, step],
            settings=self._settings,
            parts=self._parts(loaded, reading),
            asked=asked(placed),
            output=self._output.folder,
            snapshots=self._saved,
            save=self._since_saved > history.upkeep.snapshot_every,
            everyone=history.everyone,
            asks=history.asks,
            include=self._include,
            ranked=ranked,
        )
        if ranked is not None and not self._matches_any(reading):
            work.parts, work.save = [], False
        done = self._ranking.run(self._runner, work, history.plan)
        reports = [each for each in done if not each.ranked]
        rankers = [each for each in done if each.ranked]
        clock.lap("match")
        refused = self._refused(loaded, reading)
        self._output.commit(number, [each.name for each in done if each.name], refused)
        subscriptions, rankings = history.count(reading.log), history.count_ranked(reading.log)
        next_seq = max(self.next_seq, int(reading.seq[-1]) + 1 if len(reading.seq) else 0)
        now = history.registrar.ledger.now
        commit = Commit(
            number, step.key, batch, history.plan.number, next_seq,
            None if np.isnan(now) else float(now), given, sums,
            sum(each.work.updates for each in done), history.registrar.ledger.next,
            history.registrar.ledger.first, history.uneven,
        )  # fmt: skip
        self.state.write_commit(commit)
        clock.lap("commit")
        workers = _summaries(history.plan, reports, placed)
        self.adjuster.measure(loaded.events, reading.messages, workers)
        history.done(commit, reading.log, step.key)
        lasting = int((reading.log["kind"].to_numpy() == LASTING).sum())
        operations = len(reading.log)
        if carried is not None:
            history.forget_versions()
            operations += carried.subscriptions + carried.messages
        self._after(number, work, history.plan, operations, reports)
        self.state.forget_reading(number)
        clock.lap("keep")
        report = BatchReport(
            batch=number,
            plan=history.plan.number,
            events=len(loaded.events),
            messages=int(reading.messages.sum()),
            operations=len(reading.log) - lasting,
            updates=commit.updates,
            refused=len(refused),
            seconds=clock.seconds,
            late=loaded.events.late,
            subscriptions=subscriptions,
            lasting=lasting,
            active=history.active,
            workers=workers,
            committed_at=time.time(),
            moved=None if carried is None else self.adjuster.moved(carried),
            advice=self.adjuster.advice(),
            rankings=rankings,
            ranked_updates=sum(each.work.updates for each in rankers),
            window=history.registrar.ledger.size,
            rankers=by_worker([each.work for each in rankers]),
            moved_buckets=self._ranking.moved if rankers else 0,
            spread=self._ranking.spread,
            recalled=self._ranking.recalled if rankers else 0,
        )
        self._ranking.observe(report.rankers)
        write_report(self.state.path, report)
        if number % _REPORTS_KEPT == 0:
            prune_reports(self.state.path, _REPORTS_KEPT)
        return report

    @property
    def _settings(self) -> Settings:
        """The settings for tasks: without the history, which may be large and is not needed."""
        return replace(self.settings, history=None)

    def replan(self) -> None:
        """Make another plan with the next messages, and switch to it."""
        self._replan = True

    def _read(self, step: int, slices: Sequence[Slice]) -> _LoadedStep:
        """Have the events of a step read by tasks."""
        history = self.history
        parts = dealt_slices(slices, self._runner.tasks)
        measured = self._replan or history.plan is None or history.plan.kind == "grid"
        wanted = ReadingOptions(
            places=measured,
            sample=-(-MOST_OF_A_STEP // len(parts)) if measured else 0,
            texts=None if history.ranked else self.settings.window.count,
        )
        work = ReadInput(
            state=self.state.path,
            folder=self.state.reading(step),
            settings=self._settings,
            parts=parts,
            wanted=wanted,
        )
        self._runner.read(work)
        first = self.next_seq if any(each.seq is None for each in slices) else None
        return _LoadedStep(slices, StepEvents(work.packed(self.state.files), first))

    def _matches_any(self, reading: Reading) -> bool:
        """Whether there is any boolean subscription for the messages of a step."""
        return bool(len(self.history.booleans) or begins(unranked(reading.log)).any())

    def _parts(self, loaded: _LoadedStep, reading: Reading) -> list[list[EventSlice]]:
        """Assign the slices to tasks, with the rows that each must leave out."""
        rows, order = loaded.events.read, loaded.events.rows
        messages = np.zeros(rows, np.bool_)
        messages[order[reading.matched]] = True
        refused = np.ones(rows, np.bool_)
        refused[order] = (reading.verdict != FINE) | (reading.old != NOTHING)
        out = refused & ~messages
        times = None
        if "at" in self._include:
            times = np.zeros(rows)
            times[order] = reading.times
        starts = iter(loaded.starts.tolist())

        def matched(each: Slice, begin: int) -> EventSlice:
            part = slice(begin, begin + each.rows)
            return EventSlice(
                each, np.flatnonzero(out[part]), None if times is None else times[part]
            )

        return [
            [matched(each, next(starts)) for each in some]
            for some in dealt_slices(loaded.slices, self._runner.tasks)
        ]

    def _make_plan(self, loaded: _LoadedStep, reading: Reading) -> None:
        """Make a plan from the current subscriptions and the messages of a step."""
        which = np.flatnonzero(reading.messages)
        some, every = loaded.given(which, MESSAGE_COLUMNS), np.ones(len(which), np.bool_)
        texts = messages_of(some, reading.seq[which], every, self.settings)
        begun = begun_in(unranked(reading.log))
        standing = self.history.registrar.definitions(self.history.booleans)
        number = max(self.state.plans(), default=0) + 1
        known = pa.concat_tables([standing, begun])
        plan = self._choose_plan(number, known, texts)
        self.history.adopt(plan)
        self._saved = {}
        self._replan = is_blind(plan)

    def _refused(self, loaded: _LoadedStep, reading: Reading) -> list[RefusedEvent]:
        rows = np.array([refusal.row for refusal in reading.refusals], np.int64)
        if not len(rows):
            return []
        given = loaded.given(rows)
        return [
            RefusedEvent(int(reading.seq[refusal.row]), refusal.error, _given(given, at))
            for at, refusal in enumerate(reading.refusals)
        ]

    def _after(
        self, step: int, work: TaskInput, plan: Plan, operations: int, reports: list[TaskReport]
    ) -> None:
        """Compact and tidy the state where that is due, once a step is committed."""
        self._since_saved += operations
        if work.save:
            for report in reports:
                worker = report.work.worker
                name = "all" if plan.kind == "shared" else f"{worker:05}"
                if plan.kind != "shared" or worker == 0:
                    self._saved[f"{line_of(plan)}-{name}"] = step
            self._since_saved = 0
        if self.history.worth_rebasing():
            self.history.rebase()
            self._saved = {name: at for name, at in self._saved.items() if at >= step}

    def _reread(self, commit: Commit, registrar: Registrar, first: int) -> Reading:
        slices = [Slice(**each) for each in commit.slices]
        packed = [pack_events(*read_slices(slices), self.settings)]
        numbered = any(each.seq is None for each in slices)
        loaded = _LoadedStep(slices, StepEvents(packed, first if numbered else None))
        return registrar.decide(loaded.events, loaded.given)


def _summaries(plan: Plan, reports: list[TaskReport], placed: PlacedStep) -> list[WorkerReport]:
    """The reports of workers, with the operations that each got."""
    found = [each.work for each in reports]
    if plan.kind == "shared":
        return found
    return [replace(one, operations=len(placed.shards[one.worker])) for one in found]


def _given(events: pa.Table, row: int) -> bytes | dict[str, Any]:
    """An event as it was given, if that is known."""
    raw = events["raw"][row].as_py()
    if raw is not None:
        return str(raw).encode()
    fields = next(table_rows(events.slice(row, 1)))  # which may claim to be text and not be it
    return {key: value for key, value in fields.items() if value is not None}


def planner(name: str, workers: int, settings: Settings) -> Callable[[int, pa.Table, Any], Plan]:
    """Choose plans by the name of a partitioner."""

    def choose(number: int, begun: pa.Table, texts: Any) -> Plan:
        assert begun.schema == BEGUN  # noqa: S101 - as the registrar gives it
        return make_plan(name, workers, settings.space, begun, texts, number)

    return choose
