"""`/v1/updates/ws`: both directions over one connection."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from nearcast.server.keys import KeyStore
from patience import PATIENCE_S
from served import IPAD, SALE, Served, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


def talk(server: Served, query: str = "", **more: Any) -> ClientConnection:
    socket: ClientConnection = connect(f"ws://127.0.0.1:{server.port}/v1/updates/ws{query}", **more)
    return socket


def say(socket: ClientConnection, **fields: Any) -> None:
    socket.send(json.dumps(fields))


def hear(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        said: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE_S))
        if said["type"] == kind:
            return said


def test_subscribe_move_publish_and_hear(server: Served) -> None:
    with talk(server, "?subscription=phone") as socket:
        assert hear(socket, "hello")["after"] >= 0
        say(socket, op="subscribe", id="phone", ref=1, **IPAD)
        assert hear(socket, "ok") == {
            "type": "ok",
            "ref": 1,
            "op": "subscribe",
            "id": "phone",
            "updates": 0,
        }
        say(socket, op="publish", id="ws1", ref="p", **SALE, ttl=600)
        answers = [json.loads(socket.recv(timeout=PATIENCE_S)) for _ in range(2)]
        kinds = {answer["type"]: answer for answer in answers}
        assert kinds["ok"]["updates"] == 1
        assert (kinds["update"]["op"], kinds["update"]["message"]) == ("add", "ws1")
        say(socket, op="move", id="phone", region={"type": "Box", "bbox": [0, 0, 1, 1]})
        answers = [json.loads(socket.recv(timeout=PATIENCE_S)) for _ in range(2)]
        kinds = {answer["type"]: answer for answer in answers}
        assert (kinds["ok"]["op"], kinds["update"]["op"]) == ("move", "remove")
        say(socket, op="unsubscribe", id="phone", ref=2)
        assert hear(socket, "ok")["ref"] == 2


def test_what_is_wrong_is_told_with_its_ref(server: Served) -> None:
    with talk(server) as socket:
        for said, status in (
            ({"op": "move", "id": "nobody", "region": IPAD["region"]}, 404),
            ({"op": "dance"}, 422),
            ({}, 422),
            ({"op": "ack", "id": "x"}, 422),
            ({"op": "listen", "subscriptions": "all"}, 422),
            ({"op": "publish", "text": "x"}, 422),
        ):
            say(socket, ref=7, **said)
            problem = hear(socket, "error")
            assert (problem["ref"], problem["problem"]["status"]) == (7, status)
        socket.send("{")
        assert hear(socket, "error")["problem"]["status"] == 400
        socket.send(b'{"op": "publish", "text": "x", "point": [0, 0], "ref": 8}')
        assert hear(socket, "ok")["ref"] == 8


def test_taken_up_again_and_listening_elsewhere(server: Served) -> None:
    for id in ("w1", "w2"):
        server.http.put(f"/v1/subscriptions/{id}", json=IPAD | {"query": id})
    first = server.state.tenants.find("default").hub.last  # type: ignore[union-attr]
    server.post("/v1/messages", SALE | {"text": "w1 w2"})
    with talk(server, f"?after={first}&subscription=w1") as socket:
        assert hear(socket, "update")["subscription"] == "w1"
        say(socket, op="listen", subscriptions=["w2"], ref=1)
        assert hear(socket, "ok")["op"] == "listen"
        server.post("/v1/messages", SALE | {"text": "w1 w2"})
        assert hear(socket, "update")["subscription"] == "w2"
        say(socket, op="listen", subscriptions=None)
        hear(socket, "ok")
        server.post("/v1/messages", SALE | {"text": "w1 w2"})
        assert [hear(socket, "update")["subscription"] for _ in range(2)] == ["w1", "w2"]


def test_no_more_than_a_window_goes_unacknowledged(server: Served) -> None:
    server.http.put("/v1/subscriptions/acked", json=IPAD | {"query": "acked"})
    with talk(server, "?subscription=acked&window=2") as socket:
        hear(socket, "hello")
        for _ in range(4):
            server.post("/v1/messages", SALE | {"text": "acked"})
        ids = [hear(socket, "update")["id"] for _ in range(2)]
        with pytest.raises(TimeoutError):
            socket.recv(timeout=0.2)
        say(socket, op="ack", id=ids[0])
        ids.append(hear(socket, "update")["id"])
        say(socket, op="ack", id=ids[-1])
        ids.append(hear(socket, "update")["id"])
        assert ids == sorted(set(ids))


@pytest.mark.parametrize("query", ["?window=0", "?after=x", "?subscription="])
def test_bad_parameters_are_refused_before_talking(server: Served, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused, talk(server, query):
        pass
    assert refused.value.response.status_code == 422
    assert json.loads(refused.value.response.body)["status"] == 422


def test_pages_of_other_origins_may_not_talk(server: Served) -> None:
    """A browser lets any page open a socket to anywhere: the server must look."""
    with pytest.raises(InvalidStatus) as refused, talk(server, origin="https://evil.example"):
        pass
    assert refused.value.response.status_code == 403
    with talk(server, origin=f"http://127.0.0.1:{server.port}") as socket:
        hear(socket, "hello")


def test_scopes_hold_for_each_operation(tmp_path: Path) -> None:
    book = KeyStore(tmp_path / "keys.db")
    listener = book.add("listener", scopes=["subscribe"])
    publisher = book.add("publisher", scopes=["publish"])
    book.close()
    with serving(tmp_path, open=False) as server:
        for query, status in (("", 401), ("?key=x", 401), (f"?key={publisher}", 403)):
            with pytest.raises(InvalidStatus) as refused, talk(server, query):
                pass
            assert refused.value.response.status_code == status
        headers = {"Authorization": f"Bearer {listener}"}
        with talk(server, additional_headers=headers) as socket:
            say(socket, op="publish", **SALE)
            assert hear(socket, "error")["problem"]["status"] == 403
            say(socket, op="subscribe", **IPAD)
            hear(socket, "ok")
