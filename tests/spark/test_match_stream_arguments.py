"""`match_stream` returns at once, refuses what it cannot do before it runs, and changes nothing."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearcast.errors import InvalidValue, StateError
from nearcast.spark import match_stream
from nearcast.spark.outputs import read_updates
from nearcast.spark.readers.frames import as_events
from nearcast.spark.readers.schema import NUMBERED_EVENTS

BOX = '{"type": "Box", "bbox": [0, 0, 4, 4]}'
ROWS = [
    (0, "subscribe", "s", "a", BOX, None, None),
    (1, "publish", "m", None, None, "a b", "[1, 2]"),
    (2, "publish", "n", None, None, "b", "[1, 2]"),
    (3, "publish", "o", None, None, "a", "[2, 2]"),
]
SCHEMA = "seq long, op string, id string, query string, region string, text string, point string"


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def messages(frame: DataFrame) -> list[tuple[int, str]]:
    return sorted((row.event, row.message) for row in frame.collect())


def streamed(spark: SparkSession, events: DataFrame, folder: Path) -> DataFrame:
    events.coalesce(1).write.parquet(str(folder))
    return spark.readStream.schema(SCHEMA).parquet(str(folder))


def test_a_table_is_matched_when_rows_are_asked_for_and_once(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    """Neither the call nor transformations run anything; what runs first runs everything."""
    counted = spark.sparkContext.accumulator(0)

    def count(op: str) -> str:
        counted.add(1)
        return op

    counting = events.withColumn("op", f.udf(count, useArrow=False)("op"))
    updates = match_stream(counting, workers=2, state=tmp_path / "state")
    late = updates.where("event > 1").select(f.concat("message", f.lit("!")).alias("message"))
    late.explain()
    updates.createOrReplaceTempView("updates_to_come")
    assert updates.columns == ["event", "op", "subscription", "message", "score"]
    assert counted.value == 0
    assert [row.message for row in late.collect()] == ["o!"]
    assert counted.value == len(ROWS)
    assert messages(updates) == [(1, "m"), (3, "o")]
    assert spark.sql("SELECT count(*) FROM updates_to_come").first() == (2,)
    assert messages(updates.alias("a").join(updates.alias("b"), "event").select("a.*")) == [
        (1, "m"), (3, "o"),
    ]  # fmt: skip
    assert counted.value == len(ROWS)


def test_a_lazy_table_without_updates_is_empty(events: DataFrame) -> None:
    assert match_stream(events.where("op = 'publish'"), workers=1).collect() == []


def test_two_threads_that_ask_for_one_table_match_it_once(
    events: DataFrame, tmp_path: Path
) -> None:
    updates = match_stream(events, workers=2, state=str(tmp_path / "state"))
    found: list[list[tuple[int, str]]] = []
    threads = [threading.Thread(target=lambda: found.append(messages(updates))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(1, "m"), (3, "o")]] * 2
    assert len(list((tmp_path / "state" / "commits").glob("*.json"))) == 1


def test_a_table_that_failed_is_taken_up_where_it_was_cut_off(
    events: DataFrame, tmp_path: Path
) -> None:
    """The error of the events is that of the action, and the next action tries again."""
    missing = tmp_path / "not-there-yet"

    def read(op: str) -> str:
        assert missing.exists(), "there is nothing to read yet"
        return op

    updates = match_stream(
        events.withColumn("op", f.udf(read, useArrow=False)("op")), state=tmp_path / "state"
    )
    with pytest.raises(Exception, match="there is nothing to read yet"):
        updates.collect()
    missing.touch()
    again = updates.select("*")  # Spark keeps with a frame that it failed
    assert messages(again) == [(1, "m"), (3, "o")]


def test_an_output_is_written_before_the_call_returns(events: DataFrame, tmp_path: Path) -> None:
    found = match_stream(events, state=tmp_path / "state", output=tmp_path / "out")
    assert read_updates(tmp_path / "out")["message"].to_pylist() == ["m", "o"]
    assert messages(found) == [(1, "m"), (3, "o")]


def test_a_stream_is_given_before_it_has_taken_anything(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    """The query waits in its first batch while the caller already has it."""
    go_on = threading.Event()

    def take(updates: DataFrame, number: int) -> None:
        assert go_on.wait(60)
        updates.write.parquet(str(tmp_path / f"mine-{number}"))

    stream = streamed(spark, events, tmp_path / "events")
    query = match_stream(stream, workers=2, state=tmp_path / "state", foreach_batch=take)
    try:
        assert query.isActive
        assert query.id in [each.id for each in spark.streams.active]
        go_on.set()
        query.processAllAvailable()
    finally:
        query.stop()
    assert messages(spark.read.parquet(str(tmp_path / "mine-1"))) == [(1, "m"), (3, "o")]


def test_a_frame_of_updates_of_a_stream_is_given_at_once(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    updates = match_stream(
        streamed(spark, events, tmp_path / "events"), workers=2, state=tmp_path / "state"
    )
    assert updates.columns == ["event", "op", "subscription", "message", "score"]
    (query,) = (each for each in spark.streams.active if (each.name or "").startswith("nearcast-"))
    try:
        query.processAllAvailable()
        sink = updates.writeStream.format("memory").queryName("given_at_once")
        sink.trigger(availableNow=True).start().awaitTermination()
    finally:
        query.stop()
    assert messages(spark.table("given_at_once")) == [(1, "m"), (3, "o")]


def test_the_settings_of_a_session_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """With every one of them unlike what a pipeline needs."""
    mine = spark.newSession()
    mine.conf.set("spark.sql.adaptive.enabled", "true")
    mine.conf.set("spark.sql.execution.arrow.pyspark.enabled", "false")
    mine.conf.set("spark.sql.streaming.numRecentProgressUpdates", "7")
    before = mine.conf.getAll
    frame = mine.createDataFrame(ROWS, SCHEMA)
    assert messages(match_stream(frame, workers=2)) == [(1, "m"), (3, "o")]
    query = match_stream(
        streamed(mine, frame, tmp_path / "events"), state=tmp_path / "state",
        output=tmp_path / "out", available_now=True,
    )  # fmt: skip
    assert mine.conf.getAll == before
    query.awaitTermination()
    assert query.exception() is None
    assert mine.conf.getAll == before
    assert read_updates(tmp_path / "out")["message"].to_pylist() == ["m", "o"]


def test_a_checkpoint_belongs_to_its_state(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    """Whatever place the session has for checkpoints; and it is of no use to another state."""
    mine = spark.newSession()
    mine.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "elsewhere"))
    stream = streamed(mine, events, tmp_path / "events")
    for _ in range(2):  # the second time there is nothing new
        query = match_stream(
            stream, state=tmp_path / "state", output=tmp_path / "out", available_now=True
        )
        query.awaitTermination()
        assert query.exception() is None
    assert (tmp_path / "state" / "checkpoint" / "offsets" / "0").exists()
    assert not (tmp_path / "elsewhere").exists()
    assert read_updates(tmp_path / "out")["message"].to_pylist() == ["m", "o"]
    (tmp_path / "state" / "checkpoint").rename(tmp_path / "lost")
    with pytest.raises(StateError, match="which the folder checkpoint in it does not know"):
        match_stream(stream, state=tmp_path / "state", output=tmp_path / "out")


def test_types_that_mean_the_same_are_converted(spark: SparkSession) -> None:
    """A time, a number as id, a point of floats, a region and properties as structs and maps."""
    utc = dt.UTC
    frame = spark.createDataFrame(
        [
            (0, "subscribe", 7, dt.datetime(2026, 1, 1, tzinfo=utc), None,
             "a AND price:<5.5", ("Circle", [1.0, 2.0], 900.0), None, None, None),
            (1, "publish", 8, dt.datetime(2026, 1, 1, 0, 0, 1, 500000, tzinfo=utc), Decimal("9.5"),
             None, None, "a", [1.0, 2.0], {"price": 5}),
            (2, "publish", 9, dt.datetime(2026, 1, 1, tzinfo=utc), None, None, None, "a",
             [1.0, 2.0], {"price": 5}),
        ],
        "seq int, op string, id long, at timestamp, ttl decimal(9, 2), query string,"
        "region struct<type: string, center: array<float>, radius: float>,"
        "text string, point array<float>, properties map<string, int>",
    )  # fmt: skip
    assert as_events(frame).where("seq = 1").select("at", "ttl").first() == (1767225601.5, 9.5)
    found = match_stream(frame, workers=1).collect()
    # the last one is from before the time of the one before it, and refused
    assert [(row.event, row.subscription, row.message) for row in found] == [(1, "7", "8")]


def test_the_schema_of_the_log_is_taken_as_it_is(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], NUMBERED_EVENTS)
    assert as_events(frame.withColumn("else", f.lit(1))).schema == frame.schema


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("op, id as ID", r"events.id: missing; .*; the frame has the columns op, ID"),
        ("id", r"events.op: missing"),
        ("key, value", r"events.op: missing; .*; the frame has the columns key, value"),
        ("op, id, op as OP", r"events: \['op', 'OP'\] given; expected one column 'op'"),
        ("op, 1.5 as id", r"events.id: 'decimal\(2,1\)' given; expected string"),
        ("op, id, 'x' as at", r"events.at: 'string' given; expected double"),
        ("op, id, timestamp_ntz'2026-01-01' as at", "events.at: 'timestamp_ntz' given; expected"),
        ("op, id, interval '5' second as ttl", "events.ttl: 'interval second' given; expected"),
        ("op, id, 1 as text", "events.text: 'int' given; expected string"),
        ("op, id, array('a') as point", "events.point: 'array<string>' given; expected array"),
        ("op, id, struct(1 as lon, 2 as lat) as point", "events.point: 'struct<lon:int,lat:int>'"),
        (
            "op, id, array(1.0) as region",
            "events.region: .* given; expected JSON text, or a",
        ),
        (
            "op, id, array(1) as properties",
            "events.properties: 'array<int>' given; expected an",
        ),
        ("op, id, array(1) as ops", "events.ops: 'array<int>' given; expected array<string>"),
        ("op, id, '1' as seq", "events.seq: 'string' given; expected bigint"),
    ],
)
def test_columns_that_cannot_be_read_are_refused_by_name(
    spark: SparkSession, change: str, said: str
) -> None:
    spark.sql("SELECT '' AS op, '' AS id, '' AS key, '' AS value").createOrReplaceTempView("odd")
    frame = spark.sql("SELECT " + change + " FROM odd")  # noqa: S608 - these are our own
    with pytest.raises(InvalidValue, match=said):
        match_stream(frame)


def test_a_row_without_seq_is_an_error_where_others_have_one(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None, "publish", "m")], "seq long, op string, id string")
    with pytest.raises(Exception, match="seq: null in a row; number every row"):
        match_stream(frame).collect()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workers": 0}, "workers: 0 given; expected a whole number from 1 on"),
        ({"workers": True}, "workers: True given"),
        ({"workers": "4"}, "workers: '4' given"),
        ({"partitioner": "by-luck"}, "partitioner: 'by-luck' given; expected one of auto"),
        ({"partitioner": None}, "partitioner: None given"),
        ({"include": ["body"]}, "include: 'body' given"),
        ({"adjust": "always"}, "adjust: 'always' given; expected one of off, suggest, auto"),
        ({"adjust_bytes": 0}, "adjust_bytes: 0 given"),
        ({"settings": {"window": 5}}, "settings: .* given; expected a nearcast Settings"),
        ({"plan": "plan.bin"}, "plan: 'plan.bin' given"),
        ({"state": ""}, "state: '' given; expected a path"),
        ({"output": 5}, "output: 5 given; expected a path"),
        ({"output": "out", "foreach_batch": print}, "expected either it or output, not both"),
        ({"trigger": "1 second"}, "trigger: '1 second' given; expected none, as events is a table"),
        ({"available_now": True}, "available_now: True given; expected none, as events is a table"),
    ],
)
def test_arguments_that_cannot_be_followed_are_refused(
    events: DataFrame, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidValue, match=said):
        match_stream(events, **({"state": tmp_path / "state"} | given))
    assert not (tmp_path / "state").exists()


def test_what_is_no_frame_is_refused() -> None:
    rows: Any = [{"op": "publish"}]
    with pytest.raises(InvalidValue, match="expected a DataFrame of Spark"):
        match_stream(rows)
