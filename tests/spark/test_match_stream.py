"""`match_stream` on frames of every kind gives the updates of `scan`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from boolean_logs import records, scanned
from mixed_logs import mixed_log
from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue, StateError
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.geo import Box
from nearcast.spark import match_stream
from nearcast.spark.events import table_of
from nearcast.spark.outputs import read_updates
from nearcast.spark.readers.schema import NUMBERED_EVENTS

Updates = list[tuple[int, str, str, str]]

LOG = mixed_log(seed=77, count=200)
EXPECTED, REFUSED = scanned(LOG, Settings())
GOOD = [at for at, record in enumerate(records(LOG)) if record.event is not None]


def numbered(numbers: list[int]) -> pa.Table:
    """Well-formed events of the log by their places in it, with those as `seq`."""
    every = records(LOG)
    table = table_of([every[at] for at in numbers]).select(EVENT_SCHEMA.names)
    return table.append_column("seq", pa.array(numbers, pa.int64()))


def thirds() -> Iterator[list[int]]:
    for part in range(3):
        yield GOOD[len(GOOD) * part // 3 : len(GOOD) * (part + 1) // 3]


def write(folder: Path, name: str, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    unfinished = folder / f".{name}"
    pq.write_table(table, unfinished)
    unfinished.rename(folder / name)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A folder with the log in three files."""
    folder = tmp_path / "events"
    for part, numbers in enumerate(thirds()):
        write(folder, f"{part}.parquet", numbered(numbers))
    return folder


def updates_of(frame: DataFrame) -> Updates:
    rows = frame.collect()
    return sorted((row.event, row.op, row.subscription, row.message) for row in rows)


def kept(folder: Path) -> Updates:
    rows: list[dict[str, Any]] = read_updates(folder).to_pylist()
    return sorted((row["event"], row["op"], row["subscription"], row["message"]) for row in rows)


