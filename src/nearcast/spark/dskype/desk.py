"""What a task of distributed top-k has at hand: its step, its holder, its files, its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.engine.message_ids import NumberedStrings
from nearcast.geo import planar_distance
from nearcast.partition.topk.spread import Spread
from nearcast.spark.dskype.clock import Timeline
from nearcast.spark.dskype.columns import Refills
from nearcast.spark.dskype.holders import (
    HomeStep,
    IdsStep,
    InSpace,
    KeptFinder,
    KeptHome,
    KeptIds,
    KeptPart,
    LeftByStep,
    Lost,
    PartStep,
)
from nearcast.spark.dskype.packing import unpack
from nearcast.spark.dskype.reading import StepReader
from nearcast.spark.node import LogStep as Mark
from nearcast.spark.node import Recipe
from nearcast.spark.ranked.window import read_messages, window_messages
from nearcast.spark.ranked.work import buckets_of

if TYPE_CHECKING:
    from nearcast.spark.tasks import TaskInput, UpdateFile

FOLDER = "ranked"
"""Where in the state requests and refills are, by step."""

_TASKS = 1 << 20  # files of those that rank are told from others by it
_spreads: dict[bytes, Spread] = {}


class Desk:
    """The place of a task."""

    def __init__(self, work: TaskInput, task: int, attempt: int) -> None:
        from nearcast.spark.tasks import TaskNode

        assert work.ranked is not None  # noqa: S101 - made for those that rank
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
        """Who finds for whom."""
        data: bytes = self._extra["spread"]
        if data not in _spreads:
            _spreads.clear()
            _spreads[data] = Spread.from_bytes(data)
        return _spreads[data]

    @property
    def timeline(self) -> Timeline:
        """The step, or the moment before it where only buffers are asked for."""
        return self.step.timeline if self._extra["portion"] is None else self.step.before

    def _in_space(self, kind: type) -> InSpace:
        box = self._ranked.space
        diagonal = planar_distance(box.west, box.south, box.east, box.north)
        return InSpace(kind, (box.west, box.south, diagonal))

    def _marks(self) -> list[Mark]:
        """The step before and this one, as far as buffers go back."""
        epoch = self._extra["epoch"]
        return [Mark(each.number, f"{each.key} {epoch}") for each in self._ranked.steps[-2:]]

    def _read(self, key: str, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for found, home, name in self._extra[key] or []:
            if found == kind:
                yield home, unpack(self.files.map(name))

    def finder(self) -> KeptFinder:
        """The finder of this task, as it is for this step."""

        def start(finder: KeptFinder) -> int:
            if self._extra["base"] is None:
                raise Lost
            finder.apply(self._left("base"))
            return 1

        recipe = Recipe(self.files, f"finder-{self.task:05}", None, self._marks(), start)
        kind = self._in_space(KeptFinder)
        found: KeptFinder = self._node.cache.get(kind, recipe, lambda _: self._left("left"))
        return found

    def _left(self, key: str) -> LeftByStep:
        """What is left to the finder of this task."""
        left = LeftByStep([], [], [], [])
        for _, outcome in self._read(key, "outcome"):
            left.gone.append(outcome["gone"])
            left.raised.append((outcome["raised"], outcome["thetas"]))
        for _, file in self._read(key, "refills"):
            refills: Refills = file["refills"]
            left.gone.append(refills.wanted.owners)
            start, stop = file["starts"][self.task : self.task + 2]
            some = refills.without_messages(file["dealt"][start:stop])
            left.refills.append(some)
            buckets = buckets_of(some.wanted.ids)
            left.homes.append(self._ranked.buckets[buckets].astype(np.int32))
        return left

    def home(self, step: Callable[[list[Refills]], HomeStep]) -> KeptHome:
        """The home of this task, after this step."""

        def refills(key: str) -> list[Refills]:
            found = self._read(key, "refills")
            return [file["refills"] for home, file in found if home == self.task]

        def start(home: KeptHome) -> int:
            if self._extra["base"] is None:
                raise Lost
            for each in refills("base"):
                home.fill(each)
            return 1

        recipe = Recipe(self.files, f"home-{self.task:05}", None, self._marks(), start)
        return self._node.cache.get(KeptHome, recipe, lambda _: step(refills("left")))

    def part(self) -> KeptPart:
        """The part of the window of this task, with this step."""
        ranked, part, parts = self._ranked, self.task, self.workers

        def start(empty: KeptPart) -> int:
            empty.become(part, parts, ranked.first)
            empty.take(self.step.part_of_window(part, parts), ranked.first)
            return len(ranked.steps) - 1

        def change(mark: Mark) -> PartStep:
            place = ranked.steps.index(mark)
            messages = self.step.part_of_step(ranked.files[place - 1], part, parts)
            return PartStep(messages, self._oldest(mark))

        recipe = Recipe(self.files, f"part-{part:05}-of-{parts}", None, ranked.steps, start)
        found: KeptPart = self._node.cache.get(self._in_space(KeptPart), recipe, change)
        return found

    def _oldest(self, mark: Mark) -> int:
        """The oldest message that is needed from a step on; before the last it is any."""
        return self._ranked.first if mark == self._ranked.steps[-1] else 0

    def ids(self) -> NumberedStrings:
        """The ids of all messages of the window, and of those that leave it with this step."""
        ranked = self._ranked

        def start(empty: KeptIds) -> int:
            empty.begin(ranked.first)
            rows = window_messages(self.files, ranked.before, ranked.first, ranked.next)
            empty.apply(IdsStep(rows["id"].combine_chunks(), ranked.first))
            return len(ranked.steps) - 1

        def change(mark: Mark) -> IdsStep:
            rows = read_messages(self.files, ranked.files[ranked.steps.index(mark) - 1])
            some = rows.filter(rows["number"].to_numpy() >= 0)
            return IdsStep(some["id"].combine_chunks(), self._oldest(mark))

        recipe = Recipe(self.files, "message-ids", None, ranked.steps, start)
        return self._node.cache.get(KeptIds, recipe, change).texts

    def keep(self, kind: str, data: bytes) -> str:
        """Write a file for tasks of this step and of the next, and give its name."""
        portion = self._extra["portion"]
        part = "" if portion is None else f"-{portion[0]}"
        epoch = self._extra["epoch"]
        name = f"{self.task:05}{part}-{epoch}-{self._attempt}"
        path = f"{FOLDER}/{self.step.number:09}/{kind}-{name}"
        self.files.write(path, data, durable=False)
        return path

    def update_file(self, stage: int) -> UpdateFile:
        """The file for the updates of this task."""
        from nearcast.spark.tasks import UpdateFile

        return UpdateFile(self.work, _TASKS * (stage + 1) + self.task, self._attempt)

    def ready(self) -> None:
        """Say that the task has what it needs, and begins."""
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
