"""Single rows that come and go, and signs that a subtree is to be remade (section IV-E)."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner, inner_counting, kernel, lean_kernel
from nearcast.arrays.in_kernels import longer, sort, taller
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.ap_tree.cost import sorted_ranks
from nearcast.index.ap_tree.tree import (
    CHILD,
    ENTRIES,
    KEYWORD,
    LEAF,
    NODES,
    NOW,
    OLD,
    REGIONS,
    SPATIAL,
    ApTreeArrays,
    add_node,
    find_cut,
    is_wide,
    narrow_region,
    rank_of,
    strip_of,
)
from nearcast.index.table import Rows

FIRST_ROOM = 4
"""Entries that a leaf made for one row has room for."""


@inner
def cut_for(tree: ApTreeArrays, node: int, rank: int) -> int:
    """Find the cut for a rank; one between two cuts goes to the lighter of them."""
    first, count = tree.nodes[node].aux, tree.nodes[node].count
    cut = find_cut(tree, first, 0, count, rank)
    if cut == count:
        return int(count - 1)
    if cut > 0 and tree.cuts[first + cut, 0] > rank:
        slot = tree.nodes[node].first + cut
        if tree.slots[slot - 1, NOW] < tree.slots[slot, NOW]:
            return cut - 1
    return cut


@inner
def way_of(
    tree: ApTreeArrays,
    box: Floats,
    row: int,
    ranks: Int32s,
    count: int,
    share: float,
    visited: Int64s,
) -> int:
    """List the slots between the root and the leaves of a row in `visited`.

    Its lines are (slot, node above it). `box[row]` is the box of the row, and `ranks[:count]` are
    the ranks of its terms in ascending order. `visited` is its own queue: a slot is looked into
    after it has been noted. Gives how many slots there are, -1 if there is no room for them.
    """
    visited[0, 0], visited[0, 1] = 0, -1
    size, at = 1, 0
    while at < size:
        node = tree.slots[visited[at, 0], CHILD]
        at += 1
        if node < 0 or tree.nodes[node].kind == LEAF:
            continue
        first, buckets = tree.nodes[node].first, tree.nodes[node].count
        # A keyword node: the cut of the term at its offset, or the dummy cut.
        if tree.nodes[node].kind == KEYWORD:
            offset = tree.nodes[node].offset
            bucket = buckets if offset >= count else cut_for(tree, node, ranks[offset])
            if size == len(visited):
                return -1
            visited[size, 0], visited[size, 1] = first + bucket, node
            size += 1
            continue
        # A spatial node: the cells that the box meets, or the dummy cell.
        columns, edges = tree.nodes[node].room, tree.nodes[node].aux
        lines = buckets // columns
        west = strip_of(tree.edges, edges, columns, box[row, 0])
        east = strip_of(tree.edges, edges, columns, box[row, 2])
        south = strip_of(tree.edges, edges + columns - 1, lines, box[row, 1])
        north = strip_of(tree.edges, edges + columns - 1, lines, box[row, 3])
        covered = (east - west + 1) * (north - south + 1)
        if size + covered > len(visited):
            return -1
        if is_wide(covered, buckets, share):
            visited[size, 0], visited[size, 1] = first + buckets, node
            size += 1
            continue
        for line in range(south, north + 1):
            for cell in range(line * columns + west, line * columns + east + 1):
                visited[size, 0], visited[size, 1] = first + cell, node
                size += 1
    return size


@inner_counting
def locate(
    tree: ApTreeArrays, rows: Rows, row: int, ranks: Int32s, share: float, visited: Int64s
) -> tuple[Int64s, int]:
    """Find the slots on the way of a row, as `way_of` does, in a list that grows."""
    while True:
        size = way_of(tree, rows.box, row, ranks, rows.required[row], share, visited)
        if size >= 0:
            return visited, size
        visited = taller(visited, 2 * len(visited))


@inner_counting
def search(tree: ApTreeArrays, rows: Rows, row: int, ranks: Int32s) -> Int64s:
    """Find all slots above entries of a row whose former box is not known any more."""
    count = rows.required[row]
    stack, height = np.empty(64, np.int64), 1
    found, size = np.empty(64, np.int64), 0
    stack[0] = 0
    while height:
        height -= 1
        node = stack[height]
        first, buckets = tree.nodes[node].first, tree.nodes[node].count
        if tree.nodes[node].kind == LEAF:
            here = False
            for at in range(first, first + buckets):
                here = here or tree.entries[at] == row
            while here and node >= 0:
                found = longer(found, size + 1)
                found[size] = tree.nodes[node].slot
                size += 1
                node = tree.nodes[node].parent
            continue
        low, high = first, first + buckets + 1
        if tree.nodes[node].kind == KEYWORD:
            offset = tree.nodes[node].offset
            low += buckets if offset >= count else cut_for(tree, node, ranks[offset])
            high = low + 1
        stack = longer(stack, height + high - low)
        for slot in range(low, high):
            if tree.slots[slot, CHILD] >= 0:
                stack[height] = tree.slots[slot, CHILD]
                height += 1
    sort(found, 0, size)
    kept = 0
    for at in range(size):
        if at == 0 or found[at] != found[at - 1]:
            found[kept] = found[at]
            kept += 1
    return found[:kept]


@inner
def _widen_cut(tree: ApTreeArrays, node: int, slot: int, rank: int) -> None:
    cut = tree.nodes[node].aux + slot - tree.nodes[node].first
    tree.cuts[cut, 0] = min(tree.cuts[cut, 0], rank)
    tree.cuts[cut, 1] = max(tree.cuts[cut, 1], rank)


@inner
def _room_wanted(tree: ApTreeArrays, visited: Int64s, size: int) -> tuple[int, int]:
    """Count how many nodes and entries a row needs before it can be taken in."""
    nodes = entries = 0
    for at in range(size):
        node = tree.slots[visited[at, 0], CHILD]
        if node < 0:
            nodes += 1
            entries += FIRST_ROOM
        elif tree.nodes[node].kind == LEAF and tree.nodes[node].count == tree.nodes[node].room:
            entries += max(FIRST_ROOM, 2 * tree.nodes[node].room)
    return nodes, entries


@inner_counting
def leaf_at(tree: ApTreeArrays, slot: int, above: int, capacity: int) -> int:
    """Make the missing leaf of a slot."""
    bucket = slot - tree.nodes[above].first
    dummy = bucket == tree.nodes[above].count
    keyed, placed = tree.nodes[above].keyed != 0, tree.nodes[above].placed != 0
    offset = tree.nodes[above].offset
    if tree.nodes[above].kind == KEYWORD:
        offset += 1
        keyed = keyed and not dummy
    else:
        placed = placed and not dummy
    node = add_node(tree, above, slot, offset, keyed, placed)
    tree.nodes[node].aux = capacity
    if tree.nodes[above].kind == SPATIAL and not dummy:
        narrow_region(tree, above, bucket, node)
    return node


@inner
def _append(tree: ApTreeArrays, node: int, row: int) -> None:
    count, room, first = tree.nodes[node].count, tree.nodes[node].room, tree.nodes[node].first
    if count == room:
        fresh = tree.sizes[ENTRIES]
        room = max(FIRST_ROOM, 2 * room)
        for at in range(count):
            tree.entries[fresh + at] = tree.entries[first + at]
        tree.nodes[node].first = fresh
        tree.nodes[node].room = room
        tree.sizes[ENTRIES] += room
        first = fresh
    tree.entries[first + count] = row
    tree.nodes[node].count += 1


@inner
def _enter(
    tree: ApTreeArrays, rows: Rows, row: int, ranks: Int32s, slot: int, above: int, capacity: int
) -> int:
    """Let a row into a slot, and into its leaf if it has one; give the node there."""
    tree.slots[slot, NOW] += 1
    if above >= 0 and tree.nodes[above].kind == KEYWORD:
        offset = tree.nodes[above].offset
        if offset < rows.required[row]:
            _widen_cut(tree, above, slot, ranks[offset])
    node: int = tree.slots[slot, CHILD]
    if node < 0:
        node = leaf_at(tree, slot, above, capacity)
    if tree.nodes[node].kind == LEAF:
        _append(tree, node, row)
    return node


@kernel
def insert_rows(
    tree: ApTreeArrays,
    rows: Rows,
    rank: Int32s,
    chosen: Int32s,
    start: int,
    share: float,
    capacity: int,
    doubling: bool,
) -> tuple[int, Int64s, int, int]:
    """Put the rows `chosen[start:]` into their leaves.

    `rank` holds the place of each term in the order of terms. Gives the place where it stopped for
    lack of room, the nodes to be rebuilt, and how many nodes and entries are needed to go on. A
    leaf is to be rebuilt when it is too full, and with `doubling` another node when it has twice
    the rows that it was made for.
    """
    ranks = np.empty(16, np.int32)
    visited = np.empty((64, 2), np.int64)
    full, overfull = np.empty(16, np.int64), 0
    for i in range(start, len(chosen)):
        row = chosen[i]
        # Find the slots that the row goes to.
        if rows.required[row] > len(ranks):
            ranks = np.empty(2 * rows.required[row], np.int32)
        sorted_ranks(rows, rank, row, ranks, 0)
        visited, size = locate(tree, rows, row, ranks, share, visited)
        # Stop if the tree has no room for what the row needs.
        nodes, entries = _room_wanted(tree, visited, size)
        if (
            tree.sizes[NODES] + nodes > len(tree.nodes)
            or tree.sizes[REGIONS] + nodes > len(tree.regions)
            or tree.sizes[ENTRIES] + entries > len(tree.entries)
        ):
            return i, full[:overfull], nodes, entries
        # Enter the row, and note the nodes that are to be rebuilt.
        for at in range(size):
            slot = visited[at, 0]
            node = _enter(tree, rows, row, ranks, slot, visited[at, 1], capacity)
            if tree.nodes[node].kind == LEAF:
                due = tree.nodes[node].count == tree.nodes[node].aux + 1
            else:
                due = doubling and tree.slots[slot, NOW] == 2 * tree.nodes[node].made
            if due:
                full = longer(full, overfull + 1)
                full[overfull] = node
                overfull += 1
    return len(chosen), full[:overfull], 0, 0


@kernel
def delete_rows(
    tree: ApTreeArrays,
    rows: Rows,
    rank: Int32s,
    chosen: Int32s,
    share: float,
    capacity: int,
    moved: bool,
) -> Int64s:
    """Take rows out of their leaves; give the nodes that are left with too few rows."""
    ranks = np.empty(16, np.int32)
    visited = np.empty((64, 2), np.int64)
    thin, count = np.empty(16, np.int64), 0
    for row in chosen:
        if rows.required[row] > len(ranks):
            ranks = np.empty(2 * rows.required[row], np.int32)
        sorted_ranks(rows, rank, row, ranks, 0)
        if moved:
            slots = search(tree, rows, row, ranks)
            size = len(slots)
            visited = taller(visited, size)
            for at in range(size):
                visited[at, 0] = slots[at]
        else:
            visited, size = locate(tree, rows, row, ranks, share, visited)
        for at in range(size):
            slot = visited[at, 0]
            node = tree.slots[slot, CHILD]
            tree.slots[slot, NOW] -= 1
            if node >= 0 and tree.nodes[node].kind == LEAF:
                _take_out(tree, node, row)
            elif node >= 0 and tree.slots[slot, NOW] == capacity - 1:
                thin = longer(thin, count + 1)
                thin[count] = node
                count += 1
    return thin[:count]


@inner
def _take_out(tree: ApTreeArrays, node: int, row: int) -> None:
    first = tree.nodes[node].first
    last = first + tree.nodes[node].count - 1
    for at in range(first, last + 1):
        if tree.entries[at] == row:
            tree.entries[at] = tree.entries[last]
            tree.nodes[node].count -= 1
            return


@inner_counting
def divergence(tree: ApTreeArrays, node: int) -> tuple[float, float]:
    """Give the Kullback-Leibler divergence of a node's weights from those it was made with.

    Gives also the share of its rows that has come or gone since. Half a row more in each bucket
    keeps empty ones from making it infinite.
    """
    first, stop = tree.nodes[node].first, tree.nodes[node].first + tree.nodes[node].count + 1
    before = now = 0.5 * (stop - first)
    changed = 0.0
    for slot in range(first, stop):
        before += tree.slots[slot, OLD]
        now += tree.slots[slot, NOW]
        changed += abs(tree.slots[slot, NOW] - tree.slots[slot, OLD])
    total = 0.0
    for slot in range(first, stop):
        share = (tree.slots[slot, OLD] + 0.5) / before
        total += share * np.log(share * now / (tree.slots[slot, NOW] + 0.5))
    return total, changed / before


@kernel
def drifted(tree: ApTreeArrays, least: float, threshold: float, growth: float) -> Int64s:
    """Find the highest nodes with at least `least` rows whose weights have drifted away."""
    found, count = np.empty(16, np.int64), 0
    stack, height = np.zeros(64, np.int64), 1
    while height:
        height -= 1
        node = stack[height]
        if tree.nodes[node].kind == LEAF or tree.slots[tree.nodes[node].slot, NOW] < least:
            continue
        moved, changed = divergence(tree, node)
        if moved > threshold and changed >= growth:
            found = longer(found, count + 1)
            found[count] = node
            count += 1
            continue
        first, buckets = tree.nodes[node].first, tree.nodes[node].count
        stack = longer(stack, height + buckets + 1)
        for slot in range(first, first + buckets + 1):
            if tree.slots[slot, CHILD] >= 0:
                stack[height] = tree.slots[slot, CHILD]
                height += 1
    return found[:count]


@inner
def ranks_of(rows: Rows, rank: Int32s, row: int, ranks: Int32s) -> int:
    """Write the ranks of a row's terms, in order; -1 if there is no room for them."""
    first, count = rows.first[row], rows.required[row]
    if count > len(ranks):
        return -1
    for i in range(count):
        value = rank_of(rank, rows.terms[first + i])
        place = i
        while place > 0 and ranks[place - 1] > value:
            ranks[place] = ranks[place - 1]
            place -= 1
        ranks[place] = value
    return int(count)


