"""`nearcast replay`, as a user runs it."""

import gzip
import io
import json
from pathlib import Path

import pytest

from nearcast.cli.main import main

CIRCLE = '{"type":"Circle","center":[151.2,-33.87],"radius":2000}'
LOG = f"""\
{{"op":"subscribe","id":"s1","query":"ipad AND (discount OR sale)","region":{CIRCLE}}}

{{"op":"subscribe","id":"s2","query":"jazz blues","point":[0,0],"top":{{"k":1,"alpha":1}}}}
{{"op":"publish","id":"m1","text":"iPad sale!","point":[151.21,-33.87],"at":1700000000.0,"ttl":600}}
{{"op":"publish","id":"m2","text":"Jazz!","point":[36,48]}}
{{"op":"publish","id":"m3","text":"blues","point":[0,0]}}
{{"op":"move","id":"s1","region":{{"type":"Box","bbox":[0,0,1,1]}}}}
{{"op":"unsubscribe","id":"s1"}}
"""
UPDATES = [
    {"event": 2, "op": "add", "subscription": "s1", "message": "m1"},
    {"event": 3, "op": "add", "subscription": "s2", "message": "m2",
     "score": 1 - 60 / (360**2 + 180**2) ** 0.5},
    {"event": 4, "op": "remove", "subscription": "s2", "message": "m2"},
    {"event": 4, "op": "add", "subscription": "s2", "message": "m3", "score": 1.0},
    {"event": 5, "op": "remove", "subscription": "s1", "message": "m1"},
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(LOG)
    return path


def lines(text: str) -> list[object]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("options", [[], ["--engine", "scan"], ["--index", "rarest-term"]])
def test_updates_come_in_order_on_standard_output(
    log: Path, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(log), *options]) == 0
    captured = capfd.readouterr()
    assert lines(captured.out) == UPDATES
    assert captured.err == ""


def test_a_line_looks_as_documented(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main(["replay", str(log)])
    first = capfd.readouterr().out.splitlines()[0]
    assert first == '{"event": 2, "op": "add", "subscription": "s1", "message": "m1"}'


def test_output_goes_to_a_file(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "updates.jsonl"
    assert main(["replay", str(log), "--output", str(output)]) == 0
    assert capfd.readouterr().out == ""
    assert lines(output.read_text()) == UPDATES


def test_standard_input_and_gzip(
    log: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(log.read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert main(["replay", "-"]) == 0
    assert lines(capfd.readouterr().out) == UPDATES


def test_window_space_and_history_reach_the_engine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        '{"op":"subscribe","id":"s","query":"jazz","point":[0,0],"top":{"k":2,"alpha":0.5}}\n'
        '{"op":"publish","id":"a","text":"jazz rock","point":[3,4],"at":0}\n'
        '{"op":"publish","id":"b","text":"jazz","point":[0,0],"at":5}\n'
    )
    history = tmp_path / "history.jsonl"
    history.write_text('{"op":"publish","id":"h","text":"rock","point":[0,0]}\n')
    options = ["--window-seconds", "5", "--space", "0,0,3,4", "--history", str(history)]
    assert main(["replay", str(log), *options]) == 0
    first, second, third = lines(capfd.readouterr().out)
    assert isinstance(first, dict)
    assert first["score"] == pytest.approx(0.5 * 0.5**0 * 0 + 0.5 * 0.8633, abs=1e-4)
    assert second == {"event": 2, "op": "remove", "subscription": "s", "message": "a"}
    assert third == {"event": 2, "op": "add", "subscription": "s", "message": "b", "score": 1.0}
    assert main(["replay", str(log), "--window-count", "1"]) == 0
    assert [u["op"] for u in lines(capfd.readouterr().out)] == ["add", "remove", "add"]  # type: ignore[index]


def test_stemming_and_stop_words_are_options(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        '{"op":"subscribe","id":"s","query":"the runner","region":'
        '{"type":"Box","bbox":[0,0,1,1]}}\n'
        '{"op":"publish","id":"a","text":"runners","point":[0,0]}\n'
    )
    assert main(["replay", str(log)]) == 0
    assert capfd.readouterr().out == ""
    assert main(["replay", str(log), "--stem", "english", "--stop-words", "english"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 1


def test_bad_events_stop_the_replay_after_what_came_before_them(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log.write_text(LOG.replace('"id":"m2"', '"id":""'))
    assert main(["replay", str(log)]) == 2
    captured = capfd.readouterr()
    assert lines(captured.out) == UPDATES[:1]
    assert captured.err == (
        f"nearcast: {log}:5: id: '' given; expected a string of 1 to 255 bytes of UTF-8; "
        "this has 0\n"
    )


def test_quarantine_sets_bad_events_aside_and_counts_them(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = ['{"op":', '{"op":"unsubscribe","id":"ghost","at":9e9}', '"\\ud800"', "[1]"]
    log.write_text("\n".join([*bad, LOG]))
    aside = tmp_path / "bad.jsonl"
    assert main(["replay", str(log), "--on-error", f"quarantine={aside}"]) == 0
    captured = capfd.readouterr()
    shifted = [u | {"event": u["event"] + len(bad)} for u in UPDATES]
    assert lines(captured.out) == shifted
    entries = lines(aside.read_text())
    assert [entry["line"] for entry in entries] == [1, 2, 3, 4]  # type: ignore[index]
    assert [entry["event"] for entry in entries] == [  # type: ignore[index]
        '{"op":', {"op": "unsubscribe", "id": "ghost", "at": 9e9}, '"\\ud800"', [1],
    ]  # fmt: skip
    assert all(set(entry) == {"line", "error", "event"} for entry in entries)  # type: ignore[call-overload]
    assert captured.err == f"nearcast: 4 bad events set aside in {aside}\n"


def test_a_log_cut_off_is_delivered_as_far_as_it_goes_with_quarantine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    events = ['{"op":"subscribe","id":"s","query":"x","region":{"type":"Box","bbox":[0,0,1,1]}}']
    events += [f'{{"op":"publish","id":"m{n * n}","text":"x","point":[0,0]}}' for n in range(3000)]
    whole = gzip.compress("\n".join(events).encode())
    log = tmp_path / "log.jsonl.gz"
    log.write_bytes(whole[: len(whole) // 2])
    aside = tmp_path / "bad.jsonl"
    assert main(["replay", str(log), "--on-error", f"quarantine={aside}"]) == 0
    delivered = len(capfd.readouterr().out.splitlines())
    (entry,) = lines(aside.read_text())
    assert delivered > 500
    assert entry["line"] == delivered + 2  # type: ignore[index]
    assert "ends too early" in entry["error"]  # type: ignore[index]
