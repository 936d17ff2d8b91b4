"""The sample log: what is in it, what it gives, and the commands that are shown with it."""

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from documented import help_examples, words
from nearcast.cli.main import main

Out = pytest.CaptureFixture[str]
IN_THE_WHEEL = 100_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def replayed(capfd: Out, *more: str) -> list[dict[str, Any]]:
    assert main(["replay", "sample.jsonl", *more]) == 0
    said = capfd.readouterr()
    assert said.err == ""
    return lines(said.out)


def test_it_is_written_as_it_is_kept(folder: Path, capfd: Out) -> None:
    kept = files("nearcast.cli").joinpath("sample.jsonl").read_bytes()
    assert len(kept) < IN_THE_WHEEL
    assert main(["sample"]) == 0
    assert capfd.readouterr() == (kept.decode(), "")
    assert main(["sample", "--output", "sample.jsonl"]) == 0
    assert (folder / "sample.jsonl").read_bytes() == kept


@pytest.mark.usefixtures("folder")
def test_it_replays_the_same_everywhere(capfd: Out) -> None:
    """Both engines find the same updates in it, from either format."""
    assert main(["sample", "--output", "sample.jsonl"]) == 0
    assert main(["sample", "--output", "sample.parquet"]) == 0
    expected = replayed(capfd, "--engine", "scan")
    assert replayed(capfd) == replayed(capfd, "--index", "rarest-term") == expected
    assert main(["replay", "sample.parquet", "--engine", "scan"]) == 0
    assert lines(capfd.readouterr().out) == expected


@pytest.mark.usefixtures("folder")
def test_it_has_something_of_every_kind(capfd: Out) -> None:
    assert main(["sample", "--output", "sample.jsonl"]) == 0
    events = lines(Path("sample.jsonl").read_text())
    updates = replayed(capfd, "--engine", "scan")
    ranked = {event["id"] for event in events if "top" in event}
    causes = Counter(
        (update["op"], events[update["event"]]["op"], update["subscription"] in ranked)
        for update in updates
    )
    assert causes["add", "publish", False] >= 100
    for op in ("add", "remove"):
        assert causes[op, "move", False] >= 5
        assert causes[op, "publish", True] >= 10
    assert causes["add", "subscribe", False]
    assert {event["id"] for event in events if event["op"] == "subscribe"} == {
        update["subscription"] for update in updates
    }
    crossing = [e["region"]["bbox"] for e in events if e.get("region", {}).get("type") == "Box"]
    assert any(west > east for west, _, east, _ in crossing)


def test_what_is_in_it_is_listed(capfd: Out) -> None:
    assert main(["sample", "--list", "--json"]) == 0
    kinds = {each["kind"]: each["events"] for each in lines(capfd.readouterr().out)}
    assert sum(kinds.values()) == 342
    assert {kind.partition(",")[0] for kind in kinds} == {
        *("subscribe", "publish", "move", "unsubscribe")
    }
    assert {"subscribe, circle", "subscribe, box", "subscribe, polygon", "subscribe, top-k"} <= (
        kinds.keys()
    )
    assert main(["sample", "--list"]) == 0
    assert "ada: ipad AND (discount OR sale)" in capfd.readouterr().out


@pytest.mark.parametrize("more", [["--list", "--output", "x.jsonl"], ["--json"]])
def test_options_that_do_not_go_together(more: list[str], folder: Path, capfd: Out) -> None:
    assert main(["sample", *more]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert not list(folder.iterdir())


def local(command: str) -> bool:
    """Whether a command needs neither a server nor Spark, nor minutes."""
    kind, *more = words(command)
    within = kind in ("sample", "generate", "replay", "match", "import")
    return within and not any(each.startswith(("http=", "spark")) for each in more)


def run_all(commands: list[str], capfd: Out) -> None:
    """Run commands one after the other; what they look for is found."""
    for command in commands:
        assert main(words(command)) == 0, command
        said = capfd.readouterr()
        assert said.err == "", command
        assert "\n0 matching" not in f"\n{said.out}", command
        if words(command)[0] in ("replay", "match") and "--output" not in command:
            assert said.out, command


@pytest.mark.usefixtures("folder")
def test_the_examples_of_the_help_run(capfd: Out) -> None:
    """In a new folder, after `nearcast sample` wrote the log that they are about."""
    commands = [command for command in help_examples() if local(command)]
    shown = [command for command in commands if "sample.jsonl" in command or "tweets" in command]
    assert {words(command)[0] for command in shown} == {
        *("sample", "replay", "match", "import", "generate")
    }
    run_all(shown, capfd)
