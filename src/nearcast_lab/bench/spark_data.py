"""Event logs for benchmarks on Spark: a population, then batches, as folders of Parquet files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from nearcast.errors import InvalidValue
from nearcast_lab.workloads.stream import EventStream

_FILES = 4
_MOST_ROWS = 250_000


def write_events(
    folder: Path, stream: EventStream, first: int, end: int, files: int = _FILES
) -> Path:
    """Write the events numbered `first` up to `end` into a new folder, in files of equal size.

    The names of the files are in the order of their events, across folders too.
    """
    if end <= first:
        raise InvalidValue("events", end - first, "1 or more in a batch")
    folder.mkdir(parents=True)
    cuts = [first + (end - first) * part // files for part in range(files + 1)]
    for start, stop in pairwise(cuts):
        if stop == start:
            continue
        with pq.ParquetWriter(
            folder / f"{start:012}.parquet", stream.table(start, start).schema, compression="zstd"
        ) as writer:
            for begin in range(start, stop, _MOST_ROWS):
                writer.write_table(stream.table(begin, min(begin + _MOST_ROWS, stop)))
    return folder


def write_population(folder: Path, stream: EventStream, files: int = _FILES) -> Path:
    """Write the subscriptions that a stream begins with."""
    return write_events(folder, stream, 0, stream.subscriptions, files)


def write_batches(
    folder: Path, stream: EventStream, sizes: list[int], files: int = _FILES
) -> list[Path]:
    """Write batches of these sizes, one after the other, from the end of the population on."""
    written = []
    first = stream.subscriptions
    for number, size in enumerate(sizes):
        end = first + size
        written.append(write_events(folder / f"batch-{number:04}", stream, first, end, files))
        first = end
    return written
