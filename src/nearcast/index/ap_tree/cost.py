"""The cost model (AP-Tree, section IV-A): how probable it is that a message hits a bucket.

With a history of messages, the probability of a term is the share of them that have it, and the
probability of a cell the share of those within its node that fall into it. Without one, terms are
as probable as they are frequent among the others of their node, and cells as they are large.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.ap_tree.tree import rank_of
from nearcast.index.base import Batch
from nearcast.index.table import Rows, Table

MOST_POINTS = 20_000
"""How many places of a history are kept, evenly spread over it."""


class Observed(NamedTuple):
    """What a history of messages says."""

    share: Floats  # by term: the share of messages that have it
    lons: Floats  # places of messages
    lats: Floats


class MessageStatistics(NamedTuple):
    """What is known or assumed about messages."""

    term: Floats  # by rank: probability, or frequency if `relative`
    relative: bool  # whether the terms of a node share a probability of 1
    lons: Floats  # places of messages
    lats: Floats
    space: Floats  # west, south, east, north of all rows
    rare: float  # probability, or frequency, of terms that come later


@kernel
def _count_terms(rows: Rows, chosen: Int32s, counts: Int64s) -> None:
    for row in chosen:
        for at in range(rows.first[row], rows.first[row] + rows.required[row]):
            counts[rows.terms[at]] += 1


def term_counts(table: Table, chosen: Int32s) -> Int64s:
    """Count the rows that require each term."""
    rows = table.rows
    most = int(rows.terms.max(initial=-1)) + 1
    counts = np.zeros(max(len(table.frequency), most), np.int64)
    _count_terms(rows, chosen, counts)
    return counts


def term_order(order: str, counts: Int64s) -> Int32s:
    """Give the rank of each term: frequent ones first, rare ones first, or at random.

    Terms that no row requires have none. They get one when they come, behind all others.
    """
    used = np.flatnonzero(counts)
    if order == "random":
        places = np.random.default_rng(len(used)).permutation(used)
    else:
        places = used[np.argsort(-counts[used] if order == "tf" else counts[used], kind="stable")]
    rank = np.full(len(counts), -1, np.int32)
    rank[places] = np.arange(len(used), dtype=np.int32)
    return rank


@kernel
def last_term(rows: Rows, chosen: Int32s) -> int:
    """Find the highest number of a term that some rows require; -1 if there are none."""
    last = -1
    for row in chosen:
        for at in range(rows.first[row], rows.first[row] + rows.required[row]):
            last = max(last, rows.terms[at])
    return last


@kernel
def rank_new_terms(rows: Rows, chosen: Int32s, rank: Int32s, following: int) -> int:
    """Give the terms that have come with some rows the ranks from `following` on."""
    for row in chosen:
        for at in range(rows.first[row], rows.first[row] + rows.required[row]):
            term = rows.terms[at]
            if rank[term] < 0:
                rank[term] = following
                following += 1
    return following


def observe(history: Batch) -> Observed:
    """Learn from a history of messages; a term that it lacks counts as half a message."""
    seen = np.bincount(history.terms[history.starts[0] : history.starts[-1]])
    step = max(1, -(-len(history) // MOST_POINTS))
    lons, lats = history.boxes[::step, ::2].mean(axis=1), history.boxes[::step, 1::2].mean(axis=1)
    share = (np.append(seen, 0) + 0.5) / (len(history) + 1.0)
    return Observed(share, lons, lats)


def hits_from(
    observed: Observed | None,
    message_terms: float | None,
    table: Table,
    chosen: Int32s,
    counts: Int64s,
    rank: Int32s,
) -> MessageStatistics:
    """Bring what is known of messages into the order of terms.

    Without a history it is the table's frequencies or, if none were given, how many rows
    require each term; as probabilities if it is known how many terms a message has.
    """
    relative = observed is None and message_terms is None
    used = np.flatnonzero(rank >= 0)
    term = np.zeros(len(used))
    lons = lats = np.empty(0)
    if observed is not None:
        lons, lats = observed.lons, observed.lats
        term[rank[used]] = observed.share[np.minimum(used, len(observed.share) - 1)]
    else:
        known = table.frequency if table.frequency.any() else counts
        term[rank[used]] = known[np.minimum(used, len(known) - 1)] + 1.0
        if message_terms is not None:
            term *= message_terms / max(1.0, term.sum())
    box = table.rows.box[chosen]
    space = np.array([-180.0, -90.0, 180.0, 90.0])
    if len(box):
        space = np.concatenate([box[:, :2].min(axis=0), box[:, 2:].max(axis=0)])
    return MessageStatistics(term, relative, lons, lats, space, float(term.min(initial=1.0)))


@inner_counting
def hit_of(hits: MessageStatistics, rank: int) -> float:
    """Give the probability, or the frequency, of a term; that of a rare one if it came later."""
    return float(hits.term[rank]) if rank < len(hits.term) else hits.rare


@inner_counting
def points_within(hits: MessageStatistics, region: Floats) -> Int32s:
    """Find the places of messages within a region."""
    found = np.empty(len(hits.lons), np.int32)
    count = 0
    for at in range(len(hits.lons)):
        lon, lat = hits.lons[at], hits.lats[at]
        if region[0] <= lon < region[2] and region[1] <= lat < region[3]:
            found[count] = at
            count += 1
    return found[:count]


@kernel
def ranked_terms(rows: Rows, rank: Int32s, chosen: Int32s) -> tuple[Int64s, Int32s]:
    """Give the ranks of the terms of each row, in order."""
    starts = np.empty(len(chosen) + 1, np.int64)
    starts[0] = 0
    for at in range(len(chosen)):
        starts[at + 1] = starts[at] + rows.required[chosen[at]]
    ranks = np.empty(starts[-1], np.int32)
    for at in range(len(chosen)):
        sorted_ranks(rows, rank, chosen[at], ranks, starts[at])
    return starts, ranks


@inner_counting
def sorted_ranks(rows: Rows, rank: Int32s, row: int, ranks: Int32s, start: int) -> None:
    """Write the ranks of a row's terms, in order, from `start` on."""
    first, count = rows.first[row], rows.required[row]
    for i in range(count):
        ranks[start + i] = rank_of(rank, rows.terms[first + i])
    sort(ranks, start, start + count)
