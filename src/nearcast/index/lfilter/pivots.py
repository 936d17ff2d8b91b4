"""Pivotal terms (section 4.1): chosen for lists by a greedy hitting set, then joined upwards."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.lfilter.arena import Arena, allocate, give_back, has_room
from nearcast.index.lfilter.quadtree import DONE, NO_SETS, PtQuadtreeArrays, add_pivot
from nearcast.index.table import Rows


@inner_counting
def _hitting_set(
    rows: Rows, labels: Int32s, listed: Int32s, first: int, count: int, seen: Int32s
) -> Int32s:
    """Give labels of terms such that every live row of a list requires one.

    The list is `listed[first : first + count]`; `labels` holds the label of each term. Greedy:
    always the term that most of the remaining rows have. `seen`, by the absolute value of labels,
    is zero before and after.
    """
    # Number the labels in the list, and count the rows that have each.
    total = 0
    for entry in range(first, first + count):
        row = listed[entry]
        total += rows.required[row] if rows.owner[row] >= 0 else 0
    local = np.empty(total, np.int32)  # the labels in the list, by the number they get here
    left = np.zeros(total, np.int32)  # how many rows with each are not hit yet
    known = 0
    for entry in range(first, first + count):
        row = listed[entry]
        if rows.owner[row] < 0:
            continue
        for at in range(rows.first[row], rows.first[row] + rows.required[row]):
            label = labels[rows.terms[at]]
            if seen[abs(label)] == 0:
                local[known] = label
                known += 1
                seen[abs(label)] = known
            left[seen[abs(label)] - 1] += 1
    # Group the entries of the list by label.
    ends = np.empty(known + 1, np.int32)  # where the entries of each end among `holders`
    end, most = 0, 0
    for term in range(known):
        ends[term] = end
        end += left[term]
        most = max(most, left[term])
    holders = np.empty(total, np.int32)
    for entry in range(first, first + count):
        row = listed[entry]
        if rows.owner[row] < 0:
            continue
        for at in range(rows.first[row], rows.first[row] + rows.required[row]):
            term = seen[abs(labels[rows.terms[at]])] - 1
            holders[ends[term]] = entry
            ends[term] += 1
    # Terms wait in chains by how many rows they had when last looked at.
    heads, following = np.full(most + 1, -1, np.int32), np.empty(known, np.int32)
    for term in range(known):
        following[term] = heads[left[term]]
        heads[left[term]] = term
    # Choose from the largest chain down; a term whose count has dropped waits in a lower chain.
    hit = np.zeros(count, np.uint8)
    chosen, picked = np.empty(known, np.int32), 0
    for size in range(most, 0, -1):
        while heads[size] >= 0:
            term = heads[size]
            heads[size] = following[term]
            if left[term] < size:
                following[term] = heads[left[term]]
                heads[left[term]] = term
                continue
            chosen[picked] = local[term]
            picked += 1
            for place in range(ends[term - 1] if term else 0, ends[term]):
                entry = holders[place]
                if hit[entry - first]:
                    continue
                hit[entry - first] = 1
                row = listed[entry]
                for at in range(rows.first[row], rows.first[row] + rows.required[row]):
                    left[seen[abs(labels[rows.terms[at]])] - 1] -= 1
    # Clear `seen`.
    for term in range(known):
        seen[abs(local[term])] = 0
    return chosen[:picked]


@inner_counting
def _write_set(sets: Arena, block: int, count: int, values: Int32s, size: int) -> int:
    """Let a set have other values, in order; give where it is now."""
    give_back(sets, block, count)
    if size == 0:
        return 0
    sort(values, 0, size)
    fresh = allocate(sets, size)
    for at in range(size):
        sets.cells[0, fresh + at] = values[at]
    return fresh


@inner_counting
def _tally(sets: Arena, block: int, count: int, seen: Int32s, values: Int32s, known: int) -> int:
    """Count the values of a set in `seen`, and note those that are new."""
    for at in range(block, block + count):
        value = sets.cells[0, at]
        if seen[abs(value)] == 0:
            values[known] = value
            known += 1
        seen[abs(value)] += 1
    return known


@inner_counting
def _without(
    sets: Arena, block: int, count: int, seen: Int32s, children: int, scratch: Int32s
) -> tuple[int, int]:
    """Drop the values of a set that all children have; give where it is now, and its size."""
    kept = wide(0)
    for at in range(block, block + count):
        if seen[abs(sets.cells[0, at])] < children:
            scratch[kept] = sets.cells[0, at]
            kept += 1
    if kept == count:
        return block, count
    return _write_set(sets, block, count, scratch, kept), kept


@inner_counting
def _choose(quad: PtQuadtreeArrays, rows: Rows, labels: Int32s, node: int, seen: Int32s) -> int:
    """Give a node its cover and non-cover sets, from its list and from the sets of its children.

    `labels` holds the label of each term. `seen`, by the absolute value of labels, is zero before
    and after. Gives DONE or NO_SETS.
    """
    sets, nodes = quad.sets, quad.nodes
    at = nodes[node]
    # A leaf has the pivotal terms of its list in its non-cover set.
    own = _hitting_set(rows, labels, quad.lists.cells[0], at.list, at.count, seen)
    if at.child < 0:
        if not has_room(sets, len(own)):
            return NO_SETS
        at.other = _write_set(sets, at.other, at.others, own, len(own))
        at.others = len(own)
        return DONE
    # Make sure of the room: no set becomes larger than all of them together.
    total, children = len(own), wide(0)
    for child in range(at.child, at.child + 4):
        size = nodes[child].covers + nodes[child].others
        children += size > 0
        total += size
    if not has_room(sets, 2 * total):
        return NO_SETS
    # Count in how many children each term is pivotal.
    values, known = np.empty(total, np.int32), wide(0)
    for child in range(at.child, at.child + 4):
        to = nodes[child]
        known = _tally(sets, to.cover, to.covers, seen, values, known)
        known = _tally(sets, to.other, to.others, seen, values, known)
    # A term that is pivotal in all children moves up into the cover set of the node.
    scratch = np.empty(total, np.int32)
    for child in range(at.child, at.child + 4):
        to = nodes[child]
        to.cover, to.covers = _without(sets, to.cover, to.covers, seen, children, scratch)
        to.other, to.others = _without(sets, to.other, to.others, seen, children, scratch)
    # Terms of some children, and those of the own list, go to the non-cover set.
    covers, others = wide(0), wide(0)
    cover = np.empty(known, np.int32)
    for place in range(known):
        if seen[abs(values[place])] == children:
            cover[covers] = values[place]
            covers += 1
        else:
            scratch[others] = values[place]
            others += 1
    for value in own:
        if seen[abs(value)] == 0:
            scratch[others] = value
            others += 1
    # Clear `seen`, and write both sets.
    for place in range(known):
        seen[abs(values[place])] = 0
    at.cover = _write_set(sets, at.cover, at.covers, cover, covers)
    at.other = _write_set(sets, at.other, at.others, scratch, others)
    at.covers, at.others = covers, others
    return DONE


@kernel
def choose_pivots(
    quad: PtQuadtreeArrays, rows: Rows, labels: Int32s, todo: Int32s, span: Int64s, seen: Int32s
) -> int:
    """Give sets to the nodes `todo[: span[0]]`, from the last to the first, children first.

    The first `span[1]` of them pass their terms to their parents. If there is no room, `span` says
    where to go on: `span[2]` is 1 when the node has its sets and they are yet to be passed on.
    """
    while span[0] > 0:
        node = todo[span[0] - 1]
        if not span[2]:
            ended = _choose(quad, rows, labels, node, seen)
            if ended != DONE:
                return ended
            span[2] = 1
        at = quad.nodes[node]
        if at.parent >= 0 and span[0] <= span[1]:
            cells = quad.sets.cells
            for place in range(at.covers + at.others):
                from_cover = place < at.covers
                cell = at.cover + place if from_cover else at.other + place - at.covers
                if add_pivot(quad, at.parent, cells[0, cell]) != DONE:
                    return NO_SETS
        span[0] -= 1
        span[2] = 0
    return DONE
