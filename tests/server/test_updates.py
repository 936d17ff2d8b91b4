"""`/v1/updates` and `/v1/live`: heard in order, taken up again, and never holding anyone up."""

import socket
from collections.abc import Iterator

import msgspec
import pytest

from nearcast.server.config import Limits
from served import IPAD, SALE, Ear, Served, serving


@pytest.fixture
def server() -> Iterator[Served]:
    with serving(lead_s=float("inf")) as served:
        yield served


def test_an_update_is_an_event_with_an_id(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    with Ear(server.port, "/v1/updates") as ear:
        assert ear.place() == 0
        server.post("/v1/messages", SALE | {"id": "m1", "at": 2e9})
        event = ear.event()
    assert (event["id"], event["event"]) == ("1", "add")
    assert msgspec.json.decode(event["data"]) == {
        "op": "add",
        "subscription": "s1",
        "message": "m1",
        "at": 2e9,
        "body": SALE | {"at": 2e9},
    }


def test_a_score_comes_along(server: Served) -> None:
    top = {"query": "jazz", "point": [0, 0], "top": {"k": 1, "alpha": 1.0}}
    server.http.put("/v1/subscriptions/fan", json=top)
    with Ear(server.port, "/v1/updates?after=0") as ear:
        server.post("/v1/messages", {"id": "far", "text": "jazz", "point": [9, 0]})
        server.post("/v1/messages", {"id": "near", "text": "jazz", "point": [0, 0]})
        events = [msgspec.json.decode(ear.event()["data"]) for _ in range(3)]
    assert [(event["op"], event["message"]) for event in events] == [
        ("add", "far"),
        ("remove", "far"),
        ("add", "near"),
    ]
    assert events[2]["score"] == 1.0


def test_only_of_the_subscriptions_that_were_named(server: Served) -> None:
    for id in ("s1", "s2", "s3"):
        server.http.put(f"/v1/subscriptions/{id}", json=IPAD)
    with Ear(server.port, "/v1/updates?subscription=s3&subscription=s1") as ear:
        ear.place()
        server.post("/v1/messages", SALE)
        heard = [msgspec.json.decode(ear.event()["data"])["subscription"] for _ in range(2)]
    assert heard == ["s1", "s3"]
    with Ear(server.port, "/v1/updates?subscription=s3&subscription=s1&after=0") as ear:
        assert [ear.event()["id"] for _ in range(2)] == ["1", "3"]


def test_taken_up_again_after_the_last_one_seen(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    for _ in range(3):
        server.post("/v1/messages", SALE)
    with Ear(server.port, "/v1/updates", "Last-Event-ID: 1\r\n") as ear:
        assert [ear.event()["id"] for _ in range(2)] == ["2", "3"]
        server.post("/v1/messages", SALE)
        assert ear.event()["id"] == "4"
    with Ear(server.port, "/v1/updates?after=3") as ear:
        assert ear.event()["id"] == "4"


def test_far_behind_it_reads_page_by_page(server: Served) -> None:
    for id in ("s1", "s2"):
        server.http.put(f"/v1/subscriptions/{id}", json=IPAD)
    body = "\n".join(msgspec.json.encode(SALE).decode() for _ in range(1300))
    server.lines("/v1/messages", body)
    with Ear(server.port, "/v1/updates?after=0") as ear:
        assert [int(ear.event()["id"]) for _ in range(2600)] == list(range(1, 2601))
    many = "".join(f"&subscription=none{number}" for number in range(20))
    for others in ("&subscription=none", many):
        with Ear(server.port, f"/v1/updates?after=0&subscription=s2{others}") as ear:
            assert [int(ear.event()["id"]) for _ in range(1300)] == list(range(2, 2601, 2))


def test_a_gap_is_told_once_where_the_log_no_longer_reaches_back() -> None:
    with serving(retain_updates=10) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        for _ in range(50):
            server.post("/v1/messages", SALE)
        with Ear(server.port, "/v1/updates?after=5") as ear:
            gap = ear.event()
            first = int(ear.event()["id"])
        assert gap["event"] == "gap"
        told = msgspec.json.decode(gap["data"])
        assert told["from"] == 6
        assert told["to"] == first - 1 == int(gap["id"])
        with Ear(server.port, f"/v1/updates?after={gap['id']}") as ear:
            assert ear.event()["event"] == "add"


def test_ids_from_a_log_that_had_more_are_a_gap(server: Served) -> None:
    """As after a restore from an older copy."""
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    with Ear(server.port, "/v1/updates?after=7") as ear:
        gap = ear.event()
        assert (msgspec.json.decode(gap["data"]), gap["id"]) == ({"from": 1, "to": 7}, "0")
        server.post("/v1/messages", SALE)
        assert ear.event()["id"] == "1"


def test_a_quiet_stream_says_how_far_it_is() -> None:
    """Whoever listens to a quiet subscription resumes near the end, not where it began."""
    with serving(keep_alive_s=0.05) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        with Ear(server.port, "/v1/updates?subscription=quiet") as ear:
            assert ear.place() == 0
            server.post("/v1/messages", SALE)
            while ear.place() != 1:
                pass


def test_listeners_that_stall_hold_up_nobody() -> None:
    limits = Limits(queued_bytes=10_000)
    with serving(limits=limits) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        stalled = socket.create_connection(("127.0.0.1", server.port))
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.sendall(b"GET /v1/updates HTTP/1.1\r\nHost: localhost\r\n\r\n")
        slow = Ear(server.port, "/v1/updates", buffer=4096)
        slow.place()
        body = "\n".join(msgspec.json.encode(SALE).decode() for _ in range(2000))
        with Ear(server.port, "/v1/updates") as ear:
            ear.place()
            for turn in range(8):
                assert server.lines("/v1/messages", body).json()["accepted"] == 2000
                heard = [int(ear.event()["id"]) for _ in range(2000)]
                assert heard == list(range(turn * 2000 + 1, turn * 2000 + 2001))
        queues = [each.size for each in server.state.tenants.find("default").hub.listeners()]  # type: ignore[union-attr]
        assert max(queues) <= 10_000
        assert [int(slow.event()["id"]) for _ in range(16_000)] == list(range(1, 16_001))
        assert b"nearcast_listener_overflows_total 0.0" not in server.http.get("/metrics").content
        stalled.close()
        slow.close()


def test_live_shows_messages_updates_and_subscriptions_in_a_box(server: Served) -> None:
    with Ear(server.port, "/v1/live?bbox=151,-34,152,-33") as ear:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        assert ear.event()["event"] == "subscription"
        server.post("/v1/messages", SALE | {"point": [0, 0]})
        server.post("/v1/messages", SALE | {"id": "m1"})
        message, update = ear.event(), ear.event()
        server.http.delete("/v1/subscriptions/s1")
        gone = ear.event()
    shown = msgspec.json.decode(message["data"])
    assert message["event"] == "message"
    assert (shown["id"], shown["text"], shown["matches"]) == ("m1", "iPad sale!", 1)
    assert update["event"] == "update"
    seen = msgspec.json.decode(update["data"])
    assert (seen["subscription"], seen["message"], seen["point"]) == ("s1", "m1", [151.2, -33.87])
    assert (gone["event"], gone["data"]) == ("unsubscribed", '{"id":"s1"}')


def test_live_is_sampled_and_says_so() -> None:
    with (
        serving(limits=Limits(live_per_second=10.0)) as server,
        Ear(server.port, "/v1/live") as ear,
    ):
        body = "\n".join(msgspec.json.encode(SALE).decode() for _ in range(500))
        server.lines("/v1/messages", body)
        events: list[dict[str, str]] = []
        while not events or events[-1]["event"] != "sampled":
            events.append(ear.event())
        left_out = msgspec.json.decode(events[-1]["data"])["left_out"]
        assert len(events) - 1 + left_out == 500
        assert left_out > 400
