"""How much may wait for the writer of a tenant: so many requests, and so many bytes."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from websockets.sync.client import connect

from nearcast.server import jobs
from patience import PATIENCE_S, wait_until
from served import IPAD, SALE, Served, hold_writer, serving


@pytest.mark.parametrize("way", ["message", "lines", "subscription", "match", "socket"])
def test_waiting_requests_have_only_so_many_bytes(way: str) -> None:
    """A large one is refused while others wait with large ones, and is taken again afterwards."""
    with serving(waiting_bytes=100_000) as server:
        server.http.put("/v1/subscriptions/s", json=IPAD)
        backend, go_on = hold_writer(server)
        large, statuses = SALE | {"text": "ipad " * 12_000}, list[int]()

        def post() -> None:
            statuses.append(server.post("/v1/messages", large).status_code)

        waiting = threading.Thread(target=post)
        waiting.start()
        wait_until(lambda: backend.waiting_bytes > 60_000, "a large request in the queue")
        status, kind, after = _again(server, way, large)
        assert (status, after) == (503, "1")
        assert kind.endswith("too-busy")
        small = threading.Thread(target=server.post, args=("/v1/messages", SALE))
        small.start()
        wait_until(lambda: backend.waiting == 2, "a small request in the queue")
        go_on.set()
        for thread in (waiting, small):
            thread.join()
        assert statuses == [200]
        assert backend.waiting_bytes == 0
        assert _again(server, way, large)[0] == 200


def _again(server: Served, way: str, large: dict[str, Any]) -> tuple[int, str, str | None]:
    """Send a large request in some way; give the status, the kind of problem, and when to retry."""
    if way == "socket":
        with connect(f"ws://127.0.0.1:{server.port}/v1/updates/ws?subscription=none") as socket_:
            assert json.loads(socket_.recv(PATIENCE_S))["type"] == "hello"
            socket_.send(json.dumps({"op": "publish"} | large))
            answer = json.loads(socket_.recv(PATIENCE_S))
        problem = answer.get("problem", {"status": 200, "type": ""})
        return problem["status"], problem["type"], "1" if problem["status"] == 503 else None
    if way == "message":
        found = server.post("/v1/messages", large)
    elif way == "lines":
        found = server.lines("/v1/messages", json.dumps(large))
    elif way == "match":
        found = server.post("/v1/match", large)
    else:
        found = server.http.put("/v1/subscriptions/s", json=IPAD | {"large": large["text"]})
    return found.status_code, str(found.json().get("type", "")), found.headers.get("retry-after")


def test_a_request_may_be_large_if_no_other_waits() -> None:
    """However little may wait, so that it can be taken at all."""
    with serving(waiting_bytes=10) as server:
        assert server.post("/v1/messages", SALE).status_code == 200


def test_only_so_many_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told at once to come again later; those that wait are answered."""
    monkeypatch.setattr(jobs, "MOST_WAITING", 3)
    with serving() as server:
        backend, go_on = hold_writer(server)
        statuses: list[int] = []

        def post() -> None:
            statuses.append(server.post("/v1/messages", SALE).status_code)

        waiting = [threading.Thread(target=post) for _ in range(3)]
        for thread in waiting:
            thread.start()
        wait_until(lambda: backend.waiting == 3, "three requests in the queue")
        refused = server.post("/v1/messages", SALE)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["type"].endswith("too-busy")
        go_on.set()
        for thread in waiting:
            thread.join()
    assert statuses == [200, 200, 200]
