"""The context of a task of distributed top-k: its step, cached state, files and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from nearcast.engine.message_ids import NumberedStrings
from nearcast.geo import planar_distance
from nearcast.partition.topk.spread import Spread
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.core_holder import Space
from nearcast.spark.topk.dskype.holders import (
    BufferStep,
    CachedBufferShard,
    CachedFinder,
    CachedMessageIds,
    FinderChanges,
    IdsStep,
)
from nearcast.spark.topk.dskype.messages import (
    DskypeWork,
    FreshBuffers,
    NodeStateLost,
    Refills,
    ShardOutcome,
    pack,
    unpack,
)
from nearcast.spark.topk.dskype.part import PartStep, WindowPart
from nearcast.spark.topk.dskype.reading import StepReader
from nearcast.spark.topk.window import read_messages, window_messages
from nearcast.spark.workers.node import LogStep as Mark
from nearcast.spark.workers.node import Recipe
from nearcast.spark.workers.ranked_work import FIRST_TASK, buckets_of
from nearcast.spark.workers.task import (
    Laps,
    LeftFile,
    TaskInput,
    TaskNode,
    TaskReport,
    UpdateFile,
)

FOLDER = "ranked"
"""Where in the state requests and refills are, by step."""

OUTCOME, BUFFERS = "outcome", "refills"
"""Kinds of files there: `ShardOutcome` and `FreshBuffers`."""

F = TypeVar("F", ShardOutcome, FreshBuffers)


@lru_cache(maxsize=1)
def _spread(data: bytes) -> Spread:
    return Spread.from_bytes(data)


def dskype_work(work: TaskInput) -> DskypeWork:
    """The work of distributed top-k, in a step that has some."""
    assert isinstance(work.ranked, DskypeWork)  # noqa: S101 - as its driver makes it
    return work.ranked


class RankingContext:
    """What one attempt at a task needs."""

    def __init__(self, work: TaskInput, task: int, attempt: int) -> None:
        self._laps = Laps()
        self.work, self.ranked, self.task, self._attempt = work, dskype_work(work), task, attempt
        self.workers = self.ranked.workers
        self._node = TaskNode(work)
        self.files = self._node.files
        self.step = StepReader(work, self.files)

    @property
    def spread(self) -> Spread:
        """Which finders hold which subscriptions."""
        return _spread(self.ranked.spread)

    @property
    def timeline(self) -> Timeline:
        """The step, or the moment before it if buffers are rebuilt."""
        return self.step.timeline if self.ranked.portion is None else self.step.before

    @property
    def _space(self) -> Space:
        box = self.ranked.space
        return box.west, box.south, planar_distance(box.west, box.south, box.east, box.north)

    def _marks(self) -> list[Mark]:
        """The previous step and this one, marked with the epoch of their buffers."""
        epoch = self.ranked.epoch
        return [Mark(each.number, f"{each.key} {epoch}") for each in self.ranked.steps[-2:]]

    def _base(self) -> list[LeftFile]:
        """What buffers and finders are rebuilt from, if that was done before this step."""
        if self.ranked.base is None:
            raise NodeStateLost
        return self.ranked.base

    def finder(self) -> CachedFinder:
        """The finder of this task, ready for this step."""

        def start(finder: CachedFinder) -> int:
            finder.apply(self._finder_changes(self._base()))
            return 1

        recipe = Recipe(self.files, f"finder-{self.task:05}", None, self._marks(), start)
        kind = partial(CachedFinder, space=self._space)
        return self._node.cache.get(kind, recipe, lambda _: self._finder_changes(self.ranked.left))

    def _finder_changes(self, files: list[LeftFile]) -> FinderChanges:
        """What files change in the finder of this task."""
        changes = FinderChanges([], [], [], [])
        for file in files:
            if file.kind == OUTCOME:
                changes.outcomes.append(self.read(file.name, ShardOutcome))
                continue
            fresh = self.read(file.name, FreshBuffers)
            start, stop = fresh.starts[self.task : self.task + 2]
            held = fresh.refills.without_messages(fresh.places[start:stop])
            changes.refills.append(fresh.refills)
            changes.held.append(held)
            shards = self.ranked.buckets[buckets_of(held.wanted.ids, self.work.secret)]
            changes.shards.append(shards.astype(np.int32))
        return changes

    def buffer_shard(self, step: Callable[[list[Refills]], BufferStep]) -> CachedBufferShard:
        """The buffer shard of this task, after this step."""

        def refills(files: list[LeftFile]) -> list[Refills]:
            mine = (each for each in files if (each.kind, each.shard) == (BUFFERS, self.task))
            return [self.read(each.name, FreshBuffers).refills for each in mine]

        def start(shard: CachedBufferShard) -> int:
            for each in refills(self._base()):
                shard.fill(each)
            return 1

        recipe = Recipe(self.files, f"home-{self.task:05}", None, self._marks(), start)
        return self._node.cache.get(
            CachedBufferShard, recipe, lambda _: step(refills(self.ranked.left))
        )

    def part(self) -> WindowPart:
        """The part of the window of this task, including this step."""
        ranked, part, parts = self.ranked, self.task, self.workers

        def start(empty: WindowPart) -> int:
            empty.assign(part, parts, ranked.first)
            empty.apply(PartStep(self.step.part_of_window(part, parts), ranked.first))
            return len(ranked.steps) - 1

        def change(mark: Mark) -> PartStep:
            place = ranked.steps.index(mark)
            messages = self.step.part_of_step(ranked.files[place - 1], part, parts)
            return PartStep(messages, self._oldest(mark))

        recipe = Recipe(self.files, f"part-{part:05}-of-{parts}", None, ranked.steps, start)
        return self._node.cache.get(partial(WindowPart, space=self._space), recipe, change)

    def _oldest(self, mark: Mark) -> int:
        """The oldest message that is needed after a step; before the last step, all are."""
        return self.ranked.first if mark == self.ranked.steps[-1] else 0

    def ids(self) -> NumberedStrings:
        """The ids of all messages of the window, and of those that expire in this step."""
        ranked = self.ranked

        def start(empty: CachedMessageIds) -> int:
            empty.begin(ranked.first)
            rows = window_messages(self.files, ranked.before, ranked.first, ranked.next)
            empty.apply(IdsStep(rows["id"].combine_chunks(), ranked.first))
            return len(ranked.steps) - 1

        def change(mark: Mark) -> IdsStep:
            rows = read_messages(self.files, ranked.files[ranked.steps.index(mark) - 1])
            some = rows.filter(rows["number"].to_numpy() >= 0)
            return IdsStep(some["id"].combine_chunks(), self._oldest(mark))

        recipe = Recipe(self.files, "message-ids", None, ranked.steps, start)
        return self._node.cache.get(CachedMessageIds, recipe, change).texts

    def read(self, name: str, kind: type[F]) -> F:
        """Read a file that a task wrote."""
        return unpack(self.files.map(name), kind)

    def keep(self, content: ShardOutcome | FreshBuffers) -> LeftFile:
        """Write a file for tasks of this step and of the next."""
        kind = OUTCOME if isinstance(content, ShardOutcome) else BUFFERS
        portion = self.ranked.portion
        part = "" if portion is None else f"-{portion.number}"
        name = f"{self.task:05}{part}-{self.ranked.epoch}-{self._attempt}"
        path = f"{FOLDER}/{self.step.number:09}/{kind}-{name}"
        self.files.write(path, pack(content), durable=False)
        return LeftFile(kind, self.task, path)

    def update_file(self, stage: int) -> UpdateFile:
        """The file for the updates of this task."""
        return UpdateFile(self.work, FIRST_TASK * (stage + 1) + self.task, self._attempt)

    def ready(self) -> None:
        """Note that the cached state is up to date and the work begins."""
        self._laps.lap("catch up")

    def report(
        self, role: str, name: str | None = None, left: Sequence[LeftFile] = (), **facts: Any
    ) -> TaskReport:
        """What the task did; `facts` are fields of the report of a worker."""
        return TaskReport(self._laps.report(self.task, **facts), name, True, role, [*left])
