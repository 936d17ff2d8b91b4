"""The benchmark on Spark: the logs it writes, and arms over the same batches."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from nearcast.cli.main import main
from nearcast.errors import InvalidValue
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.spark.readers.sources import file_names
from nearcast_lab.bench.processes import Cpu, cpu_used
from nearcast_lab.bench.spark import ARMS, Arm, SparkSetup, measure_spark
from nearcast_lab.bench.spark_data import write_batches, write_population
from nearcast_lab.workloads.stream import EventStream


def test_batches_follow_the_population_and_each_other(tmp_path: Path) -> None:
    stream = EventStream(subscriptions=10, vocabulary=100)
    folders = [
        write_population(tmp_path / "population", stream, files=3),
        *write_batches(tmp_path / "log", stream, [7, 12], files=3),
    ]
    files = [file for folder in folders for file in sorted(folder.iterdir())]
    assert [len(list(folder.iterdir())) for folder in folders] == [3, 3, 3]
    assert sorted(file.name for file in files) == [file.name for file in files]
    tables = [pq.read_table(file) for file in files]
    assert all(table.schema == EVENT_SCHEMA for table in tables)
    rows = [row for table in tables for row in table.to_pylist()]
    assert rows == stream.table(0, 29).to_pylist()
    with pytest.raises(InvalidValue, match="events: 0 given"):
        write_batches(tmp_path / "more", stream, [0])


def test_cpu_of_spark_is_distinguished_by_process(spark: SparkSession) -> None:
    before = cpu_used()
    assert spark.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10
    used = cpu_used()
    assert used.jvm > 0
    assert used.python > 0
    assert used.driver > 0
    assert used.since(before).jvm >= 0
    assert Cpu(3, 2, 1).since(Cpu(1, 1, 1)) == Cpu(2, 1, 0)
    assert Cpu(3, 2, 1).total == 6


def test_arms_see_the_same_batches_and_those_that_want_it_the_population(
    spark: SparkSession,
) -> None:
    seen: dict[str, list[int]] = {}

    def arm(name: str) -> Arm:
        def start(session: SparkSession, files: str, work: Path) -> StreamingQuery:
            def take(frame: DataFrame, _: int) -> None:
                paths = [row.path.removeprefix("file:") for row in frame.collect()]
                rows = sum(pq.read_metadata(path).num_rows for path in paths)
                seen.setdefault(name, []).append(rows)

            return (
                file_names(session, files)
                .writeStream.foreachBatch(take)
                .option("checkpointLocation", str(work / "state"))
                .start()
            )

        return Arm(start, population=name == "with", baseline=name == "without")

    plan = SparkSetup(batches=[60], rounds=2, subscriptions=20)
    arms = {name: arm(name) for name in ("with", "without")}
    reports, timed = measure_spark(plan, arms, lambda _: None)
    assert timed == []
    assert seen == {"with": [20, *[60] * 5], "without": [60] * 5}
    assert [report["arm"] for report in reports] == ["with", "without"]
    assert [list(report["ratios"]) for report in reports] == [["without"], ["without"]]
    assert reports[1]["ratios"]["without"] == 1.0
    assert all(report["rounds"] == 2 and report["seconds"] > 0 for report in reports)
    assert spark.streams.active == []


@pytest.mark.parametrize(
    "arms", [["identity", "shared"], pytest.param(list(ARMS), marks=pytest.mark.soak)]
)
def test_the_command_prints_what_was_measured(
    spark: SparkSession,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arms: list[str],
) -> None:
    monkeypatch.setattr("nearcast_lab.bench.spark._WARM_UP", 0)
    assert spark.streams.active == []
    sizes = ["--batches", "60", "--rounds", "1", "--subscriptions", "20", "--rate", "0"]
    assert main(["bench", "spark", *sizes, "--arms", ",".join(arms), "--json"]) == 0
    reports = json.loads(capfd.readouterr().out)
    assert [(report["arm"], report["events_per_batch"]) for report in reports] == [
        (name, 60) for name in arms
    ]
    assert main(["bench", "spark", "--arms", "magic"]) == 2
    assert "expected one of identity" in capfd.readouterr().err
