"""Matching: down to the leaves whose boxes and terms allow it."""

from __future__ import annotations

import numpy as np

from nearcast._jit import lean_kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.gi2.lists import key_of, place_of
from nearcast.index.quadtree.forest import bit_of
from nearcast.index.rtree.tree import LEVEL, ROOT, RTreeArrays
from nearcast.index.table import Rows
from nearcast.index.verify import Bitmap, accepts, accepts_box, clear_terms, set_terms

_ONE = np.uint64(1)


@lean_kernel
def scan(
    tree: RTreeArrays, rows: Rows, counting: bool, starts: Int64s, terms: Int32s, boxes: Floats,
    bitmap: Bitmap, stack: Int32s, counts: Int32s, start: int, messages: Int32s, found: Int32s,
) -> tuple[int, int, int]:  # fmt: skip
    """Match messages, as `base.collect` wants it.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. `bitmap`
    has a bit for each term, all zero before and after. `stack` has room for the nodes still to be
    visited, `counts` a number for each entry of a node. With `counting`, only rows of a leaf are
    looked at whose terms are all found in its inverted file; without, those of which one is. Pairs
    go to `messages` and `found`.
    """
    fanout = tree.entries.shape[1]
    written = candidates = 0
    for message in range(start, len(boxes)):
        mark, seen = written, candidates
        first, last = starts[message], starts[message + 1]
        west, south, east, north = (
            boxes[message, 0], boxes[message, 1], boxes[message, 2], boxes[message, 3],
        )  # fmt: skip
        set_terms(bitmap, terms, first, last)
        # Descend from the root.
        stack[0] = tree.counts[ROOT]
        height, fits = 1, True
        while height and fits:
            height -= 1
            node = stack[height]
            leaf = tree.nodes[node, LEVEL] == 0
            counted = leaf and counting
            if counted:
                for place in range(fanout):
                    counts[place] = 0
            # Find the entries that have a term of the message, from the inverted file of the node.
            mask, places = tree.masks[node], np.uint64(0)
            for at in range(first, last):
                if mask & bit_of(terms[at]):
                    having = tree.slots[place_of(tree.slots, key_of(node, terms[at])), 1]
                    places |= having
                    if counted and having:
                        for place in range(fanout):
                            counts[place] += np.int32(having >> np.uint64(place) & _ONE)
            # Go through these entries: push children that meet the box, verify rows.
            places &= tree.used[node]
            place = -1
            while places:
                place += 1
                open_ = places & _ONE
                places >>= _ONE
                if not open_:
                    continue
                entry = tree.entries[node, place]
                if not leaf:
                    if accepts_box(tree.boxes, entry, west, south, east, north):
                        stack[height] = entry
                        height += 1
                    continue
                if counted and counts[place] < rows.required[entry]:
                    continue
                candidates += 1
                if accepts(rows, entry, west, south, east, north, bitmap):
                    if written == len(found):
                        fits = False
                        break
                    messages[written] = message
                    found[written] = entry
                    written += 1
        clear_terms(bitmap, terms, first, last)
        if not fits:
            return message, mark, seen
    return len(boxes), written, candidates
