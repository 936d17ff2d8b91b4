"""The queue of a tenant's writer thread: small requests do not wait behind large ones."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, TypeVar

from nearcast.server.problems import Problem

J = TypeVar("J")
LARGEST_BATCH = 4096
"""Events of one turn."""
TURN_COST = 1 << 19
"""Characters of one turn: about a tenth of a second."""
MOST_WAITING = 10_000
"""Requests that may wait; more are refused."""
_QUICK_COST = 1 << 16
_QUICK_EVENTS = 64


@dataclass(slots=True)
class _Lane(Generic[J]):
    jobs: deque[tuple[J, int, int, int]] = field(default_factory=deque)
    size: int = 0

    def move_to(self, turn: list[J], events: int, cost: int, *, least: int) -> tuple[int, int]:
        """Move jobs to a turn until it is full, but at least some of them."""
        while self.jobs:
            job, more_events, more_cost, size = self.jobs[0]
            full = events + more_events > LARGEST_BATCH or cost + more_cost > TURN_COST
            if full and least <= 0:
                break
            self.jobs.popleft()
            self.size -= size
            turn.append(job)
            events, cost, least = events + more_events, cost + more_cost, least - 1
        return events, cost


class JobQueue(Generic[J]):
    """Jobs in two lanes, quick ones and bulky ones, each in the order of arrival.

    A turn has the quick jobs that wait, and at least one bulky job if there is one: a bulky job
    delays others by one turn, however many wait behind it. Of requests with more than `most_bytes`
    together, one alone may wait.
    """

    def __init__(self, most_bytes: float = math.inf) -> None:
        self._most_bytes = most_bytes
        self._ready = Condition()
        self._quick: _Lane[J] = _Lane()
        self._bulky: _Lane[J] = _Lane()
        self._closed = False

    def __len__(self) -> int:
        return len(self._quick.jobs) + len(self._bulky.jobs)

    @property
    def size(self) -> int:
        """The bytes of the requests that the jobs came with."""
        return self._quick.size + self._bulky.size

    def check_room(self, size: int) -> None:
        """Refuse a request with that many bytes if too much waits already."""
        held = self.size
        if len(self) >= MOST_WAITING:
            raise _too_busy(f"{MOST_WAITING:,} requests")
        if held and size and held + size > self._most_bytes:
            raise _too_busy(f"requests with {held:,} bytes")

    def put(self, job: J, events: int = 0, cost: int = 0, size: int = 0) -> None:
        """Queue a job with a number of events, what they cost, and the bytes that came with it."""
        quick = cost <= _QUICK_COST and events <= _QUICK_EVENTS
        with self._ready:
            lane = self._quick if quick else self._bulky
            lane.jobs.append((job, events, cost, size))
            lane.size += size
            self._ready.notify()

    def close(self) -> None:
        """Let `turn` return nothing once all jobs are taken."""
        with self._ready:
            self._closed = True
            self._ready.notify()

    def turn(self) -> list[J]:
        """Wait for jobs, and take those of the next turn; nothing if the queue is closed."""
        with self._ready:
            while not (self._quick.jobs or self._bulky.jobs or self._closed):
                self._ready.wait()
            turn: list[J] = []
            events, cost = self._quick.move_to(turn, 0, 0, least=1)
            self._bulky.move_to(turn, events, cost, least=1)
            return turn


def _too_busy(waiting: str) -> Problem:
    return Problem(
        503,
        "too-busy",
        f"{waiting} are waiting already; try again in a moment",
        headers={"Retry-After": "1"},
    )
