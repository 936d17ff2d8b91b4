"""The progress of workers that rebuild their state, for users who wait for it.

Each worker writes one small file in the state of its pipeline, every second, and removes it at the
end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from nearcast.errors import SourceError
from nearcast.spark.io.files import Files

ALL_WORKERS = -1
"""The worker number under which the driver reports that it rebuilds buffers on all workers."""

_FOLDER, _ENDING = "building", ".json"
_EVERY_S = 1.0
_STALE_S = 60.0  # a file that old is from a worker that was killed


@dataclass(frozen=True)
class BuildProgress:
    """How many (`done`) of how many (`of`) messages and subscriptions a worker has added, and when.

    For `ALL_WORKERS` it is how many subscriptions of all workers have their buffers again.
    """

    worker: int
    done: int
    of: int
    at: float


@contextmanager
def reporting_progress(files: Files, worker: int) -> Iterator[Callable[[int, int], None]]:
    """Give a function by which a worker reports its progress, until the block ends."""
    name = f"{_FOLDER}/{worker:05}{_ENDING}"
    last = 0.0

    def progress(done: int, of: int) -> None:
        nonlocal last
        now = time.time()
        if now - last >= _EVERY_S:
            last = now
            data = msgspec.json.encode(BuildProgress(worker, done, of, now))
            files.write(name, data, durable=False)

    try:
        yield progress
    finally:
        if last:
            files.remove(name)


def builds_under_way(files: Files, now: float) -> list[BuildProgress]:
    """The workers that are building now."""
    found = []
    for name in files.names(_FOLDER):
        if name.endswith(_ENDING) and not name.startswith("."):
            try:
                one = msgspec.json.decode(files.read(f"{_FOLDER}/{name}"), type=BuildProgress)
            except (SourceError, msgspec.DecodeError):
                continue  # the worker has just finished
            if now - one.at < _STALE_S:
                found.append(one)
    return found


def progress_text(building: list[BuildProgress]) -> str:
    """Describe the progress of all of them in one line."""
    for one in building:
        if one.worker == ALL_WORKERS:
            share = one.done / max(one.of, 1)
            return f"rebuilding top-k buffers: {share:.0%} of {one.of:,} subscriptions"
    done, of = sum(one.done for one in building), sum(one.of for one in building)
    who = "1 worker builds its" if len(building) == 1 else f"{len(building)} workers build their"
    return f"{who} top-k state: {done / max(of, 1):.0%} of {of:,} messages and subscriptions"