MOVED, MORE_ROOM, MORE_VISITED, MORE_TOPS = 0, 1, 2, 3
"""Why `shift_rows` stopped: all were moved, or the tree, or what it works with, is too small."""


@lean_kernel
def shift_rows(
    tree: ApTreeArrays,
    rows: Rows,
    rank: Int32s,
    chosen: Int32s,
    old: Floats,
    start: int,
    share: float,
    capacity: int,
    few: int,
    ranks: Int32s,
    before: Int64s,
    after: Int64s,
    marks: Int64s,
    stamp: int,
    tops: Int64s,
) -> tuple[int, int, int]:
    """Move rows from the leaves of their old boxes to those of the table's, where these differ.

    `chosen[start:]` are the rows and `old` holds the old boxes, by row. `ranks`, `before` and
    `after` are scratch: the ranks of a row, and the slots it leaves and comes to, (n, 2). `marks`
    has a number for each slot and none above `stamp`. In `tops` the kernel notes leaves that are
    too full, and nodes left with fewer than `few` rows; it has room for all there can be of one
    row, or the kernel stops. Gives where it stopped, how many are in `tops`, and why.
    """
    noted = 0
    for i in range(start, len(chosen)):
        row = chosen[i]
        # Find the slots of the old box and of the new one.
        count = ranks_of(rows, rank, row, ranks)
        left = right = -1
        if count >= 0:
            left = way_of(tree, old, row, ranks, count, share, before)
            right = way_of(tree, rows.box, row, ranks, count, share, after)
        if left < 0 or right < 0 or left + right > len(tops):
            return i, noted, MORE_VISITED
        if noted + left + right > len(tops):
            return i, noted, MORE_TOPS
        # Mark the old slots, and those that are new as well; keep the others in `after`.
        stamp += 2
        for at in range(left):
            marks[before[at, 0]] = stamp
        fresh = 0
        for at in range(right):
            slot = after[at, 0]
            if marks[slot] == stamp:
                marks[slot] = stamp + 1
            else:
                after[fresh, 0], after[fresh, 1] = slot, after[at, 1]
                fresh += 1
        # Stop if the tree has no room for the row in its new slots.
        nodes, entries = _room_wanted(tree, after, fresh)
        if (
            tree.sizes[NODES] + nodes > len(tree.nodes)
            or tree.sizes[REGIONS] + nodes > len(tree.regions)
            or tree.sizes[ENTRIES] + entries > len(tree.entries)
        ):
            return i, noted, MORE_ROOM
        # Leave the slots that are old alone.
        for at in range(left):
            slot = before[at, 0]
            if marks[slot] == stamp + 1:
                continue
            node = tree.slots[slot, CHILD]
            tree.slots[slot, NOW] -= 1
            if node >= 0 and tree.nodes[node].kind == LEAF:
                _take_out(tree, node, row)
            elif node >= 0 and tree.slots[slot, NOW] == few - 1:
                tops[noted] = node
                noted += 1
        # Enter the slots that are new alone.
        for at in range(fresh):
            node = _enter(tree, rows, row, ranks, after[at, 0], after[at, 1], capacity)
            if tree.nodes[node].kind == LEAF and tree.nodes[node].count == tree.nodes[node].aux + 1:
                tops[noted] = node
                noted += 1
    return len(chosen), noted, MOVED
