"""Updates carry the message and the meta of their subscription: live, and after a resume."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nearcast.client import Client
from served import IPAD, SALE, Ear, Served, serving

OTHER = SALE | {"text": "iPad 2", "properties": {"price": 5}}
META = {"who": "ada"}
Update = dict[str, Any]


@pytest.fixture(params=["memory", "file"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    data = tmp_path if request.param == "file" else None
    with serving(data, clock=lambda: 1000.0) as served:
        yield served


def tell(server: Served) -> None:
    """Publish m1, replace it, let another subscription find it, and retract it."""
    server.http.put("/v1/subscriptions/s1", json=IPAD | {"meta": META})
    server.post("/v1/messages", SALE | {"id": "m1", "ttl": 60})
    server.post("/v1/messages", OTHER | {"id": "m1", "ttl": 60})
    server.http.put("/v1/subscriptions/s2", json={"query": "price:<9"})
    server.http.delete("/v1/messages/m1")


EXPECTED: list[tuple[str, str, Any, Any]] = [
    ("add", "s1", SALE | {"at": 1000.0, "ttl": 60.0}, META),
    ("change", "s1", OTHER | {"at": 1000.0, "ttl": 60.0}, META),
    ("add", "s2", OTHER | {"at": 1000.0, "ttl": 60.0}, None),
    ("remove", "s1", None, META),
    ("remove", "s2", None, None),
]


def parts(updates: list[Update]) -> list[tuple[str, str, Any, Any]]:
    return [(u["op"], u["subscription"], u.get("body"), u.get("meta")) for u in updates]


def heard(ear: Ear, count: int) -> list[Update]:
    return [msgspec.json.decode(ear.event()["data"]) for _ in range(count)]


def test_live_and_after_a_resume(server: Served) -> None:
    with Ear(server.port, "/v1/updates") as ear:
        ear.place()
        tell(server)
        assert parts(heard(ear, 5)) == EXPECTED
    with Ear(server.port, "/v1/updates", "Last-Event-ID: 1\r\n") as ear:
        assert parts(heard(ear, 4)) == EXPECTED[1:]
    assert parts(server.updates()) == EXPECTED
    assert parts(server.updates(subscription="s2")) == [EXPECTED[2], EXPECTED[4]]


@pytest.mark.parametrize("include", ["", "message", "meta", "message,meta"])
def test_what_is_not_included_is_left_out(server: Served, include: str) -> None:
    tell(server)
    expected = [
        (op, who, body if "message" in include else None, meta if "meta" in include else None)
        for op, who, body, meta in EXPECTED
    ]
    assert parts(server.updates(include=include)) == expected
    with Ear(server.port, f"/v1/updates?after=0&include={include}") as ear:
        assert parts(heard(ear, 5)) == expected
    with Client(server.url) as client:
        updates = client.updates(after=0, include=include.split(",") if include else ())
        found = [next(updates) for _ in range(5)]
    assert [(u.op, u.subscription, u.body, u.meta) for u in found] == expected  # type: ignore[union-attr]


def test_after_the_server_was_started_again(tmp_path: Path) -> None:
    with serving(tmp_path, clock=lambda: 1000.0) as server:
        tell(server)
    with serving(tmp_path, clock=lambda: 1000.0) as server:
        with Ear(server.port, "/v1/updates?after=0") as ear:
            assert parts(heard(ear, 5)) == EXPECTED
        found = server.http.get("/v1/messages/m1").json()
        assert found == OTHER | {"id": "m1", "at": 1000.0, "ttl": 60.0}


def test_a_message_is_shown_while_it_is_known(server: Served) -> None:
    shown = SALE | {"id": "m1", "at": 1000.0}
    server.post("/v1/messages", SALE | {"id": "m1"})
    assert server.http.get("/v1/messages/m1").json() == shown  # in the window
    server.http.delete("/v1/messages/m1")
    assert server.http.get("/v1/messages/m1").status_code == 404  # and in no update
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    server.post("/v1/messages", SALE | {"id": "m1"})
    server.http.delete("/v1/messages/m1")
    assert server.http.get("/v1/messages/m1").json() == shown  # in the log of updates


def test_the_meta_is_that_after_the_event(server: Served) -> None:
    for number in (1, 2):
        server.http.put("/v1/subscriptions/s1", json=IPAD | {"meta": {"n": number}})
        server.post("/v1/messages", SALE)
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    server.post("/v1/messages", SALE)
    assert [update.get("meta") for update in server.updates()] == [{"n": 1}, {"n": 2}, None]


def test_a_websocket_and_a_webhook_carry_them(server: Served) -> None:
    from websockets.sync.client import connect

    from nearcast.engine.update_log import Entry
    from nearcast.events import LateBody
    from nearcast.server.webhook_delivery import update_payload

    with connect(f"ws://127.0.0.1:{server.port}/v1/updates/ws") as socket:
        assert msgspec.json.decode(socket.recv())["type"] == "hello"
        tell(server)
        assert parts([msgspec.json.decode(socket.recv()) for _ in range(5)]) == EXPECTED
    late = LateBody.ready({"text": "a", "at": 1.0})
    entry = Entry(7, 3, 1.0, "add", "s1", "m1", None, META, late)
    posted = msgspec.json.decode(update_payload(entry))["data"]
    assert (posted["body"], posted["meta"]) == ({"text": "a", "at": 1.0}, META)
