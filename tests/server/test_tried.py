"""`/v1/match`, retraction, ends of subscriptions, and bodies of every odd form."""

import asyncio
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from nearcast.client import AsyncClient, Client, ServerError
from nearcast.events import Reached
from served import IPAD, NDJSON, SALE, Served, serving

FENCE = {"region": IPAD["region"]}


@pytest.fixture
def server() -> Iterator[Served]:
    clock = [1000.0]
    with serving(clock=lambda: clock[0]) as served:
        served.clock = clock  # type: ignore[attr-defined]  # for tests that let time pass
        yield served


def test_a_message_that_is_tried_leaves_no_trace(server: Served) -> None:
    top = {"query": "ipad", "point": SALE["point"], "top": {"k": 1, "alpha": 0.5}}
    for id, fields in {"s1": IPAD, "s2": {"query": "price:>9"}, "t": top, "f": FENCE}.items():
        server.http.put(f"/v1/subscriptions/{id}", json=fields)
    found = server.post("/v1/match", SALE | {"properties": {"price": 5}}).json()["matches"]
    assert [each["subscription"] for each in found] == ["f", "s1", "t"]
    assert found[2]["score"] > 0.5
    assert server.updates() == []
    assert server.http.get("/v1/subscriptions/t/results").json() == {"results": []}
    with Client(server.url) as client:
        assert client.match("Nothing", SALE["point"]) == [Reached("f")]
        assert client.publish(None, "Nothing", SALE["point"], ttl=60).updates == 1


def test_a_subscription_ends_by_the_clock(server: Served) -> None:
    path = "/v1/subscriptions/s1"
    assert server.http.put(path, json=IPAD | {"ttl": 60}).status_code == 201
    assert server.http.put(path, json=IPAD | {"ttl": 60}).status_code == 200
    server.clock[0] = 1059.9  # type: ignore[attr-defined]
    assert server.http.get(path).json()["ttl"] == 60.0
    assert len(server.post("/v1/match", SALE).json()["matches"]) == 1
    server.clock[0] = 1060.0  # type: ignore[attr-defined]
    assert server.http.get(path).status_code == 404
    assert server.http.get("/v1/subscriptions").json()["subscriptions"] == []
    assert server.post("/v1/match", SALE).json()["matches"] == []
    assert server.http.patch(path, json=FENCE).status_code == 404
    assert server.post("/v1/messages", SALE).json()["updates"] == 0
    assert server.http.put(path, json=IPAD).status_code == 201


def test_a_move_keeps_the_end_unless_it_has_one(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD | {"ttl": 60})
    server.clock[0] = 1050.0  # type: ignore[attr-defined]
    server.http.patch("/v1/subscriptions/s1", json=FENCE)
    moved = server.http.patch("/v1/subscriptions/s1", json=FENCE | {"ttl": 30}).json()
    assert moved["ttl"] == 30.0
    server.clock[0] = 1079.0  # type: ignore[attr-defined]
    assert server.http.get("/v1/subscriptions/s1").status_code == 200


def test_the_asynchronous_client_retracts_and_tries(server: Served) -> None:
    asyncio.run(use_client(server.url))


async def use_client(url: str) -> None:
    async with AsyncClient(url) as client:
        await client.subscribe("s1", region=IPAD["region"], meta={"a": 1}, ops=["add", "remove"])
        await client.publish("m1", None, SALE["point"], ttl=60, properties={"a": [1]})
        assert (await client.message("m1")).properties == {"a": [1]}
        assert await client.match(None, SALE["point"]) == [Reached("s1")]
        assert await client.retract("m1") == 1
        with pytest.raises(ServerError) as refused:
            await client.retract("m1")
        assert refused.value.status == 404


def test_properties_are_measured_as_they_are_given(server: Served) -> None:
    def post(properties: str) -> int:
        body = '{"point":[0,0],"properties":%s}' % properties  # noqa: UP031 - it has braces
        return server.http.post(
            "/v1/messages", content=body, headers={"content-type": "application/json"}
        ).status_code

    most = 64 * 1024
    assert post('{"a":"%s"}' % ("x" * (most - 8))) == 200
    assert post('{"a":"%s"}' % ("x" * (most - 7))) == 422
    assert post('{"a": "%s"}' % ("x" * (most - 8))) == 422
    assert post('{"a":[%s]}' % ",".join(["1e5"] * 16_000)) == 200  # noqa: UP031


def mutations(draw: Random, count: int) -> Iterator[bytes]:
    """Lines that were messages before something happened to them."""
    values: list[Any] = [
        None, True, 0, -1, 1e308, 10**30, "", "x", "\u0000", [], [[]], {}, {"": None}, [0, 0],
        {"a": {"b": [1, None, "x"]}}, {"type": "Box", "bbox": [0, 0, 1, 1]},
        {"type": "Box", "bbox": [1, 1, 0, 0]}, {"type": "MultiPolygon", "coordinates": [[[[0]]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]},
        {"type": "Circle", "center": [0, 0], "radius": 1}, "\ud83d\ude00" * 50, [1] * 100,
    ]  # fmt: skip
    names = ["id", "text", "point", "region", "at", "ttl", "properties", "op", "meta", "x"]
    for number in range(count):
        fields: dict[str, Any] = {"text": "ipad", "point": [0, 0], "properties": {"n": number}}
        for _ in range(draw.randrange(1, 4)):
            fields[draw.choice(names)] = draw.choice(values)
        line = bytearray(json.dumps(fields).encode())
        for _ in range(draw.choice([0, 0, 0, 1, 3])):
            line[draw.randrange(len(line))] = draw.randrange(256)
        yield bytes(line).replace(b"\n", b" ")


def test_no_line_breaks_the_server(server: Served) -> None:
    for id, fields in {"s1": {"query": "ipad OR a.b:1"}, "f": FENCE, "p": {"query": "n:*"}}.items():
        server.http.put(f"/v1/subscriptions/{id}", json=fields)
    lines, draw = 0, Random(7)
    for _ in range(10):
        body = b"\n".join(mutations(draw, 1000))
        answer = server.http.post("/v1/messages", content=body, headers={"content-type": NDJSON})
        assert answer.status_code == 200, answer.text
        lines += answer.json()["accepted"] + answer.json()["refused"]
    assert lines == 10_000
    updates = server.updates(limit=10_000)
    assert all("body" in update for update in updates if update["op"] != "remove")
