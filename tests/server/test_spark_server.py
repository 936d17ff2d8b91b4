"""A server on a real pipeline on Spark: the same API, ids and resume."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from websockets.sync.client import connect

from nearcast.cli.main import main
from nearcast.engine.scan import Scan
from nearcast.engine.settings import GivenSettings
from nearcast.errors import NearcastError
from nearcast.events import Event, Publish, Unsubscribe, event_from_json
from nearcast.server.spark.engine import PipelineEngine
from nearcast.server.spark.event_files import EventFiles
from nearcast.text import Vocabulary
from patience import PATIENCE_S
from ranked_logs import ranked_log
from served import IPAD, SALE, Ear, Served, serving

SPARK: dict[str, Any] = {
    "lead_s": float("inf"),
    "engine": "spark",
    "partitioner": "hybrid",
    "workers": 2,
}


def test_updates_come_from_the_pipeline_and_are_taken_up_again(tmp_path: Path) -> None:
    """Acknowledged when durable, delivered when committed, also by the next server.

    A pipeline takes long to start: all other requests are tried on the second one.
    """
    # So few that messages with an end have left the window before somebody is ranked.
    given = GivenSettings(window_count=2)
    with serving(tmp_path, given=given, **SPARK) as server, Ear(server.port, "/v1/updates") as ear:
        assert ear.place() == 0
        assert server.http.get("/v1/map/pipeline").json()["pipeline"]["state"] == "starting"
        assert server.http.put("/v1/subscriptions/s1", json=IPAD).status_code == 201
        answer = server.post("/v1/messages", SALE | {"id": "m1", "at": 2e9})
        assert answer.status_code == 200
        event = ear.event()
        assert (event["id"], event["event"]) == ("1", "add")
        assert msgspec.json.decode(event["data"]) == {
            "op": "add", "subscription": "s1", "message": "m1", "at": 2e9,
            "body": {"text": "iPad sale!", "point": [151.2, -33.87], "at": 2e9},
        }  # fmt: skip
        server.post("/v1/messages", SALE | {"id": "m2", "at": 2e9 + 1})
        assert ear.event()["id"] == "2"
        told = server.http.get("/v1/map/pipeline").json()["pipeline"]
        assert told["state"] in ("level", "behind")
        assert (told["plan"]["workers"], told["plan"]["partitioner"]) == (2, "hybrid")
        assert [each["worker"] for each in told["workers"]] == [0, 1]
        assert sum(each["rows"] for each in told["workers"]) > 0
        late = server.post("/v1/messages", SALE | {"id": "m3", "at": 2e9 + 2})
        assert late.status_code == 200
    with serving(tmp_path, **SPARK) as server, Ear(server.port, "/v1/updates?after=1") as ear:
        heard = [msgspec.json.decode(ear.event()["data"])["message"] for _ in range(2)]
        assert heard == ["m2", "m3"]
        assert [each["subscription"] for each in server.updates()] == ["s1"] * 3
        assert server.http.delete("/v1/subscriptions/s1").status_code == 204
        lasting_messages_and_moves(server, ear)


def lasting_messages_and_moves(server: Served, ear: Ear) -> None:
    """What a subscription gains and loses comes from the pipeline; results are there at once."""
    there = [100.0, 60.0]
    away = {"type": "Circle", "center": there, "radius": 1000}

    def heard() -> tuple[str, str, str]:
        told = msgspec.json.decode(ear.event()["data"])
        return told["op"], told["subscription"], told["message"]

    def results() -> list[str]:
        answer = server.http.get("/v1/subscriptions/s2/results").json()
        return [each["message"] for each in answer["results"]]

    server.post("/v1/messages", SALE | {"id": "n1", "at": 3e9, "ttl": 100})
    server.post("/v1/messages", SALE | {"id": "n2", "at": 3e9, "ttl": 1})
    server.post("/v1/messages", SALE | {"id": "n3", "at": 3e9, "ttl": 100, "point": there})
    assert server.post("/v1/messages", SALE | {"id": "n1", "at": 3e9, "ttl": 99}).status_code == 200
    subscription = IPAD | {"at": 3e9 + 1}
    assert server.http.put("/v1/subscriptions/s2", json=subscription).status_code == 201
    assert results() == ["n1"]
    assert heard() == ("add", "s2", "n1")
    moved = server.http.patch("/v1/subscriptions/s2", json={"region": away, "at": 3e9 + 2})
    assert moved.status_code == 200
    assert results() == ["n3"]
    assert [heard(), heard()] == [("remove", "s2", "n1"), ("add", "s2", "n3")]
    back = {"op": "move", "id": "s2", "region": IPAD["region"], "at": 3e9 + 3}
    with connect(f"ws://127.0.0.1:{server.port}/v1/updates/ws") as socket:
        socket.send(json.dumps(back))
        while json.loads(socket.recv(timeout=PATIENCE_S))["type"] != "ok":
            pass
    assert [heard(), heard()] == [("add", "s2", "n1"), ("remove", "s2", "n3")]
    the_best_few(server, ear)


def the_best_few(server: Served, ear: Ear) -> None:
    """Updates come with scores, and are what the results say at once."""
    top = {"query": "vinyl", "point": [0, 0], "top": {"k": 1, "alpha": 1.0}, "at": 4e9}
    path = "/v1/subscriptions/t1"

    def heard() -> tuple[str, str, float | None]:
        told = msgspec.json.decode(ear.event()["data"])
        assert told["subscription"] == "t1"
        return told["op"], told["message"], told.get("score")

    def best() -> list[tuple[str, float]]:
        results = server.http.get(f"{path}/results").json()["results"]
        return [(each["message"], each["score"]) for each in results]

    for id, lon in (("v1", 0), ("v2", 90)):
        vinyl = {"id": id, "text": "vinyl", "point": [lon, 0], "at": 4e9}
        assert server.post("/v1/messages", vinyl).status_code == 200
    assert server.http.put(path, json=top).status_code == 201
    assert best() == [("v1", 1.0)]
    assert heard() == ("add", "v1", 1.0)
    moved = server.http.patch(path, json={"point": [90, 0], "at": 4e9 + 1})
    assert moved.status_code == 200
    assert best() == [("v2", 1.0)]
    assert [heard(), heard()] == [("remove", "v1", None), ("add", "v2", 1.0)]
    lasting = {"id": "v3", "text": "vinyl", "point": [90, 0], "at": 4e9 + 2, "ttl": 9}
    assert server.post("/v1/messages", lasting).status_code == 200
    assert [heard(), heard()] == [("remove", "v2", None), ("add", "v3", 1.0)]
    assert server.http.delete("/v1/messages/v3").status_code == 200
    assert [heard(), heard()] == [("add", "v2", 1.0), ("remove", "v3", None)]


def test_replay_through_the_door_gives_the_updates_of_scan(tmp_path: Path) -> None:
    """Subscriptions of both kinds that come, change, move and go, weighed by a history."""
    log = tmp_path / "log.jsonl"
    fields = ranked_log(1200, seed=9, names=30)
    log.write_text("".join(json.dumps(each) + "\n" for each in fields))
    history = Vocabulary.from_documents([{"jazz", "tea"}, {"jazz"}, {"sale"}])
    history.save(tmp_path / "history.parquet")
    world = ["--window-seconds", "5", "--history", str(tmp_path / "history.parquet")]
    aside = ["--on-error", f"quarantine={tmp_path / 'aside.jsonl'}"]
    given = GivenSettings(window_seconds=5.0, history=history)
    output = tmp_path / "updates.jsonl"

    def replayed(*more: str) -> tuple[bytes, list[dict[str, Any]]]:
        assert main(["replay", str(log), *aside, *more, "--output", str(output)]) == 0
        lines = (tmp_path / "aside.jsonl").read_bytes().splitlines()
        return output.read_bytes(), [json.loads(line) for line in lines]

    with serving(tmp_path / "data", given=given, **SPARK) as server:
        found, refused = replayed("--engine", f"http={server.url}")
    places = [each["line"] for each in refused]
    # What was refused for whatever reason becomes what every engine refuses.
    nobody = {"op": "unsubscribe", "id": "nobody"}
    for place in places:
        fields[place - 1] = nobody
    log.write_text("".join(json.dumps(each) + "\n" for each in fields))
    expected, again = replayed("--engine", "scan", *world)
    assert found == expected
    assert found.count(b'"score"') > 500
    assert found.count(b'"change"') > 10
    assert [each["line"] for each in again] == places
    assert not any("pipeline" in each["error"] for each in refused)


@pytest.mark.parametrize("window", [{"window_count": 8}, {"window_seconds": 3.0}])
def test_results_are_those_of_scan_though_updates_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: dict[str, Any]
) -> None:
    """The k best and the lasting messages of every subscription, also by the next process."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    scan = Scan(GivenSettings(**window).settings())
    engine = PipelineEngine(EventFiles(tmp_path), path=tmp_path / "a.nearcast", **window)
    found = refused = 0
    for position, fields in enumerate(ranked_log(300, seed=3)):
        try:
            event = event_from_json(fields)
        except NearcastError:
            continue  # which never gets as far as an engine
        error: NearcastError | None = None
        try:
            scan.apply(event)
        except NearcastError as problem:
            error = problem
        assert str(engine.apply_all([event])[0].error) == str(error)
        refused += error is not None
        if position % 60 == 0:
            engine.close()
            engine = PipelineEngine(EventFiles(tmp_path), path=tmp_path / "a.nearcast")
        if position % 10 == 0:
            known = {each.id for each in scan.subscriptions()}
            assert {each.id for each in engine.subscriptions()} == known
            for id in known:
                assert engine.results(id) == scan.results(id)
                found += len(scan.results(id))
    assert refused > 10
    assert found > 100
    engine.close()


