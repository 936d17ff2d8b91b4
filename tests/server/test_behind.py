"""Whoever listens at a standby that is behind waits there, and hears of what is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nearcast import Box, Engine
from nearcast.events import Message, Publish, Subscribe, Subscription
from nearcast.server.backend import CommittedBatch
from nearcast.server.feed import Piece, UpdateFeed
from nearcast.server.hub import Hub
from patience import PATIENCE_S, wait_until
from served import IPAD, NDJSON, SALE, Ear, hold_writer, serving

KEEP_ALIVE_S = 1e9
TWO = "http://two.example"


class Copy:
    """A log with one update for each message, and how a listener of a pair sees it."""

    def __init__(self, updates: int) -> None:
        self.behind = True
        self._engine = Engine()
        self._apply(Subscribe(Subscription("s", "ipad", Box(0, 0, 1, 1))))
        for _ in range(updates):
            self._apply(self._next())
        self.hub = Hub(self._engine.log, 1 << 20, self)

    def may_be_behind(self) -> bool:
        return self.behind

    def lagged(self, seconds: float) -> None:
        pass

    def overflowed(self) -> None:
        raise AssertionError("nobody is too slow here")

    def publish(self) -> None:
        """Commit a message."""
        self.hub.committed(self._apply(self._next()))

    def _next(self) -> Publish:
        return Publish(Message(f"m{self._engine.seq}", "ipad", (0.5, 0.5)))

    def _apply(self, event: Any) -> CommittedBatch:
        outcomes = self._engine.apply_all([event])
        log = self._engine.log
        return CommittedBatch([event], outcomes, [0.0], log.last, self._engine.seq, 0.0)

    def feed(self, after: int) -> UpdateFeed:
        def gap(first: int, last: int, place: int) -> bytes:
            return f"gap {first} {last} {place}".encode()

        return UpdateFeed(self.hub, None, after, lambda entry: entry.message.encode(), gap)


async def heard(feed: UpdateFeed, count: int) -> list[Piece]:
    """The next updates and gaps."""
    found: list[Piece] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await feed.next(KEEP_ALIVE_S) or []
    return found


async def a_turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_standby_that_is_behind_goes_on_once_it_has_caught_up() -> None:
    """The listener has heard three updates elsewhere, of which one is here."""

    async def listen() -> None:
        copy = Copy(1)
        feed = copy.feed(3)
        hearing = asyncio.ensure_future(heard(feed, 1))
        for _ in range(3):
            await a_turn()
            assert not hearing.done()
            copy.publish()
        assert await hearing == [(4, b"m4")]
        copy.behind = False  # promoted, with all that was heard
        copy.publish()
        assert await heard(feed, 1) == [(5, b"m5")]

    asyncio.run(listen())


def test_who_has_heard_what_a_promotion_lost_is_told() -> None:
    """Also when others get its ids before the listener has its turn."""

    async def listen() -> None:
        copy = Copy(1)
        feed = copy.feed(4)
        hearing = asyncio.ensure_future(heard(feed, 4))
        await a_turn()
        copy.publish()
        copy.behind = False
        for _ in range(3):
            copy.publish()
        assert await hearing == [(2, b"gap 3 4 2"), (3, b"m3"), (4, b"m4"), (5, b"m5")]
        assert await heard(copy.feed(9), 1) == [(5, b"gap 6 9 5")]

    asyncio.run(listen())


def test_a_listener_goes_on_at_a_standby_that_is_behind(tmp_path: Path) -> None:
    """It was acknowledged, and heard, before the standby had it; nothing is lost."""
    with (
        serving(tmp_path / "one") as primary,
        serving(tmp_path / "two", follow=primary.url, advertise=TWO, poll_s=0.05) as standby,
    ):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        primary.post("/v1/messages", SALE)
        wait_until(lambda: len(standby.updates()) == 1, "the first update at the standby")
        _, go_on = hold_writer(standby)
        try:
            primary.post("/v1/messages", SALE)
            page = standby.http.get("/v1/updates?after=2", headers={"accept": NDJSON})
            assert (page.content, page.headers["nearcast-next"]) == (b"", "2")
            assert page.headers["nearcast-last"] == "1"
            with Ear(standby.port, "/v1/updates", "Last-Event-ID: 2\r\n") as ear:
                assert ear.place() == 2
                go_on.set()
                primary.post("/v1/messages", SALE)
                event = ear.event()
                assert (event["event"], event["id"]) == ("add", "3")
        finally:
            go_on.set()
