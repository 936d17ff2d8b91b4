"""Runs the tasks of a pipeline on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from nearcast.partition.plan import Plan
from nearcast.spark.topk.registry import stages_of
from nearcast.spark.workers import kernels
from nearcast.spark.workers.tasks import (
    TaskInput,
    TaskReport,
    dispatch,
    match_dispatched,
    match_shared,
)

_PACKET = "worker int, packet binary"
_PACKET_SCHEMA = pa.schema([("worker", pa.int32()), ("packet", pa.binary())])


class SparkRunner:
    """One job for each step: dispatcher and workers in two stages, or one if nothing is split.

    Those that rank run in the same job, in stages of their own.
    """

    def __init__(self, session: SparkSession, tasks: int | None = None) -> None:
        self._session = session
        self.tasks = tasks or session.sparkContext.defaultParallelism

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Match the messages of a step, and rank them."""
        answers = []
        if work.parts and plan.kind == "shared":
            answers.append(self._numbers(len(work.parts)).mapInArrow(_shared(work), _PACKET))
        elif work.parts:
            packets = self._numbers(len(work.parts)).mapInArrow(_dispatcher(work), _PACKET)
            spread = packets.repartitionById(plan.workers, "worker")
            answers.append(spread.mapInArrow(_worker(work), _PACKET))
        stages = stages_of(work)
        if stages:
            frame = self._numbers(stages[0].width).mapInArrow(_first_stage(work), _PACKET)
            for number, stage in enumerate(stages[1:], 1):
                spread = frame.repartitionById(stage.width, "worker")
                frame = spread.mapInArrow(_stage(work, number), _PACKET)
            answers.append(frame)
        if not answers:
            return []
        rows = reduce(DataFrame.union, answers).collect()
        return [TaskReport.from_packet(bytes(row.packet)) for row in rows]

    def wake(self) -> None:
        """Have Python processes started on the nodes, and leave room for other tasks meanwhile."""
        self._numbers(max(1, self.tasks // 2)).mapInArrow(_nothing, "id bigint").collect()

    def _numbers(self, count: int) -> DataFrame:
        return self._session.range(0, count, 1, count)


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()


def _attempt() -> int:
    """A number that is unique to this attempt at a task, for the names of its files."""
    context = TaskContext.get()
    return int(context.taskAttemptId()) if context else 0


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _packet(worker: int, packet: bytes) -> pa.RecordBatch:
    columns = [pa.array([worker], pa.int32()), pa.array([packet], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_PACKET_SCHEMA)


def _by_worker(batches: Iterable[pa.RecordBatch]) -> dict[int, list[bytes]]:
    packets: dict[int, list[bytes]] = {}
    for batch in batches:
        columns = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        for worker, packet in columns:
            packets.setdefault(worker, []).append(packet)
    return packets


def _shared(work: TaskInput) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.fetch(work.state)
        for task in _numbers(batches):
            yield _packet(task, match_shared(work, task, _attempt()).to_packet())

    return run


def _dispatcher(work: TaskInput) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.fetch(work.state)
        for task in _numbers(batches):
            for worker, packet in dispatch(work, task):
                yield _packet(worker, packet)

    return run


def _worker(work: TaskInput) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.fetch(work.state)
        for worker, some in _by_worker(batches).items():
            report = match_dispatched(work, worker, iter(some), _attempt())
            yield _packet(worker, report.to_packet())

    return run


def _first_stage(work: TaskInput) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.fetch(work.state)
        for task in _numbers(batches):
            for worker, packet in stages_of(work)[0].run(work, task, iter(()), _attempt()):
                yield _packet(worker, packet)

    return run


def _stage(work: TaskInput, number: int) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.fetch(work.state)
        for task, some in _by_worker(batches).items():
            for worker, packet in stages_of(work)[number].run(work, task, iter(some), _attempt()):
                yield _packet(worker, packet)

    return run
