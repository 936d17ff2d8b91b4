"""What is refused, and how: a status, a kind, the field, and words that help."""

from collections.abc import Iterator
from typing import Any

import pytest

from nearcast.server.config import Limits
from served import IPAD, JSON, NDJSON, SALE, Served, serving

BIG = {"type": "Polygon", "coordinates": [[[0, 0]] * 101]}
MANY = {"type": "MultiPolygon", "coordinates": [[[[0, 0]] * 51]] * 2}
BOX = {"type": "Box", "bbox": [0, 0, 1, 1]}
MANY = {"type": "MultiPolygon", "coordinates": [[[[0, 0]] * 60], [[[1, 1]] * 60]]}
BEST = {"k": 1, "alpha": 0.5}
TOP: dict[str, Any] = {"query": "jazz", "point": [0, 0], "top": BEST}
SUBS, MESSAGES, MATCH = "/v1/subscriptions", "/v1/messages", "/v1/match"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    limits = Limits(
        body_bytes=5000,
        query_characters=40,
        flat_query_characters=50,
        text_characters=100,
        region_positions=100,
        listened=2,
    )
    with serving(limits=limits) as served:
        served.http.put("/v1/subscriptions/bool", json=IPAD)
        served.http.put("/v1/subscriptions/top", json=TOP)
        yield served


