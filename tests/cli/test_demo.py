"""`nearcast demo` as somebody runs it, in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx
import pytest

from kills import below, living
from nearcast.demo.city import CENTRE, City, shore
from nearcast.demo.feed import CityFeed
from nearcast.demo.messages import MessageGenerator
from nearcast.demo.people import Mover, residents, yours
from nearcast.demo.spark_comparison import PATH
from nearcast.events import event_from_json
from patience import PATIENCE_S, wait_until

SMALL = ["--no-browser", "--people", "300", "--movers", "8", "--rate", "40"]


def start(tmp_path: Path, *arguments: str, engine: str = "embedded") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nearcast", "demo", *SMALL, *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            "TMPDIR": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
            "ENGINE": engine,
        },
    )


def test_the_demo_serves_a_map_and_ends_at_ctrl_c_without_a_trace(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        lines = until(process, "310 subscriptions")
        assert any(re.match(r"Ready after \d+\.\d s\.$", line) for line in lines)
        first = (
            r"First match after \d+\.\d s: 'Half price sushi at Fig Tree, Newtown' for your-lunch\."
        )
        assert any(re.match(first, line) for line in lines)
        address = next(line.split()[1] for line in lines if line.startswith("Map: "))
        page = httpx.get(address, trust_env=False)
        assert page.status_code == 200
        assert "<title>Nearcast</title>" in page.text
        seen = httpx.get(httpx.URL(address).join("/v1/map/overview"), trust_env=False).json()
        assert seen["count"] == 300 + 8 + len(yours())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert err == ""
    assert re.search(r"^Over: \d+ messages, \d+ matches, \d+ moves\.$", out, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_ends_by_itself_after_its_time(tmp_path: Path) -> None:
    with start(tmp_path, "--duration", "0.1") as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "on the embedded engine" in out
    assert err == ""
    assert list(tmp_path.iterdir()) == []


def until(process: subprocess.Popen[str], beginning: str) -> list[str]:
    """The lines of a demo up to the one that begins so."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith(beginning):
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read() if process.stderr else ""
    return lines


def test_the_demo_shows_that_spark_gives_the_same_updates(tmp_path: Path) -> None:
    """It begins on the embedded engine; Spark catches up beside it, and nothing of it is left."""
    with start(tmp_path, engine="auto") as process:
        lines = until(process, "Spark has caught up")
        assert "on the embedded engine, and beside it on the pipeline on Spark" in lines[0]
        told = [line.split(" after ")[0] for line in lines]
        assert told.index("Ready") < told.index("First match") < told.index("Spark has caught up")
        address = next(line.split()[1] for line in lines if line.startswith("Map: "))
        assert "&beside#" in address
        beside = httpx.get(httpx.URL(address).join(PATH), trust_env=False).json()
        assert beside["state"] in ("level", "behind")
        assert beside["same"] > 0
        assert (beside["differ"], beside["trouble"]) == (0, "")
        told = httpx.get(httpx.URL(address).join("/v1/map/pipeline"), trust_env=False).json()
        assert told["pipeline"]["batch"]["updates"] >= 0
        assert len(told["pipeline"]["workers"]) == told["pipeline"]["plan"]["workers"]
        started = {each.pid for each in below(process.pid)}
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert err == ""
    assert re.search(r"^Over: .* Spark beside: [\d,]+ updates .*, 0 differ\.$", out, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []
    wait_until(lambda: not living(started), "end of all that was started")


def running_below(folder: Path) -> list[str]:
    """The commands of processes that name a folder."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(command.read_bytes().decode(errors="replace"))
    return [each for each in found if str(folder) in each]


@pytest.mark.soak
def test_the_demo_runs_on_spark_alone(tmp_path: Path) -> None:
    with start(tmp_path, engine="spark") as process:
        lines = until(process, "First match after")
        assert "on the pipeline on Spark, with Java" in lines[0]
        assert "'Half price sushi at Fig Tree, Newtown' for your-lunch" in lines[-1]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    over = r"^Over: [\d,]+ messages, [1-9][\d,]* matches, [\d,]+ moves\.$"
    assert re.search(over, out, re.MULTILINE)


def test_an_installation_of_spark_ends_with_the_demo(tmp_path: Path) -> None:
    waiting = f"tail -f {tmp_path / 'never'} --retry"
    (tmp_path / "temporary").mkdir()
    with start(tmp_path / "temporary", "--spark-install", waiting, engine="auto") as process:
        until(process, "First match after")
        assert any("never" in each for each in running_below(tmp_path))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "Spark beside: 0 updates from both engines, 0 differ." in out
    assert running_below(tmp_path) == []


@pytest.fixture(scope="module")
def city() -> City:
    return City(Random(3), shore())


def test_people_and_happenings_are_events_that_the_engine_takes(city: City) -> None:
    happenings = MessageGenerator(city)
    messages = [happenings.next() for _ in range(200)]
    for message in messages:
        event_from_json({"op": "publish", **message})
    assert {"ttl", "region"} <= {key for message in messages for key in message}
    for subscription in [*residents(city, 200), *yours()]:
        event_from_json({"op": "subscribe", **subscription})


def test_things_happen_on_dry_land(city: City) -> None:
    assert city.on_land((151.2, -33.88))
    assert not city.on_land((151.23, -33.85))  # in the harbour
    assert not city.on_land((151.4, -33.9))  # in the Pacific
    assert all(city.on_land(city.point(city.suburb())) for _ in range(100))


def test_movers_go_from_place_to_place_without_leaps(city: City) -> None:
    mover = Mover("m", city)
    before = mover.subscription()["region"]["center"]
    for second in range(1, 400):
        at = mover.move(float(second))["region"]["center"]
        assert abs(at[0] - before[0]) + abs(at[1] - before[1]) < 0.02
        before = at
    assert abs(before[0] - CENTRE[0]) < 1


def test_a_refusal_ends_the_feed_with_its_reason() -> None:
    from threading import Event

    told = {"refused": 1, "updates": 0, "errors": [{"detail": "id: is not right"}]}
    answers = httpx.MockTransport(lambda _: httpx.Response(200, json=told))
    with httpx.Client(transport=answers, base_url="http://127.0.0.1") as client:
        feed = CityFeed(client, print, Event(), seed=1, on_land=lambda _: True)
        with pytest.raises(RuntimeError, match="id: is not right"):
            feed.play(1, 1, 1.0)
