"""When messages of a window end: those that ended first, by number."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

import numpy as np

from nearcast.arrays.types import Floats, Int64s

_WORTH_TIDYING = 1 << 10

_Some = tuple[float, int, Floats, Int64s]  # the first end, any number, all ends, whose they are


class MessageEnds:
    """The ends of messages, in batches that are sorted by the end."""

    def __init__(self) -> None:
        self._batches: list[_Some] = []  # a heap
        self._ties = count()
        self._count = 0

    def __len__(self) -> int:
        """How many ends there are, perhaps with some of messages that have left."""
        return self._count

    def add(self, numbers: Int64s, ends: Floats) -> None:
        """Note when some messages end."""
        order = np.argsort(ends, kind="stable")
        self._push(ends[order], numbers[order])
        self._count += len(ends)

    def next_end(self, first: int) -> float:
        """The next end of a message from number `first` on; infinite if there is none."""
        while self._batches:
            end, _, ends, numbers = self._batches[0]
            if numbers[0] >= first:
                return end
            heappop(self._batches)
            later = numbers >= first
            self._count -= len(ends) - int(later.sum())
            self._push(ends[later], numbers[later])
        return inf

    def due(self, now: float) -> Int64s:
        """Remove the ends until `now`, and return whose they are; some may have left before."""
        found = [np.empty(0, np.int64)]
        while self._batches and self._batches[0][0] <= now:
            _, _, ends, numbers = heappop(self._batches)
            over = int(np.searchsorted(ends, now, "right"))
            found.append(numbers[:over])
            self._push(ends[over:], numbers[over:])
        due = np.concatenate(found)
        self._count -= len(due)
        return due

    def by(self, now: float) -> Int64s:
        """Whose ends come until `now`; some may have left before."""
        found = [np.empty(0, np.int64)]
        for end, _, ends, numbers in self._batches:
            if end <= now:
                found.append(numbers[: int(np.searchsorted(ends, now, "right"))])
        return np.concatenate(found)

    def tidy(self, first: int, most: int) -> None:
        """Forget messages before number `first` if they are many; `most` others are there."""
        if self._count > 2 * most + _WORTH_TIDYING:
            self._keep(lambda numbers: numbers >= first)

    def renumber(self, old: Int64s, first: int) -> None:
        """Let the messages with these numbers count from `first` on; forget all others."""
        self._keep(lambda numbers: np.isin(numbers, old))
        self._batches = [
            (end, tie, ends, first + np.searchsorted(old, numbers))
            for end, tie, ends, numbers in self._batches
        ]

    def _keep(self, chosen: Callable[[Int64s], np.ndarray]) -> None:
        kept = []
        for _, tie, ends, numbers in self._batches:
            which = chosen(numbers)
            if which.any():
                kept.append((float(ends[which][0]), tie, ends[which], numbers[which]))
        heapify(kept)
        self._batches, self._count = kept, sum(len(ends) for _, _, ends, _ in kept)

    def _push(self, ends: Floats, numbers: Int64s) -> None:
        if len(ends):
            heappush(self._batches, (float(ends[0]), next(self._ties), ends, numbers))
