"""`nearcast spark` and `nearcast replay --engine spark`, as a user runs them."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.sql import SparkSession

from boolean_logs import records, scanned
from documented import help_examples, words
from kills import Stream, living
from mixed_logs import mixed_log
from nearcast.arrays.slots import as_secret
from nearcast.cli.main import main
from nearcast.engine.settings import Settings
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.partition.plan import Plan
from nearcast.spark.events import table_of
from nearcast.spark.outputs import read_updates
from nearcast.spark.reports import progress
from nearcast.spark.reports.report import BatchReport
from patience import PATIENCE_S, wait_until

Out = pytest.CaptureFixture[str]

LOG = mixed_log(seed=5, count=240)
EXPECTED, REFUSED = scanned(LOG, Settings())


def lines(log: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(fields) + "\n" for fields in log).encode()


def found(folder: Path) -> list[tuple[int, str, str, str]]:
    rows: list[dict[str, Any]] = read_updates(folder).to_pylist()
    return sorted((row["event"], row["op"], row["subscription"], row["message"]) for row in rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


def run(*more: str, input: str = "in") -> int:
    return main(["spark", "run", "--input", input, "--output", "out", "--state", "state", *more])


@pytest.mark.usefixtures("spark")
def test_files_of_every_kind_through_restarts(folder: Path, capfd: Out) -> None:
    """JSON Lines, gzip, zstd and Parquet, each once, by 2, then 8, then 4 workers."""
    first, second, third, fourth = LOG[:60], LOG[60:100], LOG[100:180], LOG[180:]
    (folder / "in" / "1.jsonl").write_bytes(lines(first))
    (folder / "in" / "2.jsonl.gz").write_bytes(gzip.compress(lines(second)))
    (folder / "in" / "ignored.txt").write_text("not an event")
    more = ("--available-now", "--quarantine", "aside", "--json")
    summaries = []
    assert run(*more, "--workers", "2", "--partitioner", "space-kd") == 0
    summaries.append(json.loads(capfd.readouterr().out))
    (folder / "in" / "3.json.zst").write_bytes(zstandard.compress(lines(third)))
    assert run(*more, "--workers", "8", "--partitioner", "hybrid", "--files-per-batch", "1") == 0
    summaries.append(json.loads(capfd.readouterr().out))
    good = table_of(records(fourth)).select(EVENT_SCHEMA.names)
    pq.write_table(good, folder / "in" / "4.parquet")
    assert run(*more, "--workers", "4", "--partitioner", "hybrid") == 0
    captured = capfd.readouterr()
    summaries.append(json.loads(captured.out))
    assert found(folder / "out") == sorted(EXPECTED)
    assert sum(each["events"] for each in summaries) == len(LOG)
    assert sum(each["updates"] for each in summaries) == len(EXPECTED)
    assert sum(each["refused"] for each in summaries) == len(REFUSED)
    assert captured.err == f"nearcast: {summaries[-1]['refused']} bad events set aside in aside\n"
    texts = [path.read_text() for path in folder.glob("aside/*/*")]
    aside = [json.loads(line) for text in texts for line in text.splitlines()]
    assert {entry["seq"] for entry in aside} == REFUSED
    assert all(set(entry) == {"seq", "error", "event"} for entry in aside)
    assert main(["spark", "status", "state", "--json"]) == 0
    status = json.loads(capfd.readouterr().out)
    assert (status["events"], status["updates"]) == (len(LOG), len(EXPECTED))


@pytest.mark.usefixtures("spark")
def test_one_file_and_a_plan_that_was_made_before(folder: Path, capfd: Out) -> None:
    (folder / "log.jsonl").write_bytes(lines(LOG))
    planned = ["--workers", "3", "--partitioner", "text-frequency", "--save", "my.plan"]
    assert main(["spark", "plan", "--input", "log.jsonl", *planned]) == 0
    assert run("--available-now", "--plan", "my.plan", input="log.jsonl") == 0
    out = capfd.readouterr().out
    assert f"{len(LOG)} events in 1 batch " in out
    assert found(folder / "out") == sorted(EXPECTED)
    [kept] = (folder / "state" / "plans").iterdir()
    made, about = Plan.load("my.plan"), json.loads((folder / "state" / "about.json").read_bytes())
    assert len(made.maps[0].terms) > 1
    divided = made.hashed_with(as_secret(bytes.fromhex(about["secret"])))
    assert Plan.load(kept).changed(number=1) == divided != made
    assert run("--available-now", "--plan", "my.plan", input="log.jsonl") == 0
    assert [*(folder / "state" / "plans").iterdir()] == [kept]
    assert run("--plan", "my.plan", "--workers", "2", input="log.jsonl") == 2
    assert "--workers: 2 given; expected 3, for which my.plan was made" in capfd.readouterr().err


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Press Ctrl-C once enough events have been taken."""

    def after(events: int) -> None:
        taken = 0

        def show(report: BatchReport) -> None:
            nonlocal taken
            before, taken = taken, taken + report.events
            if before < events <= taken:
                os.kill(os.getpid(), signal.SIGINT)

        @contextmanager
        def shown(_: str) -> Iterator[Callable[[BatchReport], None]]:
            yield show

        monkeypatch.setattr(progress, "progress", shown)

    return after


