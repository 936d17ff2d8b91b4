"""A full disk, or a tenant whose file is damaged: requests are answered, others are served."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import failing_calls
from failing_calls import WRITING, fail_from_now_on
from nearcast.server.keys import KeyStore
from patience import wait_until
from served import IPAD, SALE, serving

HOOK = "/v1/subscriptions/s1/webhook"
TARGET = {"url": "http://127.0.0.1:9/", "secret": "whsec_" + "A" * 32}
OPTIONS: dict[str, Any] = {"private_webhooks": True, "webhook_pause_s": 60.0}


def keys_of(data: Path, *tenants: str) -> dict[str, dict[str, str]]:
    keys = KeyStore(data / "keys.db")
    made = {name: {"authorization": f"Bearer {keys.add(name, tenant=name)}"} for name in tenants}
    keys.close()
    return made


@pytest.mark.parametrize("size", [0, 100, 4096, 20_000])
def test_a_damaged_tenant_is_unavailable_and_the_others_are_served(
    size: int, tmp_path: Path
) -> None:
    keys = keys_of(tmp_path, "acme", "other", "default")
    with serving(tmp_path, open=False, **OPTIONS) as server:
        for key in keys.values():
            server.http.put("/v1/subscriptions/s1", json=IPAD, headers=key)
            assert server.http.put(HOOK, json=TARGET, headers=key).status_code == 200
    path = tmp_path / "tenants" / "acme.nearcast"
    path.write_bytes(path.read_bytes()[:size])
    with serving(tmp_path, open=False, **OPTIONS) as server:
        ready = server.http.get("/readyz")
        assert (ready.status_code, ready.json()) == (
            200,
            {"status": "ready", "unavailable_tenants": 1},
        )
        refused = server.post("/v1/messages", SALE, headers=keys["acme"])
        assert refused.status_code == 503
        assert refused.json()["type"].endswith("tenant-unavailable")
        assert str(tmp_path) not in refused.text
        assert server.post("/v1/messages", SALE, headers=keys["other"]).json()["updates"] == 1
        assert server.http.get(HOOK, headers=keys["other"]).status_code == 200


def test_a_damaged_default_tenant_does_not_stop_the_others(tmp_path: Path) -> None:
    keys = keys_of(tmp_path, "other", "default")
    with serving(tmp_path, open=False) as server:
        for key in keys.values():
            server.http.put("/v1/subscriptions/s1", json=IPAD, headers=key)
    (tmp_path / "tenants" / "default.nearcast").write_bytes(b"no engine")
    with serving(tmp_path, open=False) as server:
        assert server.post("/v1/messages", SALE, headers=keys["other"]).json()["updates"] == 1
        assert server.post("/v1/messages", SALE, headers=keys["default"]).status_code == 503


@pytest.mark.skipif(not failing_calls.SUPPORTED, reason="no filters for system calls here")
def test_on_a_full_disk_every_request_is_answered_and_a_webhook_stays_with_its_subscription(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, **OPTIONS) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.http.put("/v1/subscriptions/s2", json=IPAD)
        assert server.http.put(HOOK, json=TARGET).status_code == 200
        tenant = server.state.tenants.find("default")
        assert tenant is not None
        full = tenant.backend.ask(lambda _: fail_from_now_on(WRITING, errno.ENOSPC))
        wait_until(full.done, "full disk")
        assert server.http.delete("/v1/subscriptions/s1").status_code == 507
        assert server.http.delete(HOOK).status_code == 507
        refused = server.http.put("/v1/subscriptions/s2/webhook", json=TARGET)
        assert (refused.status_code, refused.json()["type"]) == (
            507,
            "urn:nearcast:problem:storage",
        )
        assert server.http.get(HOOK).json()["url"] == TARGET["url"]
        assert server.http.get("/v1/subscriptions/s2/webhook").status_code == 404
    with serving(tmp_path, **OPTIONS) as server:
        assert server.http.get(HOOK).status_code == 200
        assert server.http.delete("/v1/subscriptions/s1").status_code == 204
        assert server.http.put("/v1/subscriptions/s1", json=IPAD).status_code == 201
        assert server.http.get(HOOK).status_code == 404


def test_a_webhook_does_not_outlive_a_batch_that_takes_its_id_again() -> None:
    with serving(**OPTIONS) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.http.put(HOOK, json=TARGET)
        region = '{"type":"Circle","center":[0,0],"radius":5}'
        again = f'{{"op":"subscribe","id":"s1","query":"a","region":{region}}}'
        answer = server.lines("/v1/events", f'{{"op":"unsubscribe","id":"s1"}}\n{again}')
        assert answer.json()["accepted"] == 2
        assert server.http.get(HOOK).status_code == 404


def test_the_webhooks_of_an_earlier_release_move_into_the_files_of_their_tenants(
    tmp_path: Path,
) -> None:
    """Those whose subscriptions are gone are dropped: that was a fault of earlier releases."""
    with serving(tmp_path) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
    path = tmp_path / "webhooks.db"
    before = sqlite3.connect(path)
    before.executescript(
        """
        CREATE TABLE webhooks (
            tenant TEXT NOT NULL, subscription TEXT NOT NULL, url TEXT NOT NULL,
            secret TEXT NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (tenant, subscription)
        ) STRICT;
        CREATE TABLE letters (
            id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL,
            subscription TEXT NOT NULL, update_id INTEGER NOT NULL, body BLOB NOT NULL,
            error TEXT NOT NULL, at REAL NOT NULL
        ) STRICT;
        INSERT INTO webhooks VALUES ('default', 's1', 'http://127.0.0.1:9/', 'whsec_AAAA', 7);
        INSERT INTO webhooks VALUES ('default', 'gone', 'http://127.0.0.1:9/', 'whsec_AAAA', 7);
        INSERT INTO letters VALUES (5, 'default', 's1', 3, x'7b7d', 'answered 500', 1.0);
        """
    )
    before.close()
    for _ in range(2):
        with serving(tmp_path, **OPTIONS) as server:
            assert server.http.get(HOOK).json()["after"] == 7
            assert server.http.get("/v1/subscriptions/gone/webhook").status_code == 404
            letters = server.http.get("/v1/dead-letters").json()["letters"]
            assert [(each["id"], each["update"]) for each in letters] == [(5, 3)]
        assert not path.exists()
