"""Reports of batches: kept under the state, added up, shown, and exported."""

import http.client
import io
import json
import logging
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nearcast.cli.main import main
from nearcast.cli.spark_status import summary
from nearcast.errors import InvalidValue, SourceError
from nearcast.spark.reports.logs import log_batch, log_event, log_to, logger
from nearcast.spark.reports.metrics import Exporter, PipelineMetrics, all_metrics
from nearcast.spark.reports.progress import ProgressLine, progress
from nearcast.spark.reports.report import (
    BatchReport,
    WorkerReport,
    balance,
    prune_reports,
    read_reports,
    reported_batches,
    write_report,
)


def report(batch: int, *, plan: int = 1, loads: tuple[float, ...] = (1.0, 3.0)) -> BatchReport:
    return BatchReport(
        batch=batch,
        plan=plan,
        events=600,
        messages=500,
        operations=100,
        updates=40 + batch,
        refused=batch % 2,
        seconds={"match": 0.5, "commit": 0.1, "total": 2.0},
        workers=[
            WorkerReport(
                at,
                load,
                lag=at,
                messages=250,
                updates=20,
                rows=1000 + batch,
                bytes=10**6,
                active=7,
                where="here",
            )
            for at, load in enumerate(loads)
        ],
        subscriptions=100,
        lasting=5,
        active=30,
        committed_at=1000.0 + batch,
        rankings=60,
        ranked_updates=10,
        window=400,
        rankers=[WorkerReport(0, 0.5, updates=10, rows=60, active=400, where="here")],
        moved_buckets=2,
        recalled=30,
    )


@pytest.fixture
def state(tmp_path: Path) -> str:
    for batch in range(12):
        write_report(str(tmp_path), report(batch))
    return str(tmp_path)


def test_a_report_is_the_same_after_reading_it_back(state: str) -> None:
    assert read_reports(state) == [report(batch) for batch in range(12)]
    assert read_reports(state, 3) == [report(batch) for batch in (9, 10, 11)]


def test_reports_are_json_under_the_number_of_their_batch(state: str) -> None:
    fields = json.loads((Path(state) / "reports" / "10.json").read_text())
    assert fields["batch"] == 10
    assert fields["workers"][1]["load"] == 3.0


def test_a_report_of_a_later_release_is_read() -> None:
    fields = json.loads(report(1).to_json()) | {"weather": "fine"}
    assert BatchReport.from_json(json.dumps(fields).encode()) == report(1)


def test_a_report_is_replaced_and_old_ones_are_removed(state: str) -> None:
    write_report(state, report(11, plan=2))
    assert read_reports(state, 1)[0].plan == 2
    prune_reports(state, 2)
    assert reported_batches(state) == [10, 11]
    prune_reports(state, 0)
    assert reported_batches(state) == []


def test_an_unfinished_or_foreign_file_is_not_taken_for_a_report(state: str) -> None:
    for name in (".12.json", "notes.json", "13.tmp"):
        (Path(state) / "reports" / name).write_text("{")
    assert reported_batches(state) == list(range(12))


def test_a_damaged_report_is_reported(state: str) -> None:
    (Path(state) / "reports" / "11.json").write_text('{"batch": ')
    with pytest.raises(SourceError, match=r"reports/11.json: not a readable report"):
        read_reports(state)


def test_balance_compares_the_busiest_worker_with_the_average() -> None:
    assert balance(report(0, loads=(1.0, 3.0)).workers) == 1.5
    assert balance(report(0, loads=(0.0, 0.0)).workers) == 1.0
    assert balance([]) == 1.0


def test_status_adds_up_the_last_batches(state: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "status", state, "--last", "4", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["last_batch"], found["batches"], found["events"]) == (11, 4, 2400)
    assert found["events_per_s"] == 300.0
    assert (found["updates"], found["refused"]) == (4 * 40 + 8 + 9 + 10 + 11, 2)
    assert found["balance"] == 1.5
    assert (found["subscriptions"], found["active"]) == (100, 30)
    assert found["workers"][1] == {
        "worker": 1,
        "share_of_load": 0.75,
        "load_s": 12.0,
        "lag": 1,
        "messages": 1000,
        "operations": 0,
        "updates": 80,
        "rows": 1011,
        "active": 7,
        "bytes": 1000000,
        "where": "here",
    }


def test_workers_of_an_earlier_plan_are_not_mixed_with_those_of_the_last() -> None:
    reports = [report(0, plan=1, loads=(9.0, 9.0, 9.0)), report(1, plan=2, loads=(1.0, 1.0))]
    found = summary("state", reports, now=2000.0)
    assert [worker["load_s"] for worker in found["workers"]] == [1.0, 1.0]
    assert found["events"] == 1200
    assert found["seconds_since_commit"] == 999.0


def test_status_is_a_table_for_people(state: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "status", state]) == 0
    out = capfd.readouterr().out
    assert "7,200 (300 a second)" in out
    assert re.search(r"1\s+75\.0%\s+1\.00 s\s+3,000\s+0\s+240\s+1,011\s+7\s+1\.0", out)


