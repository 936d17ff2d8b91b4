"""The indexes of one benchmark on one table: timed, and compared with each other.

Everything is done to all of them in turn, so that a busy moment of the machine meets all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter, process_time, thread_time_ns

import numpy as np
import numpy.typing as npt

from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index import Batch, Index, IndexChoice, Table, match
from nearcast_lab.timing import cpu_of, in_turns
from nearcast_lab.workloads.arrays import Subscriptions

_SLICE = 2000
_ROWS_AT_A_TIME = 10_000


class Contestant:
    """An index that is measured, and what was found so far."""

    def __init__(self, choice: IndexChoice, table: Table) -> None:
        self.choice = choice
        self.index: Index = choice.make(table)
        self.slices = 0
        """How many slices of messages it gets through in the time it is given."""

    def build(self) -> float:
        """Build it, and give the seconds of CPU."""
        return cpu_of(self.index.build)[1]


class MatchTally:
    """What one pass over the messages found; two passes that agree have equal digests."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0
        self.messages = self.matches = self.candidates = 0
        self.digests: list[int] = []


def slices_of(batch: Batch, size: int = _SLICE) -> list[Batch]:
    """Cut messages into slices small enough for their answers to fit in memory."""
    edges = [*range(0, len(batch), size), len(batch)]
    return [batch.part(start, stop) for start, stop in pairwise(edges)]


def known_terms(batch: Batch, subscriptions: Subscriptions, vocabulary: int) -> Batch:
    """Leave out the terms that no subscription has, as an engine does when it reads a message."""
    known = np.zeros(vocabulary, np.bool_)
    known[subscriptions.terms] = True
    kept = known[batch.terms]
    return Batch(starts_of(kept)[batch.starts], batch.terms[kept], batch.boxes)


def run(index: Index, slices: list[Batch], threads: int) -> MatchTally:
    """Match all slices, and time it."""
    tally = MatchTally()
    for batch in slices:
        began, started = perf_counter(), process_time()
        found = match(index, batch, threads)
        tally.cpu_s += process_time() - started
        tally.wall_s += perf_counter() - began
        tally.messages += len(batch)
        tally.matches += len(found.owners)
        tally.candidates += found.candidates
        pairs = found.messages.astype(np.uint64) << np.uint64(32) | found.owners.astype(np.uint64)
        tally.digests.append(digest_of(pairs))
    return tally


def digest_of(found: npt.NDArray[np.uint64]) -> int:
    """A number that does not depend on the order of what was found."""
    mixed = (found + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return int((mixed ^ (mixed >> np.uint64(32))).sum(dtype=np.uint64)) ^ len(found)


def calibrate(contestants: Sequence[Contestant], slices: list[Batch], budget_s: float) -> None:
    """Give slow indexes fewer messages, so that a round of each stays within the budget."""
    for contestant in contestants:
        trial = slices[0].part(0, max(1, len(slices[0]) // 40))
        seconds = run(contestant.index, [trial], 1).cpu_s / len(trial) * len(slices[0])
        contestant.slices = min(len(slices), max(1, int(budget_s / max(seconds, 1e-9))))


def rounds(
    contestants: Sequence[Contestant], slices: list[Batch], threads: int, count: int
) -> list[tuple[float, MatchTally]]:
    """Let all indexes match in turn, several times; median CPU seconds and last tally of each."""
    seconds: list[list[float]] = [[] for _ in contestants]
    tallies = [MatchTally() for _ in contestants]
    for _, at in in_turns(range(len(contestants)), count):
        contestant = contestants[at]
        tallies[at] = run(contestant.index, slices[: contestant.slices], threads)
        seconds[at].append(tallies[at].cpu_s)
    return [(median(taken), tally) for taken, tally in zip(seconds, tallies, strict=True)]


def beside_a_fresh_one(
    contestant: Contestant, slices: list[Batch], count: int
) -> list[tuple[float, MatchTally]]:
    """Let an index match in turn with a fresh one, as `rounds` does, and keep the fresh one."""
    fresh = Contestant(contestant.choice, contestant.index.table)
    fresh.slices = contestant.slices
    fresh.build()
    measured = rounds([contestant, fresh], slices, 1, count)
    contestant.index = fresh.index
    return measured


def single_calls(index: Index, batch: Batch, budget_s: float) -> npt.NDArray[np.float64]:
    """Time calls with one message each, in microseconds of CPU, until the budget is spent."""
    taken = []
    spent = 0
    for at in range(len(batch)):
        message = batch.part(at, at + 1)
        started = thread_time_ns()
        match(index, message)
        taken.append(thread_time_ns() - started)
        spent += taken[-1]
        if spent > budget_s * 1e9:
            break
    return np.array(taken) / 1000.0


def add_to_table(table: Table, subscriptions: Subscriptions, first: int, end: int) -> Int32s:
    """Add the subscriptions numbered `first` up to `end`, each its own owner."""
    starts: Int64s = subscriptions.starts[first : end + 1]
    return table.add_boxes(
        np.arange(first, end, dtype=np.int32),
        subscriptions.boxes[first:end],
        starts - starts[0],
        subscriptions.terms[starts[0] : starts[-1]],
    )


def insert_more(
    contestants: list[Contestant], table: Table, subscriptions: Subscriptions, singles: int
) -> list[tuple[float, float]]:
    """Insert what the table lacks: microseconds a row in batch, and the median of single calls.

    Only the index is timed. The first `singles` rows are inserted one by one.
    """
    first, end = len(table), len(subscriptions)
    singles = min(singles, (end - first) // 2)
    edges = [*range(first, first + singles), *range(first + singles, end, _ROWS_AT_A_TIME), end]
    single: list[list[float]] = [[] for _ in contestants]
    in_batch = [0.0] * len(contestants)
    for start, stop in pairwise(edges):
        rows = add_to_table(table, subscriptions, start, stop)
        for at, contestant in enumerate(contestants):
            started = thread_time_ns()
            contestant.index.insert(rows)
            taken = (thread_time_ns() - started) / 1000.0
            if start < first + singles:
                single[at].append(taken)
            else:
                in_batch[at] += taken
    count = max(1, end - first - singles)
    return [
        (total / count, median(one) if one else 0.0)
        for total, one in zip(in_batch, single, strict=True)
    ]


def delete_some(contestants: list[Contestant], table: Table, rows: Int32s) -> list[float]:
    """Delete rows in batches, and give the microseconds a row that each index took."""
    taken = [0.0] * len(contestants)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        some = rows[start : start + _ROWS_AT_A_TIME]
        for at, contestant in enumerate(contestants):
            started = thread_time_ns()
            contestant.index.delete(some)
            taken[at] += (thread_time_ns() - started) / 1000.0
        # Numbers are not released: the indexes share the table, and may keep them differently long.
        table.remove(some)
    return [total / max(1, len(rows)) for total in taken]
