"""Quotas of a tenant: what is above one is refused with its name, and never happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from nearcast.engine import Engine
from nearcast.errors import InvalidValue
from nearcast.events import Event, Message, Publish, Retract, Subscribe, Subscription, Unsubscribe
from nearcast.geo import Box
from nearcast.server.keys import KeyStore
from nearcast.server.problems import QuotaError
from nearcast.server.quotas import KINDS, TenantQuotas, read_quotas
from patience import wait_until
from served import IPAD, SALE, Ear, Served, serving

EVERYWHERE = Box(-10, -10, 10, 10)


def refusal(answer: httpx.Response, status: int, quota: str, limit: float) -> None:
    """Check that a request was refused because of a quota."""
    found = answer.json()
    assert answer.status_code == found["status"] == status, answer.text
    assert found["type"] == "urn:nearcast:problem:quota-exceeded"
    assert (found["quota"], found["limit"]) == (quota, limit)
    assert f"--quota default:{quota}=N" in found["detail"]
    assert (status == 429) == ("retry-after" in answer.headers)


def metric(served: Served, name: str, quota: str) -> float:
    """A metric of a quota of the tenant `default`."""
    for family in text_string_to_metric_families(served.http.get("/metrics").text):
        for sample in family.samples:
            if sample.name == name and sample.labels == {"tenant": "default", "quota": quota}:
                return sample.value
    raise AssertionError(name)


def limited(*given: str, **more: Any) -> Any:
    """A server with quotas."""
    return serving(quotas=read_quotas(given), **more)


def test_subscriptions_above_the_quota_are_refused_and_never_happened() -> None:
    with limited("subscriptions=2") as server:
        for name in ("s1", "s2"):
            assert server.http.put(f"/v1/subscriptions/{name}", json=IPAD).status_code == 201
        refusal(server.http.put("/v1/subscriptions/s3", json=IPAD), 507, "subscriptions", 2)
        assert server.http.get("/v1/subscriptions/s3").status_code == 404
        assert server.http.put("/v1/subscriptions/s1", json=IPAD).status_code == 200, "replaced"
        lines = "\n".join(msgspec.json.encode(IPAD | {"id": id}).decode() for id in ("s2", "s4"))
        bulk = server.lines("/v1/subscriptions", lines).json()
        assert (bulk["accepted"], bulk["refused"]) == (1, 1)
        assert bulk["errors"][0]["type"].endswith("quota-exceeded")
        assert server.http.delete("/v1/subscriptions/s1").status_code == 204
        assert server.http.put("/v1/subscriptions/s3", json=IPAD).status_code == 201
        assert metric(server, "nearcast_quota_limit", "subscriptions") == 2
        assert metric(server, "nearcast_quota_used", "subscriptions") == 2
        assert metric(server, "nearcast_quota_refused_total", "subscriptions") == 2


def test_a_refused_request_under_an_idempotency_key_may_be_tried_again() -> None:
    key = {"idempotency-key": "one"}
    with limited("messages=1") as server:
        server.post("/v1/messages", SALE | {"id": "m1", "ttl": 600})
        second = SALE | {"id": "m2", "ttl": 600}
        refusal(server.post("/v1/messages", second, headers=key), 507, "messages", 1)
        assert server.post("/v1/messages", SALE).status_code == 200, "it does not last"
        assert server.http.delete("/v1/messages/m1").status_code == 200
        assert server.post("/v1/messages", second, headers=key).status_code == 200


def test_what_has_ended_makes_room() -> None:
    now = 1000.0
    with limited("messages=1", "subscriptions=1", clock=lambda: now) as server:
        assert server.post("/v1/messages", SALE | {"ttl": 10}).status_code == 200
        assert server.http.put("/v1/subscriptions/s1", json=IPAD | {"ttl": 10}).status_code == 201
        assert server.post("/v1/messages", SALE | {"ttl": 10}).status_code == 507
        assert server.http.put("/v1/subscriptions/s2", json=IPAD).status_code == 507
        now = 1010.0
        assert server.http.put("/v1/subscriptions/s2", json=IPAD).status_code == 201
        assert server.post("/v1/messages", SALE | {"ttl": 10}).status_code == 200


def test_listeners_of_every_kind_count() -> None:
    with limited("listeners=2") as server:
        address = f"ws://127.0.0.1:{server.port}/v1/updates/ws"
        with Ear(server.port, "/v1/updates"), Ear(server.port, "/v1/live"):
            refusal(server.http.get("/v1/updates"), 429, "listeners", 2)
            with pytest.raises(InvalidStatus) as refused, connect(address):
                pass
            assert refused.value.response.status_code == 429
        wait_until(lambda: server.state.listeners() == 0, "listeners that have left")
        with connect(address) as socket:
            assert msgspec.json.decode(socket.recv())["type"] == "hello"


def test_webhooks_above_the_quota_are_refused() -> None:
    with limited("webhooks=1", private_webhooks=True) as server:
        for name in ("s1", "s2"):
            server.http.put(f"/v1/subscriptions/{name}", json=IPAD)
        hook = {"url": "http://127.0.0.1:9/hook"}
        assert server.http.put("/v1/subscriptions/s1/webhook", json=hook).status_code == 200
        assert server.http.put("/v1/subscriptions/s1/webhook", json=hook).status_code == 200
        refusal(server.http.put("/v1/subscriptions/s2/webhook", json=hook), 507, "webhooks", 1)
        assert server.http.get("/v1/subscriptions/s2/webhook").status_code == 404
        assert metric(server, "nearcast_quota_used", "webhooks") == 1


def test_a_full_tenant_may_make_room(tmp_path: Path) -> None:
    now = 1000.0
    with limited("bytes=300000", data=tmp_path, clock=lambda: now) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        long = SALE | {"text": "iPad " * 10_000}
        sent = 0
        while (answer := server.post("/v1/messages", long | {"id": "m", "ttl": 60})).is_success:
            server.post("/v1/messages", long | {"id": f"m{sent}", "ttl": 60})
            sent += 1
            assert sent < 100
        refusal(answer, 507, "bytes", 300_000)
        refusal(server.http.put("/v1/subscriptions/s2", json=IPAD), 507, "bytes", 300_000)
        before = server.updates()
        assert metric(server, "nearcast_quota_used", "bytes") >= 300_000
        assert server.http.delete("/v1/messages/m0").status_code == 200, "it frees something"
        assert len(server.updates()) == len(before) + 1
        now = 1100.0
        assert server.post("/v1/messages", SALE).status_code == 200, "its time ends messages"


def test_the_rate_of_a_tenant_is_that_of_all_its_keys(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "keys.db")
    tokens = [keys.add(name, tenant="acme", rate=1000) for name in ("one", "two")]
    tokens.append(keys.add("other", tenant="other"))
    keys.close()
    one, two, other = ({"authorization": f"Bearer {token}"} for token in tokens)
    quotas = read_quotas(["acme:events=0.001"])  # one at once, and none for a while
    with serving(tmp_path, open=False, quotas=quotas) as server:
        assert server.post("/v1/messages", SALE, headers=one).status_code == 200
        for key in (one, two):
            found = server.post("/v1/messages", SALE, headers=key)
            assert (found.status_code, found.json()["quota"]) == (429, "events")
            assert int(found.headers["retry-after"]) > 1
        for _ in range(3):
            assert server.post("/v1/messages", SALE, headers=other).status_code == 200


@pytest.mark.parametrize(
    "given",
    ["subscriptions", "subscriptions=many", "people=3", "bytes=-1", "events=0", "../x:bytes=1"],
)
def test_a_quota_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(InvalidValue):
        read_quotas([given])


def test_a_tenant_may_have_other_quotas_than_all() -> None:
    quotas = read_quotas(["subscriptions=5", "bytes=1e9", "acme:subscriptions=7"])
    assert quotas.limits("acme") == {"subscriptions": 7, "bytes": 1e9}
    assert quotas.limits("other") == {"subscriptions": 5, "bytes": 1e9}
    assert set(KINDS) == {"subscriptions", "messages", "listeners", "webhooks", "bytes", "events"}


ids = st.sampled_from("abcdef")
ends = st.sampled_from([0.0, 1.0, 3.0, 1000.0])


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Events whose times grow, of few ids."""
    events: list[Event] = []
    at = 0.0
    for _ in range(draw(st.integers(1, 40))):
        at += draw(st.sampled_from([0.0, 0.0, 1.0, 2.0]))
        id, ttl = draw(ids), draw(ends)
        match draw(st.sampled_from(["subscribe", "publish", "publish", "end", "retract"])):
            case "subscribe":
                one = Subscription(id, None, EVERYWHERE, ttl=ttl or None)
                events.append(Subscribe(one, at))
            case "publish":
                events.append(Publish(Message(id, "x", (0.0, 0.0), at=at, ttl=ttl)))
            case "end":
                events.append(Unsubscribe(id, at))
            case _:
                events.append(Retract(id, at))
    return events


