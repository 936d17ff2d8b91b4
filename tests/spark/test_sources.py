"""Streams of file names, of made-up events, and of lines from a socket."""

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from nearcast.errors import InvalidValue, SourceError
from nearcast.events.columns import EVENT_SCHEMA, UPDATE_SCHEMA
from nearcast.spark.io.paths import is_local, local_path, open_file, resolve
from nearcast.spark.readers import schema
from nearcast.spark.readers.sources import file_names, rate_events, socket_events
from nearcast_lab.workloads.stream import EventStream
from patience import PATIENCE_S

Batches = list[list[Any]]


def run(frame: DataFrame, state: Path) -> Batches:
    """Run a stream over all that is there, and give the rows of each batch."""
    batches: Batches = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: batches.append(batch.collect()))
        .option("checkpointLocation", str(state))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def put(path: Path, age: int, content: bytes = b"x") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))
    return path.name


def names(batches: Batches) -> list[list[str]]:
    return [[local_path(row.path).name for row in batch] for batch in batches]


def test_files_come_by_age_and_each_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for age, name in enumerate(["b.jsonl", "a.parquet", "c.json.gz", "d.ndjson.zst"]):
        put(folder / name, age)
    put(folder / "notes.txt", 9)
    put(folder / "_d.jsonl", 9)
    put(folder / ".e.jsonl", 9)
    stream = file_names(spark, str(folder), files_per_batch=1)
    expected = [["b.jsonl"], ["a.parquet"], ["c.json.gz"], ["d.ndjson.zst"]]
    assert names(run(stream, tmp_path / "state")) == expected
    put(folder / "a.jsonl", 20)
    assert names(run(stream, tmp_path / "state")) == [["a.jsonl"]]


def test_a_file_that_is_years_older_than_the_others_is_not_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in" / "new.jsonl", 0)
    stream = file_names(spark, str(tmp_path / "in"))
    run(stream, tmp_path / "state")
    put(tmp_path / "in" / "old.jsonl", -10 * 365 * 86400)
    assert names(run(stream, tmp_path / "state")) == [["old.jsonl"]]


def test_what_is_in_a_file_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """The JVM could not hold this file, nor put it into one row."""
    put(tmp_path / "in" / "large.jsonl", 0)
    size = 1 << 40
    os.truncate(tmp_path / "in" / "large.jsonl", size)
    [[row]] = run(file_names(spark, str(tmp_path / "in")), tmp_path / "state")
    assert row.length == size
    assert set(row.asDict()) == {"path", "length", "modificationTime"}


