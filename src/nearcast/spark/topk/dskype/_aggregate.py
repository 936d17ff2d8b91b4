"""Aggregation kernels: turn the answers of message workers into updates and fresh buffers.

This is the aggregation bolt of DSkype (section 7 of the paper).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inlined, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.spark.topk.dskype._seats import DONE, MORE_CHANGES, MORE_ENTRIES
from nearcast.spark.topk.dskype._walk import (
    NO_ROOM,
    RESCORED,
    BufferChanges,
    Entries,
    kth_of,
    walk,
)
from nearcast.spark.topk.dskype.clock import StepClock
from nearcast.topk.kernels.layout import NOTHING
from nearcast.topk.kernels.order import before
from nearcast.topk.kernels.seats import depth_for, largest_class, size_of_class

CONTINUES, SILENT, STAYS = 1, 2, 4
"""Flags of a request.

CONTINUES: the results before it are those of the preceding request at its end.
SILENT: its changes are not reported.
STAYS: the subscription is still there after the step and gets a buffer.
"""


class RefillRequests(NamedTuple):
    """Requests as kernels read them; the requests of one chain are consecutive."""

    ks: Int32s
    since: Int32s  # the first event of each
    until: Int32s  # the event after its last
    flags: Bytes
    before_starts: Int64s
    before: Int32s  # the k best of each before `since`, oldest first
    before_scores: Floats  # their scores, NaN where they cannot have changed


class RequestAnswers(NamedTuple):
    """The messages that may matter to each request; here oldest first, each once."""

    starts: Int64s
    numbers: Int32s
    scores: Floats


class CarriedResults(NamedTuple):
    """Room for the k best of one request, oldest first, and their scores."""

    numbers: Int32s
    scores: Floats


class RefillSelection(NamedTuple):
    """Which answers go into fresh buffers."""

    kept: Bytes  # by answer: whether it goes into the buffer
    thetas: Floats  # by request: the threshold of its buffer


@inlined
def depth_of(k: int) -> int:
    """How many messages a fresh buffer for the k best gets, if the window has that many."""
    return depth_for(size_of_class(largest_class(k)))


@inlined
def _mark(entries: Entries, count: int, carried: CarriedResults, had: int) -> None:
    """Mark the entries that are among the first `had` results; both are sorted by age."""
    at = 0
    for n in range(count):
        while at < had and carried.numbers[at] < entries.numbers[n]:
            at += 1
        entries.was[n] = 0
        if at < had and carried.numbers[at] == entries.numbers[n]:
            score = carried.scores[at]
            entries.was[n] = 1 if np.isnan(score) or score == entries.scores[n] else RESCORED


@lean_kernel
def aggregate(
    clock: StepClock,
    changes: BufferChanges,
    entries: Entries,
    requests: RefillRequests,
    answers: RequestAnswers,
    selection: RefillSelection,
    carried: CarriedResults,
    done: int,
    written: int,
) -> tuple[int, int, int]:
    """Evaluate requests from number `done` on, and select the messages of fresh buffers.

    Messages are numbered from the oldest one before the step, as in `clock`. `answers` holds the
    candidates of request n at `starts[n] : starts[n + 1]`. Changes are written to `changes` from
    place `written` on, with the number of the request as `subs`; `selection` gets a flag for each
    answer and a threshold for each request. `entries` is scratch space for the candidates of one
    request, `carried` for the k best of one request.

    Returns the request to go on with, the number of changes written, and what must grow first. It
    stops only in front of a chain, because `carried` lasts from one request of it to the next.
    """
    chain, chain_written, had = done, written, wide(0)
    for n in range(done, len(requests.ks)):
        continues, silent = requests.flags[n] & CONTINUES != 0, requests.flags[n] & SILENT != 0
        if not continues:
            chain, chain_written = n, written
        lo, hi = answers.starts[n], answers.starts[n + 1]
        count, k = hi - lo, wide(requests.ks[n])
        if count > len(entries.numbers):
            return chain, chain_written, MORE_ENTRIES
        # Load the candidates, and mark those that were results before the request.
        for m in range(count):
            entries.numbers[m] = answers.numbers[lo + m]
            entries.scores[m] = answers.scores[lo + m]
        if not continues:
            had = requests.before_starts[n + 1] - requests.before_starts[n]
            for m in range(had):
                carried.numbers[m] = requests.before[requests.before_starts[n] + m]
                carried.scores[m] = requests.before_scores[requests.before_starts[n] + m]
        _mark(entries, count, carried, had)
        if written + had > len(changes.events):
            return chain, chain_written, MORE_CHANGES
        # A result that no worker answered is no longer among the k best, nor will be: remove it.
        at = wide(0)
        for m in range(had):
            while at < count and entries.numbers[at] < carried.numbers[m]:
                at += 1
            if not silent and (at == count or entries.numbers[at] != carried.numbers[m]):
                changes.events[written], changes.subs[written] = requests.since[n], n
                changes.numbers[written], changes.scores[written] = carried.numbers[m], NOTHING
                written += 1
        # Go through the events of the request.
        walked = walk(
            clock, changes, written, n, entries, count, k, True, wide(requests.since[n]),
            wide(requests.until[n]), True,
        )  # fmt: skip
        if walked.written == NO_ROOM:
            return chain, chain_written, MORE_CHANGES
        if not silent:
            written = walked.written
        # Carry the results over to the next request of the chain.
        had = wide(0)
        for m in range(walked.begin, walked.end):
            if entries.was[m] != 0:
                carried.numbers[had], carried.scores[had] = entries.numbers[m], entries.scores[m]
                had += 1
        # Select the best messages that are still alive for the fresh buffer.
        if requests.flags[n] & STAYS != 0:
            depth = depth_of(k)
            worst_score, worst = kth_of(entries, walked.begin, walked.end, depth)
            selection.thetas[n] = worst_score
            for m in range(count):
                selection.kept[lo + m] = walked.begin <= m < walked.end and not before(
                    worst_score, worst, entries.scores[m], wide(entries.numbers[m])
                )
    return len(requests.ks), written, DONE