def test_status_of_a_folder_without_a_stream_is_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["spark", "status", str(tmp_path / "nowhere")]) == 2
    assert "no batch was committed here" in capfd.readouterr().err


def test_status_says_where_workers_are_if_that_is_not_one_place(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    workers = [WorkerReport(at, 1.0, where=f"10.0.0.{at % 2}") for at in range(3)]
    write_report(str(tmp_path), replace(report(0), workers=workers))
    assert main(["spark", "status", str(tmp_path)]) == 0
    assert "10.0.0.0: 0, 2; 10.0.0.1: 1" in capfd.readouterr().out
    write_report(str(tmp_path), replace(report(0), workers=workers[:1]))
    assert main(["spark", "status", str(tmp_path)]) == 0
    assert "10.0.0.0" not in capfd.readouterr().out


SAMPLE = re.compile(
    r'nearcast_spark_[a-z_]+(\{(worker|step)="[^"]*"(,where="[^"]*")?\}|\{where="[^"]*",'
    r'worker="[^"]*"\})? -?[0-9.e+-]+'
)


def test_every_line_of_the_metrics_is_as_prometheus_reads_it(
    state: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["spark", "status", state, "--prometheus"]) == 0
    lines = capfd.readouterr().out.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert samples
    assert [line for line in samples if not SAMPLE.fullmatch(line)] == []
    assert "nearcast_spark_events_total 7200.0" in samples
    assert 'nearcast_spark_worker_load_seconds_total{worker="1"} 36.0' in samples
    assert 'nearcast_spark_worker_index_rows{worker="0"} 1011.0' in samples


def test_metrics_count_up_and_show_the_last_state() -> None:
    metrics = PipelineMetrics()
    assert "nearcast_spark_batches_total 0.0\n" in metrics.exposition()
    metrics.observe(report(0))
    metrics.observe(report(1, loads=(2.0,)))
    metrics.triggered({"addBatch": 250, "walCommit": 5})
    text = metrics.exposition()
    assert "nearcast_spark_lasting_total 10.0\n" in text
    assert "nearcast_spark_active_messages 30.0\n" in text
    assert "nearcast_spark_batches_total 2.0\n" in text
    assert "nearcast_spark_moved_buckets_total 4.0\n" in text
    assert "nearcast_spark_recalled_total 60.0\n" in text
    assert 'nearcast_spark_ranker_load_seconds_total{worker="0"} 1.0\n' in text
    assert 'nearcast_spark_worker_load_seconds_total{worker="0"} 3.0\n' in text
    assert 'nearcast_spark_worker_index_rows{worker="1"}' not in text
    assert 'nearcast_spark_trigger_seconds{step="addBatch"} 0.25\n' in text
    for metric in all_metrics():
        assert f"# TYPE nearcast_spark_{metric.name} {metric.kind}\n" in text


def test_labels_cannot_break_out_of_their_quotes() -> None:
    metrics = PipelineMetrics()
    metrics.triggered({'a"\n\\': 1})
    assert 'step="a\\"\\n\\\\"' in metrics.exposition()


def test_metrics_are_served_on_this_machine() -> None:
    exporter = Exporter(PipelineMetrics([report(0)]), port=0)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", exporter.port)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.getheader("Content-Type", "").startswith("text/plain; version=0.0.4")
        assert b"nearcast_spark_events_total 600.0\n" in answer.read()
        connection.request("GET", "/")
        assert connection.getresponse().status == 404
        connection.close()
        with pytest.raises(InvalidValue, match=f"metrics port: {exporter.port} given"):
            Exporter(PipelineMetrics(), exporter.port)
    finally:
        exporter.close()


@pytest.fixture
def logged() -> "io.StringIO":
    return io.StringIO()


def test_logs_are_json_lines_with_their_fields(logged: io.StringIO) -> None:
    handler = log_to(logged)
    try:
        log_batch(report(7))
        log_event("odd", level=logging.ERROR, where=Path("/x"))
        try:
            raise ValueError("no")
        except ValueError:
            logger.exception("failed")
        log_event("too quiet", level=logging.DEBUG)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["batch committed", "odd", "failed"]
    assert {key: lines[0][key] for key in ("batch", "events", "balance", "level")} == {
        "batch": 7,
        "events": 600,
        "balance": 1.5,
        "level": "info",
    }
    assert lines[1]["where"] == "/x"
    assert "ValueError: no" in lines[2]["exception"]


def test_progress_tells_totals_and_the_recent_rate() -> None:
    line = ProgressLine()
    line.take(report(0))
    assert line.take(report(1)) == (
        "batch 1  1,200 events  300 a second  81 updates  100 subscriptions  "
        "60 of them top-k  30 asked for again  30 active messages  [red]1 refused[/red]"
    )


def test_progress_is_quiet_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert not sys.stderr.isatty()
    with progress("state") as show:
        show(report(0))
    assert capfd.readouterr() == ("", "")
