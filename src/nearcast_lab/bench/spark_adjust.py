"""`nearcast bench spark-adjust`: does a stream on Spark stay balanced while its load drifts?

Three streams take the same drifting log, batch by batch in turn, so that they see the same minutes
of the machine: one keeps itself balanced (`auto`), one keeps the plan it began with (`off`), made
from the calm before the drift, and one keeps a plan that was made with foresight (`oracle`), from
subscribers and messages of all the intervals to come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from nearcast.text.query import forget_parsed
from nearcast_lab.bench.spark import Arm, RunningArm
from nearcast_lab.bench.spark_adjust_report import (
    ArmRun,
    FedBatch,
    Interval,
    SparkAdjustOutcome,
    checks_of,
    interval_of,
)
from nearcast_lab.bench.spark_drift import LogFolders, OraclePlanner, write_log
from nearcast_lab.progress import Progress
from nearcast_lab.workloads.drift import DRIFTS, Drift

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from nearcast.partition.plan import Plan
    from nearcast.spark.driver.balancing import Mode
    from nearcast.spark.driver.feed import BatchFeed
    from nearcast.spark.reports.report import BatchReport


class SparkAdjustSetup(NamedTuple):
    """What to measure."""

    workers: Sequence[int] = (4, 8)
    drifts: Sequence[Drift] = DRIFTS
    subscriptions: int = 50_000
    intervals: int = 3
    batches: int = 24
    ratio: int = 5
    seed: int = 1
    master: str = "local[2]"


class _Stream:
    """A stream that runs, and what is heard from it."""

    def __init__(
        self,
        name: str,
        mode: Mode,
        plan: Plan,
        log: LogFolders,
        session: SparkSession,
        folder: Path,
    ) -> None:
        self.name = name
        self.fed: list[FedBatch] = []
        self._mode, self._plan, self._log = mode, plan, log
        self._folder = folder
        self._reports: list[BatchReport] = []
        self._feed: BatchFeed
        self._running = RunningArm(name, Arm(self._start), session, folder)

    def _start(self, session: SparkSession, files: str, work: Path) -> StreamingQuery:
        from nearcast.spark.readers.sources import file_names
        from nearcast.spark.stream import StreamOptions, open_feed, start

        options = StreamOptions(
            workers=self._plan.workers,
            plan=self._plan,
            settings=self._log.settings,
            adjust=self._mode,
        )
        self._feed = open_feed(session, str(work / "state"), str(work / "output"), None, options)
        self._feed.pipeline.listeners.append(self._reports.append)
        names, kept = file_names(session, files), self._feed.pipeline.state
        return start(names, self._feed.take_files, kept, None, False)

    @property
    def searching(self) -> bool:
        """Whether it is looking for a better plan beside what it is fed with."""
        return self._feed.pipeline.adjuster.searching

    def feed(self, batch: Path) -> None:
        """Hand a batch over, and wait for it."""
        adjuster = self._feed.pipeline.adjuster
        before = adjuster.spent_s
        forget_parsed()  # all streams have one driver, and the same queries
        seconds, used = self._running.feed(batch)
        self.fed.append(FedBatch(seconds, used, self._reports[-1], adjuster.spent_s - before))

    def digest(self) -> tuple[int, str]:
        """How many updates there are, and something that says which."""
        from nearcast.spark.outputs import read_updates

        updates = read_updates(self._folder / "work" / "output").combine_chunks()
        found = hashlib.blake2b(digest_size=8)
        for batch in updates.to_batches():
            found.update(batch.serialize())
        return len(updates), found.hexdigest()

    def stop(self) -> None:
        """Let it end, and its shards go."""
        from nearcast.spark.workers.node import NodeCache

        self._running.stop()
        NodeCache(self._feed.pipeline.state.id).clear()


def measure_spark_adjust(arrangement: SparkAdjustSetup, progress: Progress) -> SparkAdjustOutcome:
    """Run everything."""
    from nearcast.spark.session import local_session

    session = local_session(
        arrangement.master,
        "nearcast bench",
        **{"spark.driver.memory": "2g", "spark.sql.streaming.pollingDelay": "50ms"},
    )
    runs: list[ArmRun] = []
    intervals: list[Interval] = []
    for drift in arrangement.drifts:
        with TemporaryDirectory(prefix="nearcast-bench-") as folder:
            progress(f"{drift}: writing the log")
            log = write_log(
                Path(folder) / "log",
                drift,
                subscriptions=arrangement.subscriptions,
                intervals=arrangement.intervals,
                batches=arrangement.batches,
                ratio=arrangement.ratio,
                seed=arrangement.seed,
            )
            foresight = OraclePlanner(log)
            for workers in arrangement.workers:
                place = Path(folder) / str(workers)
                found = _run(session, drift, workers, log, foresight, place, progress)
                runs += found[0]
                intervals += found[1]
    return SparkAdjustOutcome(
        subscriptions=arrangement.subscriptions,
        batches=arrangement.batches,
        intervals=intervals,
        runs=runs,
        bars=checks_of(intervals, runs),
    )


def _run(
    session: SparkSession,
    drift: Drift,
    workers: int,
    log: LogFolders,
    foresight: OraclePlanner,
    folder: Path,
    progress: Progress,
) -> tuple[list[ArmRun], list[Interval]]:
    """Let all arms follow one drift."""
    label = f"{drift}, {workers} workers"
    progress(f"{label}: planning")
    calm, best = foresight.for_calm(workers), foresight.for_drift(workers)
    streams: list[_Stream] = []
    try:
        arms: dict[str, tuple[Mode, Plan]] = {
            "auto": ("auto", calm),
            "off": ("off", calm),
            "oracle": ("off", best),
        }
        for name, (mode, plan) in arms.items():
            progress(f"{label}: starting {name}")
            streams.append(_Stream(name, mode, plan, log, session, folder / name))
            streams[-1].feed(log.population)
        _feed_all(streams, log.calm, partial(_progress_of, progress, f"{label}, calm"))
        for stream in streams:
            stream.fed.clear()
        for number, batches in enumerate(log.intervals, start=1):
            _feed_all(
                streams, batches, partial(_progress_of, progress, f"{label}, interval {number}")
            )
        progress(f"{label}: comparing updates")
        runs = [ArmRun(drift, workers, stream.name, *stream.digest()) for stream in streams]
    finally:
        for stream in streams:
            stream.stop()
    count = len(log.intervals[0])
    found = [
        interval_of(drift, workers, number + 1, each.name, each.fed[number * count :][:count])
        for number in range(len(log.intervals))
        for each in streams
    ]
    return runs, found


def _feed_all(streams: Sequence[_Stream], batches: Sequence[Path], progress: Progress) -> None:
    """Hand batches over to each in turn.

    A stream that is looking for a better plan goes on until that is over, so that the search
    counts as its own cost and slows its own batches.
    """
    left = {stream.name: list(batches) for stream in streams}
    turn = 0
    while any(left.values()):
        for stream in [*streams[turn:], *streams[:turn]]:
            waiting = left[stream.name]
            while waiting:
                progress(
                    f"batch {len(batches) - len(waiting) + 1} of {len(batches)}, {stream.name}"
                )
                stream.feed(waiting.pop(0))
                if not stream.searching:
                    break
        turn = (turn + 1) % len(streams)


def _progress_of(progress: Progress, about: str, text: str) -> None:
    progress(f"{about}: {text}")