BODIES: list[tuple[str, str, Any, int, str, str | None]] = [
    # method, path, body, status, kind, field
    ("POST", SUBS, [], 422, "invalid-value", "body"),
    ("POST", SUBS, {}, 422, "missing-field", "query"),
    ("POST", SUBS, {"query": None, "region": None}, 422, "missing-field", "query"),
    ("POST", SUBS, {"filter": "a"}, 422, "missing-field", "top"),
    ("POST", SUBS, IPAD | {"filter": "a"}, 422, "missing-field", "top"),
    ("POST", SUBS, TOP | {"query": None}, 422, "missing-field", "query"),
    ("POST", SUBS, TOP | {"point": None}, 422, "missing-field", "point"),
    ("POST", SUBS, TOP | {"query": "a AND b"}, 422, "invalid-query", "query"),
    ("POST", SUBS, TOP | {"filter": "(a"}, 422, "invalid-query", "filter"),
    ("POST", SUBS, TOP | {"filter": 5}, 422, "invalid-value", "filter"),
    ("POST", SUBS, TOP | {"filter": "x" * 51}, 422, "invalid-value", "filter"),
    ("POST", SUBS, TOP | {"top": {"k": 1}}, 422, "missing-field", "top.alpha"),
    ("POST", SUBS, TOP | {"top": {"k": 0, "alpha": 1}}, 422, "invalid-value", "top.k"),
    ("POST", SUBS, TOP | {"top": BEST | {"scale": 0}}, 422, "invalid-value", "top.scale"),
    ("POST", SUBS, TOP | {"top": BEST | {"scale": "1"}}, 422, "invalid-value", "top.scale"),
    ("POST", SUBS, TOP | {"top": BEST | {"min_score": []}}, 422, "invalid-value", "top.min_score"),
    ("POST", SUBS, IPAD | {"meta": []}, 422, "invalid-value", "meta"),
    ("POST", SUBS, IPAD | {"meta": "x"}, 422, "invalid-value", "meta"),
    ("POST", SUBS, IPAD | {"meta": {"a": "x" * 4089}}, 422, "invalid-value", "meta"),
    ("POST", SUBS, IPAD | {"ttl": 0}, 422, "invalid-value", "ttl"),
    ("POST", SUBS, IPAD | {"ttl": -1}, 422, "invalid-value", "ttl"),
    ("POST", SUBS, IPAD | {"ttl": True}, 422, "invalid-value", "ttl"),
    ("POST", SUBS, IPAD | {"ttl": "9"}, 422, "invalid-value", "ttl"),
    ("POST", SUBS, IPAD | {"ops": []}, 422, "invalid-value", "ops"),
    ("POST", SUBS, IPAD | {"ops": "add"}, 422, "invalid-value", "ops"),
    ("POST", SUBS, IPAD | {"ops": ["add", "stop"]}, 422, "invalid-value", "ops"),
    ("POST", SUBS, IPAD | {"ops": [["add"]]}, 422, "invalid-value", "ops"),
    ("POST", SUBS, IPAD | {"ops": {"add": 1}}, 422, "invalid-value", "ops"),
    ("POST", SUBS, IPAD | {"query": "price:<abc"}, 422, "invalid-query", "query"),
    ("POST", SUBS, IPAD | {"query": "a*b"}, 422, "invalid-query", "query"),
    ("POST", SUBS, IPAD | {"query": '"red wine'}, 422, "invalid-query", "query"),
    ("POST", SUBS, IPAD | {"query": ""}, 422, "invalid-query", "query"),
    ("POST", SUBS, IPAD | {"region": MANY}, 422, "invalid-value", "region.coordinates"),
    ("POST", SUBS, IPAD | {"id": ""}, 422, "invalid-value", "id"),
    ("POST", SUBS, IPAD | {"id": 5}, 422, "invalid-value", "id"),
    ("POST", SUBS, IPAD | {"id": "é" * 128}, 422, "invalid-value", "id"),
    ("POST", SUBS, IPAD | {"query": "(ipad"}, 422, "invalid-query", "query"),
    ("POST", SUBS, IPAD | {"query": "NOT a"}, 422, "invalid-query", "query"),
    ("POST", SUBS, IPAD | {"query": "x" * 51}, 422, "invalid-value", "query"),
    ("POST", SUBS, IPAD | {"query": f"({'x' * 39})"}, 422, "invalid-value", "query"),
    ("POST", SUBS, IPAD | {"region": BIG}, 422, "invalid-value", "region.coordinates"),
    ("POST", SUBS, IPAD | {"region": MANY}, 422, "invalid-value", "region.coordinates"),
    ("POST", SUBS, IPAD | {"region": {"type": "Disc"}}, 422, "invalid-value", "region.type"),
    ("POST", SUBS, IPAD | {"region": "here"}, 422, "invalid-value", "region"),
    ("POST", SUBS, IPAD | {"point": [0, 0]}, 422, "missing-field", "top"),
    ("POST", SUBS, IPAD | {"top": {"k": 1, "alpha": 1}}, 422, "missing-field", "point"),
    ("POST", SUBS, IPAD | {"at": "now"}, 422, "invalid-value", "at"),
    ("POST", SUBS, IPAD | {"at": 1}, 409, "past-time", None),
    ("PUT", f"{SUBS}/top", IPAD, 409, "other-kind", None),
    ("PUT", f"{SUBS}/%FF", IPAD, 422, "invalid-value", "id"),
    ("PATCH", f"{SUBS}/bool", {}, 422, "missing-field", "region"),
    ("PATCH", f"{SUBS}/bool", {"point": [0, 0]}, 409, "other-kind", None),
    ("PATCH", f"{SUBS}/bool", {"region": BOX, "point": [0, 0]}, 409, "other-kind", None),
    ("PATCH", f"{SUBS}/bool", {"ttl": 5}, 422, "missing-field", "region"),
    ("PATCH", f"{SUBS}/bool", {"region": BOX, "ttl": 0}, 422, "invalid-value", "ttl"),
    ("PATCH", f"{SUBS}/bool", {"region": BOX, "query": "a"}, 422, "invalid-value", "query"),
    ("PUT", f"{SUBS}/bool", IPAD | {"id": "other"}, 422, "invalid-value", "id"),
    ("PATCH", f"{SUBS}/none", {"region": BOX}, 404, "unknown-subscription", None),
    ("POST", MESSAGES, {}, 422, "missing-field", "point"),
    ("POST", MESSAGES, SALE | {"text": 5}, 422, "invalid-value", "text"),
    ("POST", MESSAGES, SALE | {"properties": []}, 422, "invalid-value", "properties"),
    ("POST", MESSAGES, SALE | {"properties": "x"}, 422, "invalid-value", "properties"),
    ("POST", MESSAGES, {"region": IPAD["region"]}, 422, "invalid-value", "region"),
    ("POST", MATCH, {}, 422, "missing-field", "point"),
    ("POST", MATCH, SALE | {"point": [0, 91]}, 422, "invalid-value", "point[1]"),
    ("POST", MATCH, SALE | {"at": 1}, 409, "past-time", None),
    ("DELETE", f"{MESSAGES}/none", None, 404, "unknown-message", None),
    ("GET", f"{MESSAGES}/none", None, 404, "unknown-message", None),
    ("GET", f"{MESSAGES}/%FF", None, 422, "invalid-value", "id"),
    ("POST", MESSAGES, {"text": "a"}, 422, "missing-field", "point"),
    ("POST", MESSAGES, SALE | {"point": [0, 91]}, 422, "invalid-value", "point[1]"),
    ("POST", MESSAGES, SALE | {"point": [True, 0]}, 422, "invalid-value", "point[0]"),
    ("POST", MESSAGES, SALE | {"point": "0,0"}, 422, "invalid-value", "point"),
    ("POST", MESSAGES, SALE | {"region": BOX}, 422, "invalid-value", "region"),
    ("POST", MESSAGES, SALE | {"ttl": -1}, 422, "invalid-value", "ttl"),
    ("POST", MESSAGES, SALE | {"ttl": "x"}, 422, "invalid-value", "ttl"),
    ("POST", MESSAGES, SALE | {"text": "x" * 101}, 422, "invalid-value", "text"),
    ("POST", "/v1/queries", {}, 422, "missing-field", "query"),
    ("POST", "/v1/queries", {"query": "a", "top": 5}, 422, "invalid-value", "top"),
    ("PUT", f"{SUBS}/bool/webhook", {}, 422, "invalid-value", "url"),
    ("PUT", f"{SUBS}/bool/webhook", {"url": "ftp://x"}, 422, "invalid-value", "url"),
    ("PUT", f"{SUBS}/bool/webhook", {"url": "http://10.0.0.1/"}, 422, "invalid-value", "url"),
    ("PUT", f"{SUBS}/bool/webhook", {"url": "http://[::1]/"}, 422, "invalid-value", "url"),
    ("PUT", f"{SUBS}/bool/webhook", {"url": "http://u:p@x.org/"}, 422, "invalid-value", "url"),
    (
        "PUT",
        f"{SUBS}/bool/webhook",
        {"url": "https://x.org", "secret": "me"},
        422,
        "invalid-value",
        "secret",
    ),
    ("PUT", f"{SUBS}/none/webhook", {"url": "https://x.org"}, 404, "unknown-subscription", None),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "kind", "field"), BODIES)
