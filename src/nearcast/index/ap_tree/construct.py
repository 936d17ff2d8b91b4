"""Making and remaking of subtrees (AP-Tree, Algorithm 4 and section IV-E)."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.in_kernels import longer, taller
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.ap_tree.build import (
    KEYWORD_FIRST,
    SPACE_FIRST,
    TRIE,
    TreeOptions,
    deal_cells,
    fill_leaf,
    keyword_partition,
    make_keyword_node,
    make_spatial_node,
    node_bounds,
    spatial_partition,
)
from nearcast.index.ap_tree.cost import MessageStatistics, points_within, ranked_terms
from nearcast.index.ap_tree.motion import STILL, Motion, moving_cost
from nearcast.index.ap_tree.tree import (
    CHILD,
    GONE,
    LEAF,
    NOW,
    OLD,
    ApTreeArrays,
    add_node,
    narrow_region,
    reserve,
    strip_of,
)
from nearcast.index.table import Rows


@kernel
def gather(tree: ApTreeArrays, top: int) -> Int32s:
    """Collect the rows below a node, once for each copy, and mark what is below it as gone."""
    found = np.empty(64, np.int32)
    stack = np.empty(64, np.int32)
    stack[0] = top
    count, height = 0, 1
    while height:
        height -= 1
        node = stack[height]
        first, number = tree.nodes[node].first, tree.nodes[node].count
        if tree.nodes[node].kind == LEAF:
            found = longer(found, count + number)
            for at in range(first, first + number):
                found[count] = tree.entries[at]
                count += 1
        else:
            stack = longer(stack, height + number + 1)
            for slot in range(first, first + number + 1):
                if tree.slots[slot, CHILD] >= 0:
                    stack[height] = tree.slots[slot, CHILD]
                    height += 1
        if node != top:
            tree.nodes[node].kind = GONE
    return found[:count]


@inner_counting
def _longest(work: Int32s, start: int, stop: int, starts: Int64s) -> int:
    most = 0
    for at in range(start, stop):
        most = max(most, starts[work[at] + 1] - starts[work[at]])
    return most


@kernel
def construct(
    tree: ApTreeArrays,
    top: int,
    chosen: Int32s,
    rows: Rows,
    rank: Int32s,
    hits: MessageStatistics,
    plan: TreeOptions,
    motion: Motion,
) -> ApTreeArrays:
    """Make the subtree of a node from rows (Algorithm 4); give the tree with its arenas grown.

    `chosen` holds the rows; `rank` the place of each term in the order of terms. A frame of the
    stack is a node still to be made, the span of its rows in `work`, and the span of the messages
    that fall into it in `points`. `work` holds places in `chosen`, `points` places in `hits.lons`.
    """
    # Begin with the node itself: all rows, and all messages within its region.
    starts, ranks = ranked_terms(rows, rank, chosen)
    work = np.empty(len(chosen), np.int32)
    for local in range(len(chosen)):
        work[local] = local
    points = points_within(hits, tree.regions[tree.nodes[top].region])
    stack = np.empty((64, 5), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = top, 0, len(chosen)
    stack[0, 3], stack[0, 4] = 0, len(points)
    height = 1
    while height:
        height -= 1
        node, start, stop = stack[height, 0], stack[height, 1], stack[height, 2]
        seen, known = stack[height, 3], stack[height, 4]
        # Few rows, or nothing left to divide them by: a leaf.
        tree.nodes[node].made = stop - start
        offset = tree.nodes[node].offset
        placed = tree.nodes[node].placed != 0
        allowed = tree.nodes[node].keyed != 0
        keyed = allowed and offset < _longest(work, start, stop, starts)
        trie = plan.strategy == TRIE and keyed
        if not trie and (stop - start < plan.capacity or not (keyed or placed)):
            tree = reserve(tree, 0, 0, 0, 0, 0, stop - start)
            fill_leaf(tree, node, chosen, work, start, stop, plan.capacity)
            continue
        # Find the best partition by place and by term, as far as the strategy asks for them.
        by_key = keyed and not (plan.strategy == SPACE_FIRST and placed)
        by_place = placed and not (plan.strategy in (KEYWORD_FIRST, TRIE) and keyed)
        if by_place:
            points, seen, known = _thinned(points, seen, known, stop - start)
        place = spatial_partition(
            tree, node, rows.box, chosen, work, start, stop, hits, points, seen, known, plan,
            by_place,
        )  # fmt: skip
        if keyed and len(place.weights) == 0:
            by_key = True
        key = keyword_partition(work, start, stop, offset, starts, ranks, hits, plan, by_key)
        by_term, by_cell = key.cost, place.cost
        if len(motion.speed) and len(place.weights):
            # Equations 14 and 15: in one timestamp, and with what movement adds to a grid.
            by_term *= motion.rate
            by_cell = place.cost * motion.rate + moving_cost(
                rows.box, chosen, work, start, stop, node_bounds(tree, node, hits),
                _depth(tree, node), len(place.across) + 1, len(place.up) + 1,
                max(1, len(key.terms) - 1), plan.fanout, plan.capacity, motion,
            )  # fmt: skip
            if len(key.stops) == 0 and by_cell > motion.rate * (stop - start):
                tree = reserve(tree, 0, 0, 0, 0, 0, stop - start)
                fill_leaf(tree, node, chosen, work, start, stop, plan.capacity)
                continue
        # Terms are cheaper: a keyword node. Its children follow behind `stop` in `work`, the dummy
        # cut first.
        if len(key.stops) and by_term < by_cell:
            buckets = len(key.stops)
            tree = reserve(tree, buckets + 1, buckets + 1, buckets, 0, 0, 0)
            make_keyword_node(tree, node, key)
            work = longer(work, stop + stop - start)
            at = stop
            stack = taller(stack, height + buckets + 1)
            if len(key.short):
                stack[height, 0] = _bucket(
                    tree, node, buckets, offset + 1, False, placed, len(key.short)
                )
                stack[height, 1] = at
                for local in key.short:
                    work[at] = local
                    at += 1
                stack[height, 2], stack[height, 3], stack[height, 4] = at, seen, known
                height += 1
            begin = before = 0
            for cut in range(buckets):
                end = key.terms[key.stops[cut]]
                several = key.stops[cut] - before > 1
                before = key.stops[cut]
                below = offset if plan.again and several else offset + 1
                stack[height, 0] = _bucket(tree, node, cut, below, True, placed, end - begin)
                stack[height, 1] = at
                for i in range(begin, end):
                    work[at] = key.keys[i] & 0x7FFFFFFF
                    at += 1
                stack[height, 2], stack[height, 3], stack[height, 4] = at, seen, known
                height += 1
                begin = end
        elif len(place.weights):
            # Place is cheaper: a spatial node. Its children follow behind `stop` in `work`, the
            # dummy cell first.
            buckets, edges = len(place.weights), len(place.across) + len(place.up)
            tree = reserve(tree, buckets + 1, buckets + 1, 0, edges, buckets, 0)
            make_spatial_node(tree, node, place)
            work = longer(work, stop + place.wide + place.copies)
            points = longer(points, known + known - seen)
            factor = (place.wide + place.copies) / (stop - start)
            stack = taller(stack, height + buckets + 1)
            if place.wide:
                stack[height, 0] = _bucket(tree, node, buckets, offset, allowed, False, place.wide)
                stack[height, 1], stack[height, 2] = stop, stop + place.wide
                stack[height, 3], stack[height, 4] = seen, known
                height += 1
            ends = np.empty(buckets, np.int64)
            at = stop + place.wide
            for cell in range(buckets):
                ends[cell] = at
                at += place.weights[cell]
            deal_cells(rows.box, chosen, work, start, stop, place, plan.share, stop, ends)
            marks = _deal_points(tree, node, hits, points, seen, known)
            for cell in range(buckets):
                if place.weights[cell] == 0:
                    continue
                child = _bucket(tree, node, cell, offset, allowed, True, place.weights[cell])
                narrow_region(tree, node, cell, child)
                tree.nodes[child].copies = tree.nodes[node].copies * factor
                stack[height, 0] = child
                stack[height, 1], stack[height, 2] = ends[cell] - place.weights[cell], ends[cell]
                stack[height, 3], stack[height, 4] = marks[cell], marks[cell + 1]
                height += 1
        else:
            # No partition is worth its cost: a leaf.
            tree = reserve(tree, 0, 0, 0, 0, 0, stop - start)
            fill_leaf(tree, node, chosen, work, start, stop, plan.capacity)
    return tree


@inner_counting
def _depth(tree: ApTreeArrays, node: int) -> int:
    """Give the length of the path from the root to a node, itself included."""
    depth = 0
    while node >= 0:
        depth += 1
        node = tree.nodes[node].parent
    return depth


@inner_counting
def _bucket(
    tree: ApTreeArrays, node: int, bucket: int, offset: int, keyed: bool, placed: bool, count: int
) -> int:
    slot = tree.nodes[node].first + bucket
    tree.slots[slot, OLD] = tree.slots[slot, NOW] = count
    return add_node(tree, node, slot, offset, keyed, placed)


@inner_counting
def _thinned(points: Int32s, seen: int, known: int, number: int) -> tuple[Int32s, int, int]:
    """Keep some of many places, so that a node of few rows costs little."""
    step = (known - seen) // (4 * number + 64)
    if step < 2:
        return points, seen, known
    points = longer(points, known + (known - seen) // step + 1)
    stop = known
    for at in range(seen, known, step):
        points[stop] = points[at]
        stop += 1
    return points, known, stop


@inner_counting
def _deal_points(
    tree: ApTreeArrays, node: int, hits: MessageStatistics, points: Int32s, seen: int, known: int
) -> Int64s:
    """Write the places of messages behind their node's, by cells; give where each cell starts."""
    columns, cells = tree.nodes[node].room, tree.nodes[node].count
    lines, across = cells // columns, tree.nodes[node].aux
    up = across + columns - 1
    cell = np.empty(known - seen, np.int64)
    marks = np.zeros(cells + 2, np.int64)
    for i in range(known - seen):
        point = points[seen + i]
        column = strip_of(tree.edges, across, columns, hits.lons[point])
        cell[i] = strip_of(tree.edges, up, lines, hits.lats[point]) * columns + column
        marks[cell[i] + 2] += 1
    marks[1] = known
    for i in range(2, cells + 2):
        marks[i] += marks[i - 1]
    for i in range(known - seen):
        points[marks[cell[i] + 1]] = points[seen + i]
        marks[cell[i] + 1] += 1
    marks[0] = known
    return marks


def remake(
    tree: ApTreeArrays,
    tops: Int64s,
    rows: Rows,
    rank: Int32s,
    hits: MessageStatistics,
    plan: TreeOptions,
    motion: Motion = STILL,
) -> ApTreeArrays:
    """Rebuild the subtrees of some nodes, from the rows that are there."""
    for top in tops.tolist():
        if tree.nodes["kind"][top] != GONE:
            chosen = np.unique(gather(tree, top))
            tree = construct(tree, top, chosen, rows, rank, hits, plan, motion)
    return tree
