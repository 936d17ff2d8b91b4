"""The protocol that all indexes follow, and what they share.

An index is made over a `Table` and follows the rows that come and go. It answers batches: for each
message the rows that match, exactly. Text has become term ids by then, and place a plain box, of
size zero for a point.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.owners import owners_once
from nearcast.index.table import RESIDUAL, SHARED, Table


class Batch(NamedTuple):
    """Some messages: the terms of message i are `terms[starts[i] : starts[i + 1]]`, each once.

    Terms that no subscription has may be left out. `boxes` is (n, 4): west, south, east, north,
    west <= east; a range message across the antimeridian is in two places of a batch.
    """

    starts: Int64s
    terms: Int32s
    boxes: Floats

    def __len__(self) -> int:
        return len(self.boxes)

    def part(self, start: int, stop: int) -> Batch:
        """Some of the messages, without copying their terms."""
        return Batch(self.starts[start : stop + 1], self.terms, self.boxes[start:stop])


class Pairs(NamedTuple):
    """Which message matches which row, and how many rows were looked at to find out."""

    messages: Int32s
    rows: Int32s
    candidates: int


class Matches(NamedTuple):
    """Which message matches which owner, each pair once, ordered by message."""

    messages: Int32s
    owners: Int32s
    candidates: int


class Index(Protocol):
    """What every index can do.

    `build` takes all live rows of the table at once; `insert` and `delete` follow the table while
    it changes. A row is deleted from the index before the table removes it. `delete` gives back
    the rows that nothing in the index refers to any more, these or earlier ones, for the table to
    release; an index that deletes lazily keeps the others until it has cleaned up.
    """

    name: ClassVar[str]
    table: Table

    def __init__(self, table: Table) -> None:
        """Make an empty index over a table."""
        ...

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        ...

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table."""
        ...

    def delete(self, rows: Int32s) -> Int32s:
        """Forget rows, and give those that may be released."""
        ...

    def move(self, rows: Int32s) -> None:
        """Take note that the boxes of rows have changed in the table."""
        ...

    def candidates(self, batch: Batch) -> Pairs:
        """Find the rows that match each message; safe to call from several threads at once."""
        ...

    def stats(self) -> Mapping[str, float]:
        """Figures about the index, `bytes` (without the table) always among them."""
        ...

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        ...

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        ...


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work: to start them costs as much as to match a thousand messages."""
    return ThreadPoolExecutor(threads, "nearcast-match")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of the threads


Residuals = Callable[[Int32s, Int32s], npt.NDArray[np.bool_]]
"""Says which messages, by their places in a batch, satisfy which residual predicates."""


def match(
    index: Index, batch: Batch, threads: int = 1, residuals: Residuals | None = None
) -> Matches:
    """Match a batch, with its messages spread over threads.

    An index finds what matches by region and terms; `residuals` decides the rows that ask for more.
    """
    if threads <= 1 or len(batch) < 2 * threads:
        return _settle(index.table, index.candidates(batch), residuals)
    edges = np.linspace(0, len(batch), threads + 1).astype(int).tolist()
    spans = list(pairwise(edges))
    parts = list(_pool(threads).map(lambda span: index.candidates(batch.part(*span)), spans))
    messages = [part.messages + span[0] for part, span in zip(parts, spans, strict=True)]
    return _settle(
        index.table,
        Pairs(
            np.concatenate(messages).astype(np.int32),
            np.concatenate([part.rows for part in parts]),
            sum(part.candidates for part in parts),
        ),
        residuals,
    )


def passing(table: Table, pairs: Pairs, residuals: Residuals | None) -> Pairs:
    """The pairs whose residual predicates hold, and all that have none."""
    asking = np.flatnonzero(table.rows.flags[pairs.rows] & RESIDUAL)
    if not len(asking):
        return pairs
    assert residuals is not None  # noqa: S101 - who adds such rows can decide them
    kept = np.ones(len(pairs.rows), np.bool_)
    kept[asking] = residuals(pairs.messages[asking], table.residuals_of(pairs.rows[asking]))
    return Pairs(pairs.messages[kept], pairs.rows[kept], pairs.candidates)


def _settle(table: Table, pairs: Pairs, residuals: Residuals | None) -> Matches:
    """Turn rows into owners, each owner once per message."""
    if table.residual:
        pairs = passing(table, pairs, residuals)
    if table.own_rows:
        return Matches(*pairs)
    rows = table.rows
    owners = rows.owner[pairs.rows]
    if not (table.shared and (rows.flags[pairs.rows] & SHARED).any()):
        return Matches(pairs.messages, owners, pairs.candidates)
    messages = np.empty(len(owners), np.int32)
    count = owners_once(pairs.messages, pairs.rows, rows.owner, rows.flags, messages, owners)
    return Matches(messages[:count], owners[:count], pairs.candidates)


Scanner = Callable[[int, Int32s, Int32s], tuple[int, int, int]]


def collect(count: int, scan: Scanner, room: int = 1024) -> Pairs:
    """Run a kernel that fills fixed arrays until all messages are done, and join what it found.

    `scan(start, messages, rows)` matches the messages from `start` on, writes pairs into the two
    arrays, and gives (next message, pairs written, candidates). It stops in front of a message
    whose pairs do not fit any more, having written and counted nothing for it; if that was the
    first one, it is called again with larger arrays.
    """
    start = filled = candidates = 0
    room = max(room, 2 * count)
    messages, rows = np.empty(room, np.int32), np.empty(room, np.int32)
    while start < count:
        start, written, looked_at = scan(start, messages[filled:], rows[filled:])
        candidates += looked_at
        filled += written
        if start < count:
            # Room for the rest at the rate so far, and then some. What is never written of a
            # large array takes no memory.
            wanted = filled + (count - start) * (filled + 1024) // (start + 1) * 5 // 4
            room = max(wanted, 2 * room)
            messages, rows = _larger(messages, filled, room), _larger(rows, filled, room)
    return Pairs(messages[:filled], rows[:filled], candidates)


def _larger(array: Int32s, filled: int, room: int) -> Int32s:
    grown = np.empty(room, np.int32)
    grown[:filled] = array[:filled]
    return grown