def test_bodies(
    server: Served, method: str, path: str, body: Any, status: int, kind: str, field: str | None
) -> None:
    answer = server.http.request(method, path, **({} if body is None else {"json": body}))
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (status, f"urn:nearcast:problem:{kind}")
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem.get("field") == field


REQUESTS: list[tuple[str, str, dict[str, str], bytes, int]] = [
    ("POST", MESSAGES, {"content-type": JSON}, b"", 400),
    ("POST", MESSAGES, {"content-type": JSON}, b"{", 400),
    ("POST", MESSAGES, {"content-type": JSON}, b"\xff", 400),
    ("POST", MESSAGES, {"content-type": JSON}, b'{"a": NaN}', 400),
    ("POST", MESSAGES, {"content-type": JSON}, b"[" * 4999, 400),
    ("POST", MESSAGES, {"content-type": JSON}, b'{"text":"\\ud800","point":[0,0]}', 400),
    ("POST", MESSAGES, {"content-type": JSON}, b" " * 5001, 413),
    ("POST", MESSAGES, {"content-type": "text/plain"}, b"{}", 415),
    ("POST", MESSAGES, {}, b"{}", 415),
    ("POST", "/v1/events", {"content-type": JSON}, b"{}", 415),
    ("POST", "/v1/events?on_error=x", {"content-type": NDJSON}, b"", 422),
    ("POST", "/v1/events?clock=x", {"content-type": NDJSON}, b"", 422),
    ("POST", MESSAGES, {"content-type": JSON, "idempotency-key": "x" * 256}, b"{}", 422),
    ("GET", f"{SUBS}?limit=0", {}, b"", 422),
    ("GET", f"{SUBS}?limit=many", {}, b"", 422),
    ("GET", f"{SUBS}?limit=1001", {}, b"", 422),
    ("GET", f"{SUBS}?after={'x' * 256}", {}, b"", 422),
    ("GET", f"{SUBS}?bbox=1,2,3", {}, b"", 422),
    ("GET", f"{SUBS}?bbox=1,2,3,x", {}, b"", 422),
    ("GET", f"{SUBS}?bbox=0,1,1,0", {}, b"", 422),
    ("GET", f"{SUBS}?bbox=0,0,nan,0", {}, b"", 422),
    ("GET", f"{SUBS}/none", {}, b"", 404),
    ("GET", f"{SUBS}/none/webhook", {}, b"", 404),
    ("DELETE", f"{SUBS}/none/webhook", {}, b"", 404),
    ("DELETE", "/v1/dead-letters/7", {}, b"", 404),
    ("DELETE", "/v1/dead-letters/x", {}, b"", 404),
    ("GET", "/v1/updates?after=-1", {}, b"", 422),
    ("GET", "/v1/updates?after=9999999999999999999999", {}, b"", 422),
    ("GET", "/v1/updates?subscription=", {}, b"", 422),
    ("GET", "/v1/updates?subscription=a&subscription=b&subscription=c", {}, b"", 422),
    ("GET", "/v1/updates", {"last-event-id": "x"}, b"", 422),
    ("GET", "/v1/live?bbox=x", {}, b"", 422),
    ("GET", "/v1/explain", {}, b"", 422),
    ("GET", "/v1/explain?message=taken&subscription=none", {}, b"", 404),
    ("GET", "/v1/explain?message=none&subscription=bool", {}, b"", 404),
    ("GET", "/v1/nothing", {}, b"", 404),
    ("GET", "/nothing.html", {}, b"", 404),
    ("GET", "/../../etc/passwd", {}, b"", 404),
    ("DELETE", MESSAGES, {}, b"", 405),
    ("PUT", SUBS, {}, b"", 405),
    ("POST", f"{SUBS}/bool", {}, b"", 405),
    ("POST", "/healthz", {}, b"", 405),
    ("OPTIONS", SUBS, {}, b"", 405),
]