@pytest.mark.usefixtures("spark")
def test_ctrl_c_stops_between_batches_and_the_next_run_goes_on(
    folder: Path, capfd: Out, interrupted: Callable[[int], None]
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    summaries = []
    for _ in range(2):
        interrupted(1)
        more = ("--partitioner", "shared", "--log", "log", "--metrics-port", "0")
        assert run("--json", *more, input="rate:200") == 0
        captured = capfd.readouterr()
        assert "nearcast: stopped; run the same command again to go on" in captured.err
        assert "nearcast: figures at http://127.0.0.1:" in captured.err
        summaries.append(json.loads(captured.out))
    assert all(each["stopped"] and each["refused"] == each["late"] == 0 for each in summaries)
    assert signal.getsignal(signal.SIGINT) is handler
    logged = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    committed = [line for line in logged if line["event"] == "batch committed"]
    assert sum(line["events"] for line in committed) == sum(each["events"] for each in summaries)
    taken = found(folder / "out")
    assert len(taken) == sum(each["updates"] for each in summaries) == len(set(taken)) > 0


@pytest.mark.usefixtures("spark")
def test_lines_from_a_socket(folder: Path, capfd: Out, interrupted: Callable[[int], None]) -> None:
    """Lines have no numbers and are taken in the order of their times; these have none."""
    log = [{key: value for key, value in fields.items() if key != "at"} for fields in LOG]
    expected, bad = scanned(log, Settings())
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        connection.sendall(lines(log))
        closing.wait()
        connection.close()

    closing = threading.Event()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    interrupted(len(LOG))
    try:
        place = f"socket://127.0.0.1:{server.getsockname()[1]}"
        assert run("--quarantine", "aside", input=place) == 0
    finally:
        closing.set()
        server.close()
    assert found(folder / "out") == sorted(expected)
    assert f"{len(bad)} bad events set aside in aside" in capfd.readouterr().err


BAD_INPUTS: dict[str, tuple[dict[str, bytes], str]] = {
    "not Parquet": ({"a.parquet": b"PAR1 but not the rest of it"}, "/in/a.parquet: not a readable"),
    "no columns": ({"a.parquet": b""}, "/in/a.parquet: has no column 'op'"),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", BAD_INPUTS)
def test_a_file_that_cannot_be_read_is_named_in_one_line(
    folder: Path, capfd: Out, name: str
) -> None:
    files, said = BAD_INPUTS[name]
    for file, data in files.items():
        (folder / "in" / file).write_bytes(data)
        if not data:
            pq.write_table(table_of([]).select(["text"]), folder / "in" / file)
    assert run("--available-now") == 2
    err = capfd.readouterr().err
    assert err.startswith("nearcast: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.usefixtures("spark", "folder")
def test_a_socket_without_a_server_is_reported(capfd: Out) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert run(input=f"socket://127.0.0.1:{port}") == 2
    err = capfd.readouterr().err
    assert err == (
        f"nearcast: socket://127.0.0.1:{port}: nothing listens there; "
        "start the sender of the events first\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "none"], "none: no such file or folder; expected a folder or file of events"),
        (["--input", "rate:fast"], "rate:N, with N events a second"),
        (["--input", "socket://here"], "--input: 'socket://here' given; expected socket://HOST"),
        (["--output", "state"], "another folder than that of --"),
        (["--output", "in/out"], "--output: 'in/out' given; expected another folder than that of"),
        (["--state", "in"], "--state: 'in' given; expected another folder"),
        (["--trigger", "often"], "--trigger: 'often' given; expected a number and a unit"),
        (["--trigger", "1s", "--available-now"], "no --trigger together with --available-now"),
        (["--partitioner", "luck"], "--partitioner: 'luck' given; expected one of auto, hash"),
        (["--workers", "0"], "--workers"),
        (["--plan", "none.plan"], "none.plan"),
        (["--window-count", "1", "--window-seconds", "1"], "only one of"),
        (["--space", "1,2"], "W,S,E,N"),
    ],
)
def test_bad_usage_is_reported_before_spark_is_started(
    folder: Path, capfd: Out, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.cli.spark_run.spark_session", None)
    assert run(*arguments) == 2
    err = capfd.readouterr().err
    assert err.startswith("nearcast: ")
    assert err.count("\n") == 1
    assert said in err
    assert not (folder / "out").exists()


def test_without_spark_the_way_to_get_it_is_reported(
    folder: Path, capfd: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    (folder / "log.jsonl").write_bytes(lines(LOG))
    for code in (run(), main(["replay", "log.jsonl", "--engine", "spark"])):
        assert code == 2
    first, second = capfd.readouterr().err.splitlines()
    assert first == second
    assert first.endswith("run: pip install 'nearcast[spark]'")


@pytest.mark.usefixtures("spark")
def test_replay_on_spark_writes_what_the_embedded_engine_writes(folder: Path, capfd: Out) -> None:
    (folder / "log.jsonl").write_bytes(b"\n".join([b"", lines(LOG[:99]), b"{", lines(LOG[99:])]))
    written = []
    for engine in (["--engine", "embedded"], ["--engine", "spark", "--workers", "3"]):
        more = ["--on-error", "quarantine=aside.jsonl", "--output", "updates.jsonl"]
        assert main(["replay", "log.jsonl", *engine, *more]) == 0
        files = [(folder / name).read_bytes() for name in ("updates.jsonl", "aside.jsonl")]
        written.append((files, capfd.readouterr()))
    assert written[1] == written[0]
    assert len(written[0][0][0].splitlines()) > 20


@pytest.mark.usefixtures("spark", "folder")
def test_the_example_of_the_help_gives_the_updates_of_scan(capfd: Out) -> None:
    """The sample log has everything in it; what a pipeline does not take yet is set aside."""
    (example,) = (command for command in help_examples() if "--engine spark" in command)
    assert main(["sample", "--output", "sample.jsonl"]) == 0
    capfd.readouterr()
    assert main(words(example)) == 0
    found = capfd.readouterr().out
    lines = Path("sample.jsonl").read_text().splitlines()
    for entry in map(json.loads, Path("aside.jsonl").read_text().splitlines()):
        lines[entry["line"] - 1] = '{"op": "unsubscribe", "id": "nobody"}'
    Path("taken.jsonl").write_text("\n".join(lines))
    others = ["--on-error", "quarantine=others.jsonl"]
    assert main(["replay", "taken.jsonl", "--engine", "scan", *others]) == 0
    assert capfd.readouterr().out == found != ""


@pytest.mark.usefixtures("spark")
def test_travelling_subscribers_on_spark_get_the_updates_of_scan(folder: Path) -> None:
    """Whoever moves gains and loses messages that last, however many workers hold them."""
    log = ["generate", "moving", "--subscriptions", "100", "--messages", "200"]
    for option in ("vocabulary=60", "max_radius=30000", "max_keywords=2", "timestamps=40"):
        log += ["--option", option]
    assert main([*log, "--output", "log.jsonl"]) == 0
    written = []
    spread = (["spark", "--partitioner", "space-kd", "--workers", number] for number in "124")
    for engine in (["scan"], *spread):
        assert main(["replay", "log.jsonl", "--output", "updates.jsonl", "--engine", *engine]) == 0
        written.append((folder / "updates.jsonl").read_bytes())
    assert written[1:] == [written[0]] * 3
    assert written[0].count(b'"remove"') > 20


@pytest.mark.usefixtures("spark")
def test_replay_on_spark_reads_standard_input_and_stops_at_the_first_bad_event(
    capfd: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for engine in (["scan"], ["spark", "--partitioner", "hybrid", "--workers", "2"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines(LOG))))
        code = main(["replay", "-", "--window-count", "5", "--engine", *engine])
        outcomes.append((code, capfd.readouterr()))
    assert outcomes[1] == outcomes[0]
    assert outcomes[0][0] == 2
    assert outcomes[0][1].err.startswith("nearcast: standard input:")


def test_a_plan_is_drawn_and_its_loads_are_reported(folder: Path, capfd: Out) -> None:
    """Bad events are passed over; each subscription is held by somebody."""
    (folder / "in" / "1.jsonl").write_bytes(lines(LOG[:120]))
    (folder / "in" / "2.jsonl.gz").write_bytes(gzip.compress(lines(LOG[120:])))
    plan = ["spark", "plan", "--input", "in", "--workers", "4"]
    assert main([*plan, "--partitioner", "space-kd", "--output", "plan.html", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert len(report["loads"]) == report["workers"] == 4
    assert sum(load["share"] for load in report["loads"]) == pytest.approx(1, abs=1e-4)
    assert report["subscriptions"] <= sum(load["rows"] for load in report["loads"])
    assert 0 < report["passed_over"] <= len(REFUSED)
    assert (folder / "plan.html").read_text().lstrip().startswith("<!doctype html>")
    assert main([*plan, "--partitioner", "hash", "--output", "plan.png"]) == 0
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert "busiest worker" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "none.jsonl"], "none.jsonl: no such file"),
        (["--input", "in"], "in: no event log in this folder"),
        (["--output", "plan.pdf"], "a file name that ends in .html or .png"),
        (["--save", "in"], "--save: 'in' given; expected a file, not a folder"),
        (["--save", "no/such/folder/x.plan"], "no/such/folder/x.plan"),
        (["--partitioner", "luck"], "--partitioner: 'luck' given"),
    ],
)
def test_a_plan_that_cannot_be_made_is_reported(
    folder: Path, capfd: Out, arguments: list[str], said: str
) -> None:
    (folder / "log.jsonl").write_bytes(lines(LOG[:20]))
    plan = ["spark", "plan", "--input", "log.jsonl", "--workers", "2"]
    assert main([*plan, "--partitioner", "space-grid", *arguments]) == 2
    err = capfd.readouterr().err
    assert err.startswith("nearcast: ")
    assert err.count("\n") == 1
    assert said in err


def test_workers_are_for_spark(folder: Path, capfd: Out) -> None:
    (folder / "log.jsonl").write_bytes(lines(LOG))
    assert main(["replay", "log.jsonl", "--workers", "3"]) == 2
    assert "--engine: 'embedded' given; expected spark, as --workers" in capfd.readouterr().err


def test_help_has_an_example(capfd: Out) -> None:
    for command in ("run", "plan"):
        assert main(["spark", command, "--help"]) == 0
        out = capfd.readouterr().out
        assert "Example" in out
        assert f"nearcast spark {command}" in out


def test_a_second_session_is_not_started(spark: SparkSession, folder: Path) -> None:
    """A command that runs in a session of somebody else leaves it as it is."""
    (folder / "in" / "1.jsonl").write_bytes(lines(LOG[:3]))
    assert run("--available-now") == 0
    assert spark.range(3).count() == 3


def test_a_stream_that_is_stopped_while_spark_starts_does_not_wait_for_it(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.start()
    wait_until(lambda: bool(stream.children()["jvm"]), "JVM")
    jvm = set(stream.children()["jvm"])
    stream.run.send_signal(signal.SIGTERM)
    assert stream.run.wait(PATIENCE_S) == 130, stream.log.read_text()
    assert not stream.state.exists()
    wait_until(lambda: not living(jvm), "end of the JVM")
