"""Turns the batches of Spark into the steps of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from nearcast.arrays.types import Floats
from nearcast.spark.driver.pipeline import STEP_ROWS, Pipeline
from nearcast.spark.io.paths import is_local, local_path
from nearcast.spark.readers.landing import land_file, land_rows, number_rows
from nearcast.spark.readers.slices import SEQ, EventFile, Slice

_LANDED = "path string"
_LANDED_ROWS = "path string, times binary"
_PARQUET = ".parquet"
RANKED_STEP_ROWS = 50_000
"""The same with top-k subscriptions, with which a step takes many times as long."""

_LANDED_HERE = 4 << 20
"""Bytes of local files that are read in less time than a job takes to start."""
_COMPRESSED = (".gz", ".zst")  # which may hold any amount
_INBOXES_KEPT = 2  # for logs that turn out to be damaged, besides that of the batch being taken


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """The stream was stopped in the middle of a batch; the next run continues there."""


class BatchFeed:
    """Feeds a pipeline with the batches of a stream."""

    def __init__(self, pipeline: Pipeline, step_rows: int = STEP_ROWS) -> None:
        self.pipeline = pipeline
        self._step_rows = step_rows
        self.stopping: Callable[[], bool] = lambda: False
        """Called between two steps of a batch: whether to stop there."""
        self._inbox = pipeline.state.files.below("inbox")

    def take_files(self, names: DataFrame, batch: int) -> None:
        """Take a batch of files, by their names, in the order of the names."""
        paths = sorted(row.path for row in names.select("path").collect())
        if not paths:
            return
        looked = [EventFile.look(path) for path in paths]
        odd = [at for at, file in enumerate(looked) if file is None or not file.normal]
        if odd:
            given = [paths[at] for at in odd]
            session = None if _are_small(given) else names.sparkSession
            targets = self._land_files(session, given, batch)
            for at, target in zip(odd, targets, strict=True):
                looked[at] = EventFile.look(target)
        self._take([file for file in looked if file is not None], batch)

    def _land_files(self, session: Any, paths: list[str], batch: int) -> list[str]:
        """Bring files into the normal form, here or in tasks of a session."""
        folder = self._folder(batch)
        targets = [f"{folder}/{at:06}.parquet" for at in range(len(paths))]
        pairs = list(zip(paths, targets, strict=True))
        if session is None:
            for path, target in pairs:
                land_file(path, target)
        else:
            numbers = session.range(0, len(pairs), 1, len(pairs))
            numbers.mapInArrow(_job(land_file, pairs), _LANDED).collect()
        return targets

    def take_rows(self, rows: DataFrame, batch: int) -> None:
        """Take a batch of rows with the columns of the event log."""
        self._forget_inbox(batch)
        if self.pipeline.done(batch):
            return
        folder = self._folder(batch)
        self._inbox.remove(f"{batch:09}")
        numbered = SEQ in rows.columns
        landed = rows.mapInArrow(_row_lander(folder, numbered), _LANDED_ROWS).collect()
        times = {row.path: np.frombuffer(row.times) for row in landed}
        paths = sorted(times)
        if not numbered:
            runs = [times[path] for path in paths]
            paths = self._numbered(rows.sparkSession, paths, runs)
        seq = self.pipeline.next_seq
        slices: list[Slice] = []
        for file in map(EventFile.look, paths):
            assert file is not None  # noqa: S101 - it was just written
            slices += file.slices(None if file.numbered else seq)
            seq += sum(file.groups)
        if slices:
            self.pipeline.step(batch, slices)

    def _numbered(
        self, session: SparkSession, paths: list[str], times: Sequence[Floats]
    ) -> list[str]:
        """Give the files in which rows of several partitions are in the order of their times.

        Where one file ends before the next begins, they are in order as they are. Otherwise tasks
        write them again with numbers, of which the driver knows only the times.
        """
        ends = [run[[0, -1]] for run in times]
        if all(one[1] <= other[0] for one, other in pairwise(ends)):
            return paths
        order = np.argsort(np.concatenate(times), kind="stable")
        seq = np.empty(len(order), np.int64)
        seq[order] = np.arange(self.pipeline.next_seq, self.pipeline.next_seq + len(order))
        edges = np.cumsum([0, *map(len, times)]).tolist()
        numbers = [seq[start:stop] for start, stop in pairwise(edges)]
        targets = [path.replace(_PARQUET, f"-numbered{_PARQUET}") for path in paths]
        job = _job(number_rows, list(zip(paths, targets, numbers, strict=True)))
        session.range(0, len(paths), 1, len(paths)).mapInArrow(job, _LANDED).collect()
        return targets

    def _take(self, files: Sequence[EventFile], batch: int) -> None:
        done = {(each.path, each.first) for each in self.pipeline.done(batch)}
        seq = self.pipeline.next_seq
        slices: list[Slice] = []
        for file in files:
            for each in file.slices(None if file.numbered else 0):
                if (each.path, each.first) in done:
                    continue
                if each.seq is not None:
                    each = Slice(each.path, each.first, each.stop, each.rows, seq)
                    seq += each.rows
                slices.append(each)
        most = self._step_rows
        if self.pipeline.history.ranked:
            most = min(most, RANKED_STEP_ROWS)
        for number, some in enumerate(_steps(slices, most)):
            if number and self.stopping():
                raise Stopped
            self.pipeline.step(batch, some)
        self._forget_inbox(batch)

    def _folder(self, batch: int) -> str:
        return f"{self._inbox.root}/{batch:09}"

    def _forget_inbox(self, batch: int) -> None:
        """Remove converted files of batches whose logs will hardly be rebuilt."""
        needed = max(self.pipeline.oldest_batch(), batch - _INBOXES_KEPT)
        for name in self._inbox.names():
            if name.isdigit() and int(name) < min(needed, batch):
                self._inbox.remove(name)


def _are_small(paths: Sequence[str]) -> bool:
    """Whether files are on this machine, and few or short enough to be read here."""
    try:
        return (
            all(is_local(path) and not path.endswith(_COMPRESSED) for path in paths)
            and sum(local_path(path).stat().st_size for path in paths) <= _LANDED_HERE
        )
    except OSError:
        return False  # the error is reported when it is read


def _steps(slices: Sequence[Slice], most: int) -> Iterator[list[Slice]]:
    """Cut slices into steps; those whose rows carry numbers of their own stay together."""
    if any(each.seq is None for each in slices):
        yield list(slices)
        return
    some: list[Slice] = []
    rows = 0
    for each in slices:
        if some and rows + each.rows > most:
            yield some
            some, rows = [], 0
        some.append(each)
        rows += each.rows
    if some:
        yield some


def _job(do: Callable[..., None], calls: Sequence[tuple[Any, ...]]) -> Any:
    """Make the calls whose numbers are in a partition; each writes the file that comes second."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                do(*calls[number])
                yield pa.RecordBatch.from_pydict({"path": [calls[number][1]]})

    return run


def _row_lander(folder: str, numbered: bool) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        target = f"{folder}/{number:06}{_PARQUET}"
        times = land_rows(batches, target, numbered=numbered)
        if len(times):
            yield pa.RecordBatch.from_pydict({"path": [target], "times": [times.tobytes()]})

    return run
