"""Every partitioner, with every number of workers, gives the updates of `scan` on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from boolean_logs import records, scanned
from mixed_logs import mixed_log
from nearcast.engine.settings import Settings
from nearcast.partition.registry import PARTITIONERS
from nearcast.spark import stream
from nearcast.spark.events import table_of
from nearcast.spark.outputs import read_updates
from nearcast.spark.readers.slices import EventFile
from nearcast.spark.stream import StreamOptions, open_feed

WORKERS = [1, 2, 4, 8]
SIZES = [150, 2, 90, 58]
NAMES = sorted(PARTITIONERS)


def found(folder: Path) -> list[tuple[int, str, str, str]]:
    rows: list[dict[str, Any]] = read_updates(folder).to_pylist()
    return sorted((row["event"], row["op"], row["subscription"], row["message"]) for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_restarts_with_other_workers_give_the_updates_of_scan(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pipeline, stopped and started with 1, 2, 4 and 8 workers, large and tiny batches."""
    # On one machine `auto` would be `shared`: here it is to split.
    monkeypatch.setattr(stream, "partitioners_for", lambda asked, _: (asked, "shared"))
    turn = NAMES.index(name)
    log = mixed_log(seed=turn, count=sum(SIZES))
    expected, refused = scanned(log, Settings())
    table = table_of(records(log))
    workers = WORKERS[turn % 4 :] + WORKERS[: turn % 4]
    first, reports = 0, []
    for count, size in zip(workers, SIZES, strict=True):
        options = StreamOptions(workers=count, partitioner=name)
        feed = open_feed(spark, str(tmp_path / "state"), str(tmp_path / "out"), None, options)
        path = tmp_path / f"{first}.parquet"
        pq.write_table(table[first : first + size], path, row_group_size=40)
        file = EventFile.look(str(path))
        assert file is not None
        reports.append(feed.pipeline.step(first, file.slices(feed.pipeline.next_seq)))
        plan = feed.pipeline.history.plan
        assert plan is not None
        assert plan.scheme == name
        first += size
    assert found(tmp_path / "out") == sorted(expected)
    assert sum(report.refused for report in reports) == len(refused)