def streamed(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(NUMBERED_EVENTS).parquet(str(folder))


def refused(folder: Path) -> dict[int, str]:
    lines = [line for file in folder.rglob("*.jsonl") for line in file.read_text().splitlines()]
    entries = [json.loads(line) for line in lines]
    assert len({entry["seq"] for entry in entries}) == len(entries)
    return {entry["seq"]: entry["error"] for entry in entries}


def test_a_table_with_structs_in_any_order_of_rows(
    spark: SparkSession, events: Path, tmp_path: Path
) -> None:
    frame = spark.read.schema(NUMBERED_EVENTS).parquet(str(events)).orderBy(f.rand(3))
    aside = tmp_path / "refused"
    found = match_stream(frame, workers=4, partitioner="space-kd", quarantine=str(aside))
    assert updates_of(found) == sorted(EXPECTED)
    assert set(refused(aside)) == REFUSED & set(GOOD)


def test_a_table_with_json_text_and_no_numbers(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are numbered as they come; what is malformed is set aside and the rest goes on."""
    rows = []
    for fields in LOG:
        row = {key: fields.get(key) for key in ("op", "id", "query", "text")}
        row = {key: None if value is None else str(value) for key, value in row.items()}
        for key in ("region", "point"):
            given = fields.get(key)
            row[key] = None if given is None else json.dumps(given)
        rows.append(row)
    columns = ["op", "id", "query", "text", "region", "point"]
    as_read = [{key: _read(key, value) for key, value in row.items()} for row in rows]
    expected, bad = scanned(as_read, Settings())
    schema = ", ".join(f"{column} string" for column in columns)
    frame = spark.createDataFrame([tuple(row[c] for c in columns) for row in rows], schema)
    aside = tmp_path / "refused"
    found = match_stream(frame, workers=2, quarantine=str(aside))
    assert updates_of(found) == sorted(expected)
    assert set(refused(aside)) == bad
    assert len(bad) > 10


def test_rows_of_several_partitions_are_ordered_by_time_and_then_by_partition(
    spark: SparkSession,
) -> None:
    """Whether their times overlap or not; a row without a time follows the one before it."""
    box = {"type": "Box", "bbox": [0, 0, 9, 9]}

    def event(name: str, at: float | None = None) -> dict[str, Any]:
        time = {} if at is None else {"at": at}
        if name.startswith("s"):
            return {"op": "subscribe", "id": name, "query": "a", "region": box} | time
        return {"op": "publish", "id": name, "text": "a", "point": [1, 1]} | time

    parts = [
        [event("s0", 2.0), event("m0"), event("m1", 5.0)],
        [event("s1"), event("m2", 2.0), event("m3", 4.0)],
        [event("m4", 1.0), event("m5", 6.0), event("m6")],
    ]
    schema = "op string, id string, query string, text string, at double, region string"
    for split in (parts, [parts[0], [{**each, "at": 7.0} for each in parts[1]]]):
        timed = []
        for part in split:
            time = float("-inf")
            for one in part:
                time = one.get("at", time)
                timed.append((time, one))
        timed.sort(key=lambda pair: pair[0])
        expected, _ = scanned([one for _, one in timed], Settings())
        assert len(expected) > 3
        rows = [
            [str(e["op"]), e["id"], e.get("query"), e.get("text"), e.get("at"),
             *(json.dumps(e[key]) if key in e else None for key in ("region", "point"))]
            for part in split for e in part
        ]  # fmt: skip
        frame = spark.createDataFrame(
            spark.sparkContext.parallelize(rows, len(split)), f"{schema}, point string"
        )
        assert frame.rdd.getNumPartitions() == len(split)
        assert updates_of(match_stream(frame, workers=2)) == sorted(expected)


def _read(key: str, value: str | None) -> Any:
    return json.loads(value) if value is not None and key in ("region", "point") else value


def test_a_stream_goes_on_after_restarts_with_other_workers_and_another_plan(
    spark: SparkSession, tmp_path: Path
) -> None:
    """2, then 8, then 4 workers, and from `space-kd` to `hybrid`: the result stays exact."""
    folder, out, state = tmp_path / "events", tmp_path / "out", str(tmp_path / "state")
    runs = [(2, "space-kd"), (8, "space-kd"), (4, "hybrid")]
    for part, (numbers, (workers, name)) in enumerate(zip(thirds(), runs, strict=True)):
        write(folder, f"{part}.parquet", numbered(numbers))
        query = match_stream(
            streamed(spark, folder), workers=workers, partitioner=name, state=state,
            output=str(out), available_now=True,
        )  # fmt: skip
        query.awaitTermination()
        assert query.exception() is None
    assert kept(out) == sorted(EXPECTED)
    assert len(list((tmp_path / "state" / "plans").iterdir())) == 3


def test_events_that_are_late_or_come_twice_are_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Within a batch the order of arrival does not matter; behind the last batch it is too late."""
    folder, out, state = tmp_path / "events", tmp_path / "out", str(tmp_path / "state")
    one, two, three = thirds()
    missing = one[::2][len(one) // 4]
    batches = [
        [[*two[::2], *one[1::2], *two[:6]], [at for at in one[::2] if at != missing]],
        [[missing, *three[10:]], [*two[-5:], *three[:20]]],
    ]
    for number, files in enumerate(batches):
        for part, numbers in enumerate(files):
            write(folder, f"{number}-{part}.parquet", numbered(numbers))
        query = match_stream(
            streamed(spark, folder), state=state, output=str(out), available_now=True
        )
        query.awaitTermination()
        assert query.exception() is None
    last = max(two[::2])
    taken = sorted({*one, *two[::2], *two[:6]} - {missing} | {*three})
    taken += [at for at in two[-5:] if at > last and at not in taken]
    taken.sort()
    expected, _ = scanned([LOG[at] for at in taken], Settings())
    assert kept(out) == sorted((taken[at], *rest) for at, *rest in expected)
    reports = [json.loads(path.read_text()) for path in (tmp_path / "state").glob("reports/*")]
    assert sum(report["events"] for report in reports) == len(taken)
    given = sum(len(numbers) for files in batches for numbers in files)
    assert sum(report["late"] for report in reports) == given - len(taken)


def test_a_function_gets_each_batch_with_its_number(
    spark: SparkSession, events: Path, tmp_path: Path
) -> None:
    found: dict[int, Updates] = {}

    def take(updates: DataFrame, number: int) -> None:
        assert updates.columns == ["event", "op", "subscription", "message", "score"]
        found[number] = updates_of(updates)

    stream = spark.readStream.schema(NUMBERED_EVENTS).option("maxFilesPerTrigger", 1)
    query = match_stream(
        stream.parquet(str(events)), workers=2, partitioner="hash",
        state=str(tmp_path / "state"), foreach_batch=take, available_now=True,
    )  # fmt: skip
    query.awaitTermination()
    assert query.exception() is None
    assert sorted(found) == [1, 2, 3]
    assert [each for number in sorted(found) for each in found[number]] == sorted(EXPECTED)


def test_a_stream_of_updates_can_be_written_anywhere(
    spark: SparkSession, events: Path, tmp_path: Path
) -> None:
    """Without an output, the updates are a stream that the user sends where he likes."""
    updates = match_stream(
        streamed(spark, events), workers=2, state=str(tmp_path / "state"), available_now=True
    )
    assert updates.isStreaming
    target = str(tmp_path / "mine")
    to_files = updates.writeStream.option("checkpointLocation", str(tmp_path / "mine-state"))
    to_files.trigger(availableNow=True).start(target).awaitTermination()
    assert updates_of(spark.read.parquet(target)) == sorted(EXPECTED)
    to_memory = updates.writeStream.format("memory").queryName("updates_in_memory")
    to_memory.trigger(availableNow=True).start().awaitTermination()
    assert updates_of(spark.table("updates_in_memory")) == sorted(EXPECTED)


def test_it_runs_in_a_session_that_the_user_has(spark: SparkSession, events: Path) -> None:
    """What a session has besides stays as it is: its views, and its time zone."""
    mine = spark.newSession()
    mine.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    mine.read.schema(NUMBERED_EVENTS).parquet(str(events)).createOrReplaceTempView("mine")
    found = match_stream(mine.table("mine"), workers=2)
    assert updates_of(found) == sorted(EXPECTED)
    assert mine.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert mine.catalog.tableExists("mine")


def test_updates_carry_messages_and_meta(spark: SparkSession) -> None:
    """As columns of text and of JSON; what was removed has no message."""
    box = {"type": "Box", "bbox": [0.0, 0.0, 4.0, 4.0]}
    rows = [
        {"op": "subscribe", "id": "s", "query": "x:1", "region": box, "meta": {"who": "me"}},
        {"op": "publish", "id": "m", "text": "a", "point": [1.0, 2.0], "ttl": 9.0,
         "properties": {"x": 1}},
        {"op": "publish", "id": "m", "point": [9.0, 9.0], "ttl": 9.0, "properties": {"x": 1}},
    ]  # fmt: skip
    given = [json.dumps(row) for row in rows]
    columns = ["op", "id", "query", "region", "text", "point", "ttl", "properties", "meta"]
    fields = [
        f.get_json_object("value", f"$.{name}").cast("double" if name == "ttl" else "string")
        for name in columns
    ]
    frame = spark.createDataFrame(
        [(n, row) for n, row in enumerate(given)], "seq long, value string"
    )
    frame = frame.select("seq", *(one.alias(n) for one, n in zip(fields, columns, strict=True)))
    found = match_stream(frame, workers=2, include=("message", "meta")).orderBy("event").collect()
    assert [row.asDict() for row in found] == [
        {"event": 1, "op": "add", "subscription": "s", "message": "m", "score": None, "text": "a",
         "point": "[1.0,2.0]", "region": None, "properties": '{"x":1}', "meta": '{"who":"me"}'},
        {"event": 2, "op": "remove", "subscription": "s", "message": "m", "score": None,
         "text": None, "point": None, "region": None, "properties": None, "meta": '{"who":"me"}'},
    ]  # fmt: skip
    with pytest.raises(InvalidValue, match="include"):
        match_stream(frame, include=["body"])
    with pytest.raises(InvalidValue, match="workers"):
        match_stream(frame, workers=0)


def test_a_stream_without_a_state_is_refused(spark: SparkSession, events: Path) -> None:
    with pytest.raises(InvalidValue, match="state: None given; expected a folder"):
        match_stream(streamed(spark, events))


def test_an_unknown_partitioner_is_refused(spark: SparkSession, events: Path) -> None:
    with pytest.raises(InvalidValue, match="partitioner: 'by-luck' given; expected one of auto"):
        match_stream(spark.read.parquet(str(events)), partitioner="by-luck")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": {"window": [5, None]}}, "belongs to a pipeline with other settings"),
        ({"kind": "something else"}, "holds 'something else' of version 6"),
        ({"version": 999}, "of version 999, this reads"),
    ],
)
def test_a_state_that_is_not_ours_is_refused(
    spark: SparkSession, events: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    frame = spark.read.schema(NUMBERED_EVENTS).parquet(str(events)).where("seq < 3")
    state = tmp_path / "state"
    match_stream(frame, state=str(state))
    about = json.loads((state / "about.json").read_text())
    (state / "about.json").write_text(json.dumps(about | change))
    with pytest.raises(StateError, match=said) as caught:
        match_stream(frame, state=str(state))
    assert str(state) in str(caught.value)


def test_other_settings_and_another_output_are_refused(
    spark: SparkSession, events: Path, tmp_path: Path
) -> None:
    frame = spark.read.schema(NUMBERED_EVENTS).parquet(str(events)).where("seq < 3")
    state, out = str(tmp_path / "state"), str(tmp_path / "out")
    match_stream(frame, state=state, output=out)
    with pytest.raises(StateError, match="other settings .space: .*there, .*here."):
        match_stream(frame, state=state, settings=Settings(space=Box(0, 0, 1, 1)))
    with pytest.raises(StateError, match="holds the updates of another pipeline"):
        match_stream(frame, state=str(tmp_path / "other"), output=out)
