"""What Spark tells of a stream reaches the log and the metrics."""

import io
import json
import logging
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from nearcast.spark.reports.listener import listening
from nearcast.spark.reports.logs import log_to, logger
from nearcast.spark.reports.metrics import PipelineMetrics


def run(spark: SparkSession, name: str, state: Path, fail: bool = False) -> None:
    def batch(frame: DataFrame, _: int) -> None:
        frame.collect()
        if fail:
            raise ValueError("told")

    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = (
        frame.writeStream.foreachBatch(batch)
        .queryName(name)
        .option("checkpointLocation", str(state))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_the_life_of_a_query_is_logged_and_its_times_are_metrics(
    spark: SparkSession, tmp_path: Path
) -> None:
    logged, metrics = io.StringIO(), PipelineMetrics()
    handler = log_to(logged, logging.DEBUG)
    try:
        with listening(spark, "ours", metrics):
            run(spark, "other", tmp_path / "other")
            run(spark, "ours", tmp_path / "ours")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["query started", "trigger done", "query ended"]
    assert {line["query"] for line in lines} == {"ours"}
    assert lines[1]["batch"] == 0
    assert 'nearcast_spark_trigger_seconds{step="addBatch"}' in metrics.exposition()


def test_a_failed_query_is_logged_as_an_error(spark: SparkSession, tmp_path: Path) -> None:
    logged = io.StringIO()
    handler = log_to(logged, logging.ERROR)
    try:
        with listening(spark, "failing"), pytest.raises(StreamingQueryException):
            run(spark, "failing", tmp_path / "state", fail=True)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    (line,) = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert (line["event"], line["level"]) == ("query failed", "error")
    assert "told" in line["error"]