def recurring(draw: Random, count: int) -> Iterator[dict[str, Any]]:
    """Few ids again and again, messages that end, and a top-k subscription now and then."""
    now = 0.0
    for _ in range(count):
        now += draw.choice([0, 0, 1, 2])
        at = {"at": now} if draw.random() < 0.8 else {}
        chance = draw.random()
        if chance < 0.1:
            yield at | {"op": "unsubscribe", "id": "t"}
        elif chance < 0.25:
            top = {"k": 2, "alpha": 0.5}
            yield at | {"op": "subscribe", "id": "t", "query": "x", "point": [0, 0], "top": top}
        elif chance < 0.4:
            yield at | {"op": "retract", "id": draw.choice("abcdefgh")}
        else:
            place: dict[str, Any] = {"point": [1, 1]}
            if draw.random() < 0.15:
                place = {"region": {"type": "Box", "bbox": [0, 0, 1, 1]}}
            ends = {"ttl": draw.choice([1, 3, 9])} if draw.random() < 0.35 else {}
            yield at | {"op": "publish", "id": draw.choice("abcdefgh"), "text": "x"} | place | ends


@pytest.mark.parametrize("window", [{"window_count": 3}, {"window_seconds": 4.0}])
def test_what_was_last_is_known_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: dict[str, Any]
) -> None:
    """The server refuses what the pipeline refuses, which reads all events in one go."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    reasons: set[str] = set()
    for seed in range(8):
        draw, folder = Random(seed), tmp_path / str(seed)
        folder.mkdir()
        scan = Scan(GivenSettings(**window).settings())
        engine = PipelineEngine(EventFiles(folder), path=folder / "a.nearcast", **window)
        for fields in recurring(draw, 60):
            event, error = event_from_json(fields), None
            try:
                scan.apply(event)
            except NearcastError as problem:
                error = str(problem)
                reasons.add(error)
            found = engine.apply_all([event])[0].error
            assert (None if found is None else str(found)) == error
            if draw.random() < 0.2:
                engine.close()
                engine = PipelineEngine(EventFiles(folder), path=folder / "a.nearcast")
        engine.close()
    assert any("no message" in each for each in reasons)


def test_an_update_tells_of_its_own_message_and_not_of_the_one_that_caused_it(
    tmp_path: Path,
) -> None:
    """An arrival displaces another message, and the end of a subscription lets time pass."""
    engine = PipelineEngine(EventFiles(tmp_path), path=tmp_path / "a.nearcast")
    events: list[Event] = [publish("m1", 1.0), publish("m2", 2.0), Unsubscribe("s9", 3.0)]
    top = {"query": "ipad", "point": [0, 0], "top": {"k": 1, "alpha": 1.0}}
    engine.apply_all([event_from_json({"op": "subscribe", "id": id, **top}) for id in ("s1", "s9")])
    engine.apply_all(events)
    entries, messages = engine.deliver(
        [
            (2, "add", "s1", "m1", 0.5, None),
            (3, "remove", "s1", "m1", None, None),
            (4, "remove", "s1", "m2", None, None),
        ]
    )
    assert [(each.at, each.message, each.score) for each in entries] == [
        (1.0, "m1", 0.5), (2.0, "m1", None), (3.0, "m2", None),
    ]  # fmt: skip
    assert {id: message.id for id, message in messages.items()} == {"m1": "m1", "m2": "m2"}
    assert [each.score for each in engine.log.read(0, 10)] == [0.5, None, None]
    engine.close()


def publish(id: str, at: float) -> Publish:
    event = event_from_json({"op": "publish", "id": id, "at": at, **SALE})
    assert isinstance(event, Publish)
    return event


class Died(BaseException):
    """The process ends here."""


def test_a_crash_between_file_and_commit_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that the pipeline may have seen are taken in by the next process."""
    folder = tmp_path / "events"
    folder.mkdir()
    engine = PipelineEngine(EventFiles(folder), path=tmp_path / "a.nearcast")
    subscribe = event_from_json({"op": "subscribe", "id": "s1", **IPAD})
    assert [each.seq for each in engine.apply_all([subscribe, publish("m1", 1.0)])] == [1, 2]

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(engine._journal, "commit", die)
        with pytest.raises(Died):
            engine.apply_all([publish("m2", 2.0), publish("m1", 1.5)])
    engine.close()
    again = PipelineEngine(EventFiles(folder), path=tmp_path / "a.nearcast")
    assert again.now == 2.0
    assert [seq for seq, _, message in again.sent if message] == [2, 3]
    assert [each.seq for each in again.apply_all([publish("m2", 1.0), publish("m4", 5.0)])] == [
        None,
        4,
    ]
    entries, messages = again.deliver(
        [(1, "add", "s1", "m1", None, None), (2, "add", "s1", "m2", None, None)]
    )
    assert [(each.id, each.seq, each.at, each.message) for each in entries] == [
        (1, 2, 1.0, "m1"),
        (2, 3, 2.0, "m2"),
    ]
    assert set(messages) == {"m1", "m2"}
    assert again.deliver(
        [(1, "add", "s1", "m1", None, None), (2, "add", "s1", "m2", None, None)]
    ) == ([], {})
    again.close()
    once_more = PipelineEngine(EventFiles(folder), path=tmp_path / "a.nearcast")
    assert once_more.deliver([(2, "add", "s1", "m2", None, None)]) == ([], {})
    assert [
        entry.message for entry in once_more.deliver([(3, "add", "s1", "m4", None, None)])[0]
    ] == ["m4"]
    assert once_more.log.last == 3
    once_more.close()


