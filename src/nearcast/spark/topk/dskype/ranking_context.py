"""The context of a task of distributed top-k: its step, cached state, files and report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.engine.message_ids import NumberedStrings
from nearcast.geo import planar_distance
from nearcast.partition.topk.spread import Spread
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.columns import Refills
from nearcast.spark.topk.dskype.holders import (
    BufferStep,
    CachedBufferShard,
    CachedFinder,
    CachedMessageIds,
    CachedWindowPart,
    FinderChanges,
    HolderFactory,
    IdsStep,
    NodeStateLost,
    PartStep,
)
from nearcast.spark.topk.dskype.packing import unpack
from nearcast.spark.topk.dskype.reading import StepReader
from nearcast.spark.topk.window import read_messages, window_messages
from nearcast.spark.topk.work import buckets_of
from nearcast.spark.workers.node import LogStep as Mark
from nearcast.spark.workers.node import Recipe

if TYPE_CHECKING:
    from nearcast.spark.workers.tasks import TaskInput, UpdateFile

FOLDER = "ranked"
"""Where in the state requests and refills are, by step."""

_TASKS = (
    1 << 20
)  # added to the numbers of ranking tasks, so that their files have names of their own
_spreads: dict[bytes, Spread] = {}


class RankingContext:
    """What one attempt at a task needs."""

    def __init__(self, work: TaskInput, task: int, attempt: int) -> None:
        from nearcast.spark.workers.tasks import TaskNode

        assert work.ranked is not None  # noqa: S101 - made for work with top-k subscriptions
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._ready = self._began
        self.work, self._ranked, self.task, self._attempt = work, work.ranked, task, attempt
        self.workers = work.ranked.workers
        self._extra = work.ranked.extra
        self._node = TaskNode(work)
        self.files = self._node.files
        self.step = StepReader(work, self.files)

    @property
    def spread(self) -> Spread:
        """Which finders hold which subscriptions."""
        data: bytes = self._extra["spread"]
        if data not in _spreads:
            _spreads.clear()
            _spreads[data] = Spread.from_bytes(data)
        return _spreads[data]

    @property
    def timeline(self) -> Timeline:
        """The step, or the moment before it if buffers are rebuilt."""
        return self.step.timeline if self._extra["portion"] is None else self.step.before

    def _in_space(self, kind: type) -> HolderFactory:
        box = self._ranked.space
        diagonal = planar_distance(box.west, box.south, box.east, box.north)
        return HolderFactory(kind, (box.west, box.south, diagonal))

    def _marks(self) -> list[Mark]:
        """The previous step and this one, marked with the epoch of their buffers."""
        epoch = self._extra["epoch"]
        return [Mark(each.number, f"{each.key} {epoch}") for each in self._ranked.steps[-2:]]

    def _read(self, key: str, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for found, shard, name in self._extra[key] or []:
            if found == kind:
                yield shard, unpack(self.files.map(name))

    def finder(self) -> CachedFinder:
        """The finder of this task, ready for this step."""

        def start(finder: CachedFinder) -> int:
            if self._extra["base"] is None:
                raise NodeStateLost
            finder.apply(self._finder_changes("base"))
            return 1

        recipe = Recipe(self.files, f"finder-{self.task:05}", None, self._marks(), start)
        kind = self._in_space(CachedFinder)
        found: CachedFinder = self._node.cache.get(
            kind, recipe, lambda _: self._finder_changes("left")
        )
        return found

    def _finder_changes(self, key: str) -> FinderChanges:
        """What files under `key` change in the finder of this task."""
        changes = FinderChanges([], [], [], [])
        for _, outcome in self._read(key, "outcome"):
            changes.gone.append(outcome["gone"])
            changes.raised.append((outcome["raised"], outcome["thetas"]))
        for _, file in self._read(key, "refills"):
            refills: Refills = file["refills"]
            changes.gone.append(refills.wanted.owners)
            start, stop = file["starts"][self.task : self.task + 2]
            some = refills.without_messages(file["dealt"][start:stop])
            changes.refills.append(some)
            buckets = buckets_of(some.wanted.ids)
            changes.shards.append(self._ranked.buckets[buckets].astype(np.int32))
        return changes

    def buffer_shard(self, step: Callable[[list[Refills]], BufferStep]) -> CachedBufferShard:
        """The buffer shard of this task, after this step."""

        def refills(key: str) -> list[Refills]:
            found = self._read(key, "refills")
            return [file["refills"] for shard, file in found if shard == self.task]

        def start(shard: CachedBufferShard) -> int:
            if self._extra["base"] is None:
                raise NodeStateLost
            for each in refills("base"):
                shard.fill(each)
            return 1

        recipe = Recipe(self.files, f"home-{self.task:05}", None, self._marks(), start)
        return self._node.cache.get(CachedBufferShard, recipe, lambda _: step(refills("left")))

    def part(self) -> CachedWindowPart:
        """The part of the window of this task, including this step."""
        ranked, part, parts = self._ranked, self.task, self.workers

        def start(empty: CachedWindowPart) -> int:
            empty.assign(part, parts, ranked.first)
            empty.take(self.step.part_of_window(part, parts), ranked.first)
            return len(ranked.steps) - 1

        def change(mark: Mark) -> PartStep:
            place = ranked.steps.index(mark)
            messages = self.step.part_of_step(ranked.files[place - 1], part, parts)
            return PartStep(messages, self._oldest(mark))

        recipe = Recipe(self.files, f"part-{part:05}-of-{parts}", None, ranked.steps, start)
        found: CachedWindowPart = self._node.cache.get(
            self._in_space(CachedWindowPart), recipe, change
        )
        return found

    def _oldest(self, mark: Mark) -> int:
        """The oldest message that is needed after a step; before the last step, all are."""
        return self._ranked.first if mark == self._ranked.steps[-1] else 0

    def ids(self) -> NumberedStrings:
        """The ids of all messages of the window, and of those that expire in this step."""
        ranked = self._ranked

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

    def keep(self, kind: str, data: bytes) -> str:
        """Write a file for tasks of this step and of the next, and return its name."""
        portion = self._extra["portion"]
        part = "" if portion is None else f"-{portion[0]}"
        epoch = self._extra["epoch"]
        name = f"{self.task:05}{part}-{epoch}-{self._attempt}"
        path = f"{FOLDER}/{self.step.number:09}/{kind}-{name}"
        self.files.write(path, data, durable=False)
        return path

    def update_file(self, stage: int) -> UpdateFile:
        """The file for the updates of this task."""
        from nearcast.spark.workers.tasks import UpdateFile

        return UpdateFile(self.work, _TASKS * (stage + 1) + self.task, self._attempt)

    def ready(self) -> None:
        """Note that the cached state is up to date and the work begins."""
        self._ready = time.perf_counter()

    def report(self, role: str, **facts: Any) -> dict[str, Any]:
        """What the task did, as the fields of a `Report`."""
        now = time.perf_counter()
        known = {"messages": 0, "updates": 0, "candidates": 0, "rows": 0, "bytes": 0, "name": None}
        seconds = {"catch up": self._ready - self._began, "rank": now - self._ready}
        return {
            "task": self.task,
            "worker": self.task,
            "seconds": seconds,
            "cpu_s": time.process_time() - self._cpu,
            "ranked": True,
            "role": role,
            **known,
            **facts,
        }
