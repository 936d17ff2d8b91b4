"""How far workers are that build what they hold anew: told while they do it, for who waits.

Each writes one small file in the state of its pipeline, every second, and removes it in the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from nearcast.errors import SourceError
from nearcast.spark.files import Files

EVERYBODY = -1
"""The worker for whom the driver tells that buffers are asked for."""

_FOLDER, _ENDING = "building", ".json"
_EVERY_S = 1.0
_STALE_S = 60.0  # a worker that was killed says nothing any more


@dataclass(frozen=True)
class Building:
    """How many of how many messages and subscriptions a worker has entered, and when it said so.

    Of `EVERYBODY` it is how many subscriptions have their buffers again, wherever these are.
    """

    worker: int
    done: int
    of: int
    at: float


@contextmanager
def told(files: Files, worker: int) -> Iterator[Callable[[int, int], None]]:
    """Let a worker say how far it is, until the block ends."""
    name = f"{_FOLDER}/{worker:05}{_ENDING}"
    last = 0.0

    def tell(done: int, of: int) -> None:
        nonlocal last
        now = time.time()
        if now - last >= _EVERY_S:
            last = now
            data = msgspec.json.encode(Building(worker, done, of, now))
            files.write(name, data, durable=False)

    try:
        yield tell
    finally:
        if last:
            files.remove(name)


def under_way(files: Files, now: float) -> list[Building]:
    """The workers that are building now."""
    found = []
    for name in files.names(_FOLDER):
        if name.endswith(_ENDING) and not name.startswith("."):
            try:
                one = msgspec.json.decode(files.read(f"{_FOLDER}/{name}"), type=Building)
            except (SourceError, msgspec.DecodeError):
                continue  # it has just come to its end
            if now - one.at < _STALE_S:
                found.append(one)
    return found


def in_words(building: list[Building]) -> str:
    """Say how far they are together."""
    for one in building:
        if one.worker == EVERYBODY:
            share = one.done / max(one.of, 1)
            return f"top-k buffers are asked for anew: {share:.0%} of {one.of:,} subscriptions"
    done, of = sum(one.done for one in building), sum(one.of for one in building)
    who = "1 worker builds its" if len(building) == 1 else f"{len(building)} workers build their"
    return f"{who} top-k state: {done / max(of, 1):.0%} of {of:,} messages and subscriptions"