def test_events_that_nobody_wants_are_not_remembered_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the pipeline has done with is forgotten, though no update came of it."""
    monkeypatch.setattr("nearcast.server.spark.engine._KEPT", 2)
    files = EventFiles(tmp_path)
    engine = PipelineEngine(files, path=tmp_path / "a.nearcast")
    for number in range(1, 9):
        engine.apply_all([publish(f"m{number}", float(number))])
    assert engine.deliver([], settled=0) == ([], {})
    assert [number for number, _, _ in engine.sent] == list(range(1, 9))
    assert engine.deliver([], settled=6) == ([], {})
    assert [number for number, _, _ in engine.sent] == [7, 8]
    assert [number for number, _ in files.after(0)] == [5, 6, 7, 8]
    subscribed = event_from_json({"op": "subscribe", "id": "s1", **IPAD})
    engine.apply_all([subscribed, publish("m9", 9.0)])
    entries, _ = engine.deliver([(9, "add", "s1", "m9", None, None)], settled=8)
    assert [(entry.seq, entry.at) for entry in entries] == [(10, 9.0)]
    engine.close()
    again = PipelineEngine(EventFiles(tmp_path), path=tmp_path / "a.nearcast")
    assert (again.now, list(again.sent)) == (9.0, [])
    again.close()


def test_old_events_are_forgotten(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    for first in (1, 3, 5):
        files.write(first, [publish(f"m{first}", 1.0), publish(f"m{first + 1}", 1.0)])
    assert [number for number, _ in files.after(3)] == [4, 5, 6]
    files.forget(3)
    assert [number for number, _ in files.after(0)] == [3, 4, 5, 6]
    files.forget(6)
    assert [number for number, _ in files.after(0)] == [5, 6]
