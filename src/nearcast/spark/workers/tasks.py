"""What runs in the tasks of a job: reading and matching messages, and dispatching them.

A task gets a `TaskInput`, which says everything it needs: which rows to read, which step the shards
must have reached, where to write. It answers with one line of JSON. Updates do not go through the
JVM: a task writes its own Parquet file, and the driver decides which files count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.arrays.types import Int32s, Int64s
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.partition.owners import owns
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_messages
from nearcast.spark.columns import mask_of
from nearcast.spark.driver.versions import line_of
from nearcast.spark.io.files import Files
from nearcast.spark.io.sink import Sink
from nearcast.spark.operations import OPERATIONS
from nearcast.spark.readers.slices import MESSAGE_COLUMNS, Slice
from nearcast.spark.reports.report import WorkerReport
from nearcast.spark.topk.work import RankedWork
from nearcast.spark.workers.messages import MessageBatch, messages_of
from nearcast.spark.workers.node import LogStep, NodeCache, Recipe
from nearcast.spark.workers.packets import pack, unpack
from nearcast.spark.workers.router import Router
from nearcast.spark.workers.shard import Shard, ShardMessages
from nearcast.text import Analyser

_AT_ONCE = 1 << 16  # messages matched together
_SHARED = "all"

Packet = bytes


@dataclass
class EventSlice:
    """A slice, and the rows of it that look like messages but must not be matched."""

    slice: Slice
    left_out: Int64s


@dataclass
class TaskInput:
    """The input of the tasks of one step."""

    pipeline: str
    run: str  # of the pipeline: what nodes keep is for one run only
    state: str
    plan: bytes
    steps: list[LogStep]  # that shards follow, from the base on
    analyser: Analyser
    parts: list[list[EventSlice]]  # by task
    output: str  # the folder that updates are for
    asked: list[int] = field(default_factory=list)  # workers that must answer, also to no message
    snapshots: dict[str, int] = field(default_factory=dict)  # of holders: the step
    save: bool = False  # shards are to be written as snapshots
    ranked: RankedWork | None = None  # for the tasks that rank; None without top-k subscriptions


_caches: dict[tuple[str, str], NodeCache] = {}
_plans: dict[bytes, Plan] = {}


def _cache(pipeline: str, run: str) -> NodeCache:
    if (pipeline, run) not in _caches:
        _caches.clear()  # a process works for one pipeline at a time
        cache = _caches[pipeline, run] = NodeCache(pipeline, run)
        cache.occupy()
    return _caches[pipeline, run]


def _plan(data: bytes) -> Plan:
    if data not in _plans:
        _plans.clear()
        _plans[data] = Plan.from_bytes(data)
    return _plans[data]


class TaskNode:
    """The cached state on the node of a task."""

    def __init__(self, work: TaskInput) -> None:
        self.work = work
        self.plan = _plan(work.plan)
        self._line = line_of(self.plan)
        self.cache = _cache(work.pipeline, work.run)
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


def read_messages(parts: list[EventSlice], analyser: Analyser) -> MessageBatch:
    """Read the messages of some slices."""
    tables, seqs, masks = [], [], []
    for part in parts:
        table, seq = part.slice.read(MESSAGE_COLUMNS)
        mask = mask_of(pc.equal(table["op"], "publish").combine_chunks())
        if len(part.left_out):
            mask = mask.copy()
            mask[part.left_out] = False
        tables.append(table)
        seqs.append(seq)
        masks.append(mask)
    return messages_of(
        pa.concat_tables(tables), np.concatenate(seqs), np.concatenate(masks), analyser
    )


class UpdateFile:
    """Collects the updates of a task in one file, which is made when there is something for it."""

    def __init__(self, work: TaskInput, task: int, attempt: int) -> None:
        self._place = (work.steps[-1].number, task, attempt)
        self._sink = Sink(work.output)
        self.name: str | None = None
        self.rows = 0
        self._stream: Any = None
        self._writer: Any = None

    def write(
        self,
        seq: Int64s,
        names: pa.Array,
        ids: pa.Array,
        removed: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add updates, that add or remove."""
        if not len(seq):
            return
        code = np.zeros(len(seq), np.int8) if removed is None else removed.astype(np.int8)
        op = pa.DictionaryArray.from_arrays(pa.array(code), ["add", "remove"])
        columns = [
            pa.array(seq),
            op.cast(pa.string()),
            names.cast(pa.string()),
            ids.cast(pa.string()),
            pa.nulls(len(seq), pa.float64()),
        ]
        self.write_table(pa.Table.from_arrays(columns, schema=UPDATE_SCHEMA))

    def write_table(self, updates: pa.Table) -> None:
        """Add updates that are in their columns already."""
        if not len(updates):
            return
        if self._writer is None:
            self.name, self._stream = self._sink.open(*self._place)
            self._writer = pq.ParquetWriter(
                self._stream, UPDATE_SCHEMA, compression="zstd", use_dictionary=["op", "message"]
            )
        self._writer.write_table(updates)
        self.rows += len(updates)

    def close(self) -> str | None:
        """Close the file, and return its name; None if nothing was written."""
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
        return self.name


def _cut(messages: ShardMessages, start: int, stop: int) -> ShardMessages:
    """Messages from one place to another."""
    if start == 0 and stop == len(messages.boxes):
        return messages
    starts, hashes = messages.texts
    texts = messages.texts._replace(
        starts=starts[start : stop + 1] - starts[start], hashes=hashes[starts[start] : starts[stop]]
    )
    return ShardMessages(
        texts, messages.boxes[start:stop], messages.number[start:stop], messages.seq
    )


