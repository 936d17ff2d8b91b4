"""A task of a step: its input, the cached state on its node, its file of updates, its report.

A task gets a `TaskInput`, which says everything it needs: which rows to read, which step the shards
must have reached, where to write. Updates do not go through the JVM: a task writes its own Parquet
file, and the driver decides which files count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.arrays.slots import Secret, as_secret
from nearcast.arrays.types import Floats, Int64s
from nearcast.engine.settings import Settings
from nearcast.events.columns import updates_table
from nearcast.events.fields import ADD
from nearcast.partition.adjust.versions import line_of
from nearcast.partition.plan import Plan
from nearcast.spark.included import with_included
from nearcast.spark.io.files import Files
from nearcast.spark.io.sink import Sink
from nearcast.spark.operations import OPERATIONS
from nearcast.spark.packed import ReadInput
from nearcast.spark.readers.slices import Slice
from nearcast.spark.reports.report import WorkerReport
from nearcast.spark.workers.node import LogStep, NodeCache, Recipe
from nearcast.spark.workers.node_folders import node_name
from nearcast.spark.workers.ranked_work import RankedWork
from nearcast.spark.workers.router import Router
from nearcast.spark.workers.shard import Shard
from nearcast.text import Analyser

_SHARED = "all"


@dataclass
class EventSlice:
    """A slice, and the rows of it that look like messages but must not be matched."""

    slice: Slice
    left_out: Int64s
    times: Floats | None = None  # of all rows, if updates are to have them


@dataclass
class TaskInput:
    """The input of the tasks of one step."""

    pipeline: str
    run: str  # of the pipeline: what nodes keep is for one run only
    state: str
    plan: bytes
    steps: list[LogStep]  # that shards follow, from the base on
    settings: Settings  # of the pipeline, without the history
    parts: list[list[EventSlice]]  # by task
    output: str  # the folder that updates are for
    asked: list[int] = field(default_factory=list)  # workers that must answer, also to no message
    snapshots: dict[str, int] = field(default_factory=dict)  # of holders: the step
    save: bool = False  # shards are to be written as snapshots
    everyone: bool = False  # some subscription asks for every message
    asks: bool = False  # some subscription asks for more than terms
    include: tuple[str, ...] = ()  # the columns that updates have besides
    ranked: RankedWork | None = None  # for the tasks that rank; None without top-k subscriptions

    @property
    def analyser(self) -> Analyser:
        """The analyser of texts."""
        return self.settings.analyser

    @property
    def secret(self) -> Secret:
        """What hashes of terms and ids are made with."""
        return as_secret(self.settings.secret)


Packet = bytes
Packets = Iterator[tuple[int, Packet]]
"""What a task sends: each packet to a task of the stage that follows."""


class Stage(NamedTuple):
    """`width` tasks, each run with its number, the packets sent to it, and the attempt's number.

    All tasks of the first stage are run, and those of a later one that were sent a packet. The last
    stage sends reports (`TaskReport.to_packet`), whose target does not matter. The tasks of a stage
    that is `pinned` are workers, each of which has something on its node from step to step.
    """

    width: int
    run: Callable[[TaskInput, int, Iterator[Packet], int], Packets]
    pinned: bool = True


class LeftFile(NamedTuple):
    """A file that a task leaves in the state for the next step."""

    kind: str
    shard: int
    name: str


@dataclass
class TaskReport:
    """What a task did: `work` is stored in the report of its batch."""

    work: WorkerReport
    name: str | None = None  # of its file of updates
    ranked: bool = False  # of a worker that ranks
    role: str = ""  # of such a worker, where there are several kinds
    left: list[LeftFile] = field(default_factory=list)

    def to_packet(self) -> Packet:
        """As a packet for the driver."""
        return msgspec.json.encode(self)

    @classmethod
    def from_packet(cls, packet: Packet) -> TaskReport:
        """Read one that was sent."""
        return msgspec.json.decode(packet, type=cls)


class TaskRunner(Protocol):
    """Runs the tasks of a step."""

    tasks: int

    def read(self, work: ReadInput) -> None:
        """Read the events of a step."""
        ...

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Match the messages of a step, and rank them."""
        ...


