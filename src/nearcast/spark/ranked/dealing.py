"""Which worker has which bucket of top-k subscriptions, and how that changes while a stream runs.

Buckets change hands between two steps, a few at a time: whoever comes to have one looks its
subscriptions up in the window it has, in silence, and whoever had it forgets them. Nobody is told,
because nothing has changed for a subscription.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from nearcast.errors import SourceError
from nearcast.spark.ranked.work import BUCKETS, Buckets, evenly
from nearcast.spark.report import WorkerReport
from nearcast.spark.state import PipelineState

MOST_AT_ONCE = 32
"""Buckets that change hands with one step."""

_DEALT, _TARGET = "ranked.json", "ranked-target.json"
_UNEVEN = 1.2  # the busiest worker by the average, from which on it is worth something
_TIMES = 2  # in a row; twice as often after each time that did not make it even
_IDLE_S = 0.05  # what all do in a step, below which nothing can be said
_KEPT = 0.5  # of what was measured before


class Dealing:
    """The buckets as they are dealt out, and as they are to be."""

    def __init__(self, workers: int) -> None:
        self.asked = workers
        self.buckets = evenly(workers)
        self._target = self.buckets
        self._loads: np.ndarray | None = None
        self._uneven, self._patience = 0, _TIMES

    @property
    def workers(self) -> int:
        """How many workers have a bucket, or had one between others."""
        return int(self.buckets.max()) + 1

    @property
    def left(self) -> int:
        """How many buckets are still to change hands."""
        return int((self.buckets != self._target).sum())

    def recall(self, state: PipelineState) -> None:
        """Take up what an earlier run came to, if it was asked for as many workers."""
        told = _read(state, _DEALT)
        if told.get("asked") == self.asked and len(told.get("buckets", [])) == BUCKETS:
            self.buckets = self._target = np.array(told["buckets"], np.int16)

    def move(self, state: PipelineState, most: int = MOST_AT_ONCE) -> int:
        """Let some buckets change hands, if any are to; give how many."""
        wanted = _read(state, _TARGET).get("workers")
        if isinstance(wanted, int) and 0 < wanted < 1 << 15:
            state.files.remove(_TARGET)
            self._target = spread(self.buckets, wanted)
        some = np.flatnonzero(self.buckets != self._target)[:most]
        if len(some):
            self.buckets = self.buckets.copy()
            self.buckets[some] = self._target[some]
            told = {"asked": self.asked, "buckets": self.buckets.tolist()}
            state.files.write(_DEALT, json.dumps(told).encode(), durable=False)
            self._loads, self._uneven = None, 0
        return len(some)

    def look(self, workers: Sequence[WorkerReport]) -> None:
        """See what workers did in a step; if one of them has too much, let it give buckets away."""
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
            # One bucket may be all of it, and must not go round for ever.
            self._target = relieved(self.buckets, loads)
            self._uneven, self._patience = 0, 2 * self._patience


def relieved(buckets: Buckets, loads: np.ndarray) -> Buckets:
    """Let those with more than the average to do give buckets to those with less, for as much.

    What a bucket has to do is not known, so they are taken from all over what a worker has.
    """
    mean = loads.mean()
    going = [np.empty(0, np.int64)]
    for busy in np.flatnonzero(loads > mean).tolist():
        own = np.flatnonzero(buckets == busy)
        count = min(int(len(own) * (1 - mean / loads[busy])), len(own) - 1)
        going.append(own[np.arange(count) * len(own) // max(count, 1)])
    all_going = np.concatenate(going)
    lacking = np.cumsum(np.maximum(mean - loads, 0.0))
    edges = np.round(lacking / lacking[-1] * len(all_going)).astype(np.int64)
    after = buckets.copy()
    after[all_going] = np.repeat(np.arange(len(loads)), np.diff(edges, prepend=0))
    return after


def spread(buckets: Buckets, workers: int) -> Buckets:
    """Deal buckets out to so many workers, moving as few as can be."""
    quota = np.bincount(evenly(workers), minlength=workers)
    after = buckets.copy()
    over = [np.flatnonzero(after == worker)[quota[worker] :] for worker in range(workers)]
    going = np.concatenate([np.flatnonzero(after >= workers), *over])
    after[going] = -1
    lacking = quota - np.bincount(after[after >= 0], minlength=workers)
    after[going] = np.repeat(np.arange(workers), lacking)
    return after


def ask_for(state: PipelineState, workers: int) -> None:
    """Have a stream, running or when it runs again, rank on so many workers."""
    state.files.write(_TARGET, json.dumps({"workers": workers}).encode())


def _read(state: PipelineState, name: str) -> dict[str, Any]:
    if not state.files.exists(name):
        return {}
    try:
        told = json.loads(state.files.read(name))
    except (SourceError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
