"""Runs the tasks of a pipeline on Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from nearcast.partition.plan import Plan
from nearcast.spark.tasks import Report, Work, dispatch, match_dispatched, match_shared

_REPORT = "report string"
_PACKET = "worker int, packet binary"
_PACKET_SCHEMA = pa.schema([("worker", pa.int32()), ("packet", pa.binary())])


class SparkRunner:
    """One job for each step: dispatcher and workers in two stages, or one if nothing is split."""

    def __init__(self, session: SparkSession, tasks: int | None = None) -> None:
        self._session = session
        self.tasks = tasks or session.sparkContext.defaultParallelism

    def run(self, work: Work, plan: Plan) -> list[Report]:
        """Match the messages of a step."""
        count = len(work.parts)
        numbers = self._session.range(0, count, 1, count)
        if plan.kind == "shared":
            answers = numbers.mapInArrow(_shared(work), _REPORT)
        else:
            packets = numbers.mapInArrow(_dispatcher(work), _PACKET)
            spread = packets.repartitionById(plan.workers, "worker")
            answers = spread.mapInArrow(_worker(work), _REPORT)
        return [Report(**json.loads(row.report)) for row in answers.collect()]


def _attempt() -> int:
    """Tells what this attempt at a task writes from what another one did."""
    context = TaskContext.get()
    return int(context.taskAttemptId()) if context else 0


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _shared(work: Work) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in _numbers(batches):
            yield match_shared(work, task, _attempt()).to_batch()

    return run


def _dispatcher(work: Work) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in _numbers(batches):
            for worker, packet in dispatch(work, task):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([worker], pa.int32()), pa.array([packet], pa.binary())],
                    schema=_PACKET_SCHEMA,
                )

    return run


def _worker(work: Work) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packets: dict[int, list[bytes]] = {}
        for batch in batches:
            columns = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            for worker, packet in columns:
                packets.setdefault(worker, []).append(packet)
        for worker, some in packets.items():
            yield match_dispatched(work, worker, iter(some), _attempt()).to_batch()

    return run
