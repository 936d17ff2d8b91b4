"""`nearcast bench spark`: pipelines on Spark beside one that does nothing, batch by batch.

Every arm is a running stream with a folder of its own. A batch is put into each folder in turn, all
its files at once, and the arm is waited for: so all arms see the same minutes of the machine. The
time of a batch is the one that Spark reports for the trigger.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict

import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.engine import Engine
from nearcast.errors import NearcastError
from nearcast.partition.registry import PARTITIONERS
from nearcast_lab.bench.processes import Cpu, cpu_used
from nearcast_lab.bench.spark_data import write_batches, write_population
from nearcast_lab.bench.spark_latency import LatencyReport, measure_latency
from nearcast_lab.progress import Progress
from nearcast_lab.timing import in_turns
from nearcast_lab.workloads.stream import EventStream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


IDENTITY = "identity"
EMBEDDED = "embedded"
FLAT_IDENTITY = "identity-flat"
_WARM_UP = 3


class Arm(NamedTuple):
    """One contestant.

    `start` starts a stream over the files that match a pattern, writing below a folder; without
    one, the embedded engine reads the files. An arm with a `population` is given the subscriptions
    first, which are not timed. The others are compared with each `baseline`.
    """

    start: Callable[[SparkSession, str, Path], StreamingQuery] | None
    population: bool = True
    baseline: bool = False


class SparkReport(TypedDict):
    """One arm at one size of batches: medians over the rounds, and CPU in microseconds an event.

    `ratios` are rates as parts of that of each baseline, round by round. `node_mb` is what the
    shards of a pipeline take on this node, in memory that its processes share.
    """

    arm: str
    events_per_batch: int
    rounds: int
    subscriptions: int
    seconds: float
    events_per_s: float
    ratios: dict[str, float]
    jvm_us: float
    python_us: float
    driver_us: float
    node_mb: float


class SparkSetup(NamedTuple):
    """What to measure."""

    batches: Sequence[int] = (100_000, 500_000)
    rounds: int = 5
    subscriptions: int = 1_000_000
    ratio: int = 5
    seed: int = 1
    master: str = "local[2]"
    workload: str = "shifted"
    rate: int = 0
    seconds: float = 20.0


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _start_same(events: DataFrame, schema: str, work: Path) -> StreamingQuery:
    return (
        events.mapInArrow(_same, schema)
        .writeStream.format("parquet")
        .option("path", str(work / "output"))
        .option("checkpointLocation", str(work / "state"))
        .start()
    )


def start_identity(spark: SparkSession, files: str, work: Path) -> StreamingQuery:
    """Read events, hand them to Python and back, and write them: what Spark itself costs.

    Nearly all of it is `region`: a struct of nested lists, null in most rows, goes between the JVM
    and Python at 25 us a row, where all other columns together take 2.
    """
    from nearcast.spark.readers.schema import EVENTS

    return _start_same(spark.readStream.schema(EVENTS).parquet(files), EVENTS, work)


_FLAT = {
    "op": "op string",
    "id": "id string",
    "query": "query string",
    "text": "text string",
    "region.type": "type string",
    "region.bbox": "bbox array<double>",
    "point": "point array<double>",
    "at": "at double",
}


def start_flat_identity(spark: SparkSession, files: str, work: Path) -> StreamingQuery:
    """Do the same with boxes instead of regions, and without columns that are empty here.

    It could not carry every event; it is the fastest that Spark hands these ones to Python.
    """
    from nearcast.spark.readers.schema import EVENTS

    events = spark.readStream.schema(EVENTS).parquet(files).select(*_FLAT)
    return _start_same(events, ", ".join(_FLAT.values()), work)


def start_pipeline(partitioner: str) -> Callable[[SparkSession, str, Path], StreamingQuery]:
    """Match events as a pipeline does, spread by that partitioner."""

    def start(spark: SparkSession, files: str, work: Path) -> StreamingQuery:
        from nearcast.spark.stream import StreamOptions, match_files

        options = StreamOptions(partitioner=partitioner)
        state, output = str(work / "state"), str(work / "output")
        return match_files(spark, files, state=state, output=output, options=options)

    return start


ARMS: dict[str, Arm] = {
    IDENTITY: Arm(start_identity, population=False, baseline=True),
    FLAT_IDENTITY: Arm(start_flat_identity, population=False, baseline=True),
    "shared": Arm(start_pipeline("shared")),
    "hybrid": Arm(start_pipeline("hybrid")),
    EMBEDDED: Arm(None),
}
"""The arms that are measured unless others are named."""

KNOWN_ARMS = ARMS | {name: Arm(start_pipeline(name)) for name in PARTITIONERS if name not in ARMS}
"""All arms by name: a pipeline with every partitioner is one."""


class _Contestant(Protocol):
    """An arm that runs."""

    name: str

    def feed(self, batch: Path) -> tuple[float, Cpu]:
        """Hand over the files of a batch, wait for them, and give the seconds and CPU it took."""
        ...

    def node_mb(self) -> float:
        """What its shards take on this node, in megabytes."""
        ...

    def stop(self) -> None:
        """Let it end."""
        ...


class _Embedded:
    """The engine in this process, over the same files, in the most favourable order.

    It gets all changes of a batch at once and then all its messages, which is not what the log
    says: its updates differ a little, and its cost is a lower bound of what the log would cost.
    """

    name = EMBEDDED

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._engine = Engine()

    def feed(self, batch: Path) -> tuple[float, Cpu]:
        """Take the files of a batch."""
        before, began = cpu_used(), time.perf_counter()
        for path in sorted(batch.iterdir()):
            self._take(path)
        return time.perf_counter() - began, cpu_used().since(before)

    def _take(self, path: Path) -> None:
        table = pq.read_table(path)
        subscribed = table.filter(pc.equal(table["op"], "subscribe"))
        ended = table.filter(pc.equal(table["op"], "unsubscribe"))["id"].to_pylist()
        messages = table.filter(pc.equal(table["op"], "publish"))
        self._engine.subscribe_table(subscribed.select(["id", "query", "region"]))
        for id in ended:
            self._engine.unsubscribe(id)
        if len(messages):
            updates = self._engine.publish_table(messages.select(["id", "text", "point"]))
            target = self._folder / path.name
            pq.write_table(updates.drop_columns(["score"]), target, compression="zstd")

    def node_mb(self) -> float:
        """It has no shards."""
        return 0.0

    def stop(self) -> None:
        """Nothing runs."""


class RunningArm:
    """An arm that runs, with the folder that it reads from."""

    def __init__(self, name: str, arm: Arm, spark: SparkSession, folder: Path) -> None:
        assert arm.start is not None  # noqa: S101 - the other arm is not a stream
        self.name = name
        self.arm = arm
        self._inbox = folder / "in"
        self._waiting = folder / "waiting"
        self._inbox.mkdir(parents=True)
        self._seen = -1
        self._work = folder / "work"
        self._work.mkdir()
        self._query = arm.start(spark, f"{self._inbox}/*", self._work)

    def feed(self, batch: Path) -> tuple[float, Cpu]:
        """Hand over the files of a batch, wait for them, and give the seconds and CPU it took."""
        # A folder appears with all its files; links, so that every arm reads the same bytes.
        shutil.copytree(batch, self._waiting, copy_function=os.link)
        before = cpu_used()
        self._waiting.rename(self._inbox / batch.name)
        self._query.processAllAvailable()
        used = cpu_used().since(before)
        done = [
            progress
            for progress in self._query.recentProgress
            if progress.batchId > self._seen and progress.numInputRows
        ]
        if not done:
            raise NearcastError(f"the arm {self.name} took no batch from {self._inbox}")
        self._seen = max(progress.batchId for progress in done)
        return sum(progress.durationMs["triggerExecution"] for progress in done) / 1000, used

    def node_mb(self) -> float:
        """What its shards take on this node, in megabytes."""
        state = self._work / "state"
        if not (state / "about.json").exists():
            return 0.0
        from nearcast.spark.driver.state import open_state
        from nearcast.spark.workers.node import NodeCache

        folder = NodeCache(open_state(str(state)).id).folder
        return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.bin")) / 1e6

    def stop(self) -> None:
        """Let the stream end."""
        self._query.stop()


def measure_spark(
    plan: SparkSetup, arms: dict[str, Arm], progress: Progress
) -> tuple[list[SparkReport], list[LatencyReport]]:
    """Run all arms over the same batches, interleaved, at each size of batch; then time files."""
    from nearcast.spark.session import local_session

    stream = EventStream(
        seed=plan.seed, subscriptions=plan.subscriptions, ratio=plan.ratio, kind=plan.workload
    )
    spark = local_session(
        plan.master,
        "nearcast bench",
        **{
            "spark.driver.memory": "2g",
            # streams that wait for their turn must not keep the machine busy looking for files
            "spark.sql.streaming.pollingDelay": "100ms",
        },
    )
    reports: list[SparkReport] = []
    for size in plan.batches:
        with TemporaryDirectory(prefix="nearcast-bench-") as folder:
            reports += _measure_size(plan, arms, stream, spark, size, Path(folder), progress)
    pipelines = [name for name, arm in arms.items() if arm.start and not arm.baseline]
    if not plan.rate:
        return reports, []
    return reports, [
        measure_latency(spark, stream, name, plan.rate, plan.seconds, progress)
        for name in pipelines
    ]


def _measure_size(
    plan: SparkSetup,
    arms: dict[str, Arm],
    stream: EventStream,
    spark: SparkSession,
    size: int,
    folder: Path,
    progress: Progress,
) -> list[SparkReport]:
    progress(f"batches of {size:,} events: writing the log")
    batches = write_batches(folder / "log", stream, [size] * (_WARM_UP + plan.rounds))
    population = None
    if any(arm.population for arm in arms.values()):
        population = write_population(folder / "population", stream)
    running: list[_Contestant] = []
    took: dict[str, list[tuple[float, Cpu]]] = {name: [] for name in arms}
    try:
        for name, arm in arms.items():
            progress(f"batches of {size:,} events: starting {name}")
            place = folder / name
            embedded = arm.start is None
            running.append(_Embedded(place) if embedded else RunningArm(name, arm, spark, place))
            if arm.population and population is not None:
                running[-1].feed(population)
        for number, one in in_turns(running, len(batches)):
            progress(f"batches of {size:,} events: {number + 1} of {len(batches)}, {one.name}")
            measured = one.feed(batches[number])
            if number >= _WARM_UP:
                took[one.name].append(measured)
        sizes = {one.name: one.node_mb() for one in running}
    finally:
        for one in running:
            one.stop()
    baselines = [name for name, arm in arms.items() if arm.baseline]
    return _reports(plan, size, took, baselines, sizes)


def _reports(
    plan: SparkSetup,
    size: int,
    took: dict[str, list[tuple[float, Cpu]]],
    baselines: list[str],
    sizes: dict[str, float],
) -> list[SparkReport]:
    seconds = {name: [one for one, _ in measured] for name, measured in took.items()}
    reports = []
    for name, measured in took.items():
        per_event = 1e6 / size / len(measured)
        reports.append(
            SparkReport(
                arm=name,
                events_per_batch=size,
                rounds=len(measured),
                subscriptions=plan.subscriptions,
                seconds=median(seconds[name]),
                events_per_s=size / median(seconds[name]),
                ratios={
                    base: median(map(truediv, seconds[base], seconds[name])) for base in baselines
                },
                jvm_us=sum(cpu.jvm for _, cpu in measured) * per_event,
                python_us=sum(cpu.python for _, cpu in measured) * per_event,
                driver_us=sum(cpu.driver for _, cpu in measured) * per_event,
                node_mb=round(sizes[name], 1),
            )
        )
    return reports
