"""What can be seen from outside: metrics, explanations, health, and the page about it all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nearcast.cli import serve as serve_module
from nearcast.server.app import NOUNS
from nearcast.server.config import Config
from nearcast.server.state import ServerState
from served import IPAD, SALE, Served, serving

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "server.md").read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving(index="rarest-term") as served:
        served.http.put("/v1/subscriptions/s1", json=IPAD | {"query": "ipad NOT broken"})
        yield served


def test_metrics_count_what_happened(server: Served) -> None:
    server.post("/v1/messages", SALE)
    families = {
        family.name: family
        for family in text_string_to_metric_families(server.http.get("/metrics").text)
    }
    values = {name: found.samples[0].value for name, found in families.items() if found.samples}
    assert values["nearcast_publishes"] >= 1
    assert values["nearcast_updates"] >= 1
    assert values["nearcast_subscriptions"] == 1
    assert values["nearcast_index_bytes"] > 0
    assert values["nearcast_candidates"] >= 1
    assert values["nearcast_ready"] == 1
    assert all(family.documentation for family in families.values())
    routes = {sample.labels["route"] for sample in families["nearcast_request_seconds"].samples}
    assert "/v1/messages" in routes


def test_every_metric_route_and_option_is_on_the_page() -> None:
    state = ServerState(Config())
    for family in state.metrics.registry.collect():
        assert f"`{family.name}`" in PAGE, family.name
    for noun in NOUNS:
        for route in noun.routes:
            assert f"`{route.path}`" in PAGE, route.path
    for name in serve_module.serve_command.__annotations__:
        if name != "return":
            assert f"`--{name.replace('_', '-')}`" in PAGE, name


def test_why_a_message_is_for_a_subscription(server: Served) -> None:
    server.post("/v1/messages", SALE | {"id": "yes", "text": "iPad sale", "ttl": 600})
    server.post("/v1/messages", SALE | {"id": "no", "text": "broken iPad", "point": [0, 0]})
    path = "/v1/explain?subscription=s1&message="
    yes, no = (server.http.get(path + id).json() for id in ("yes", "no"))
    assert (yes["matches"], yes["result"]) == (True, True)
    assert yes["text"]["alternatives"] == [
        {
            "required": [{"term": "ipad", "found": True}],
            "excluded": [{"term": "broken", "found": False}],
            "having": [],
            "lacking": [],
            "found_by": "terms",
            "rarest_of": ["ipad"],
        }
    ]
    assert yes["space"]["distance_m"] == 0.0
    assert (no["matches"], no["text"]["matches"], no["space"]["matches"]) == (False, False, False)
    assert no["text"]["alternatives"][0]["excluded"] == [{"term": "broken", "found": True}]
    assert no["space"]["distance_m"] > 2000


def test_every_operand_is_explained() -> None:
    with serving(index="rarest-term") as server:
        query = {"query": 'ipad "new ipad" NOT "ipad sale"'}
        server.http.put("/v1/subscriptions/s1", json=IPAD | query)
        server.post("/v1/messages", SALE | {"id": "m", "text": "a new iPad, on sale", "ttl": 600})
        found = server.http.get("/v1/explain?subscription=s1&message=m").json()
    (alternative,) = found["text"]["alternatives"]
    assert found["text"]["matches"]
    assert alternative["having"] == [
        {"operand": '"new ipad"', "means": '"new ipad", side by side', "holds": True}
    ]
    assert alternative["rarest_of"] == ["ipad", "new", '"new ipad"']
    assert alternative["lacking"] == [
        {"operand": '"ipad sale"', "means": '"ipad sale", side by side', "holds": False}
    ]


def test_what_has_ended_by_the_clock_is_not_explained_or_shown() -> None:
    """The engine learns of the time with its next event."""
    now = [1000.0]
    with serving(clock=lambda: now[0]) as server:
        server.http.put("/v1/subscriptions/short", json=IPAD | {"ttl": 10})
        server.http.put("/v1/subscriptions/long", json=IPAD)
        server.post("/v1/messages", SALE | {"id": "m", "ttl": 20})
        found = []
        for at in (1009.0, 1010.0, 1020.0):
            now[0] = at
            for id in ("short", "long"):
                path = f"/v1/explain?message=m&subscription={id}"
                found.append(server.http.get(path).status_code)
        shown = server.http.get("/v1/map/subscriptions?id=short&id=long").json()["subscriptions"]
        messages = server.http.get("/v1/map/messages?id=m").json()["messages"]
        hook = {"url": "https://example.org/hook"}
        posted = server.http.put("/v1/subscriptions/short/webhook", json=hook)
    assert found == [200, 200, 404, 200, 404, 404]
    assert [each["id"] for each in shown] == ["long"]
    assert messages == []
    assert posted.status_code == 404


@pytest.mark.parametrize("index", ["auto", "rarest-term"])
def test_what_no_term_narrows_down_is_said_and_counted(index: str) -> None:
    """A geofence is found by its place alone, any value by the name of its property."""
    with serving(index=index) as server:
        circle = {"type": "Circle", "center": [0, 0], "radius": 1000}
        server.http.put("/v1/subscriptions/fence", json={"region": circle})
        server.http.put("/v1/subscriptions/priced", json={"query": "price:*", "region": circle})
        server.http.put("/v1/subscriptions/cheap", json={"query": "price:<5", "region": circle})
        sent = {"id": "m", "point": [0, 0], "properties": {"price": 2}, "ttl": 600}
        server.post("/v1/messages", sent)
        found = [
            server.http.get(f"/v1/explain?subscription={id}&message=m").json()
            for id in ("fence", "priced", "cheap")
        ]
        values = server.http.get("/metrics").text
    alternatives = [each["text"]["alternatives"][0]["found_by"] for each in found]
    assert alternatives == ["place", "property", "range"]
    assert 'nearcast_broad_alternatives{found_by="place"} 1.0' in values
    assert 'nearcast_broad_alternatives{found_by="property"} 1.0' in values


def test_what_a_score_is_made_of() -> None:
    with serving() as server:
        top = {"query": "jazz blues", "point": [0, 0], "top": {"k": 1, "alpha": 0.5}}
        server.http.put("/v1/subscriptions/fan", json=top)
        server.post("/v1/messages", {"id": "m1", "text": "jazz", "point": [0, 0]})
        server.post("/v1/messages", {"id": "m2", "text": "rock", "point": [0, 0]})
        server.post("/v1/messages", {"id": "m3", "text": "jazz", "point": [9, 0]})
        path = "/v1/explain?subscription=fan&message="
        best, other, far = (server.http.get(path + id).json() for id in ("m1", "m2", "m3"))
    assert best["result"] is True
    assert best["top"]["score"] == pytest.approx(0.5 + 0.5 * 0.5**0.5)
    assert best["top"]["nearness"] == 1.0
    assert (other["matches"], other["top"]["score"]) == (False, None)
    assert (far["matches"], far["result"]) == (True, False)


def test_ready_only_when_it_can_work(server: Served) -> None:
    assert server.http.get("/healthz").json() == {"status": "ok"}
    assert server.http.get("/readyz").json() == {"status": "ready"}
    server.state.ready = False
    try:
        waiting = server.http.get("/readyz")
        assert (waiting.status_code, waiting.headers["retry-after"]) == (503, "1")
        assert server.http.get("/healthz").status_code == 200
    finally:
        server.state.ready = True
