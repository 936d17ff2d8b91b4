"""`nearcast bench spark`: pipelines on Spark beside one that does nothing, batch by batch.

Every arm is a running stream with a folder of its own. A batch is put into each folder in turn, all
its files at once, and the arm is waited for: so all arms see the same minutes of the machine. The
time of a batch is the one that Spark reports for the trigger.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from nearcast.bench.processes import Cpu, cpu_used
from nearcast.bench.spark_data import write_batches, write_population
from nearcast.errors import NearcastError
from nearcast.workloads.stream import EventStream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Tell = Callable[[str], None]

IDENTITY = "identity"
_WARM_UP = 2


class Arm(NamedTuple):
    """One contestant.

    `start` starts a stream over the files that match a pattern, writing below a folder. An arm with
    a `population` is given the subscriptions first, which are not timed.
    """

    start: Callable[[SparkSession, str, Path], StreamingQuery]
    population: bool = True


class SparkReport(TypedDict):
    """One arm at one size of batches: medians over the rounds, and CPU in microseconds an event."""

    arm: str
    events_per_batch: int
    rounds: int
    subscriptions: int
    seconds: float
    events_per_s: float
    of_identity: float | None
    jvm_us: float
    python_us: float
    driver_us: float


class Plan(NamedTuple):
    """What to measure."""

    batches: Sequence[int] = (100_000, 500_000)
    rounds: int = 5
    subscriptions: int = 1_000_000
    ratio: int = 5
    seed: int = 1
    master: str = "local[2]"
    workload: str = "tweets"


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def start_identity(spark: SparkSession, files: str, work: Path) -> StreamingQuery:
    """Read events, hand them to Python and back, and write them: what Spark itself costs."""
    from nearcast.spark.schema import EVENTS

    events = spark.readStream.schema(EVENTS).parquet(files)
    return (
        events.mapInArrow(_same, EVENTS)
        .writeStream.format("parquet")
        .option("path", str(work / "output"))
        .option("checkpointLocation", str(work / "state"))
        .start()
    )


ARMS: dict[str, Arm] = {IDENTITY: Arm(start_identity, population=False)}
"""All arms by name; the first of a run is what the others are compared with."""


class _Running:
    """An arm that runs, with the folder that it reads from."""

    def __init__(self, name: str, arm: Arm, spark: SparkSession, folder: Path) -> None:
        self.name = name
        self.arm = arm
        self._inbox = folder / "in"
        self._waiting = folder / "waiting"
        self._inbox.mkdir(parents=True)
        self._seen = -1
        work = folder / "work"
        work.mkdir()
        self._query = arm.start(spark, f"{self._inbox}/*", work)

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

    def stop(self) -> None:
        self._query.stop()


def measure_spark(plan: Plan, arms: dict[str, Arm], tell: Tell) -> list[SparkReport]:
    """Run all arms over the same batches, interleaved, at each size of batch."""
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
            "spark.sql.streaming.pollingDelay": "250ms",
        },
    )
    reports = []
    for size in plan.batches:
        with TemporaryDirectory(prefix="nearcast-bench-") as folder:
            reports += _measure_size(plan, arms, stream, spark, size, Path(folder), tell)
    return reports


def _measure_size(
    plan: Plan,
    arms: dict[str, Arm],
    stream: EventStream,
    spark: SparkSession,
    size: int,
    folder: Path,
    tell: Tell,
) -> list[SparkReport]:
    tell(f"batches of {size:,} events: writing the log")
    batches = write_batches(folder / "log", stream, [size] * (_WARM_UP + plan.rounds))
    population = None
    if any(arm.population for arm in arms.values()):
        population = write_population(folder / "population", stream)
    running = []
    took: dict[str, list[tuple[float, Cpu]]] = {name: [] for name in arms}
    try:
        for name, arm in arms.items():
            tell(f"batches of {size:,} events: starting {name}")
            running.append(_Running(name, arm, spark, folder / name))
            if arm.population and population is not None:
                running[-1].feed(population)
        for number, batch in enumerate(batches):
            # whoever comes first in one round comes last in another
            turn = number % len(running)
            for one in running[turn:] + running[:turn]:
                tell(f"batches of {size:,} events: {number + 1} of {len(batches)}, {one.name}")
                measured = one.feed(batch)
                if number >= _WARM_UP:
                    took[one.name].append(measured)
    finally:
        for one in running:
            one.stop()
    return _reports(plan, size, took)


def _reports(plan: Plan, size: int, took: dict[str, list[tuple[float, Cpu]]]) -> list[SparkReport]:
    reports = []
    for name, measured in took.items():
        seconds = median(one for one, _ in measured)
        ratios = [
            theirs / ours
            for (theirs, _), (ours, _) in zip(took.get(IDENTITY, []), measured, strict=False)
        ]
        per_event = 1e6 / size / len(measured)
        reports.append(
            SparkReport(
                arm=name,
                events_per_batch=size,
                rounds=len(measured),
                subscriptions=plan.subscriptions,
                seconds=seconds,
                events_per_s=size / seconds,
                of_identity=median(ratios) if ratios else None,
                jvm_us=sum(cpu.jvm for _, cpu in measured) * per_event,
                python_us=sum(cpu.python for _, cpu in measured) * per_event,
                driver_us=sum(cpu.driver for _, cpu in measured) * per_event,
            )
        )
    return reports
