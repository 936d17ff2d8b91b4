"""Which worker has which bucket of top-k subscriptions, and how that changes while a stream runs.

Buckets move between two steps, a few at a time: the worker that gets one evaluates its
subscriptions against its window, and the worker that had it forgets them. No updates are written,
because nothing changes for a subscription.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from nearcast.errors import SourceError
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.reports.report import WorkerReport
from nearcast.spark.workers.ranked_work import BUCKETS, Buckets, evenly

MOST_AT_ONCE = 32
"""Buckets that move with one step."""

_DEALT, _TARGET = "ranked.json", "ranked-target.json"
_UNEVEN = 1.2  # load of the busiest worker, divided by the average, from which moving is worth it
_TIMES = 2  # steps in a row; doubled after each move that did not even the loads out
_IDLE_S = 0.05  # total load in a step, below which it says nothing
_KEPT = 0.5  # weight of earlier loads in the moving average


class BucketAssignment:
    """The worker of each bucket, now and as it should become."""

    def __init__(self, workers: int) -> None:
        self.asked = workers
        self.buckets = evenly(workers)
        self._target = self.buckets
        self._loads: np.ndarray | None = None
        self._uneven, self._patience = 0, _TIMES

    @property
    def workers(self) -> int:
        """One more than the highest worker that has a bucket."""
        return int(self.buckets.max()) + 1

    @property
    def left(self) -> int:
        """How many buckets are still to move."""
        return int((self.buckets != self._target).sum())

    def restore(self, state: PipelineState) -> None:
        """Restore the assignment of an earlier run, if that had the same number of workers."""
        stored = _read(state, _DEALT)
        if stored.get("asked") == self.asked and len(stored.get("buckets", [])) == BUCKETS:
            self.buckets = self._target = np.array(stored["buckets"], np.int16)

    def move(self, state: PipelineState, most: int = MOST_AT_ONCE) -> int:
        """Move at most `most` of the buckets that are to move; return how many."""
        wanted = _read(state, _TARGET).get("workers")
        if isinstance(wanted, int) and 0 < wanted < 1 << 15:
            state.files.remove(_TARGET)
            self._target = spread(self.buckets, wanted)
        some = np.flatnonzero(self.buckets != self._target)[:most]
        if len(some):
            self.buckets = self.buckets.copy()
            self.buckets[some] = self._target[some]
            stored = {"asked": self.asked, "buckets": self.buckets.tolist()}
            state.files.write(_DEALT, json.dumps(stored).encode(), durable=False)
            self._loads, self._uneven = None, 0
        return len(some)

    def observe(self, workers: Sequence[WorkerReport]) -> None:
        """Look at the loads of workers in a step; plan to move buckets if they stay uneven."""
        loads = np.zeros(max(self.workers, len(workers)))
        for one in workers:
            if one.worker < len(loads):
                loads[one.worker] = one.load
        if self.left or loads.sum() < _IDLE_S:
            return
        before = self._loads
        if before is not None and len(before) == len(loads):
            loads = _KEPT * before + (1 - _KEPT) * loads
        self._loads = loads
        uneven = loads.max() > _UNEVEN * loads.mean()
        if not uneven:
            self._uneven, self._patience = 0, _TIMES
            return
        self._uneven += 1
        if self._uneven >= self._patience:
            # One bucket may be the whole load: it must not move from worker to worker for ever.
            self._target = relieved(self.buckets, loads)
            self._uneven, self._patience = 0, 2 * self._patience


def relieved(buckets: Buckets, loads: np.ndarray) -> Buckets:
    """Move buckets from workers above the average load to those below, in proportion.

    The load of a single bucket is not known, so they are taken evenly from those of a worker.
    """
    mean = loads.mean()
    moving = [np.empty(0, np.int64)]
    for busy in np.flatnonzero(loads > mean).tolist():
        own = np.flatnonzero(buckets == busy)
        count = min(int(len(own) * (1 - mean / loads[busy])), len(own) - 1)
        moving.append(own[np.arange(count) * len(own) // max(count, 1)])
    all_moving = np.concatenate(moving)
    lacking = np.cumsum(np.maximum(mean - loads, 0.0))
    edges = np.round(lacking / lacking[-1] * len(all_moving)).astype(np.int64)
    after = buckets.copy()
    after[all_moving] = np.repeat(np.arange(len(loads)), np.diff(edges, prepend=0))
    return after


def spread(buckets: Buckets, workers: int) -> Buckets:
    """Assign buckets evenly to `workers` workers, moving as few as possible."""
    quota = np.bincount(evenly(workers), minlength=workers)
    after = buckets.copy()
    over = [np.flatnonzero(after == worker)[quota[worker] :] for worker in range(workers)]
    moving = np.concatenate([np.flatnonzero(after >= workers), *over])
    after[moving] = -1
    lacking = quota - np.bincount(after[after >= 0], minlength=workers)
    after[moving] = np.repeat(np.arange(workers), lacking)
    return after


def request_workers(state: PipelineState, workers: int) -> None:
    """Have a stream rank on `workers` workers, now if it runs, or else when it runs again."""
    state.files.write(_TARGET, json.dumps({"workers": workers}).encode())


def _read(state: PipelineState, name: str) -> dict[str, Any]:
    if not state.files.exists(name):
        return {}
    try:
        stored = json.loads(state.files.read(name))
    except (SourceError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
