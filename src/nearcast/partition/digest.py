"""A sample, prepared for planning: which message asks for what, where, and at which cost.

A *unit* of text is what a plan assigns: a term of its own if it carries much load, or a bucket of
rare terms that share the remainder of their hashes. A *hit* is a message at a cell with a wanted
unit of text: some subscription nearby has a term of the message as its key. Hits are what H2
(PS2Stream, section IV-C) lets through.

What a hit costs is estimated from the rows of that key that the message's box meets, by what the
index `rarest-term` looks at for that many (`looked_at`); in that index it hardly depends on how the
rows are spread over workers, so hits can be added up. Where updates cost something, those of them
count that ask for nothing but that key: others may want terms that the message lacks.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel, lean_kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.grid import Grid, spans_of
from nearcast.partition.load import WorkCosts
from nearcast.partition.sample import SampleMessages, SampleRows
from nearcast.partition.tables import Terms, places_in
from nearcast.partition.text_map import TermUnits

BUCKETS = 512
"""Buckets that rare terms share."""

_MOST_HEAVY = 4096
_SHORT, _LEAF = 8, 16  # runs of the index: plain records, one block of records
_FIRST_LEAF, _MET, _EDGE = 14.0, 1.2, 7.5  # fitted to the index: see `looked_at`


class SampleRowsOnGrid(NamedTuple):
    """The rows of a sample on a grid; `listed` has the rows of each (block, key) together."""

    grid: Grid
    block: int
    boxes: Floats
    alone: npt.NDArray[np.bool_]  # whether each asks for one term only
    spans: Int32s  # first column, first row, last column, last row
    keys: Terms  # the distinct keys, sorted
    key: Int32s  # the key of each row
    runs: Int64s  # how many rows each key has
    codes: Int64s  # block x keys + key, sorted
    starts: Int64s  # where the rows of each code begin in `listed`
    listed: Int32s

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.boxes)


class SampleHits(NamedTuple):
    """What the messages of a sample ask for, ordered by message."""

    message: Int32s
    column: Int32s
    row: Int32s
    key: Int32s
    met: Int32s  # rows of that key that the message's box meets
    reported: Int32s  # those of them that ask for nothing else, and so get an update
    candidates: Floats
    messages: int  # all of them, also those without a hit

    def ns(self, costs: WorkCosts) -> Floats:
        """What each costs, beside its message."""
        return np.asarray(costs.check_ns * self.candidates + costs.update_ns * self.reported)


class Digest(NamedTuple):
    """What planners work on: hits with their cost, rows with theirs, both with a unit of text."""

    grid: Grid
    units: TermUnits
    message: Int32s
    column: Int32s
    row: Int32s
    unit: Int32s
    cost: Floats
    spans: Int32s
    row_unit: Int32s
    check_ns: float
    message_ns: float
    row_ns: float
    messages: int


def sums(numbers: npt.NDArray[np.integer], weights: Floats, size: int) -> Floats:
    """Add up weights by number, for numbers below `size`."""
    return np.asarray(np.bincount(numbers, weights, minlength=size), np.float64)


@kernel
def add_hits(
    message: Int32s, worker: Int32s, cost: Floats, message_ns: float, loads: Floats
) -> None:
    """Add to the load of each worker what its hits cost, and its messages, each once.

    Hit i is of message `message[i]`, in ascending order, and costs worker `worker[i]` as much as
    `cost[i]` says.
    """
    last = np.full(len(loads), -1, np.int64)
    for hit in range(len(message)):
        to = worker[hit]
        loads[to] += cost[hit]
        if last[to] != message[hit]:
            last[to] = message[hit]
            loads[to] += message_ns


def hold(rows: SampleRows, keys: Terms, grid: Grid, block: int) -> SampleRowsOnGrid:
    """Put rows on a grid whose blocks of `block` x `block` cells are what H2 speaks of."""
    spans = spans_of(grid, rows.boxes)
    distinct, key = np.unique(keys, return_inverse=True)
    key_of: Int32s = key.reshape(-1).astype(np.int32)
    columns = -(-grid.columns // block)
    codes, listed = _code_rows(spans // np.int32(block), columns, key_of, len(distinct))
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    firsts = np.flatnonzero(np.diff(codes, prepend=-1))
    return SampleRowsOnGrid(
        grid=grid,
        block=block,
        boxes=rows.boxes,
        alone=np.diff(rows.starts) == 1,
        spans=spans,
        keys=distinct,
        key=key_of,
        runs=np.bincount(key_of, minlength=len(distinct)).astype(np.int64),
        codes=codes[firsts],
        starts=np.append(firsts, len(codes)).astype(np.int64),
        listed=listed[order],
    )


@kernel
def _code_rows(spans: Int32s, columns: int, key: Int32s, keys: int) -> tuple[Int64s, Int32s]:
    count = 0
    for at in range(len(spans)):
        count += (spans[at, 2] - spans[at, 0] + 1) * (spans[at, 3] - spans[at, 1] + 1)
    codes, listed = np.empty(count, np.int64), np.empty(count, np.int32)
    filled = 0
    for at in range(len(spans)):
        for y in range(spans[at, 1], spans[at, 3] + 1):
            for x in range(spans[at, 0], spans[at, 2] + 1):
                codes[filled] = (np.int64(y) * columns + x) * keys + key[at]
                listed[filled] = at
                filled += 1
    return codes, listed


@lean_kernel
def looked_at(run: int, met: int) -> float:
    """Estimate the rows looked at in a run of `run` rows, of which `met` meet the message.

    A short run is looked at whole. A longer one is a tree with leaves of 16 rows: nearly one leaf
    where nothing is met, and then what is met and what lies beside it, which grows like an edge.
    Fitted to what the index counted for 38,000 hits in runs of 17 to 100,000 rows.
    """
    if run <= _SHORT:
        return float(run)
    if run <= _LEAF:
        return float(_LEAF)
    return _FIRST_LEAF + _MET * met + _EDGE * sqrt(met)


def hits_of(held: SampleRowsOnGrid, messages: SampleMessages, scale: float = 1.0) -> SampleHits:
    """Find what messages ask for; `scale` is how many rows there are for each sampled one.

    A message with a box has one hit for each block and term, at a cell of the block that it meets.
    """
    found, known = places_in(held.keys, messages.terms)
    keys = np.where(known, found, -1).astype(np.int32)
    spans = spans_of(held.grid, messages.boxes)
    most = _count_places(spans // np.int32(held.block), messages.starts, keys)
    places = np.empty((most, 6), np.int32)
    candidates = np.empty(most, np.float64)
    count = _find_hits(
        spans, messages.boxes, messages.starts, keys, held.grid, held.block, held.boxes,
        held.alone, held.spans, held.runs, held.codes, held.starts, held.listed, len(held.keys),
        scale, places, candidates,
    )  # fmt: skip
    message, column, row, key, met, reported = (
        np.ascontiguousarray(places[:count, field]) for field in range(6)
    )
    return SampleHits(
        message, column, row, key, met, reported, candidates[:count].copy(), messages.size
    )


@kernel
def _count_places(blocks: Int32s, starts: Int64s, keys: Int32s) -> int:
    count = 0
    for at in range(len(blocks)):
        known = 0
        for place in range(starts[at], starts[at + 1]):
            known += keys[place] >= 0
        count += known * (blocks[at, 2] - blocks[at, 0] + 1) * (blocks[at, 3] - blocks[at, 1] + 1)
    return count


@kernel
def _find_hits(
    spans: Int32s,
    places: Floats,
    starts: Int64s,
    keys: Int32s,
    grid: Grid,
    block: int,
    boxes: Floats,
    alone: npt.NDArray[np.bool_],
    row_spans: Int32s,
    runs: Int64s,
    codes: Int64s,
    code_starts: Int64s,
    listed: Int32s,
    distinct: int,
    scale: float,
    out: Int32s,
    candidates: Floats,
) -> int:
    """Write the hits of messages to `out` and `candidates`, and give how many there are.

    Message m has the box `places[m]`, the cells `spans[m]`, and the keys `keys[starts[m] : starts[m
    + 1]]`, -1 for terms that are no key. Row r has the box `boxes[r]`, the cells `row_spans[r]`,
    and `alone[r]` if it asks for one term only. The rows of the block and key `codes[i]` are
    `listed[code_starts[i] : code_starts[i + 1]]`; `runs` counts the rows of each key. A line of
    `out` has the fields of `SampleHits` up to `reported`.
    """
    columns = -(-grid.columns // block)
    count = 0
    for at in range(len(spans)):
        west, south = places[at, 0], places[at, 1]
        east, north = places[at, 2], places[at, 3]
        # Look up each block of the message with each of its keys.
        for y in range(spans[at, 1] // block, spans[at, 3] // block + 1):
            for x in range(spans[at, 0] // block, spans[at, 2] // block + 1):
                for place in range(starts[at], starts[at + 1]):
                    key = keys[place]
                    if key < 0:
                        continue
                    code = (np.int64(y) * columns + x) * distinct + key
                    found = np.searchsorted(codes, code)
                    if found == len(codes) or codes[found] != code:
                        continue
                    # Count the rows there that the message meets, and see if any shares a cell with
                    # it.
                    met, reported, wanted = 0, 0, False
                    for at_row in range(code_starts[found], code_starts[found + 1]):
                        row = listed[at_row]
                        wanted |= (
                            (row_spans[row, 0] <= spans[at, 2])
                            & (row_spans[row, 2] >= spans[at, 0])
                            & (row_spans[row, 1] <= spans[at, 3])
                            & (row_spans[row, 3] >= spans[at, 1])
                        )
                        meets = (
                            (boxes[row, 0] <= east)
                            & (boxes[row, 2] >= west)
                            & (boxes[row, 1] <= north)
                            & (boxes[row, 3] >= south)
                        )
                        met += meets
                        reported += meets & alone[row]
                    if not wanted:
                        continue
                    # Write the hit, at a cell of the block that the message meets.
                    out[count, 0] = at
                    out[count, 1] = min(max(spans[at, 0], x * block), grid.columns - 1)
                    out[count, 2] = min(max(spans[at, 1], y * block), grid.rows - 1)
                    out[count, 3] = key
                    out[count, 4] = int(met * scale)
                    out[count, 5] = int(reported * scale)
                    candidates[count] = looked_at(int(runs[key] * scale), int(met * scale))
                    count += 1
    return count


def units_for(
    held: SampleRowsOnGrid, hits: SampleHits, costs: WorkCosts, row_ns: float, share: float
) -> TermUnits:
    """Make a term a unit of its own if it carries more than this share of all load."""
    distinct = len(held.keys)
    own = hits.ns(costs) + costs.message_ns
    load = sums(hits.key, own, distinct) + row_ns * held.runs
    heavy = np.flatnonzero(load > share * load.sum())
    if len(heavy) > _MOST_HEAVY:
        heavy = np.sort(heavy[np.argsort(-load[heavy], kind="stable")[:_MOST_HEAVY]])
    return units_of(held.keys[heavy])


def units_of(heavy: Terms) -> TermUnits:
    """Units of text: some terms, sorted by hash, in that order, and buckets of rare ones."""
    return TermUnits(heavy, np.arange(len(heavy), dtype=np.int32), BUCKETS)


def digest_of(
    held: SampleRowsOnGrid,
    hits: SampleHits,
    units: TermUnits,
    costs: WorkCosts,
    row_ns: float,
    placed: Int64s,
) -> Digest:
    """Put together what planners work on.

    `placed` are the rows whose own cost is weighed, `row_ns` is what one of them costs a worker
    that holds it, for as long as the messages take to arrive.
    """
    unit_of_key = units.of(held.keys)
    return Digest(
        grid=held.grid,
        units=units,
        message=hits.message,
        column=hits.column,
        row=hits.row,
        unit=unit_of_key[hits.key],
        cost=hits.ns(costs),
        spans=held.spans[placed],
        row_unit=unit_of_key[held.key[placed]],
        check_ns=costs.check_ns,
        message_ns=costs.message_ns,
        row_ns=row_ns,
        messages=hits.messages,
    )


def thinned(d: Digest, most_messages: int, most_placed: int) -> Digest:
    """Give a digest of the first messages, and of rows that represent more rows each."""
    messages = max(min(d.messages, most_messages), 1)
    hits = int(np.searchsorted(d.message, messages))
    every = max(-(-len(d.spans) // most_placed), 1)
    spans = d.spans[::every]
    stands_for = len(d.spans) / max(len(spans), 1)
    return d._replace(
        message=d.message[:hits],
        column=d.column[:hits],
        row=d.row[:hits],
        unit=d.unit[:hits],
        cost=d.cost[:hits],
        spans=np.ascontiguousarray(spans),
        row_unit=np.ascontiguousarray(d.row_unit[::every]),
        row_ns=d.row_ns * stands_for * messages / max(d.messages, 1),
        messages=messages,
    )
