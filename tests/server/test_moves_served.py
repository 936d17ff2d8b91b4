"""Position reports over a socket, and by PATCH and PUT, cause the updates of `scan`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from nearcast import Engine
from nearcast.events import Unsubscribe
from nearcast.geo import region_from_json
from patience import PATIENCE_S
from served import Served, serving

Json = dict[str, Any]

PLACES = [(179.5, 0.0), (-179.8, 0.2), (0.0, 0.0), (0.4, 0.1), (179.9, -0.3), (0.2, 0.2)]
MESSAGES = ["jazz club", "jazz blues", "blues bar", "jazz rain", "club night jazz", "blues"]


def circle(lon: float, lat: float, metres: float = 60_000.0) -> Json:
    return {"type": "Circle", "center": [lon, lat], "radius": metres}


def box(west: float, south: float, east: float, north: float) -> Json:
    return {"type": "Box", "bbox": [west, south, east, north]}


def triangle(lon: float, lat: float) -> Json:
    corners = [[lon, lat], [lon + 1, lat], [lon, lat + 1], [lon, lat]]
    return {"type": "Polygon", "coordinates": [corners]}


ROUTES = {
    # across the antimeridian and back, and a report from the same place
    "jazz": [circle(179.6, 0), circle(-179.9, 0.1), circle(-179.9, 0.1), circle(0.1, 0)],
    "jazz NOT rain": [box(179, -1, -179, 1), box(-1, -1, 1, 1), box(179, -1, 180, 1)],
    "club OR (blues NOT bar)": [triangle(0, 0), circle(0.3, 0.1), box(-180, -1, -179, 1)],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


def told(socket: ClientConnection, count: int) -> set[tuple[str, str, str]]:
    """Hear so many updates and one acknowledgement."""
    heard = [json.loads(socket.recv(timeout=PATIENCE_S)) for _ in range(count + 1)]
    updates = [one for one in heard if one["type"] == "update"]
    (answer,) = [one for one in heard if one["type"] == "ok"]
    assert answer["updates"] == len(updates) == count
    return {(one["op"], one["subscription"], one["message"]) for one in updates}


def listed(updates: Any) -> set[tuple[str, str, str]]:
    return {(one.op, one.subscription, one.message) for one in updates}


def test_moves_over_a_socket_and_http_cause_what_scan_says(server: Served) -> None:
    scan = Engine(index="scan")
    for number, (text, point) in enumerate(zip(MESSAGES, PLACES, strict=True)):
        message = {"id": f"m{number}", "text": text, "point": point, "ttl": 3600}
        server.post("/v1/messages", message)
        scan.publish(f"m{number}", text, point, ttl=3600)
    caused = 0
    for number, (query, route) in enumerate(ROUTES.items()):
        id = f"walker{number}"
        region: Any = region_from_json(route[0])
        with connect(f"ws://127.0.0.1:{server.port}/v1/updates/ws?subscription={id}") as socket:
            assert json.loads(socket.recv(timeout=PATIENCE_S))["type"] == "hello"
            for turn, where in enumerate(route * 2):
                region = region_from_json(where)
                if turn == 0:
                    expected = listed(scan.subscribe(id, query, region))
                    said: Json = {"op": "subscribe", "id": id, "query": query, "region": where}
                else:
                    expected = listed(scan.move(id, region))
                    said = {"op": "move", "id": id, "region": where}
                socket.send(json.dumps(said))
                assert told(socket, len(expected)) == expected
                caused += len(expected)
        # Replaced over HTTP, and moved: what counts now is what it has.
        scan.subscribe(id, "blues OR rain", region)
        body = {"query": "blues OR rain", "region": route[-1]}
        assert server.http.put(f"/v1/subscriptions/{id}", json=body).is_success
        for where in route:
            scan.move(id, region_from_json(where))
            answer = server.http.patch(f"/v1/subscriptions/{id}", json={"region": where})
            assert answer.is_success
            results = server.http.get(f"/v1/subscriptions/{id}/results").json()["results"]
            assert [one["message"] for one in results] == [one.message for one in scan.results(id)]
    assert caused > 20


def test_a_move_is_answered_as_done_when_the_subscription_ends_before_the_answer() -> None:
    now = [1000.0]

    def pass_time(_: object) -> None:
        now[0] += 100.0

    with serving(clock=lambda: now[0]) as server:
        fields = {"query": "jazz", "region": box(0, 0, 1, 1), "ttl": 150}
        server.http.put("/v1/subscriptions/s1", json=fields)
        server.state.on_committed = pass_time
        moved = server.http.patch("/v1/subscriptions/s1", json={"region": box(1, 0, 2, 1)})
        assert moved.json()["region"] == box(1, 0, 2, 1)
        again = server.http.patch("/v1/subscriptions/s1", json={"region": box(1, 0, 2, 1)})
        assert again.status_code == 200
        gone = server.http.patch("/v1/subscriptions/s1", json={"region": box(1, 0, 2, 1)})
        assert gone.status_code == 404


def test_a_move_is_answered_as_done_when_somebody_ends_the_subscription_meanwhile() -> None:
    with serving() as server:
        server.http.put("/v1/subscriptions/s1", json={"query": "jazz"})
        tenant = server.state.tenants.find("default")
        assert tenant is not None

        def end(_: object) -> None:
            server.state.on_committed = lambda _: None
            tenant.backend.apply([Unsubscribe("s1")])

        server.state.on_committed = end
        moved = server.http.patch("/v1/subscriptions/s1", json={"region": box(1, 0, 2, 1)})
        assert moved.json() == {"id": "s1", "region": box(1, 0, 2, 1), "updates": 0}