def test_the_path_that_spark_gives_opens_the_file(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in" / "sp ace%20é.jsonl", 0, b"hello")
    [[row]] = run(file_names(spark, str(tmp_path / "in")), tmp_path / "state")
    with open_file(row.path) as file:
        assert file.read() == b"hello"


def test_one_file_is_a_stream_too(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("log[a]{1,2}*.jsonl", "loga1.jsonl"):
        put(tmp_path / name, 0)
    stream = file_names(spark, str(tmp_path / "log[a]{1,2}*.jsonl"))
    assert names(run(stream, tmp_path / "state")) == [["log[a]{1,2}*.jsonl"]]


def test_a_folder_that_is_not_there_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere: cannot be read .*PATH_NOT_FOUND"):
        file_names(spark, str(tmp_path / "nowhere"))
    with pytest.raises(InvalidValue, match="files_per_batch: 0 given"):
        file_names(spark, str(tmp_path), files_per_batch=0)


def test_paths_are_distinguished_by_their_scheme(tmp_path: Path) -> None:
    assert str(local_path(f"file://{tmp_path}/a")) == str(local_path(f"file:{tmp_path}/a"))
    assert is_local("a:b/c")
    assert not is_local("s3a://bucket/x")
    assert resolve(f"file://{tmp_path}/a b")[1] == f"{tmp_path}/a b"
    with pytest.raises(SourceError, match="nosuch://x/y: no file system for it"):
        resolve("nosuch://x/y")
    with pytest.raises(SourceError, match="missing: cannot be read"):
        open_file(f"{tmp_path}/missing")


def test_the_schemas_are_those_of_the_model(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    for declared, expected in ((schema.EVENTS, EVENT_SCHEMA), (schema.UPDATES, UPDATE_SCHEMA)):
        made = to_arrow_schema(spark.createDataFrame([], declared).schema)
        assert [(field.name, str(field.type)) for field in made] == [
            (field.name, str(field.type).replace("item:", "element:")) for field in expected
        ]


def test_made_up_events_are_numbered_and_begin_with_the_population(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = EventStream(seed=2, subscriptions=30, vocabulary=200)
    frame = rate_events(spark, stream.table, first=30, events_per_batch=12)
    [rows] = run(frame, tmp_path / "state")
    rows = sorted(rows, key=lambda row: row.seq)
    assert [row.seq for row in rows] == list(range(42))
    given = [json.loads(json.dumps(row.asDict(recursive=True))) for row in rows]
    expected = stream.table(0, 42).to_pylist()
    assert given == [fields | {"seq": seq} for seq, fields in enumerate(expected)]


def test_made_up_events_come_at_a_rate(spark: SparkSession, tmp_path: Path) -> None:
    def numbers(first: int, end: int) -> pa.Table:
        return EVENT_SCHEMA.empty_table() if first == end else stream.table(first, end)

    stream = EventStream(seed=2, subscriptions=1, vocabulary=200)
    frame = rate_events(spark, numbers, events_per_second=50)
    seen = gather(frame, tmp_path / "state", lambda rows: len(rows) >= 50)
    assert sorted(row.seq for row in seen) == list(range(len(seen)))


def gather(frame: DataFrame, state: Path, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Run a stream until there are enough rows, and give them."""
    rows: list[Any] = []
    done = threading.Event()

    def take(batch: DataFrame, _: int) -> None:
        rows.extend(batch.collect())
        if enough(rows):
            done.set()

    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(state))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    assert done.wait(PATIENCE_S), query.exception()
    query.stop()
    return rows


LINES: list[dict[str, Any]] = [
    {"op": "subscribe", "id": "s1", "query": "a", "region": {"type": "Box", "bbox": [0, 0, 1, 1]}},
    *({"op": "publish", "id": f"m{n}", "text": "a", "point": [0.5, 0.5]} for n in range(30)),
    {"op": "unsubscribe", "id": "s1", "at": 5},
]


def test_lines_from_a_socket_come_in_order_and_bad_ones_say_why(
    spark: SparkSession, tmp_path: Path
) -> None:
    sent = [*map(json.dumps, LINES), "not json", "", '{"op": "publish", "id": 5}']
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as connection:
            connection.sendall("".join(f"{line}\n" for line in sent).encode())
            connection.recv(1)  # until the stream is stopped

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    frame = socket_events(spark, "127.0.0.1", server.getsockname()[1])
    rows = gather(frame, tmp_path / "state", lambda rows: len(rows) >= len(sent) - 1)
    thread.join()
    assert [row.raw for row in rows] == [line for line in sent if line]
    assert [row.id for row in rows[:-2]] == [line["id"] for line in LINES]
    assert json.loads(rows[0].region) == LINES[0]["region"]
    assert json.loads(rows[1].point) == [0.5, 0.5]
    assert rows[-3].at == 5.0
    assert [row.error for row in rows[:-2]] == [None] * len(LINES)
    assert "one JSON object on one line" in rows[-2].error
    assert rows[-1].error.startswith("id: 5 given")


def listings(spark: SparkSession) -> int:
    """How often Spark has started a job only to list files."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(at).description() for at in range(jobs.size())]
    return sum("Listing leaf files" in one.get() for one in found if one.isDefined())


def test_many_folders_are_listed_without_a_job(spark: SparkSession, tmp_path: Path) -> None:
    """A job with a task for each folder would cost every batch more than its events do."""
    for number in range(40):
        put(tmp_path / "in" / f"folder-{number}" / f"{number}.jsonl", number)
    pattern = f"{tmp_path}/in/*"
    threshold = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = listings(spark)
    found = names(run(file_names(spark, pattern), tmp_path / "state"))
    assert found == [[f"{number}.jsonl" for number in range(40)]]
    assert listings(spark) == before
    usual = spark.conf.get(threshold)
    assert usual is not None
    spark.conf.set(threshold, 32)  # what Spark does by itself
    try:
        run(file_names(spark, pattern), tmp_path / "other")
    finally:
        spark.conf.set(threshold, usual)
    assert listings(spark) > before