@pytest.mark.parametrize(("method", "path", "headers", "body", "status"), REQUESTS)
def test_requests(
    server: Served, method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    answer = server.http.request(method, path, headers=headers, content=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_the_position_of_a_trouble_in_a_query(server: Served) -> None:
    answer = server.post(SUBS, IPAD | {"query": "ipad AND (sale"})
    assert answer.json()["position"] == 9


def test_a_method_that_is_not_known_is_told_which_are(server: Served) -> None:
    allowed = server.http.request("OPTIONS", f"{SUBS}/s1").headers["allow"]
    assert allowed == "DELETE, GET, PATCH, PUT"


def test_a_body_without_a_length_is_measured_as_it_comes(server: Served) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(10):
            yield b" " * 1000

    answer = server.http.post(MESSAGES, content=pieces(), headers={"content-type": JSON})
    assert answer.status_code == 413


def test_a_query_is_checked_as_it_is_typed(server: Served) -> None:
    good = server.post("/v1/queries", {"query": "pizza NOT pineapple"}).json()
    assert good == {
        "valid": True,
        "reads": "pizza AND NOT pineapple",
        "terms": ["pineapple", "pizza"],
        "operands": [],
        "hints": [],
    }
    rich = server.post("/v1/queries", {"query": 'pizza or "red wine" NOT price:>9'}).json()
    assert rich["terms"] == ["or", "pizza", "red", "wine"]
    assert rich["operands"] == [
        {"operand": '"red wine"', "means": '"red wine", side by side'},
        {"operand": "price:>9", "means": "price is more than 9"},
    ]
    assert rich["hints"][0].startswith("'or' at position 6")
    bad = server.post("/v1/queries", {"query": "pizza AND"}).json()
    assert (bad["valid"], bad["position"]) == (False, 6)
    top = {"query": "a OR b", "top": {"k": 1, "alpha": 0}}
    assert server.post("/v1/queries", top).json()["valid"] is False
    bag = server.post("/v1/queries", top | {"query": "a or b"}).json()
    assert bag == {
        "valid": True,
        "reads": "a b or",
        "terms": ["a", "b", "or"],
        "operands": [],
        "hints": [],
    }