def _edges(number: Int32s) -> Iterator[tuple[int, int]]:
    """Cut places into stretches that are matched together, never between those of one message."""
    start = 0
    while start < len(number):
        stop = min(start + _AT_ONCE, len(number))
        while stop < len(number) and number[stop] == number[stop - 1]:
            stop += 1
        yield start, stop
        start = stop


def match_into(
    file: UpdateFile, shard: Shard, texts: MessageBatch, plan: Plan, worker: int | None
) -> tuple[int, int]:
    """Match messages, write the updates, and give how many and how many candidates."""
    messages, candidates = texts.messages, 0
    for start, stop in _edges(messages.number):
        some = _cut(messages, start, stop)
        found = shard.match(some)
        candidates += found.candidates
        places, owners = found.places, found.owners
        if worker is not None and plan.kind == "grid":
            mine = owns(
                plan, worker, some.boxes, shard.table.rows.box, shard.keys, places, found.rows
            )
            places, owners = places[mine], owners[mine]
        numbers = some.number[places]
        file.write(messages.seq[numbers], shard.names_of(owners), texts.ids.take(pa.array(numbers)))
    return file.rows, candidates


def changes_into(
    file: UpdateFile, shard: Shard, plan: Plan, worker: int | None, part: slice = slice(None)
) -> int:
    """Write what the changes of the step added and removed, and give how many updates there are.

    Of a pair that several workers know, the one writes that answers for it as it is, or was.
    """
    found = shard.changed(part)
    mine = shard.answers_for(found.rows)
    if worker is not None and plan.kind == "grid":
        rows = shard.table.rows.box
        mine &= owns(plan, worker, shard.held.boxes, rows, shard.keys, found.slots, found.rows)
    names, ids = shard.names_of(found.owners[mine]), shard.held.names_of(found.slots[mine])
    file.write(found.seq[mine], names, ids, found.removed[mine])
    return file.rows


@dataclass
class TaskReport:
    """What a task did."""

    task: int
    worker: int
    messages: int
    updates: int
    candidates: int
    rows: int
    bytes: int
    name: str | None
    seconds: dict[str, float]
    cpu_s: float
    active: int = 0
    ranked: bool = False  # of a worker that ranks
    role: str = ""  # of such a worker, where there are several kinds
    left: list[list[Any]] = field(
        default_factory=list
    )  # files for the next step: kind, buffer shard, name

    def summary(self) -> WorkerReport:
        """The part of it that is stored in the report of a batch."""
        return WorkerReport(
            worker=self.worker,
            load=round(self.cpu_s, 6),
            lag=round(self.seconds["catch up"], 6),
            candidates=self.candidates,
            messages=self.messages,
            updates=self.updates,
            rows=self.rows,
            bytes=self.bytes,
            active=self.active,
        )

    def to_packet(self) -> Packet:
        """As a packet for the driver."""
        return json.dumps(self.__dict__).encode()

    @classmethod
    def from_packet(cls, packet: Packet) -> TaskReport:
        """Read one that was sent."""
        return cls(**json.loads(packet))


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def match_shared(work: TaskInput, task: int, attempt: int) -> TaskReport:
    """Match the messages of some slices against everything there is."""
    began, cpu = _now()
    node = TaskNode(work)
    texts = read_messages(work.parts[task], work.analyser)
    read = time.perf_counter()
    shard = node.shard(None)
    ready = time.perf_counter()
    file = UpdateFile(work, task, attempt)
    _, candidates = match_into(file, shard, texts, node.plan, None)
    updates = changes_into(file, shard, node.plan, None, slice(task, None, len(work.parts)))
    name = file.close()
    if task == 0:
        node.save(None)
    stats = shard.stats()
    done, cpu_done = _now()
    return TaskReport(
        task, task, len(texts.ids), updates, candidates, int(stats["rows"]), int(stats["bytes"]),
        name, {"read": read - began, "catch up": ready - read, "match": done - ready},
        cpu_done - cpu, int(stats["active"]),
    )  # fmt: skip


def dispatch(work: TaskInput, task: int) -> Iterator[tuple[int, bytes]]:
    """Read messages, and give for each worker those that may concern it, packed."""
    node = TaskNode(work)
    texts = read_messages(work.parts[task], work.analyser)
    messages = texts.messages
    wanted = node.router().wanted
    slots = None if wanted is None else wanted.slots
    numbers, workers = route_messages(node.plan, slots, messages.boxes, *messages.texts)
    for worker in range(node.plan.workers):
        places = numbers[workers == worker]
        if len(places) or (task == 0 and worker in work.asked):
            yield worker, pack(texts, places)


def match_dispatched(
    work: TaskInput, worker: int, packets: Iterator[bytes], attempt: int
) -> TaskReport:
    """Match what was dispatched to a worker."""
    began, cpu = _now()
    node = TaskNode(work)
    texts = unpack(packets)
    read = time.perf_counter()
    shard = node.shard(worker)
    ready = time.perf_counter()
    file = UpdateFile(work, worker, attempt)
    _, candidates = match_into(file, shard, texts, node.plan, worker)
    updates = changes_into(file, shard, node.plan, worker)
    name = file.close()
    node.save(worker)
    stats = shard.stats()
    done, cpu_done = _now()
    return TaskReport(
        worker, worker, len(texts.ids), updates, candidates, int(stats["rows"]),
        int(stats["bytes"]), name,
        {"read": read - began, "catch up": ready - read, "match": done - ready}, cpu_done - cpu,
        int(stats["active"]),
    )  # fmt: skip
