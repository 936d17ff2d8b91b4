"""Keeps a server busy through its API, as many small clients would."""

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
from nearcast.demo.happenings import Happenings
from nearcast.demo.people import Mover, standing, yours

_TICK_S = 0.25
_MOVE_S = 2.0  # how often each of those on the way says where they are
_CHUNK = 1000
_TELL_S = 10.0
_LINES = {"Content-Type": "application/x-ndjson"}


class Feed:
    """Subscribes a city's people, then lets things happen until told to stop."""

    def __init__(
        self,
        client: httpx.Client,
        say: Callable[[str], None],
        stop: Event,
        *,
        seed: int,
        on_land: Callable[[Point], bool],
        piped: bool = False,
    ) -> None:
        self._client = client
        self._say = say
        self._stop = stop
        self._piped = piped  # before Spark: matches come later
        self._city = City(Random(seed), on_land)  # noqa: S311 - a story to repeat, not a secret
        self.messages = self.matches = self.moves = 0

    def wait_until_ready(self) -> bool:
        """Come back when the server is warm; False if it is over before."""
        started, told = monotonic(), False
        while not self._stop.is_set():
            try:
                answer = self._client.get("/readyz")
                if answer.status_code == 200:
                    self._say(f"The server is ready after {monotonic() - started:.1f} s.")
                    return True
                detail = answer.json().get("detail", "")
            except httpx.TransportError:
                detail = "it does not answer yet"
            if not told:
                self._say(f"Waiting for the server: {detail}.")
                told = True
            self._stop.wait(0.1)
        return False

    def play(self, people: int, movers: int, rate: float) -> None:
        """Let things happen until told to stop; most of the people arrive in the first seconds."""
        city, happenings = self._city, Happenings(self._city)
        moving = [Mover(f"way-{number}", city) for number in range(movers)]
        arriving = standing(city, people)
        self._send("/v1/subscriptions", [*yours(), *(each.subscription() for each in moving)])
        self._arrive(arriving)
        started = told = monotonic()
        turns = max(1, round(_MOVE_S / _TICK_S))
        tick, due, complete = 0, 0.0, False
        while not self._stop.wait(max(0.0, started + tick * _TICK_S - monotonic())):
            now = monotonic() - started
            due += rate * _TICK_S * city.random.uniform(0.4, 1.6)
            batch = [happenings.next() for _ in range(int(due))]
            due -= len(batch)
            self._happen(batch, [mover.move(now) for mover in moving[tick % turns :: turns]], now)
            tick += 1
            if not complete and not self._arrive(arriving):
                complete = True
                total = people + movers + len(yours())
                self._say(f"{total:,} subscriptions, {movers} of them on the move.")
            if monotonic() - told >= _TELL_S:
                told = monotonic()
                latest = f" Latest: {batch[-1]['text']}." if batch else ""
                self._say(f"{self.counts()}.{latest}")

    def _arrive(self, arriving: Iterator[dict[str, Any]]) -> bool:
        """Subscribe the next few of those who stay; False if there are no more."""
        chunk = list(islice(arriving, _CHUNK))
        self._send("/v1/subscriptions", chunk)
        return len(chunk) == _CHUNK

    def _happen(self, batch: list[dict[str, Any]], moves: list[dict[str, Any]], now: float) -> None:
        reached = self._send("/v1/events", [*({"op": "publish"} | each for each in batch), *moves])
        if reached and not self.matches:
            self._say(f"First matches {now:.1f} s into the stream: {reached}.")
        self.messages += len(batch)
        self.moves += len(moves)
        self.matches += reached

    def counts(self) -> str:
        """What has happened so far."""
        return f"{self.messages:,} messages, {self.matches:,} matches, {self.moves:,} moves"

    def _send(self, path: str, bodies: Iterable[dict[str, Any]]) -> int:
        lines = "".join(_lines(bodies))
        if not lines:
            return 0
        answer = self._client.post(path, content=lines, headers=_LINES)
        answer.raise_for_status()
        told = answer.json()
        if told["refused"]:
            raise RuntimeError(f"{path}: {told['errors'][0]['detail']}")
        updates: int = told["updates"]
        return self._matches_since() if self._piped else updates

    def _matches_since(self) -> int:
        """How many more matches the pipeline has found."""
        page = {"accept": "application/x-ndjson"}
        answer = self._client.get("/v1/updates", params={"limit": 1}, headers=page)
        answer.raise_for_status()
        return int(answer.headers["nearcast-last"]) - self.matches


def _lines(bodies: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(body) + "\n" for body in bodies)
