"""What `nearcast bench spark-adjust` feeds its arms with: a drifting log, plans with foresight.

A log is a population, some calm batches, and intervals of batches. The load drifts with the first
message of every interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.engine.settings import Settings
from nearcast.geo import Box
from nearcast.partition.plan import Plan
from nearcast.partition.prepare import evenly
from nearcast.partition.sample import SampleMessages, sample_of
from nearcast.spark.driver.planning import COSTS, plan_for, rows_in
from nearcast.spark.operations import begun_in
from nearcast.spark.registrar import Registrar
from nearcast.spark.workers.messages import messages_of
from nearcast_lab.bench.spark_data import write_batches, write_population
from nearcast_lab.workloads.drift import Drift, Drifting
from nearcast_lab.workloads.stream import EventStream

CALM = 3
"""Batches before the first drift."""

_PARTITIONER = "auto"
_MOST_MESSAGES = 50_000
_MOST_ROWS = 200_000


class LogFolders(NamedTuple):
    """The folders of files that a log consists of."""

    population: Path
    calm: list[Path]
    intervals: list[list[Path]]
    events_per_batch: int
    settings: Settings


def write_log(
    folder: Path,
    drift: Drift,
    *,
    subscriptions: int,
    intervals: int,
    batches: int,
    ratio: int,
    seed: int,
) -> LogFolders:
    """Write a log; in an interval, of `batches` batches, the whole population is replaced once."""
    block = 2 * (ratio + 1)  # events with which one comes and one goes
    size = max(subscriptions // batches, 1) * block
    interval = batches * size
    messages = interval // (ratio + 1) * ratio
    workload = Drifting(
        drift,
        seed=seed,
        subscriptions=subscriptions,
        calm=CALM * messages // batches,
        interval=messages,
    )
    stream = EventStream(subscriptions=subscriptions, ratio=ratio, workload=workload)
    population = write_population(folder / "population", stream)
    written = write_batches(folder / "log", stream, [size] * (CALM + intervals * batches))
    calm, rest = written[:CALM], written[CALM:]
    cut = [rest[first : first + batches] for first in range(0, len(rest), batches)]
    return LogFolders(population, calm, cut, size, Settings(space=Box(*workload.space)))


class OraclePlanner:
    """Plans for what is to come."""

    def __init__(self, log: LogFolders) -> None:
        self._log = log
        self._known: dict[bool, tuple[pa.Table, SampleMessages, int]] = {}

    def for_calm(self, workers: int) -> Plan:
        """Plan for the batches before the first drift."""
        return self._plan(False, workers)

    def for_drift(self, workers: int) -> Plan:
        """Plan for all intervals together."""
        return self._plan(True, workers)

    def _plan(self, drifts: bool, workers: int) -> Plan:
        if drifts not in self._known:
            self._known[drifts] = self._look(drifts)
        begun, messages, operations = self._known[drifts]
        sample = sample_of(rows_in(begun), messages, operations)
        limited = sample.limited(_MOST_ROWS, _MOST_MESSAGES)
        return plan_for(_PARTITIONER, workers, self._log.settings.space, limited, COSTS)

    def _look(self, drifts: bool) -> tuple[pa.Table, SampleMessages, int]:
        """Who has subscribed by the middle of it, some of its messages, and changes meanwhile."""
        log = self._log
        now = [path for part in log.intervals for path in part] if drifts else log.calm
        before = log.calm if drifts else []
        population = _events([log.population], "subscribe")
        came = _events([*before, *now[: len(now) // 2]], "subscribe")
        standing = pa.concat_tables([population, came]).slice(len(came), len(population))
        begun = begun_in(_read(standing, log.settings))
        published = _events(now, "publish")
        some = published.take(pa.array(evenly(len(published), 2 * _MOST_MESSAGES)))
        every = np.ones(len(some), np.bool_)
        texts = messages_of(some, np.arange(len(some)), every, log.settings)
        changes = log.events_per_batch * len(now) - len(published)
        operations = round(changes * len(some) / max(len(published), 1))
        return begun, SampleMessages(texts.messages.boxes, *texts.messages.texts), operations


def _events(folders: Sequence[Path], op: str) -> pa.Table:
    """The events of one kind in some folders, in order."""
    files = [path for folder in folders for path in sorted(folder.iterdir())]
    tables = [pq.read_table(path) for path in files]
    return pa.concat_tables([table.filter(pc.equal(table["op"], op)) for table in tables])


def _read(events: pa.Table, settings: Settings) -> pa.Table:
    """What a registrar makes of events."""
    return Registrar(settings).read(events, np.arange(len(events))).log
