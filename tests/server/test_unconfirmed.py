"""What a standby confirms after the answer was given: it happens then, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from late_standby import LateStandby, late_standby
from served import IPAD, NDJSON, SALE, Ear, Served, serving
from webhook_receiver import receiving

HOOK = "/v1/subscriptions/s1/webhook"
WITHIN_S = 0.2


@contextmanager
def followed(folder: Path) -> Iterator[tuple[Served, LateStandby]]:
    """A primary with a subscription, whose standby has that."""
    with (
        serving(folder / "data", confirmed_within_s=WITHIN_S, private_webhooks=True) as primary,
        late_standby(primary, folder) as standby,
    ):
        late = primary.http.put("/v1/subscriptions/s1", json=IPAD)
        assert late.json()["type"].endswith("not-replicated")
        standby.confirm(standby.receive())
        yield primary, standby


def test_a_webhook_is_delivered_once_it_is_confirmed(tmp_path: Path) -> None:
    with followed(tmp_path) as (primary, standby), receiving() as receiver:
        late = primary.http.put(HOOK, json={"url": receiver.url})
        assert (late.status_code, late.headers["retry-after"]) == (503, "1")
        standby.confirm(standby.receive())
        assert primary.post("/v1/messages", SALE).status_code == 503
        standby.confirm(standby.receive())
        assert [each["id"] for each in receiver.wait_for(1)] == [1]


def test_a_webhook_is_removed_once_that_is_confirmed(tmp_path: Path) -> None:
    with followed(tmp_path) as (primary, standby), receiving() as receiver:
        primary.http.put("/v1/subscriptions/s2", json=IPAD)
        for path in (HOOK, HOOK.replace("s1", "s2")):
            primary.http.put(path, json={"url": receiver.url})
        assert primary.http.delete(HOOK).status_code == 503
        position = standby.receive()
        standby.confirm(position)
        standby.confirm(standby.receive())
        for _ in range(2):
            primary.post("/v1/messages", SALE)
        standby.confirm(standby.receive())
        standby.confirm(standby.receive())
        posted = receiver.wait_for(2)
        assert [each["data"]["subscription"] for each in posted] == ["s2", "s2"]


def test_who_heard_it_from_the_standby_goes_on_at_the_primary(tmp_path: Path) -> None:
    """The standby has it on its disk and delivers it; the primary does not know that yet."""
    with followed(tmp_path) as (primary, standby):
        assert primary.post("/v1/messages", SALE).status_code == 503
        position = standby.receive()
        page = primary.http.get("/v1/updates?after=1", headers={"accept": NDJSON})
        assert (page.content, page.headers["nearcast-next"]) == (b"", "1")
        with Ear(primary.port, "/v1/updates", "Last-Event-ID: 1\r\n") as ear:
            assert ear.place() == 1
            standby.confirm(position)
            assert primary.post("/v1/messages", SALE).status_code == 503
            standby.confirm(standby.receive())
            assert ear.event()["id"] == "2"
