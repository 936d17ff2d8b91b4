"""With `--ack replicated` an answer means that the standby has it too."""

from __future__ import annotations

import signal
from pathlib import Path

from served import IPAD, SALE, Ear
from server_pair import in_step, pair

ACK = ("--ack", "replicated")


def test_without_a_standby_nothing_is_changed(tmp_path: Path) -> None:
    with pair(tmp_path, *ACK) as (primary, standby):
        assert primary.http.put("/v1/subscriptions/s1", json=IPAD).status_code == 201
        assert primary.post("/v1/messages", SALE).json()["updates"] == 1
        assert len(standby.updates()) == 1, "it was there before the answer"
        standby.kill()
        refused = primary.post("/v1/messages", SALE)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["type"].endswith(("no-standby", "not-replicated"))
        again = primary.post("/v1/messages", SALE)
        assert again.json()["type"].endswith("no-standby")
        before = len(primary.updates())
        standby.start("--follow", primary.url)
        assert primary.post("/v1/messages", SALE).json()["updates"] == 1
        assert len(standby.updates()) == before + 1


def test_what_was_not_confirmed_is_neither_acknowledged_nor_delivered(tmp_path: Path) -> None:
    """It is committed here, and is answered under its key when the standby has it."""
    with pair(tmp_path, *ACK) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        key = {"idempotency-key": "one"}
        with Ear(primary.port, "/v1/updates") as ear:
            ear.place()
            standby.signal(signal.SIGSTOP)
            refused = primary.http.post("/v1/messages", json=SALE, headers=key)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "Idempotency-Key" in refused.json()["detail"]
            assert primary.updates() == [], "not even to those who listen"
            standby.signal(signal.SIGCONT)
            assert ear.event()["id"] == "1"
        answer = primary.http.post("/v1/messages", json=SALE, headers=key)
        assert answer.json()["updates"] == 1
        in_step(primary, standby)
        assert [each["id"] for each in standby.updates()] == [1]


def test_what_was_never_confirmed_is_not_delivered_after_a_restart(tmp_path: Path) -> None:
    """The old primary has it in its file, and another was promoted: nobody hears of it."""
    with pair(tmp_path, *ACK) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        standby.signal(signal.SIGSTOP)
        assert primary.post("/v1/messages", SALE).status_code == 503
        primary.kill()
        standby.kill()
        primary.start(*ACK)
        for path in ("/v1/updates?after=0", "/v1/updates"):
            with Ear(primary.port, path) as ear:
                assert ear.status == 503
        standby.start("--follow", primary.url)
        in_step(primary, standby)
        assert [each["id"] for each in primary.updates()] == [1], "now both have it"
