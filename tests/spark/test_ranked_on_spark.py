"""Top-k on real Spark: frames, the command line, and a stream that is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from boolean_logs import records
from kills import Log, Ranked, Stream
from nearcast.cli.main import main
from nearcast.engine.settings import Settings
from nearcast.spark import match_stream
from nearcast.spark.events import table_of
from nearcast.spark.outputs import read_updates
from nearcast.spark.readers.schema import NUMBERED_EVENTS
from nearcast.spark.reports.report import read_reports
from nearcast.topk import Window
from ranked_logs import ranked_log
from ranked_pipeline import scored


def test_a_frame_of_both_kinds_gives_the_updates_of_scan(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Scores come with all their bits, and none for boolean subscriptions."""
    log, chosen = ranked_log(300, seed=7), Settings(window=Window(count=12))
    rows = [
        row | {"seq": at} for at, row in enumerate(table_of(records(log)).to_pylist())
        if row["problem"] is None
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, NUMBERED_EVENTS)
    state = str(tmp_path / "state")
    found = match_stream(frame, workers=3, partitioner="hash,shared", state=state, settings=chosen)
    updates = sorted((u.event, u.subscription, u.message, u.op, u.score) for u in found.collect())
    expected = sorted((at, s, m, op, score) for at, op, s, m, score in scored(log, chosen)[0])
    assert updates == expected
    assert {score is None for *_, op, score in expected if op == "add"} == {True, False}
    [report] = read_reports(state)
    assert report.rankings > 3
    assert 0 < report.ranked_updates < report.updates
    assert len(report.rankers) == 3


@pytest.mark.usefixtures("spark")
def test_replay_ranks_on_spark_as_the_embedded_engine_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte, with term weights of a history and a window of seconds."""
    monkeypatch.chdir(tmp_path)
    log = ranked_log(200, seed=8)
    Path("log.jsonl").write_text("\n".join(map(json.dumps, log)))
    history = [event for event in log if event["op"] == "publish" and "ttl" not in event]
    Path("history.jsonl").write_text("\n".join(json.dumps(e | {"at": 0}) for e in history))
    more = ["--history", "history.jsonl", "--window-seconds", "3", "--output", "updates.jsonl"]
    more += ["--on-error", "quarantine=aside.jsonl", "--space=-20,-20,20,20"]

    def replayed(*engine: str) -> tuple[bytes, list[int]]:
        assert main(["replay", "log.jsonl", *more, "--engine", *engine]) == 0
        aside = Path("aside.jsonl").read_bytes().splitlines()
        return Path("updates.jsonl").read_bytes(), [json.loads(line)["line"] for line in aside]

    found, refused = replayed("spark", "--workers", "2", "--partitioner", "shared,shared")
    # What a pipeline refused, for whatever reason, becomes what every engine refuses.
    for line in refused:
        log[line - 1] = {"op": "unsubscribe", "id": "nobody"}
    Path("log.jsonl").write_text("\n".join(map(json.dumps, log)))
    assert replayed("embedded") == (found, refused)
    assert found.count(b'"score"') > 20


@pytest.mark.soak
def test_a_killed_stream_ranks_on_where_it_was(tmp_path: Path) -> None:
    """What a killed worker held is built again; another run does so with more workers."""
    log = Log(tmp_path / "log", 4000, 8, Ranked(4000, names=60))
    stream = Stream(tmp_path, "--files-per-batch", "1", "--window-count", "150")
    with stream.watched():
        log.give(stream, 4)
        stream.start()
        stream.wait_for_commits(2)
        assert stream.kill("worker")
        log.give(stream, 2)
        stream.wait_for_commits(3)
        assert stream.kill("driver")
        log.give(stream, 2)
        stream.finish("--workers", "3")
    found = read_updates(stream.output)
    assert found.equals(log.expected(Settings(Window(150))))
    assert len(found) - found["score"].null_count > 1000
