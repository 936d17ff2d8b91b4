"""The arrays of the paper's subscription indexes and result buffers."""

from __future__ import annotations

from typing import NamedTuple

from nearcast.arrays.types import Floats, Int32s, Int64s

# Dissemination methods.
TAAT, CIQ, IGPT = range(3)

# Options, one scalar each; the prunings can be switched off one by one.
(
    METHOD, TERM_FIRST, PREFIX, REFINED, INNER, UNSEEN, GROUPS, EARLY, CELLS, AS_PRINTED,
    LEAF_COUNT, LIST_COUNT, ENTRY_END, NODE_END, NODE_FREE, RANK_END, POLICY, PARAMETER,
    PLANES, SKIPPED_CELLS, FIRST_BEFORE, NEXT_BEFORE, EXPIRED, ARRIVED,
) = range(24)  # fmt: skip
OPTIONS = 24
"""The last five: cells that lemma 6 skipped; the oldest and the next message when the period began
over which arrivals and expiries are counted; and how many of each the period before it had."""

# A posting list of a cell and a term.
ROW = 6
OFFSET, SIZE, COUNT, NEXT_OF_TERM, CELL, TERM = range(6)

# A posting: planes of floats, of which CIQ has the first two, and two of integers behind them.
K_STAR, WEIGHT, ALPHA_STAR, WEIGHT_SUM, LARGEST_NEXT, INNER_DISTANCE, LARGEST_AFTER, ALPHA_AFTER = (
    range(8)
)
CIQ_PLANES, IGPT_PLANES = 2, 8

CELL_FIELDS = 5
WEST, SOUTH, EAST, NORTH, LAMBDA = range(5)
"""A cell: its box, and the least spatial threshold of its subscriptions (equation 8)."""

DEPTH = 3
"""Of the quadtree of CIQ: a subscription is covered by three cells a level and one more."""

# Re-evaluation policies.
C_SKYBAND, SKYBAND, K_MAX = range(3)

# A result buffer, sorted by score.
RANKS = 5
BUFFER, KIND, LENGTH, K, LOGGED = range(5)
SMALLEST = 8
"""Entries of a buffer of class 0; each class has twice as many."""


class SkypeArrays(NamedTuple):
    """A subscription index, of one of the methods."""

    options: Int64s
    keys: Int64s  # of (cell, term)
    values: Int32s
    lists: Int32s
    term_heads: Int32s
    entry_f: Floats
    entry_i: Int32s
    entry_free: Int32s
    cells: Floats
    leaves: Int32s  # the cells that hold subscriptions
    cell_heads: Int32s  # the first subscription of each cell
    neighbours: Int32s  # of each subscription, the one after and the one before it in its cell
    sub_cells: Int32s
    group_edges: Floats
    stamps: Int32s
    sums: Floats
    touched: Int32s
    weight_sums: Floats  # of the message at hand, from each term on
    largest: Floats
    ranks: Int32s
    rank_f: Floats
    rank_i: Int32s
    rank_free: Int32s
    nodes: Int32s  # pairs of a subscription and the next node: who buffers a message
