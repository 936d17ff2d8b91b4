"""`nearcast bench spark-topk`: the pipeline beside two embedded engines, on the same events.

The engines have half of the subscriptions each, run in two processes at the same time, and take
the same batches as the pipeline, in turn with it. All start from a full window.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.engine.settings import Settings
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.geo import Box
from nearcast.topk.window import Window
from nearcast_lab.bench.processes import cpu_used
from nearcast_lab.bench.spark_latency import EVERY_S, WARM_UP_S, latencies, offer, written
from nearcast_lab.bench.topk_engine import published, wanted
from nearcast_lab.bench.topk_halves import HalvedEngines, UpdateDigest, outcome_of
from nearcast_lab.progress import Progress
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_PER_FILE = 50_000  # subscriptions
_WARM_UP = 1  # batches that are not timed


class SparkTopkSetup(NamedTuple):
    """What to measure; `rate` is how many messages a second are offered to time each of them."""

    subscriptions: int = 1_000_000
    window: int = 100_000
    batch: int = 20_000
    rounds: int = 5
    rate: int = 500
    seconds: float = 20.0
    master: str = "local[2]"
    seed: int = 1


class TopkReport(TypedDict):
    """Rates in messages a second and CPU in microseconds a message, medians over the rounds.

    `ratio` is the median over the rounds of the pipeline's rate by that of the engines next to it.
    CPU of the pipeline is that of its Python workers, of the JVM and of the driver.
    """

    subscriptions: int
    window: int
    messages_per_batch: int
    rounds: int
    pipeline_per_s: float
    embedded_per_s: float
    ratio: float
    worker_us: float
    jvm_us: float
    driver_us: float
    embedded_us: float
    cpu_ratio: float
    updates_per_message: float
    same_updates: bool
    offered_per_s: int
    p50_s: float | None
    p99_s: float | None
    loaded_s: float
    recovered_s: float
    node_mb: float


def measure_spark_topk(plan: SparkTopkSetup, progress: Progress) -> TopkReport:
    """Load, run in turn, offer messages at a rate, and recover."""
    from nearcast.spark.session import local_session

    workload = TopkArrays(plan.seed, TopkOptions())
    with TemporaryDirectory(prefix="nearcast-bench-") as name:
        folder = Path(name)
        progress("starting Spark")
        spark = local_session(plan.master, "nearcast bench spark-topk")
        try:
            return _TopkPipelineRun(plan, workload, spark, folder, progress).measure()
        finally:
            spark.stop()


def settings_of(plan: SparkTopkSetup, workload: TopkArrays) -> Settings:
    """The window and the space of a run."""
    return Settings(window=Window(plan.window), space=Box(*workload.space))


def events(op: str, table: pa.Table) -> pa.Table:
    """Messages or subscriptions as an event log has them."""
    columns = []
    for field in EVENT_SCHEMA:
        if field.name == "op":
            columns.append(pa.array([op] * len(table)))
        elif field.name in table.column_names:
            columns.append(table[field.name].combine_chunks().cast(field.type))
        else:
            columns.append(pa.nulls(len(table), field.type))
    return pa.Table.from_arrays(columns, schema=EVENT_SCHEMA)


class _TopkPipelineRun:
    """One run, over a folder of its own."""

    def __init__(
        self,
        plan: SparkTopkSetup,
        workload: TopkArrays,
        spark: SparkSession,
        folder: Path,
        progress: Progress,
    ) -> None:
        self._plan, self._workload, self._spark = plan, workload, spark
        self._folder, self._progress = folder, progress
        self._inbox, self._state = folder / "in", str(folder / "state")
        self._inbox.mkdir()
        self._next = plan.window  # the number of the next message
        self._files = 0

    def measure(self) -> TopkReport:
        plan = self._plan
        with self._stream() as query:
            loaded = self._load(query)
            with HalvedEngines(plan.subscriptions, plan.window, plan.seed) as halves:
                self._progress("engines: loading, each half of the subscriptions")
                halves.load()
                rounds = [self._round(query, halves, at) for at in range(plan.rounds + _WARM_UP)]
            took = self._offered(query)
            node_mb = _node_mb(self._state)
        recovered = self._recover()
        timed = rounds[_WARM_UP:]
        cpu = np.median([r.cpu for r in timed], axis=0) / plan.batch * 1e6
        pipeline, embedded, engine_cpu = np.median([r[:3] for r in timed], axis=0).tolist()
        p50, p99 = np.quantile(took, [0.5, 0.99]).tolist() if took else (None, None)
        return TopkReport(
            subscriptions=plan.subscriptions,
            window=plan.window,
            messages_per_batch=plan.batch,
            rounds=plan.rounds,
            pipeline_per_s=plan.batch / pipeline,
            embedded_per_s=plan.batch / embedded,
            ratio=float(np.median([r.embedded / r.pipeline for r in timed])),
            worker_us=float(cpu[2]),
            jvm_us=float(cpu[1]),
            driver_us=float(cpu[0]),
            embedded_us=engine_cpu / plan.batch * 1e6,
            cpu_ratio=float(np.median([r.engine_cpu / sum(r.cpu) for r in timed])),
            updates_per_message=float(np.mean([r.outcome.rows for r in timed]) / plan.batch),
            same_updates=all(r.same for r in rounds),
            offered_per_s=plan.rate,
            p50_s=p50,
            p99_s=p99,
            loaded_s=loaded,
            recovered_s=recovered,
            node_mb=node_mb,
        )

    @contextmanager
    def _stream(self) -> Iterator[StreamingQuery]:
        from nearcast.spark.stream import StreamOptions, match_files

        options = StreamOptions(settings=settings_of(self._plan, self._workload))
        query = match_files(
            self._spark, str(self._inbox), state=self._state, output=str(self._folder / "out"),
            options=options,
        )  # fmt: skip
        try:
            yield query
        finally:
            query.stop()

    def _put(self, table: pa.Table) -> None:
        """Let a file of events appear."""
        path = self._folder / f"{self._files:012}.parquet"
        pq.write_table(table, path, compression="zstd")
        path.rename(self._inbox / path.name)
        self._files += 1

    def _load(self, query: StreamingQuery) -> float:
        """Fill the window, and then subscribe."""
        plan, workload = self._plan, self._workload
        self._progress("pipeline: filling the window")
        self._put(events("publish", published(workload, 0, plan.window)))
        query.processAllAvailable()
        began = time.perf_counter()
        for first in range(0, plan.subscriptions, _PER_FILE):
            end = min(first + _PER_FILE, plan.subscriptions)
            self._put(events("subscribe", wanted(workload, first, end)))
            query.processAllAvailable()
            self._progress(f"pipeline: {end:,} of {plan.subscriptions:,} subscriptions evaluated")
        return time.perf_counter() - began

    def _round(self, query: StreamingQuery, halves: HalvedEngines, at: int) -> _TopkRound:
        first, self._next = self._next, self._next + self._plan.batch
        self._progress(f"round {at + 1}: {self._plan.batch:,} messages")
        table = events("publish", published(self._workload, first, self._next))
        before, began = cpu_used(), time.perf_counter()
        self._put(table)
        query.processAllAvailable()
        pipeline = time.perf_counter() - began
        cpu = cpu_used().since(before)
        embedded, engine_cpu, expected = halves.publish(first, self._next)
        found = outcome_of(self._latest())
        return _TopkRound(pipeline, embedded, engine_cpu, tuple(cpu), found, found == expected)

    def _latest(self) -> pa.Table:
        """The updates of the last step."""
        from nearcast.spark.outputs import sorted_updates

        batches = (self._folder / "out").glob("batch=*")
        last = max(batches, key=lambda path: int(path.name.removeprefix("batch=")))
        return sorted_updates(sorted(last.glob("*.parquet")))

    def _offered(self, query: StreamingQuery) -> list[float]:
        """Offer messages at a steady rate, and give how long each file took."""
        plan = self._plan
        if not plan.rate:
            return []
        size, count = int(plan.rate * EVERY_S), int((plan.seconds + WARM_UP_S) / EVERY_S)
        starts = range(self._next, self._next + count * size, size)
        tables = (events("publish", published(self._workload, at, at + size)) for at in starts)
        ready = written(self._folder, tables, 10**9, size)  # behind all names so far
        self._next += count * size
        self._progress(f"{plan.rate:,} messages a second for {plan.seconds + WARM_UP_S:.0f} s")
        sent = offer(ready, self._inbox)
        query.processAllAvailable()
        self._files = 2 * 10**9
        return latencies(self._state, sent)

    def _recover(self) -> float:
        """Start again with nothing on the node, and give the time until a step is committed."""
        from nearcast.spark.driver.state import open_state
        from nearcast.spark.workers.node import NodeCache

        NodeCache(open_state(self._state).id).clear()
        first, self._next = self._next, self._next + 100
        table = events("publish", published(self._workload, first, self._next))
        self._progress("recovering")
        began = time.perf_counter()
        with self._stream() as query:
            self._put(table)
            query.processAllAvailable()
            return time.perf_counter() - began


class _TopkRound(NamedTuple):
    """Seconds of the pipeline and of the engines, and what they came to."""

    pipeline: float
    embedded: float
    engine_cpu: float
    cpu: tuple[float, ...]
    outcome: UpdateDigest
    same: bool


def _node_mb(state: str) -> float:
    """What the workers take in the memory of this node."""
    from nearcast.spark.reports.report import read_reports

    return sum(one.bytes for one in read_reports(state, 1)[0].rankers) / 1e6
