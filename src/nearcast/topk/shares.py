"""What matching would cost each of several workers that share the subscriptions of a core.

Each posting of the core is held by one worker, or by none. Messages are matched as the core does
it, and every posting that is read or passes the filter is counted for its worker: what the worker's
own core would count, because lists and filters know nothing of each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.lanes import LANES, lowest
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.topk.core import TopK
from nearcast.topk.kernels.lanes import STEPS, reached
from nearcast.topk.kernels.layout import COUNT, LIST, OFFSET, PSUB, SIZE, TopkScratch, TopkState
from nearcast.topk.kernels.message import prepare
from nearcast.topk.kernels.postings import set_theta


class Shares(NamedTuple):
    """For each worker, over all messages: postings read, and postings that passed the filter."""

    visited: Int64s
    candidates: Int64s


class SharedCore(TopK):
    """A core whose subscriptions are thought to be spread over workers."""

    def shares(
        self,
        starts: Int64s,
        terms: Int32s,
        holders: Int32s,
        workers: int,
        messages: tuple[Floats, Int64s, Int32s, Int32s],
    ) -> Shares:
        """Match messages (points, starts, terms, counts) and count for each worker.

        The i-th term of subscription s is `terms[starts[s] + i]`; `holders` has the worker of each,
        or -1 where no worker holds the subscription under that term.
        """
        self._ensure_longest(int(np.diff(messages[1]).max(initial=0)))
        visited, candidates = np.zeros(workers, np.int64), np.zeros(workers, np.int64)
        _count(self._state, self._work, starts, terms, holders, *messages, visited, candidates)
        return Shares(visited, candidates)

    def set_thetas(self, thetas: Floats) -> None:
        """Give all subscriptions other thresholds; buffers are not right any more after that."""
        _set_thetas(self._state, thetas)


@lean_kernel
def _set_thetas(state: TopkState, thetas: Floats) -> None:
    for sub in range(len(thetas)):
        set_theta(state, wide(sub), thetas[sub])


@inner
def _holder(starts: Int64s, terms: Int32s, holders: Int32s, sub: int, term: int) -> int:
    for place in range(starts[sub], starts[sub + 1]):
        if terms[place] == term:
            return wide(holders[place])
    return wide(-1)


@lean_kernel
def _count(
    state: TopkState,
    work: TopkScratch,
    starts: Int64s,
    terms: Int32s,
    holders: Int32s,
    points: Floats,
    message_starts: Int64s,
    message_terms: Int32s,
    counts: Int32s,
    visited: Int64s,
    candidates: Int64s,
) -> None:
    """Match messages, and add the postings of each worker to `visited` and `candidates`.

    Term i of subscription s is `terms[starts[s] + i]`, and `holders` has the worker of each, or -1.
    Message m is at `points[m]`; its terms are `message_terms[message_starts[m] : ...]`, with how
    often each occurs in `counts`.
    """
    west, south, diagonal = state.measures[0], state.measures[1], state.measures[2]
    for message in range(len(points)):
        # Weigh the terms of the message, and round its place to steps.
        begin = message_starts[message]
        length = message_starts[message + 1] - begin
        prepare(state, work, message_terms, counts, begin, length)
        x = np.float32((points[message, 0] - west) / diagonal * STEPS)
        y = np.float32((points[message, 1] - south) / diagonal * STEPS)
        for n in range(length):
            term = wide(work.terms[n])
            row = term * LIST
            count = wide(state.posts[row + COUNT])
            if count == 0:
                continue
            size, start = wide(1) << state.posts[row + SIZE], wide(state.posts[row + OFFSET])
            # Every posting in the list of a term is read by its holder.
            for at in range(count):
                sub = wide(state.post_i[start + PSUB * size + at])
                worker = _holder(starts, terms, holders, sub, term)
                if worker >= 0:
                    visited[worker] += 1
            # Those that pass the filter are candidates, sixteen at a time.
            for at in range(0, count, LANES):
                lanes = reached(
                    state.post_s, 2 * start + at, size, x, y, work.likeness[n], work.rest[n]
                )
                if count - at < LANES:
                    lanes &= (1 << (count - at)) - 1
                while lanes != 0:
                    sub = wide(state.post_i[start + PSUB * size + at + lowest(lanes)])
                    lanes &= lanes - 1
                    worker = _holder(starts, terms, holders, sub, term)
                    if worker >= 0:
                        candidates[worker] += 1
