"""Webhooks: signed, in order, tried again, given up, replayed, and never sent inside."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from nearcast.server.addresses import ForbiddenAddress, check_url, is_public
from nearcast.server.webhook_posts import WebhookPosts
from nearcast.store.webhooks import Webhook as StoredWebhook
from nearcast.store.webhooks import webhooks_in_memory
from patience import PATIENCE_S
from served import IPAD, SALE, Served, serving
from webhook_receiver import Receiver, receiving

HOOK = "/v1/subscriptions/s1/webhook"
OPTIONS: dict[str, Any] = {
    "lead_s": float("inf"),
    "private_webhooks": True,
    "webhook_attempts": 3,
    "webhook_pause_s": 0.001,
}


def put(server: Served, receiver: Receiver, **more: Any) -> dict[str, Any]:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    answer = server.http.put(HOOK, json={"url": receiver.url, **more})
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_an_update_is_posted_and_signed() -> None:
    with receiving() as receiver, serving(**OPTIONS) as server:
        secret = put(server, receiver)["secret"]
        assert "secret" not in server.http.get(HOOK).json()
        server.post("/v1/messages", SALE | {"id": "m1", "at": 2e9})
        receiver.wait_for(1)
        headers, body = receiver.got[0]
        verified: Any = Webhook(secret).verify(body, headers)
        assert verified == {
            "type": "update.add",
            "id": 1,
            "timestamp": 2e9,
            "data": {
                "op": "add",
                "subscription": "s1",
                "message": "m1",
                "body": SALE | {"at": 2e9},
            },
        }
        assert headers["webhook-id"] == "default-s1-1"


def test_what_fails_is_tried_again_and_order_is_kept() -> None:
    with receiving() as receiver, serving(**OPTIONS) as server:
        receiver.answers = [500, 302, 200, 503]
        put(server, receiver)
        for number in range(3):
            server.post("/v1/messages", SALE | {"id": f"m{number}"})
        bodies = receiver.wait_for(6)
        assert [body["data"]["message"] for body in bodies] == ["m0", "m0", "m0", "m1", "m1", "m2"]
        ids = [headers["webhook-id"] for headers, _ in receiver.got]
        assert len(set(ids)) == 3


def test_what_is_given_up_becomes_a_dead_letter_that_can_be_replayed() -> None:
    with receiving() as receiver, serving(**OPTIONS) as server:
        receiver.answers = [500] * 3
        put(server, receiver)
        server.post("/v1/messages", SALE | {"id": "m1"})
        server.post("/v1/messages", SALE | {"id": "m2"})
        receiver.wait_for(4)
        letters = server.http.get("/v1/dead-letters").json()["letters"]
        assert [(each["update"], each["error"]) for each in letters] == [(1, "answered 500")]
        assert letters[0]["body"]["data"]["message"] == "m1"
        receiver.answers = [500]
        assert server.http.post("/v1/dead-letters/replay").json() == {"replayed": 0}
        assert server.http.post("/v1/dead-letters/replay").json() == {"replayed": 1}
        assert server.http.get("/v1/dead-letters").json() == {"letters": [], "next": None}
        assert receiver.got[-1][1] == receiver.got[0][1]


def test_dead_letters_come_in_pages_and_can_be_thrown_away() -> None:
    with receiving() as receiver, serving(**OPTIONS | {"webhook_attempts": 1}) as server:
        receiver.answers = [500] * 3
        put(server, receiver)
        for _ in range(4):
            server.post("/v1/messages", SALE)
        receiver.wait_for(4)
        page = server.http.get("/v1/dead-letters?limit=2").json()
        assert [each["update"] for each in page["letters"]] == [1, 2]
        rest = server.http.get(f"/v1/dead-letters?after={page['next']}").json()
        assert [each["update"] for each in rest["letters"]] == [3]
        gone = f"/v1/dead-letters/{rest['letters'][0]['id']}"
        assert [server.http.delete(gone).status_code for _ in range(2)] == [204, 404]


def test_after_a_restart_it_goes_on_where_it_was(tmp_path: Path) -> None:
    with receiving() as receiver:
        with serving(tmp_path, **OPTIONS) as server:
            put(server, receiver)
            server.post("/v1/messages", SALE | {"id": "m1"})
            receiver.wait_for(1)
            url = receiver.url
            server.http.put(HOOK, json={"url": "http://127.0.0.1:9/", "after": 1})
            server.post("/v1/messages", SALE | {"id": "m2"})
        with serving(tmp_path, **OPTIONS | {"webhook_pause_s": 60.0}) as server:
            server.http.put(HOOK, json={"url": url, "after": 1})
            assert receiver.wait_for(2)[1]["data"]["message"] == "m2"
        with serving(tmp_path, **OPTIONS) as server:
            server.post("/v1/messages", SALE | {"id": "m3"})
            bodies = receiver.wait_for(3)
            assert [body["data"]["message"] for body in bodies] == ["m1", "m2", "m3"]


@pytest.mark.parametrize("kept", [False, True])
def test_a_webhook_goes_with_a_subscription_that_ends_by_itself(kept: bool, tmp_path: Path) -> None:
    """Who takes its id next is not reported to the old address."""
    now = [1e9]
    data = tmp_path if kept else None
    with receiving() as receiver, serving(data, clock=lambda: now[0], **OPTIONS) as server:
        server.http.put("/v1/subscriptions/s2", json=IPAD)
        server.http.put(HOOK.replace("s1", "s2"), json={"url": receiver.url})
        server.http.put("/v1/subscriptions/s1", json=IPAD | {"ttl": 10})
        assert server.http.put(HOOK, json={"url": receiver.url}).status_code == 200
        now[0] += 20
        assert server.http.put("/v1/subscriptions/s1", json=IPAD).status_code == 201
        assert server.http.get(HOOK).status_code == 404
        assert list(server.state.dispatcher._tasks) == [("default", "s2")]
        for number in range(3):
            server.post("/v1/messages", SALE | {"id": f"m{number}"})
        got = receiver.wait_for(3)
        assert {each["data"]["subscription"] for each in got} == {"s2"}


def test_a_replaced_webhook_moves_the_place_of_no_other() -> None:
    """What it delivered is written late: the one that took its place begins where it was told."""
    hooks = webhooks_in_memory()
    old, new = (StoredWebhook("s1", f"http://{name}.example", name, 0) for name in ("old", "new"))
    hooks.put(old)
    hooks.reach([(old, 3)])
    assert hooks.find("s1") == replace(old, place=3)
    hooks.put(new)
    hooks.reach([(old, 7)])
    hooks.give_up(old, 8, b"{}", "no answer", 0.0)
    assert hooks.find("s1") == new
    hooks.give_up(new, 2, b"{}", "no answer", 0.0)
    assert hooks.find("s1") == replace(new, place=2)


def test_a_webhook_goes_with_its_subscription() -> None:
    with receiving() as receiver, serving(**OPTIONS) as server:
        put(server, receiver)
        server.lines("/v1/events", '{"op":"unsubscribe","id":"s1","at":1}')  # refused: the past
        assert server.http.get(HOOK).status_code == 200
        server.http.delete("/v1/subscriptions/s1")
        assert server.http.get(HOOK).status_code == 404
        put(server, receiver)
        assert server.http.delete(HOOK).status_code == 204
        server.post("/v1/messages", SALE)
        assert receiver.got == []


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "100.64.0.1", "224.0.0.1"),
        *("::1", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "2002:7f00:1::"),
        *("64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::7f00:1", "::127.0.0.1"),
        *("::ffff:0:127.0.0.1", "fec0::1", "::", "ff02::1", "5f00::1"),
    ],
)
def test_addresses_inside(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2a00:1450:4001::1", "64:ff9b::93.184.216.34"]
)
def test_addresses_outside(address: str) -> None:
    assert is_public(address)


async def _inside(host: str, port: int) -> list[str]:
    del host, port
    return ["93.184.216.34", "10.0.0.1"]


def test_a_name_that_leads_inside_is_not_called() -> None:
    posts = WebhookPosts(private=False, deadline_s=PATIENCE_S, resolve=_inside)
    with pytest.raises(ForbiddenAddress, match="private address"):
        asyncio.run(posts.post("https://x.org/hook", {}, b""))


def test_addresses_are_checked_as_far_as_they_can_be() -> None:
    assert check_url("https://x.org/hook", private=False)
    assert check_url("http://10.0.0.1/", private=True)
