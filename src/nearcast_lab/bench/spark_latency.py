"""How long an update takes: from the moment a file of events appears to its commit."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast_lab.bench.spark_data import write_population
from nearcast_lab.progress import Progress
from nearcast_lab.workloads.stream import EventStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EVERY_S = 0.25
WARM_UP_S = 5.0


class LatencyReport(TypedDict):
    """One pipeline at one rate: seconds from a file to its committed updates."""

    arm: str
    offered_events_per_s: int
    subscriptions: int
    files: int
    p50_s: float
    p99_s: float


def measure_latency(
    spark: SparkSession,
    stream: EventStream,
    arm: str,
    rate: int,
    seconds: float,
    progress: Progress,
) -> LatencyReport:
    """Offer events at a steady rate, a file every quarter of a second, and time each file."""
    from nearcast.spark.stream import StreamOptions, match_files

    with TemporaryDirectory(prefix="nearcast-bench-") as name:
        folder = Path(name)
        inbox = folder / "in"
        write_population(inbox, stream)
        progress(f"{rate:,} events a second: starting {arm}")
        state = folder / "state"
        query = match_files(
            spark,
            str(inbox),
            state=str(state),
            output=str(folder / "out"),
            options=StreamOptions(partitioner=arm),
        )
        try:
            query.processAllAvailable()
            size, count = int(rate * EVERY_S), int((seconds + WARM_UP_S) / EVERY_S)
            first = stream.subscriptions
            tables = (
                stream.table(at, at + size) for at in range(first, first + count * size, size)
            )
            ready = written(folder, tables, first, size)
            progress(f"{rate:,} events a second: offering them for {seconds + WARM_UP_S:.0f} s")
            sent = offer(ready, inbox)
            query.processAllAvailable()
        finally:
            query.stop()
        took = latencies(str(state), sent)
    return LatencyReport(
        arm=arm,
        offered_events_per_s=rate,
        subscriptions=stream.subscriptions,
        files=len(took),
        p50_s=float(np.quantile(took, 0.5)),
        p99_s=float(np.quantile(took, 0.99)),
    )


def written(folder: Path, tables: Iterable[pa.Table], first: int, size: int) -> list[Path]:
    """Write events into files of that size, named after the number of their first event."""
    ready = []
    for number, table in enumerate(tables):
        path = folder / f"{first + number * size:012}.parquet"
        pq.write_table(table, path, compression="zstd")
        ready.append(path)
    return ready


def offer(ready: list[Path], inbox: Path) -> dict[str, float]:
    """Put files into the inbox in time; give when those after the warm-up appeared."""
    sent = {}
    began = time.time()
    for number, path in enumerate(ready):
        wait = began + number * EVERY_S - time.time()
        if wait > 0:
            time.sleep(wait)
        path.rename(inbox / path.name)
        if number * EVERY_S >= WARM_UP_S:
            sent[path.name] = time.time()
    return sent


def latencies(state: str, sent: dict[str, float]) -> list[float]:
    """Give for each file how long it took from its appearance to the commit of its updates."""
    return [done - sent[path] for path, done in _committed(state) if path in sent]


def _committed(state: str) -> list[tuple[str, float]]:
    """Give for each file when the step that took it was committed."""
    from nearcast.spark.driver.state import open_state
    from nearcast.spark.reports.report import read_report

    kept = open_state(state)
    found = []
    for step in kept.commits():
        when = read_report(state, step).committed_at
        found += [(Path(each["path"]).name, when) for each in kept.commit(step).slices]
    return found
