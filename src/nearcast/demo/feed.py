"""Feeds a server through its API: subscriptions, messages and moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from threading import Event
from time import monotonic
from typing import Any

import httpx

from nearcast.demo.city import City, Point
from nearcast.demo.messages import MessageGenerator
from nearcast.demo.people import Mover, residents, yours

_TICK_S = 0.25
_MOVE_S = 2.0  # how often each of those on the way says where they are
_CHUNK = 1000
_PIPED_CHUNK = 25  # until the first match: Spark starts on the same cores
_REPORT_S = 10.0
_LINES = {"Content-Type": "application/x-ndjson"}


class CityFeed:
    """Subscribes the people of a city, then publishes messages until it is stopped."""

    def __init__(
        self,
        client: httpx.Client,
        say: Callable[[str], None],
        stop: Event,
        *,
        seed: int,
        on_land: Callable[[Point], bool],
        piped: bool = False,
        since: float | None = None,
        beside: Callable[[], str] = lambda: "",
    ) -> None:
        self._client = client
        self._say = say
        self._stop = stop
        self._piped = piped  # the server runs on Spark: matches come later
        self._since = monotonic() if since is None else since
        self._beside = beside  # describes how far the other engine is
        self._city = City(Random(seed), on_land)  # noqa: S311 - repeatable, not a secret
        self._texts: dict[str, str] = {}  # of the messages up to the first match
        self.messages = self.matches = self.moves = 0

    def wait_until_ready(self) -> bool:
        """Wait for the server; False if the demo is stopped before."""
        reported = False
        while not self._stop.is_set():
            try:
                answer = self._client.get("/readyz")
                if answer.status_code == 200:
                    self._say(f"Ready after {self._seconds():.1f} s.")
                    return True
                detail = answer.json().get("detail", "")
            except httpx.TransportError:
                detail = "it does not answer yet"
            if not reported:
                self._say(f"Waiting for the server: {detail}.")
                reported = True
            self._stop.wait(0.1)
        return False

    def play(self, people: int, movers: int, rate: float) -> None:
        """Publish and move until stopped; most people subscribe in the first seconds."""
        city, messages = self._city, MessageGenerator(self._city)
        moving = [Mover(f"way-{number}", city) for number in range(movers)]
        arriving = residents(city, people)
        self._send("/v1/subscriptions", [*yours(), *(each.subscription() for each in moving)])
        self._publish([messages.first()], [])
        self._arrive(arriving)
        started = last_report = monotonic()
        turns = max(1, round(_MOVE_S / _TICK_S))
        tick, due, complete = 0, 0.0, False
        while not self._stop.wait(max(0.0, started + tick * _TICK_S - monotonic())):
            now = monotonic() - started
            due += rate * _TICK_S * city.random.uniform(0.4, 1.6)
            batch = [messages.next() for _ in range(int(due))]
            due -= len(batch)
            self._publish(batch, [mover.move(now) for mover in moving[tick % turns :: turns]])
            tick += 1
            if not complete and not self._arrive(arriving):
                complete = True
                total = people + movers + len(yours())
                self._say(
                    f"{total:,} subscriptions after {self._seconds():.1f} s, "
                    f"{movers} of them on the move."
                )
            if monotonic() - last_report >= _REPORT_S:
                last_report = monotonic()
                latest = f" Latest: {batch[-1]['text']}." if batch else ""
                self._say(f"{self.counts()}.{self._beside()}{latest}")

    def _arrive(self, arriving: Iterator[dict[str, Any]]) -> bool:
        """Subscribe the next few residents; False if there are no more."""
        most = _PIPED_CHUNK if self._piped and not self.matches else _CHUNK
        chunk = list(islice(arriving, most))
        self._send("/v1/subscriptions", chunk)
        return len(chunk) == most

    def _publish(self, batch: list[dict[str, Any]], moves: list[dict[str, Any]]) -> None:
        if not self.matches:
            self._texts |= {each["id"]: each["text"] for each in batch}
        reached = self._send("/v1/events", [*({"op": "publish"} | each for each in batch), *moves])
        self.messages += len(batch)
        self.moves += len(moves)
        if reached and not self.matches:
            self._report_first()
        self.matches += reached

    def _report_first(self) -> None:
        """Print the first match, and after how long it came."""
        seconds, first = self._seconds(), self._updates(1)[0]
        text = self._texts.get(first["message"], first["message"])
        self._say(f"First match after {seconds:.1f} s: {text!r} for {first['subscription']}.")
        self._texts.clear()

    def _seconds(self) -> float:
        return monotonic() - self._since

    def counts(self) -> str:
        """What has happened so far."""
        return f"{self.messages:,} messages, {self.matches:,} matches, {self.moves:,} moves"

    def _send(self, path: str, bodies: Iterable[dict[str, Any]]) -> int:
        lines = "".join(_lines(bodies))
        if not lines:
            return 0
        answer = self._client.post(path, content=lines, headers=_LINES)
        answer.raise_for_status()
        outcome = answer.json()
        if outcome["refused"]:
            raise RuntimeError(f"{path}: {outcome['errors'][0]['detail']}")
        updates: int = outcome["updates"]
        return self._matches_since() if self._piped else updates

    def _matches_since(self) -> int:
        """How many more matches the pipeline has found."""
        return int(self._page(1).headers["nearcast-last"]) - self.matches

    def _updates(self, count: int) -> list[dict[str, Any]]:
        """The first updates of all."""
        return [json.loads(line) for line in self._page(count).iter_lines()]

    def _page(self, limit: int) -> httpx.Response:
        page = {"accept": "application/x-ndjson"}
        answer = self._client.get("/v1/updates", params={"limit": limit}, headers=page)
        answer.raise_for_status()
        return answer


def _lines(bodies: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(body) + "\n" for body in bodies)
