"""Construction (AP-Tree, Algorithm 4): split what a node holds, by terms or by place.

One kernel makes a whole subtree. The rows of the nodes still to be made are one behind the
other in `work`, the last node's last, so that finished ones are simply cut off its end; so do the
places of messages in `points`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner_counting
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.ap_tree.cost import MessageStatistics, hit_of
from nearcast.index.ap_tree.keyword import heuristic_cuts, optimal_cuts, partition_cost
from nearcast.index.ap_tree.spatial import SAMPLE, cell_hits, cell_weights, strip_edges
from nearcast.index.ap_tree.tree import (
    CUTS,
    EDGES,
    ENTRIES,
    KEYWORD,
    LEAF,
    SLOTS,
    SPATIAL,
    ApTreeArrays,
    is_wide,
    strip_of,
)

ADAPTIVE, KEYWORD_FIRST, SPACE_FIRST, TRIE = 0, 1, 2, 3
"""Strategies."""
WORTH = 0.9
"""A spatial partition must save at least a tenth of what it costs to verify all rows.

Space first asks for one all the same, as in the paper.
"""

FINEST = 1e-4
"""Quadtrees do not divide regions narrower than this, in degrees."""


class TreeOptions(NamedTuple):
    """The options of a tree, as kernels read them."""

    fanout: int
    capacity: int
    optimal: bool
    strategy: int
    share: float
    copies: float
    again: bool  # whether cuts of several terms are cut again at the same offset


class ByTerm(NamedTuple):
    """A keyword partition of some rows."""

    keys: Int64s  # rank and place of the row, in order
    short: Int32s  # rows without a term at this offset
    terms: Int64s  # where the keys of each distinct term start, and the end
    stops: Int64s  # where cuts end among the distinct terms
    cost: float


class ByPlace(NamedTuple):
    """A spatial partition of some rows; without cells when it is not worth it."""

    across: Floats
    up: Floats
    weights: Int64s
    wide: int
    copies: int
    cost: float


@inner_counting
def keyword_partition(
    work: Int32s,
    start: int,
    stop: int,
    offset: int,
    starts: Int64s,
    ranks: Int32s,
    hits: MessageStatistics,
    plan: TreeOptions,
    wanted: bool,
) -> ByTerm:
    """Cut the rows of a node by their term at an offset; give no cuts if that is not wanted.

    `work[start:stop]` holds the rows of the node, as places in the list of rows that the tree is
    made from. The ranks of such a row are `ranks[starts[local] : starts[local + 1]]`, in ascending
    order.
    """
    if not wanted:
        none = np.empty(0, np.int64)
        return ByTerm(none, np.empty(0, np.int32), none, none, np.inf)
    # Pair each row with its rank at the offset; rows without one go to `short`.
    keys = np.empty(stop - start, np.int64)
    short = np.empty(stop - start, np.int32)
    count = few = 0
    for at in range(start, stop):
        local = work[at]
        if starts[local] + offset < starts[local + 1]:
            keys[count] = (np.int64(ranks[starts[local] + offset]) << 32) | local
            count += 1
        else:
            short[few] = local
            few += 1
    keys = keys[:count]
    sort(keys, 0, count)
    # Find where each distinct term starts, and sum up weights and hit probabilities.
    terms = np.empty(count + 1, np.int64)
    weight, hit = np.empty(count + 1), np.empty(count + 1)
    distinct = 0
    for at in range(count):
        if at == 0 or keys[at] >> 32 != keys[at - 1] >> 32:
            terms[distinct] = at
            distinct += 1
    terms[distinct] = count
    weight[0] = hit[0] = 0.0
    for term in range(distinct):
        weight[term + 1] = terms[term + 1]
        hit[term + 1] = hit[term] + hit_of(hits, keys[terms[term]] >> 32)
    weight, hit = weight[: distinct + 1], hit[: distinct + 1]
    if hits.relative and distinct:
        total = hit[distinct]
        for term in range(distinct + 1):
            hit[term] /= total
    # Cut the ordered terms (Algorithm 2 or 3). All rows of the dummy cut are always verified.
    fanout = distinct if plan.strategy == TRIE else min(plan.fanout, distinct)
    if plan.optimal and fanout < distinct:
        stops = optimal_cuts(weight, hit, fanout)
    else:
        stops = heuristic_cuts(weight, hit, fanout)
    cost = partition_cost(weight, hit, stops) + few
    return ByTerm(keys, short[:few], terms[: distinct + 1], stops, cost)


@inner_counting
def node_bounds(tree: ApTreeArrays, node: int, hits: MessageStatistics) -> Floats:
    """Give the region of a node as far as there are rows."""
    bounds, region = np.empty(4), tree.nodes[node].region
    for side in range(2):
        bounds[side] = max(tree.regions[region, side], hits.space[side])
        bounds[side + 2] = min(tree.regions[region, side + 2], hits.space[side + 2])
    return bounds


@inner_counting
def _dimension(
    box: Floats, side: int, chosen: Int32s, work: Int32s, start: int, stop: int, points: Floats,
    low: float, high: float, count: int,
) -> Floats:  # fmt: skip
    step = max(1, -(-(stop - start) // SAMPLE))
    number = -(-(stop - start) // step)
    lows, highs = np.empty(number), np.empty(number)
    for i in range(number):
        row = chosen[work[start + i * step]]
        lows[i], highs[i] = box[row, side], box[row, side + 2]
    sort(lows, 0, number)
    sort(highs, 0, number)
    return strip_edges(lows, highs, points, low, high, count)


@inner_counting
def spatial_partition(
    tree: ApTreeArrays, node: int, box: Floats, chosen: Int32s, work: Int32s, start: int, stop: int,
    hits: MessageStatistics, points: Int32s, seen: int, known: int, plan: TreeOptions, wanted: bool,
) -> ByPlace:  # fmt: skip
    """Lay a grid over the rows: the finest, in halving steps, that replicates little enough.

    `chosen` holds the rows that the tree is made from, `work[start:stop]` the places in it of the
    rows of this node, and `box` the boxes of all rows. `points[seen:known]` are the places in
    `hits.lons` and `hits.lats` of the messages that fall into the node.
    """
    nothing = ByPlace(np.empty(0), np.empty(0), np.empty(0, np.int64), 0, 0, np.inf)
    if not wanted:
        return nothing
    number = stop - start
    bounds = node_bounds(tree, node, hits)
    # Sort the coordinates of the messages, which `strip_edges` searches.
    lons, lats = np.empty(known - seen), np.empty(known - seen)
    for i in range(known - seen):
        lons[i], lats[i] = hits.lons[points[seen + i]], hits.lats[points[seen + i]]
    sort(lons, 0, known - seen)
    sort(lats, 0, known - seen)
    # Start with as many cells as the fanout and the rows allow.
    columns = int(np.sqrt(min(plan.fanout, number)))
    lines = min(plan.fanout, number) // max(1, columns)
    # Rows in one place must not be divided for ever: some cell has to be rid of some, or, where
    # a quadtree needs several steps to come near them, the region must still be large.
    quarters = plan.strategy == TRIE
    if quarters:
        columns = lines = 2 if bounds[2] - bounds[0] > FINEST else 1
    while columns > 1 and lines > 1:
        # Place the edges of columns and lines.
        if quarters:
            across = np.array([(bounds[0] + bounds[2]) / 2])
            up = np.array([(bounds[1] + bounds[3]) / 2])
        else:
            across = _dimension(
                box, 0, chosen, work, start, stop, lons, bounds[0], bounds[2], columns
            )
            up = _dimension(box, 1, chosen, work, start, stop, lats, bounds[1], bounds[3], lines)
        weights, wide, copies = cell_weights(box, chosen, work, start, stop, across, up, plan.share)
        # Take the grid if it replicates little enough and saves enough.
        if tree.nodes[node].copies * (copies + wide) <= plan.copies * number:
            chances = cell_hits(bounds, across, up, hits.lons, hits.lats, points, seen, known)
            cost = np.float64(wide)
            most = 0
            for cell in range(len(weights)):
                cost += weights[cell] * chances[cell]
                most = max(most, weights[cell])
            worth = cost < WORTH * number or plan.strategy == SPACE_FIRST
            if worth and (most < number or quarters):
                return ByPlace(across, up, weights, wide, copies, cost)
        columns //= 2
        lines //= 2
    return nothing


@inner_counting
def fill_leaf(
    tree: ApTreeArrays,
    node: int,
    chosen: Int32s,
    work: Int32s,
    start: int,
    stop: int,
    capacity: int,
) -> None:
    """Give a node its rows as entries. If it is over-full all the same, it may double first."""
    at, count = tree.sizes[ENTRIES], stop - start
    for i in range(count):
        tree.entries[at + i] = chosen[work[start + i]]
    tree.nodes[node].kind = LEAF
    tree.nodes[node].first = at
    tree.nodes[node].count = count
    tree.nodes[node].room = count
    tree.nodes[node].aux = capacity if count <= capacity else 2 * count
    tree.sizes[ENTRIES] += count


@inner_counting
def _add_slots(tree: ApTreeArrays, node: int, kind: int, buckets: int) -> None:
    at = tree.sizes[SLOTS]
    for slot in range(at, at + buckets + 1):
        tree.slots[slot, 0] = -1
        tree.slots[slot, 1] = tree.slots[slot, 2] = 0
    tree.nodes[node].kind = kind
    tree.nodes[node].first = at
    tree.nodes[node].count = buckets
    tree.sizes[SLOTS] += buckets + 1


@inner_counting
def make_keyword_node(tree: ApTreeArrays, node: int, found: ByTerm) -> None:
    """Turn a node into a keyword node, without children yet."""
    buckets = len(found.stops)
    _add_slots(tree, node, KEYWORD, buckets)
    at = tree.sizes[CUTS]
    tree.nodes[node].aux = at
    tree.nodes[node].room = 0
    start = 0
    for cut in range(buckets):
        stop = found.stops[cut]
        tree.cuts[at + cut, 0] = found.keys[found.terms[start]] >> 32
        tree.cuts[at + cut, 1] = found.keys[found.terms[stop] - 1] >> 32
        start = stop
    tree.sizes[CUTS] += buckets


@inner_counting
def make_spatial_node(tree: ApTreeArrays, node: int, found: ByPlace) -> None:
    """Turn a node into a spatial node, without children yet."""
    _add_slots(tree, node, SPATIAL, len(found.weights))
    at, columns, lines = tree.sizes[EDGES], len(found.across), len(found.up)
    for i in range(columns):
        tree.edges[at + i] = found.across[i]
    for i in range(lines):
        tree.edges[at + columns + i] = found.up[i]
    tree.nodes[node].aux = at
    tree.nodes[node].room = columns + 1
    tree.sizes[EDGES] += columns + lines


@inner_counting
def deal_cells(
    box: Floats, chosen: Int32s, work: Int32s, start: int, stop: int, found: ByPlace, share: float,
    top: int, ends: Int64s,
) -> None:  # fmt: skip
    """Write the rows of the dummy cell, then those of each cell, behind `top`."""
    columns, lines = len(found.across) + 1, len(found.up) + 1
    wide = top
    for at in range(start, stop):
        row = chosen[work[at]]
        west = strip_of(found.across, 0, columns, box[row, 0])
        east = strip_of(found.across, 0, columns, box[row, 2])
        south = strip_of(found.up, 0, lines, box[row, 1])
        north = strip_of(found.up, 0, lines, box[row, 3])
        covered = (east - west + 1) * (north - south + 1)
        if is_wide(covered, columns * lines, share):
            work[wide] = work[at]
            wide += 1
            continue
        for line in range(south, north + 1):
            for cell in range(line * columns + west, line * columns + east + 1):
                work[ends[cell]] = work[at]
                ends[cell] += 1
