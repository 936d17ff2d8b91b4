"""Runs the tasks of a pipeline on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from nearcast.partition.plan import Plan
from nearcast.spark.packed import ReadInput
from nearcast.spark.placement import ShardPlacement
from nearcast.spark.reading import read_part
from nearcast.spark.topk.registry import chains_of
from nearcast.spark.workers import kernels
from nearcast.spark.workers.task import Stage, TaskInput, TaskReport

_ROWS_MORE = 1000
"""About how many rows are read in the time that it takes to begin to read."""

_PACKET = "worker int, packet binary"
_PACKET_SCHEMA = pa.schema([("worker", pa.int32()), ("packet", pa.binary())])


class SparkRunner:
    """One job for each step: a chain of stages that match, and one of stages that rank."""

    def __init__(self, session: SparkSession, tasks: int | None = None) -> None:
        self._session = session
        self.tasks = tasks or session.sparkContext.defaultParallelism
        self._placement = ShardPlacement(session)
        self.job_s = 0.05
        """About how long it takes to start a job; what is read in less time is read here."""
        self._a_row = 20e-6  # seconds of CPU to read one

    def read(self, work: ReadInput) -> None:
        """Read the events of a step: in a job, or here if that takes less time than to start one.

        How long it takes is guessed from the step before.
        """
        expected = self._a_row * (work.rows + _ROWS_MORE)
        numbers = range(len(work.parts))
        if expected < self.job_s:
            took = sum(_read(work, number) for number in numbers)
        else:
            frame = self._numbers(len(work.parts)).mapInArrow(_reading(work), "seconds double")
            took = sum(row.seconds for row in frame.collect())
        self._a_row = took / (work.rows + _ROWS_MORE)

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Match the messages of a step, and rank them."""
        self._placement.look()
        answers = [self._run(work, chain) for chain in chains_of(work, plan)]
        if not answers:
            return []
        rows = reduce(DataFrame.union, answers).collect()
        return [TaskReport.from_packet(bytes(row.packet)) for row in rows]

    def _run(self, work: TaskInput, chain: list[Stage]) -> DataFrame:
        frame = self._numbers(chain[0].width)
        for number, stage in enumerate(chain):
            if number:
                frame = frame.repartitionById(stage.width, "worker")
            if stage.pinned:
                frame = self._placement.pinned(frame, stage.width)
            frame = frame.mapInArrow(_tasks(work, stage, is_first=number == 0), _PACKET)
        return frame

    def wake(self) -> None:
        """Have Python processes started on the nodes, and leave room for other tasks meanwhile."""
        self._numbers(max(1, self.tasks // 2)).mapInArrow(_nothing, "id bigint").collect()

    def _numbers(self, count: int) -> DataFrame:
        return self._session.range(0, count, 1, count)


def _read(work: ReadInput, number: int) -> float:
    """Read a part of a step, and give the seconds of CPU it took."""
    began = time.process_time()
    read_part(work, number)
    return time.process_time() - began


def _reading(work: ReadInput) -> Any:
    """Read the parts whose numbers are in a partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.fetch(work.state)
        for number in _without_packets(batches):
            yield pa.RecordBatch.from_pydict({"seconds": [_read(work, number)]})

    return run


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()


def _tasks(work: TaskInput, stage: Stage, *, is_first: bool) -> Any:
    """Run the tasks of a stage whose numbers, or whose packets, are in a partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.fetch(work.state)
        found = _without_packets(batches) if is_first else _by_task(batches)
        for task, packets in found.items():
            for to, packet in stage.run(work, task, iter(packets), _attempt()):
                columns = [pa.array([to], pa.int32()), pa.array([packet], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, schema=_PACKET_SCHEMA)

    return run


def _without_packets(batches: Iterable[pa.RecordBatch]) -> dict[int, list[bytes]]:
    return {number: [] for batch in batches for number in batch.column(0).to_pylist()}


def _by_task(batches: Iterable[pa.RecordBatch]) -> dict[int, list[bytes]]:
    packets: dict[int, list[bytes]] = {}
    for batch in batches:
        columns = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        for task, packet in columns:
            packets.setdefault(task, []).append(packet)
    return packets


def _attempt() -> int:
    """A number that is unique to this attempt at a task, for the names of its files."""
    context = TaskContext.get()
    return int(context.taskAttemptId()) if context else 0
