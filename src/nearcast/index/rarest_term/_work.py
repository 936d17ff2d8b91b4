"""What a thread needs to match, kept for the next call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.rarest_term._layout import RarestTermArrays
from nearcast.index.table import Parts, Rows
from nearcast.index.verify import Bitmap, bitmap_for

Kernel = Callable[..., tuple[int, int, int, bool]]
_QUEUE, _FOUND = 4096, 4096


class MatchScratch:
    """A bitmap of message terms and a queue of nodes and leaves to visit."""

    def __init__(self) -> None:
        self.bitmap: Bitmap = np.zeros(0, np.uint64)
        self.queue: Int64s = np.empty(_QUEUE, np.int64)
        # For one message at a time.
        self._starts: Int64s = np.zeros(2, np.int64)
        self._box: Floats = np.zeros((1, 4))
        self._messages: Int32s = np.empty(_FOUND, np.int32)
        self._found: Int32s = np.empty(_FOUND, np.int32)

    def cover(self, terms: int) -> None:
        """Let the bitmap have all terms from 0 to terms - 1, and a last word of ones."""
        if 64 * (len(self.bitmap) - 1) < terms:
            self.bitmap = bitmap_for(terms)
            self.bitmap[-1] = ~np.uint64(0)

    def collect(
        self,
        kernel: Kernel,
        state: RarestTermArrays,
        rows: Parts,
        shapes: Rows | None,
        batch: Batch,
    ) -> Pairs:
        """Match a batch, with a larger queue for messages that need one."""

        def scan(start: int, messages: Int32s, found: Int32s) -> tuple[int, int, int]:
            while True:
                following, written, looked, full = kernel(
                    state, rows, shapes, batch.starts, batch.terms, batch.boxes, self.bitmap,
                    self.queue, start, messages, found,
                )  # fmt: skip
                if not full or following > start:
                    return following, written, looked
                self.queue = np.empty(4 * len(self.queue), np.int64)

        return collect(len(batch), scan)

    def match_point(
        self,
        kernel: Kernel,
        state: RarestTermArrays,
        rows: Parts,
        shapes: Rows | None,
        terms: Int32s,
        lon: float,
        lat: float,
    ) -> tuple[Int32s, int]:
        """Match one message at a point; gives its rows, and how many were looked at."""
        self._starts[1] = len(terms)
        self._box[0] = lon, lat, lon, lat
        while True:
            following, written, looked, full = kernel(
                state, rows, shapes, self._starts, terms, self._box, self.bitmap, self.queue, 0,
                self._messages, self._found,
            )  # fmt: skip
            if following:
                return self._found[:written].copy(), looked
            if full:
                self.queue = np.empty(4 * len(self.queue), np.int64)
            else:
                room = 4 * len(self._found)
                self._messages, self._found = np.empty(room, np.int32), np.empty(room, np.int32)


class ScratchPool:
    """Lends scratch memory to calls, and keeps as much as was ever in use at one time."""

    def __init__(self) -> None:
        self._idle: list[MatchScratch] = []

    @contextmanager
    def borrow(self, terms: int) -> Iterator[MatchScratch]:
        """Lend scratch memory over `terms` terms for as long as the context lasts."""
        scratch = self.take(terms)
        yield scratch
        # Not after an error: a bitmap left half cleared would be wrong for the next message.
        self.give_back(scratch)

    def take(self, terms: int) -> MatchScratch:
        """Lend scratch memory over `terms` terms until `give_back`."""
        try:
            scratch = self._idle.pop()  # atomic, as is `append`: threads need no lock
        except IndexError:
            scratch = MatchScratch()
        scratch.cover(terms)
        return scratch

    def give_back(self, scratch: MatchScratch) -> None:
        """Take scratch memory back, unless there was an error."""
        self._idle.append(scratch)