class Laps:
    """Measures the seconds between laps, and the CPU time since it was made."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last, self._cpu = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> None:
        """Note how long it took since the lap before."""
        now = time.perf_counter()
        self.seconds[name] = round(now - self._last, 6)
        self._last = now

    def report(self, worker: int, **facts: Any) -> WorkerReport:
        """What a worker did, in the time since this was made; `facts` are further fields."""
        lag, load = self.seconds.get("catch up", 0.0), time.process_time() - self._cpu
        return WorkerReport(worker, round(load, 6), lag, where=node_name(), **facts)


@lru_cache(maxsize=1)
def node_cache(pipeline: str, run: str) -> NodeCache:
    """What this process keeps of a run; it works for one run of one pipeline at a time."""
    cache = NodeCache(pipeline, run)
    cache.occupy()
    return cache


@lru_cache(maxsize=1)
def _plan(data: bytes) -> Plan:
    return Plan.from_bytes(data)


class TaskNode:
    """The cached state on the node of a task."""

    def __init__(self, work: TaskInput) -> None:
        self.work = work
        self.plan = _plan(work.plan)
        self._line = line_of(self.plan)
        self.cache = node_cache(work.pipeline, work.run)
        self.files = Files(work.state)

    def _recipe(self, name: str) -> Recipe:
        holder = f"{self._line}-{name}"
        step = self.work.snapshots.get(holder)
        snapshot = None if step is None else f"snapshots/{holder}/{step:09}"
        return Recipe(self.files, holder, snapshot, self.work.steps)

    def _routed(self, step: LogStep, ending: str) -> Any:
        base = "base-" if step == self.work.steps[0] else ""
        data = self.files.map(f"routed/{self._line}/{base}{step.number:09}{ending}")
        return pa.ipc.open_file(data)

    def shard(self, worker: int | None) -> Shard:
        """The shard of a worker, or the one that has everything."""
        number = 0 if worker is None else worker

        def changes(step: LogStep) -> pa.Table:
            parts = self._routed(step, ".arrow")
            if number >= parts.num_record_batches:
                return OPERATIONS.empty_table()  # there was no such worker then
            return pa.Table.from_batches([parts.get_batch(number)])

        name = _SHARED if worker is None else f"{number:05}"
        return self.cache.get(Shard, self._recipe(name), changes)

    def operations(self, worker: int | None) -> pa.Table:
        """The operations of the step for the shard of a worker."""
        parts = self._routed(self.work.steps[-1], ".arrow")
        return pa.Table.from_batches([parts.get_batch(0 if worker is None else worker)])

    def router(self) -> Router:
        """The routing table."""
        return self.cache.get(
            Router,
            self._recipe("wanted"),
            lambda step: self._routed(step, ".wanted").read_all(),
        )

    def save(self, worker: int | None) -> None:
        """Write a shard as a snapshot, if that is due."""
        if self.work.save:
            name = f"{self._line}-{_SHARED if worker is None else f'{worker:05}'}"
            step = self.work.steps[-1].number
            self.cache.save_snapshot(name, self.files.below(f"snapshots/{name}/{step:09}"))


class UpdateFile:
    """Collects the updates of a task in one file, which is made when there is something for it."""

    def __init__(self, work: TaskInput, task: int, attempt: int) -> None:
        self._place = (work.steps[-1].number, task, attempt)
        self._include = work.include
        self._sink = Sink(work.output)
        self.name: str | None = None
        self.rows = 0
        self._stream: Any = None
        self._writer: Any = None

    @property
    def includes(self) -> bool:
        """Whether updates carry more than ids."""
        return bool(self._include)

    def write(
        self,
        seq: Int64s,
        names: pa.Array,
        ids: pa.Array,
        ops: npt.NDArray[np.int8] | int = ADD,
        bodies: Any = None,
        metas: Any = None,
    ) -> None:
        """Add updates of boolean subscriptions, with messages and `meta` if they carry these."""
        if len(seq):
            self.write_table(updates_table(seq, ops, names, ids), bodies, metas)

    def write_table(self, updates: pa.Table, bodies: Any = None, metas: Any = None) -> None:
        """Add updates that are in their columns already."""
        if not len(updates):
            return
        if self._include:
            updates = with_included(updates, self._include, bodies, metas)
        if self._writer is None:
            self.name, self._stream = self._sink.open(*self._place)
            self._writer = pq.ParquetWriter(
                self._stream, updates.schema, compression="zstd", use_dictionary=["op", "message"]
            )
        self._writer.write_table(updates)
        self.rows += len(updates)

    def close(self) -> str | None:
        """Close the file, and return its name; None if nothing was written."""
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
        return self.name
