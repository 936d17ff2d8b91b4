"""What is known of the pipeline beside a server, without a pipeline: its steps are played."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from pathlib import Path
from time import monotonic

from nearcast.demo.spark_comparison import PATH, SparkComparison
from nearcast.events import event_to_json
from nearcast.server.run import Server
from nearcast.server.spark.engine import Row
from nearcast.server.spark.event_files import EventFiles
from served import IPAD, SALE, Served, serving


def play(beside: SparkComparison, rows: list[Row], seq: int) -> None:
    """Do as the pipeline would: give the updates of a step, then settle its events."""
    beside.take(rows)
    beside.settle(seq)


def subscribe(site: Served, *ids: str) -> None:
    for id in ids:
        assert site.post("/v1/subscriptions", {"id": id, **IPAD}).status_code == 201


def publish(site: Served, id: str) -> None:
    assert site.post("/v1/messages", {"id": id, **SALE}).status_code in (200, 201)


def test_equal_updates_are_counted_and_a_difference_is_seen(tmp_path: Path) -> None:
    said: list[str] = []
    with serving() as site:
        beside = SparkComparison(tmp_path, None, said.append, monotonic())
        beside.watch(site.server.application, site.state)
        subscribe(site, "a", "b")
        publish(site, "m")
        told = site.http.get(PATH).json()
        assert (told["state"], told["same"], told["behind_events"]) == ("starting", 0, 3)

        play(beside, [(2, "add", "b", "m", None, None), (2, "add", "a", "m", None, None)], 3)
        told = site.http.get(PATH).json()
        assert (told["same"], told["differ"], told["state"]) == (2, 0, "level")
        assert said[-1].endswith("2 updates from both engines, 0 differ.")

        publish(site, "n")
        play(beside, [(3, "add", "a", "n", None, None), (3, "add", "c", "n", None, None)], 4)
        told = site.http.get(PATH).json()
        assert (told["same"], told["differ"]) == (3, 2)
        assert told["difference"] == "event 4: only the embedded engine has add n for b"
        assert said[-1] == f"The engines differ at {told['difference']}."


def test_accepted_events_are_written_down_as_the_server_took_them(tmp_path: Path) -> None:
    with serving() as site:
        beside = SparkComparison(tmp_path, None, print, monotonic())
        beside.watch(site.server.application, site.state)
        subscribe(site, "a")
        refused = '{"op": "unsubscribe", "id": "nobody"}\n{"op": "unsubscribe", "id": "a"}'
        assert site.lines("/v1/events", refused).json()["refused"] == 1
        asyncio.run(written(beside, 2))
    events = list(EventFiles(tmp_path / "events").after(0))
    assert [(number, event_to_json(event)["op"]) for number, event in events] == [
        (1, "subscribe"), (2, "unsubscribe"),
    ]  # fmt: skip
    assert all(event.at is not None and event.at <= time.time() for _, event in events)


async def written(beside: SparkComparison, batches: int) -> None:
    for _ in range(batches):
        await beside.write_one()


def test_it_has_caught_up_when_no_event_waits_for_long(tmp_path: Path) -> None:
    now, said = [100.0], list[str]()
    with serving() as site:
        beside = SparkComparison(tmp_path, None, said.append, since=90.0, clock=lambda: now[0])
        beside.watch(site.server.application, site.state)
        subscribe(site, "a")
        now[0] += 20
        subscribe(site, "b", "c")
        beside.settle(0)
        assert beside.as_json()["state"] == "starting"
        now[0] += 8
        beside.settle(1)
        told = beside.as_json()
        assert (told["state"], told["behind_events"], told["behind_s"]) == ("behind", 2, 8.0)
        assert said == []
        beside.settle(3)
        told = beside.as_json()
        assert (told["state"], told["behind_events"], told["behind_s"]) == ("level", 0, 0.0)
        assert said == ["Spark has caught up after 38.0 s: 0 updates from both engines, 0 differ."]


def test_what_goes_wrong_beside_ends_the_comparison_and_nothing_else(tmp_path: Path) -> None:
    said: list[str] = []

    def setup(server: Server) -> None:
        SparkComparison(tmp_path, "false", said.append, monotonic()).watch(
            server.application, server.state
        )

    with serving(setup=setup) as site:
        numbers = count()
        while (told := site.http.get(PATH).json())["state"] != "failed":
            publish(site, f"m{next(numbers)}")
        assert told["trouble"] == "Spark was not installed: it said nothing"
        assert said == [f"Nothing is compared any more: {told['trouble']}."]
        subscribe(site, "a")
        publish(site, "last")
        assert [each["message"] for each in site.updates()] == ["last"]
