"""A pipeline that ranks, without Spark, fed in steps and opened again and again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from boolean_logs import records
from crashes import Crash, Crashes
from naive import Given
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import event_from_json
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.geo import WORLD, Box
from nearcast.partition.plan import Plan
from nearcast.spark.driver.dskype import ranking_for
from nearcast.spark.driver.history import Upkeep
from nearcast.spark.driver.pipeline import Pipeline, planner
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.events import table_of
from nearcast.spark.inline import InlineRunner
from nearcast.spark.io.files import Files
from nearcast.spark.io.sink import RefusedEvent, Sink
from nearcast.spark.packed import ReadInput
from nearcast.spark.readers.slices import EventFile
from nearcast.spark.reports.report import WorkerReport
from nearcast.spark.workers.task import TaskInput, TaskReport, TaskRunner
from nearcast.text import Vocabulary
from nearcast.topk import Window

Scored = tuple[int, str, str, str, float | None]
"""Event, op, subscription, message, score."""


def settings_of(world: Given) -> Settings:
    """Settings as a log of the property tests has them."""
    history = None
    if world.history is not None:
        history = Vocabulary.from_documents(Settings().analyser.terms(t) for t in world.history)
    space = WORLD if world.space is None else Box(*world.space)
    return Settings(Window(world.count, world.seconds), space, history)


def scored(log: list[dict[str, Any]], chosen: Settings) -> tuple[list[Scored], dict[int, str]]:
    """The updates of `scan` in their order, and why it, or a pipeline, refuses other events."""
    engine = Scan(chosen)
    refused: dict[int, str] = {}
    found: list[Scored] = []
    for position, fields in enumerate(log):
        try:
            updates = engine.apply(event_from_json(fields))
        except NearcastError as error:
            refused[position] = str(error)
            continue
        found += [(position, u.op, u.subscription, u.message, u.score) for u in updates]
    return sorted(found, key=_order), refused


def _order(update: Scored) -> tuple[int, str, str, str]:
    event, op, subscription, message, _ = update
    return event, subscription, message, op


class ScoredOutput:
    """Keeps what is committed, and sees that a step comes to the same each time."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.steps: dict[int, list[Scored]] = {}
        self.refused: dict[int, str] = {}

    def commit(self, step: int, names: list[str], refused: list[RefusedEvent]) -> None:
        """Take the files of a step."""
        paths = [Sink(self.folder).staged(step, name) for name in names]
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        found = sorted(
            (tuple(row[name] for name in UPDATE_SCHEMA.names) for row in rows), key=_order
        )
        assert self.steps.setdefault(step, found) == found
        self.refused |= {each.seq: each.error for each in refused}

    @property
    def updates(self) -> list[Scored]:
        """All updates, in their order."""
        return sorted((each for found in self.steps.values() for each in found), key=_order)


class Ranked:
    """A pipeline in a folder, that can be stopped and started with other workers."""

    def __init__(self, folder: Path, chosen: Settings, upkeep: Upkeep | None = None) -> None:
        self.folder, self.chosen, self.upkeep = folder, chosen, upkeep
        self.output = ScoredOutput(folder / "out")
        self.runner: TaskRunner = InlineRunner()
        self.pipeline: Pipeline | None = None

    def start(
        self, scheme: str, workers: int, partitioner: str = "shared", *, adjust: bool = False
    ) -> None:
        """Open it, as a new process would."""
        state = PipelineState(str(self.folder / "state"), {})
        self.pipeline = Pipeline(
            state, self.chosen, planner(partitioner, workers, self.chosen), self.output,
            self.runner, self.upkeep, ranking=ranking_for(scheme, workers, adjust=adjust),
        )  # fmt: skip
        standing = self.pipeline.history.plan
        if standing is None or (standing.about.get("asked"), standing.workers) != (
            partitioner, workers
        ):  # fmt: skip
            self.pipeline.replan()
        self.pipeline.resume()

    def take(self, events: pa.Table, group: int = 3) -> None:
        """Take some events as one step."""
        assert self.pipeline is not None
        path = self.folder / f"{self.pipeline.next_seq}.parquet"
        pq.write_table(events, path, row_group_size=group)
        file = EventFile.look(str(path))
        assert file is not None
        self.pipeline.step(0, file.slices(self.pipeline.next_seq))


def take_through_crashes(
    ranked: Ranked, crashes: Crashes, table: pa.Table, size: int, way: str, restart: int
) -> int:
    """Take a log in steps, dying between any two changes of files; give how often it died.

    With every step of number `restart - 1`, and after a death, it is opened with other workers.
    """
    deaths = 0
    for step, first in enumerate(range(0, len(table), size)):
        taken = False
        while not taken:
            try:
                with crashes.anywhere_new(ranked.folder):
                    if ranked.pipeline is None or step % restart == restart - 1:
                        ranked.start(way, [2, 1, 3][step % 3])
                    assert ranked.pipeline is not None
                    if ranked.pipeline.next_seq == first:
                        ranked.take(table[first : first + size])
                    taken = True
            except Crash:
                ranked.pipeline = None
                deaths += 1
    return deaths


class Weighing:
    """Runs tasks here; how much those that rank had to do is what it is told, not what it took."""

    def __init__(self, load: Callable[[WorkerReport], float]) -> None:
        self._inner, self._load = InlineRunner(), load
        self.tasks = self._inner.tasks

    def read(self, work: ReadInput) -> None:
        """Read the events of a step."""
        self._inner.read(work)

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Run it."""
        reports = self._inner.run(work, plan)
        for report in reports:
            load = self._load(report.work) if report.ranked else 0.0
            report.work = replace(report.work, load=load)
        return reports


class Twice:
    """Runs every job twice, as if its tasks had been lost, and sees that they say the same."""

    def __init__(self) -> None:
        self._inner = InlineRunner()
        self.tasks = self._inner.tasks

    def read(self, work: ReadInput) -> None:
        """Read the events of a step, and read them again."""
        self._inner.read(work)
        first = self._read(work)
        self._inner.read(work)
        assert self._read(work) == first

    def _read(self, work: ReadInput) -> list[bytes]:
        files = Files(work.state)
        return [files.read(work.name(number)) for number in range(len(work.parts))]

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Run it, and run it again."""
        first, second = (self._inner.run(work, plan) for _ in range(2))
        assert [each.work.updates for each in first] == [each.work.updates for each in second]
        return second


def check_stops(
    log: list[dict[str, Any]],
    chosen: Settings,
    upkeep: Upkeep,
    starts: Sequence[tuple[int, Callable[[Ranked], None]]],
    step: int,
    forget_every: int | None,
) -> None:
    """Stop after some events and start in one way after the other; expect what `scan` gives.

    What is cached is forgotten with every so many-th event that begins a step.
    """
    expected, refused = scored(log, chosen)
    table = table_of(records(log))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cache = Path(folder) / "cache"
        patch.setenv("NEARCAST_CACHE", str(cache))
        patch.setattr("os.fsync", lambda _: None)  # which takes most of the time
        ranked = Ranked(Path(folder), chosen, upkeep)
        edges = sorted({0, len(log), *(min(cut, len(log)) for cut, _ in starts)})
        for number, (begin, end) in enumerate(pairwise(edges)):
            starts[number % len(starts)][1](ranked)
            for first in range(begin, end, step):
                ranked.take(table[first : min(first + step, end)])
                if forget_every is not None and first % forget_every == 0:
                    shutil.rmtree(cache, ignore_errors=True)
    assert ranked.output.updates == expected
    assert ranked.output.refused == refused
