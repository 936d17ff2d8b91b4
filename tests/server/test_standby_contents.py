"""What besides events goes to a standby: webhooks, answers, terms, new tenants; and with keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from nearcast.server.keys import KeyStore
from nearcast.server.standby.follower import Follower, Place
from patience import PATIENCE_S, wait_until
from served import IPAD, SALE
from server_pair import PairedServer, in_step, pair
from webhook_receiver import receiving

PEM = Path(__file__).parents[1] / "helpers" / "certificates"


def test_webhooks_go_on_after_a_promotion(tmp_path: Path) -> None:
    """The primary posts what it has delivered once; the standby posts only after a promotion."""
    with receiving() as receiver, pair(tmp_path, "--allow-private-webhooks") as (one, two):
        one.http.put("/v1/subscriptions/s1", json=IPAD)
        one.http.put("/v1/subscriptions/s2", json=IPAD)
        for name in ("s1", "s2"):
            path = f"/v1/subscriptions/{name}/webhook"
            assert one.http.put(path, json={"url": receiver.url}).status_code == 200
        one.http.delete("/v1/subscriptions/s2/webhook")
        one.post("/v1/messages", SALE | {"id": "m1"})
        receiver.wait_for(1)
        path = "/v1/subscriptions/s1/webhook"
        wait_until(lambda: two.http.get(path).json().get("after") == 1, "place of the webhook")
        assert two.http.get("/v1/subscriptions/s2/webhook").status_code == 404
        two.kill()
        two.start("--follow", one.url, "--allow-private-webhooks")
        in_step(one, two)
        two.http.post("/v1/promote")
        two.post("/v1/messages", SALE | {"id": "m2"})
        posts = receiver.wait_for(2)
        assert [post["data"]["message"] for post in posts] == ["m1", "m2"]


def test_a_repeated_request_gets_its_answer_from_the_promoted_standby(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        key = {"idempotency-key": "one"}
        first = primary.http.post("/v1/messages", json=SALE, headers=key)
        in_step(primary, standby)
        primary.kill()
        standby.http.post("/v1/promote")
        again = standby.http.post("/v1/messages", json=SALE, headers=key)
        assert again.content == first.content
        assert len(standby.updates()) == 1


def test_pairs_with_keys_and_new_tenants(tmp_path: Path) -> None:
    """A tenant that is made later follows too; the key of the standby is never an argument."""
    one, two = PairedServer(tmp_path, "one"), PairedServer(tmp_path, "two")
    one.data.mkdir()
    two.data.mkdir()
    keys, copied = KeyStore(one.data / "keys.db"), KeyStore(two.data / "keys.db")
    admin = keys.add("standby", scopes=["admin"])
    acme = keys.add("acme", tenant="acme", scopes=["publish", "subscribe"])
    other = keys.add("other", tenant="acme", scopes=["admin"])
    reader = copied.add("acme", tenant="acme", scopes=["subscribe"])
    copied.add("operator", scopes=["admin"])
    secret = tmp_path / "key.txt"
    secret.write_text(f"{admin}\n")
    try:
        one.begin("--require-key")
        two.start("--require-key", "--follow", one.url, "--follow-key-file", str(secret))
        one.wait_until_ready()
        wrong = one.http.get("/v1/replication", headers={"authorization": f"Bearer {other}"})
        assert wrong.status_code == 403, "it is about all tenants"
        with httpx.Client(base_url=one.url, timeout=PATIENCE_S) as client:
            client.headers["authorization"] = f"Bearer {acme}"
            client.put("/v1/subscriptions/s1", json=IPAD)
        path, key = "/v1/subscriptions", {"authorization": f"Bearer {reader}"}

        def there() -> bool:
            found = two.http.get(path, headers=key)
            return found.status_code == 200 and len(found.json()["subscriptions"]) == 1

        wait_until(there, "tenant on the standby")
        two.kill()
        two.start("--require-key", "--follow", one.url, NEARCAST_SERVE_FOLLOW_KEY=admin)
        wait_until(lambda: two.ready()["connected"], "connection")
        assert there()
    finally:
        one.end()
        two.end()


def test_a_standby_follows_over_tls(tmp_path: Path) -> None:
    """The certificate of the primary is checked against an authority that the system knows."""
    one, two = PairedServer(tmp_path, "one"), PairedServer(tmp_path, "two")
    certificate = str(PEM / "first.pem")
    primary = one.url.replace("http:", "https:")
    try:
        one.begin("--certificate", certificate, "--private-key", str(PEM / "first.key.pem"))
        two.begin("--follow", primary)
        two.wait_for_log("CERTIFICATE_VERIFY_FAILED")
        two.kill()
        two.start("--follow", primary, SSL_CERT_FILE=certificate)
        wait_until(lambda: two.ready()["connected"], "connection")
    finally:
        one.end()
        two.end()


def test_a_tenant_that_is_not_copied_yet_is_not_caught_up() -> None:
    """It has no commits that are counted, so that any standby would be as far."""
    follower = object.__new__(Follower)
    follower.places = {"red": Place()}
    assert not asyncio.run(follower.reach({"red": 0}, 0.0))
    follower.places["red"].note(own=1)
    assert asyncio.run(follower.reach({"red": 0}, 0.0))
    assert not asyncio.run(follower.reach({"red": 2}, 0.0))
