"""What a stream can be read from: the names of files, and two sources for trying things out.

Of files only the names go through the JVM; the tasks of the pipeline read what is in them. Spark
hands files over by the time of their last change, oldest first; those of one time in any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from nearcast.errors import InvalidValue, NearcastError, SourceError
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.events import event_from_json
from nearcast.events.fields import STRUCTURED
from nearcast.events.log import decode_json
from nearcast.spark.io.paths import absolute, is_local, local_path
from nearcast.spark.readers.schema import LINES, NUMBERED_EVENTS

EVENT_FILES = (
    "*.{jsonl,ndjson,json,jsonl.gz,ndjson.gz,json.gz,jsonl.zst,ndjson.zst,json.zst,parquet}"
)
"""The files of a folder that are taken for event logs, unless another pattern is given."""

_FILE_COLUMNS = "path string, modificationTime timestamp, length bigint, content binary"
_SPECIAL = re.compile(r"[][*?{},\\^-]")
_NEVER_TOO_OLD = "36500d"
_PLACED = pa.schema([("line", pa.string()), ("place", pa.int64()), ("share", pa.int32())])
_LINES = pa.schema(
    [(name, pa.float64() if name in ("at", "ttl") else pa.string()) for name in EVENT_SCHEMA.names]
    + [("raw", pa.string()), ("error", pa.string())]
)

MakeEvents = Callable[[int, int], pa.Table]
"""Gives the events numbered from the first up to the second, with the columns of the log."""


def file_names(
    spark: SparkSession,
    path: str,
    pattern: str = EVENT_FILES,
    files_per_batch: int | None = None,
) -> DataFrame:
    """Stream the names of the files in a folder: `path`, `length`, `modificationTime`.

    What is in the files is not read. A file is handed over once, whatever its age; put it there
    whole, by renaming it, as everywhere in Spark. Names that start with `.` or `_` are passed over.
    Without `files_per_batch`, a batch has all files that are new. One local file will do as well.
    """
    path = absolute(path)
    if is_local(path) and local_path(path).is_file():
        # Spark would take folders beside the file for partitions, unless it is given a pattern.
        file = local_path(path)
        folder, pattern = (_SPECIAL.sub(r"\\\g<0>", one) for one in (str(file.parent), file.name))
        path = folder + "/" + (pattern if "\\" in pattern else f"{{{pattern}}}")
    reader = (
        spark.readStream.format("binaryFile")
        .schema(_FILE_COLUMNS)
        .option("pathGlobFilter", pattern)
        .option("maxFileAge", _NEVER_TOO_OLD)  # or else Spark would pass over what it finds too old
    )
    if files_per_batch is not None:
        if files_per_batch < 1:
            raise InvalidValue("files_per_batch", files_per_batch, "1 or more, or None for all")
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    try:
        return reader.load(path).select("path", "length", "modificationTime")
    except AnalysisException as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{path}: cannot be read as a stream of files ({reason})") from None


def rate_events(
    spark: SparkSession,
    make: MakeEvents,
    *,
    events_per_second: int = 100,
    first: int = 0,
    events_per_batch: int | None = None,
) -> DataFrame:
    """Stream made-up events at a rate, for trying out; `make` makes them from their numbers.

    The first batch begins with the events numbered 0 up to `first`, such as a population that
    subscribes. With `events_per_batch`, every batch has that many, as fast as they are taken.
    """
    if events_per_batch is None:
        ticks = spark.readStream.format("rate").option("rowsPerSecond", events_per_second).load()
    else:
        ticks = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", events_per_batch)
            .load()
        )
    return ticks.select("value").mapInArrow(_numbered(make, first), NUMBERED_EVENTS)


def _numbered(
    make: MakeEvents, first: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def events(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start, end in _runs(sorted(batch.column(0).to_pylist())):
                begin = 0 if start == 0 else start + first
                table = make(begin, end + first)
                seq = pa.array(range(begin, end + first), pa.int64())
                yield from table.append_column("seq", seq).to_batches()

    return events


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Join sorted numbers into runs without gaps, each from its first up to its end."""
    start = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[start], numbers[place - 1] + 1
            start = place


def socket_events(spark: SparkSession, host: str, port: int) -> DataFrame:
    """Stream events from a socket, one as JSON a line, for trying out.

    What was sent while no stream listened is lost, and so is what was not committed before a crash:
    a socket cannot be read again. Rows come in the order of their arrival, and have no `seq`.
    """
    lines = spark.readStream.format("socket").option("host", host).option("port", port).load()
    placed = lines.mapInArrow(_placed, "line string, place bigint, share int")
    return placed.coalesce(1).mapInArrow(_in_order, LINES)


def _placed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Number the lines of one partition: Spark deals out what arrives to all of them in turn."""
    task = TaskContext.get()
    share = 0 if task is None else task.partitionId()
    place = 0
    for batch in batches:
        places = pa.array(range(place, place + len(batch)), pa.int64())
        shares = pa.array([share] * len(batch), pa.int32())
        yield pa.record_batch([batch.column(0), places, shares], ["line", "place", "share"])
        place += len(batch)


def _in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the lines of all partitions in the order in which they arrived."""
    table = pa.Table.from_batches(batches, _PLACED)
    lines = table.sort_by([("place", "ascending"), ("share", "ascending")])["line"].to_pylist()
    yield read_lines(line.encode() for line in lines if line.strip())


def read_lines(lines: Iterable[bytes]) -> pa.RecordBatch:
    """Read events, one as JSON a line; a bad line has `error`, and all have `raw`."""
    return pa.RecordBatch.from_pylist([_row(line) for line in lines], schema=_LINES)


def _row(given: bytes) -> dict[str, Any]:
    """Read one line: its fields, or what is wrong with it."""
    line = given.decode(errors="replace")
    try:
        fields = decode_json(given)
        event_from_json(fields)
    except NearcastError as error:
        return {"raw": line, "error": str(error)}
    row = {name: fields.get(name) for name in EVENT_SCHEMA.names}
    for name in STRUCTURED:
        if row[name] is not None:
            row[name] = msgspec.json.encode(row[name]).decode()
    return row | {"raw": line}