@settings(max_examples=40)
@given(events=logs(), most=st.integers(0, 3), size=st.integers(1, 40))
@pytest.mark.parametrize("index", ["scan", "rarest-term"])
def test_refused_exactly_if_one_more_would_be_too_many(
    index: str, events: list[Event], most: int, size: int
) -> None:
    """Whatever the batches: the accepted events alone have the same updates, and fit."""
    quotas = TenantQuotas("t", {"subscriptions": most, "messages": most}, lambda: 0.0)
    engine, alone = Engine(index=index), Engine(index="scan")
    for start in range(0, len(events), size):
        batch = events[start : start + size]
        outcomes = engine.apply_all(batch, admission=quotas.admission(engine))
        for event, outcome in zip(batch, outcomes, strict=True):
            at, core = event.at or 0.0, alone._ready()
            if isinstance(outcome.error, QuotaError):
                kind = outcome.error.quota
                living = [one.id for one in alone.subscriptions() if alone.lives(one.id, at)]
                if kind == "subscriptions":
                    assert isinstance(event, Subscribe)
                    assert len(living) == most
                    assert event.subscription.id not in living
                else:
                    assert isinstance(event, Publish)
                    assert core.active.living(at) == most
                    assert not core.active.has(event.message.id, at)
                continue
            (expected,) = alone.apply_all([event])
            assert (expected.error is None) == (outcome.error is None)
            assert list(expected.updates) == list(outcome.updates)
            assert len(alone) <= most
            assert core.active.living(at) <= most
