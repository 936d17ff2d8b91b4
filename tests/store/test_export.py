"""An engine's file as an event log and back: the same state, seen through its results."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from nearcast import Engine, Result
from nearcast.cli.main import main
from store_writer import WINDOW, batches


def state(path: Path) -> dict[str, tuple[str, float | None, list[Result]]]:
    """What subscriptions are, when they end, and what they have found; their `ttl` shrinks."""
    with Engine(index="rarest-term", path=path) as engine:
        ends = engine._ready().attributes
        return {
            s.id: (repr(replace(s, ttl=None)), ends.end_of(s.id), engine.results(s.id))
            for s in engine.subscriptions()
        }


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "e.nearcast"
    with Engine(index="rarest-term", path=path, window_count=WINDOW) as engine:
        for batch in islice(batches(3), 40):
            engine.apply_all(batch)
    return path


@pytest.mark.parametrize("name", ["log.jsonl", "log.parquet", "log.jsonl.zst"])
def test_an_exported_state_can_be_imported(lived: Path, tmp_path: Path, name: str) -> None:
    log, copy = str(tmp_path / name), tmp_path / "copy.nearcast"
    assert main(["export", str(lived), "--output", log]) == 0
    assert main(["import", str(copy), log, "--window-count", str(WINDOW)]) == 0
    assert state(copy) == state(lived)
    assert any(results for _, _, results in state(copy).values())
    with (
        Engine(index="rarest-term", path=lived) as one,
        Engine(index="rarest-term", path=copy) as other,
    ):
        for batch in islice(batches(3), 40, 60):
            assert one.apply_all(batch)[-1].updates == other.apply_all(batch)[-1].updates


def test_a_file_in_use_can_be_exported(lived: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Engine(index="rarest-term", path=lived) as engine:
        assert main(["export", str(lived)]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        ids = {line["id"] for line in lines if line["op"] == "subscribe"}
        assert ids == {subscription.id for subscription in engine.subscriptions()}
        retracted = {line["id"] for line in lines if line["op"] == "retract"}
        messages = [line["id"] for line in lines if line["op"] == "publish"]
        kept = [id for id in messages if id not in retracted]
        assert len(kept) > WINDOW / 2
        assert all(engine.message(id) for id in kept)


def test_an_import_tells_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, path = tmp_path / "log.jsonl", tmp_path / "e.nearcast"
    log.write_text(
        '{"op": "subscribe", "id": "s", "query": "a", "region": '
        '{"type": "Box", "bbox": [0, 0, 1, 1]}}\n'
        '{"op": "publish", "id": "m", "text": "a", "point": [0, 0]}\n'
    )
    assert main(["import", str(path), str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"events": 2, "updates": 1, "subscriptions": 1}


def test_an_import_stops_at_a_bad_event_and_keeps_those_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, path, aside = tmp_path / "log.jsonl", tmp_path / "e.nearcast", tmp_path / "aside.jsonl"
    good = '{{"op": "publish", "id": "m{}", "text": "a", "point": [0, 0]}}\n'
    unknown = '{"op": "unsubscribe", "id": "nobody"}\n'
    log.write_text(good.format(1) + unknown + "{}\n" + good.format(2))
    assert main(["import", str(path), str(log)]) == 2
    assert f"{log}:2: id: no subscription 'nobody'" in capsys.readouterr().err
    with Engine(index="rarest-term", path=path) as engine:
        assert engine.message("m1") is not None
        assert engine.message("m2") is None
    log.write_text(unknown + "{}\n" + good.format(2))
    assert main(["import", str(path), str(log), "--on-error", f"quarantine={aside}"]) == 0
    assert [json.loads(line)["line"] for line in aside.read_text().splitlines()] == [1, 2]
    with Engine(index="rarest-term", path=path) as engine:
        assert engine.message("m2") is not None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["export", "nowhere.nearcast"], "nowhere.nearcast: no such file"),
        (["export", "text.nearcast"], "text.nearcast: is not an engine's file"),
        (["import", "text.nearcast", "empty.jsonl"], "text.nearcast: is not an engine's file"),
        (["import", "new.nearcast", "nowhere.jsonl"], "nowhere.jsonl"),
        (["import", "same", "same"], "another file than FILE"),
    ],
)
def test_trouble_is_told_in_one_line(
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.nearcast").write_text("hello " * 100)
    Path("empty.jsonl").write_text("")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert not Path("new.nearcast").exists()
