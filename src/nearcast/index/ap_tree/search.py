"""Matching (AP-Tree, Algorithm 1), with a stack in place of recursion."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner, inner_counting, kernel
from nearcast.arrays.in_kernels import sort, taller
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.ap_tree.tree import (
    CHILD,
    KEYWORD,
    LEAF,
    ApTreeArrays,
    find_cut,
    rank_of,
    strip_of,
)
from nearcast.index.table import Rows
from nearcast.index.verify import Bitmap, accepts, clear_terms, set_terms


@inner_counting
def push_cuts(
    tree: ApTreeArrays, node: int, ranks: Int32s, start: int, stack: Int64s, height: int
) -> int:
    """Note the cuts that a term from `start` on falls into.

    With each goes the first term that counts below it: the one that follows or, where a cut of
    several terms is cut again at the same offset, the same one.
    """
    first, cuts, count = tree.nodes[node].first, tree.nodes[node].aux, tree.nodes[node].count
    cut, last = 0, -1
    for at in range(start, len(ranks)):
        cut = find_cut(tree, cuts, cut, count, ranks[at])
        if cut == count:
            break
        if cut != last and tree.cuts[cuts + cut, 0] <= ranks[at]:
            last = cut
            child = tree.slots[first + cut, CHILD]
            if child >= 0:
                used = tree.nodes[child].offset - tree.nodes[node].offset
                stack[height, 0], stack[height, 1] = child, at + used
                height += 1
    return height


@inner_counting
def push_cells(
    tree: ApTreeArrays, node: int, start: int, box: Floats, stack: Int64s, height: int
) -> tuple[Int64s, int]:
    """Note the cells that a box shares a point with."""
    columns, edges = tree.nodes[node].room, tree.nodes[node].aux
    lines = tree.nodes[node].count // columns
    west = strip_of(tree.edges, edges, columns, box[0])
    east = strip_of(tree.edges, edges, columns, box[2])
    south = strip_of(tree.edges, edges + columns - 1, lines, box[1])
    north = strip_of(tree.edges, edges + columns - 1, lines, box[3])
    stack = taller(stack, height + (east - west + 1) * (north - south + 1) + 1)
    for line in range(south, north + 1):
        slot = tree.nodes[node].first + line * columns
        for column in range(west, east + 1):
            child = tree.slots[slot + column, CHILD]
            if child >= 0:
                stack[height, 0], stack[height, 1] = child, start
                height += 1
    return stack, height


@inner
def _reports_here(rows: Rows, row: int, box: Floats, region: Floats) -> bool:
    """Return whether a row is to be reported from here.

    A box may meet a row in several leaves. The lower left corner of what the two share lies in
    the region of exactly one of them.
    """
    lon, lat = max(rows.box[row, 0], box[0]), max(rows.box[row, 1], box[1])
    return bool(region[0] <= lon < region[2] and region[1] <= lat < region[3])


@inner
def scan_leaf(
    entries: Int32s, first: int, stop: int, rows: Rows, box: Floats, region: Floats,
    bitmap: Bitmap, message: int, messages: Int32s, found: Int32s, written: int,
) -> int:  # fmt: skip
    """Report the rows of a leaf that match; gives the pairs written so far, -1 for no room."""
    west, south, east, north = box[0], box[1], box[2], box[3]
    wide = west != east or south != north
    for at in range(first, stop):
        row = entries[at]
        if wide and not _reports_here(rows, row, box, region):
            continue
        if accepts(rows, row, west, south, east, north, bitmap):
            if written == len(found):
                return -1
            messages[written] = message
            found[written] = row
            written += 1
    return written


@kernel
def match_batch(
    tree: ApTreeArrays, rows: Rows, rank: Int32s, starts: Int64s, terms: Int32s, boxes: Floats,
    bitmap: Bitmap, start: int, messages: Int32s, found: Int32s,
) -> tuple[int, int, int]:  # fmt: skip
    """Match messages from `start` on, as long as there is room for what is found (Algorithm 1).

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. `rank` is
    the place of each term in the order of terms. `bitmap` has a bit for each term, all zero before
    and after. Pairs go to `messages` and `found`. Gives the next message, the pairs written, and
    the rows looked at. A frame of the stack is a node, and the first term of the message that
    counts there.
    """
    written = candidates = 0
    ranks = np.empty(16, np.int32)
    stack = np.empty((256, 2), np.int64)
    for message in range(start, len(boxes)):
        mark, looked_at = written, 0
        begin, end = starts[message], starts[message + 1]
        box = boxes[message]
        if end - begin > len(ranks):
            ranks = np.empty(2 * (end - begin), np.int32)
        # Sort the ranks of the terms that some row has required.
        known = 0
        for at in range(begin, end):
            ranks[known] = rank_of(rank, terms[at])
            if ranks[known] >= 0:
                known += 1
        sort(ranks, 0, known)
        own = ranks[:known]
        set_terms(bitmap, terms, begin, end)
        # Descend from the root.
        stack[0, 0], stack[0, 1] = 0, 0
        height = 1
        fits = True
        while height and fits:
            height -= 1
            node, eta = stack[height, 0], stack[height, 1]
            first, count, kind = (
                tree.nodes[node].first, tree.nodes[node].count, tree.nodes[node].kind,
            )  # fmt: skip
            # Verify the rows of a leaf.
            if kind == LEAF:
                region = tree.regions[tree.nodes[node].region]
                looked_at += count
                after = scan_leaf(
                    tree.entries, first, first + count, rows, box, region, bitmap, message,
                    messages, found, written,
                )  # fmt: skip
                if after < 0:
                    fits = False
                else:
                    written = after
                continue
            # Push the children that the message hits, the dummy cut or cell always among them.
            dummy = tree.slots[first + count, CHILD]
            if kind == KEYWORD:
                stack = taller(stack, height + len(own) - eta + 1)
                height = push_cuts(tree, node, own, eta, stack, height)
            else:
                stack, height = push_cells(tree, node, eta, box, stack, height)
            if dummy >= 0:
                stack[height, 0], stack[height, 1] = dummy, eta
                height += 1
        clear_terms(bitmap, terms, begin, end)
        if not fits:
            return message, mark, candidates
        candidates += looked_at
    return len(boxes), written, candidates
