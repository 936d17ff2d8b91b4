"""`nearcast replay --engine http=URL` gives the updates of `scan`."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from event_logs import logs
from naive import Fields
from nearcast.cli.main import main
from served import serving


def write(path: Path, events: list[Fields]) -> str:
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    return str(path)


def replay(log: str, folder: Path, engine: str) -> tuple[int, str, str]:
    out, bad = folder / "out.jsonl", folder / "bad.jsonl"
    options = ["--engine", engine, "--output", str(out), "--on-error", f"quarantine={bad}"]
    code = main(["replay", log, *options])
    return code, out.read_text(), bad.read_text()


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(logs())
def test_the_same_updates_and_refusals(tmp_path: Path, events: list[Fields]) -> None:
    log = write(tmp_path / "log.jsonl", events)
    with serving(index="rarest-term") as server:
        over_http = replay(log, tmp_path, f"http={server.url}")
    assert over_http == replay(log, tmp_path, "scan")


def test_many_events_go_in_many_requests(tmp_path: Path) -> None:
    log = str(tmp_path / "log.jsonl")
    sizes = ["--subscriptions", "800", "--messages", "2500", "--seed", "3"]
    assert main(["generate", "tweets", *sizes, "--output", log]) == 0
    with serving(tmp_path / "data", index="rarest-term") as server:
        over_http = replay(log, tmp_path, f"http={server.url}")
        assert server.state.tenants.find("default").seq == 3300  # type: ignore[union-attr]
    assert over_http == replay(log, tmp_path, "scan")
    assert over_http[1].count("\n") > 100


def test_it_stops_where_the_server_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[Fields] = [
        {"op": "subscribe", "id": "s", "query": "a", "region": {"type": "Box", "bbox": [0] * 4}},
        {"op": "publish", "id": "m", "text": "a", "point": [0, 0]},
        {"op": "unsubscribe", "id": "t"},
        {"op": "unsubscribe", "id": "s"},
    ]
    log = write(tmp_path / "log.jsonl", events)
    with serving() as server:
        out = tmp_path / "out.jsonl"
        assert main(["replay", log, "--engine", f"http={server.url}", "--output", str(out)]) == 2
        assert out.read_text().count("\n") == 1
        assert server.http.get("/v1/subscriptions/s").status_code == 200
    assert f"{log}:3: id: no subscription 't'" in capsys.readouterr().err


def test_settings_belong_to_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "-", "--engine", "http=http://127.0.0.1:9", "--window-count", "5"]) == 2
    assert "the server has its own" in capsys.readouterr().err
