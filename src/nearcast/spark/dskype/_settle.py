"""Aggregation: what message workers answered to requests, made into updates and fresh buffers."""

from __future__ import annotations

from typing import NamedTuple

from nearcast._jit import inner_inlined, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.spark.dskype._seats import DONE, MORE_CHANGES, MORE_ENTRIES
from nearcast.spark.dskype._walk import NO_ROOM, BufferChanges, Entries, kth_of, walk
from nearcast.spark.dskype.clock import StepClock
from nearcast.topk.kernels.layout import NOTHING
from nearcast.topk.kernels.order import before
from nearcast.topk.kernels.seats import depth_for, largest_class, size_of_class

CONTINUES, SILENT, STAYS = 1, 2, 4
"""Flags of a request.

What it had before is what the request in front of it has at its end; nobody is told of changes; it
is still there after the step and gets a buffer.
"""


class RefillRequests(NamedTuple):
    """Requests as kernels read them; those of one chain follow each other."""

    ks: Int32s
    since: Int32s  # events
    until: Int32s
    flags: Bytes
    before_starts: Int64s
    before: Int32s  # its k best before, by age


class Answered(NamedTuple):
    """The messages that may matter to each request, by age."""

    starts: Int64s
    numbers: Int32s
    scores: Floats


class Settled(NamedTuple):
    """By message, whether it belongs to the fresh buffer; by request, the threshold of that."""

    kept: Bytes
    thetas: Floats


@inner_inlined
def depth_of(k: int) -> int:
    """How many messages a fresh buffer for the k best gets, if there are so many."""
    return depth_for(size_of_class(largest_class(k)))


@inner_inlined
def _mark(entries: Entries, count: int, numbers: Int32s, had: int) -> None:
    """Mark the entries that are among so many numbers, both by age."""
    at = 0
    for n in range(count):
        while at < had and numbers[at] < entries.numbers[n]:
            at += 1
        entries.was[n] = at < had and numbers[at] == entries.numbers[n]


@lean_kernel
def settle(
    clock: StepClock,
    changes: BufferChanges,
    entries: Entries,
    asked: RefillRequests,
    answered: Answered,
    settled: Settled,
    carried: Int32s,
    done: int,
    written: int,
) -> tuple[int, int, int]:
    """Settle requests from one on; give how far it came, what is written, and what must grow.

    It stops only in front of a chain. `carried` has room for the k best of one request.
    """
    chain, chain_written, had = done, written, wide(0)
    for n in range(done, len(asked.ks)):
        continues, silent = asked.flags[n] & CONTINUES != 0, asked.flags[n] & SILENT != 0
        if not continues:
            chain, chain_written = n, written
        lo, hi = answered.starts[n], answered.starts[n + 1]
        count, k = hi - lo, wide(asked.ks[n])
        if count > len(entries.numbers):
            return chain, chain_written, MORE_ENTRIES
        for m in range(count):
            entries.numbers[m] = answered.numbers[lo + m]
            entries.scores[m] = answered.scores[lo + m]
        if not continues:
            had = asked.before_starts[n + 1] - asked.before_starts[n]
            for m in range(had):
                carried[m] = asked.before[asked.before_starts[n] + m]
        _mark(entries, count, carried, had)
        if written + had > len(changes.events):
            return chain, chain_written, MORE_CHANGES
        # What it had and nobody answered is not among the best any more, nor will be.
        at = wide(0)
        for m in range(had):
            while at < count and entries.numbers[at] < carried[m]:
                at += 1
            if not silent and (at == count or entries.numbers[at] != carried[m]):
                changes.events[written], changes.subs[written] = asked.since[n], n
                changes.numbers[written], changes.scores[written] = carried[m], NOTHING
                written += 1
        walked = walk(
            clock, changes, written, n, entries, count, k, True, wide(asked.since[n]),
            wide(asked.until[n]), True,
        )  # fmt: skip
        if walked.written == NO_ROOM:
            return chain, chain_written, MORE_CHANGES
        if not silent:
            written = walked.written
        had = wide(0)
        for m in range(walked.begin, walked.end):
            if entries.was[m] != 0:
                carried[had] = entries.numbers[m]
                had += 1
        if asked.flags[n] & STAYS != 0:
            depth = depth_of(k)
            worst_score, worst = kth_of(entries, walked.begin, walked.end, depth)
            settled.thetas[n] = worst_score
            for m in range(count):
                settled.kept[lo + m] = walked.begin <= m < walked.end and not before(
                    worst_score, worst, entries.scores[m], wide(entries.numbers[m])
                )
    return len(asked.ks), written, DONE
