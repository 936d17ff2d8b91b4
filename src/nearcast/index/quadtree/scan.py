"""Matching: the way of a message down a quadtree, or down the quadtrees of its terms."""

from __future__ import annotations

from nearcast._jit import lean_kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.gi2.grid import column_of, line_of, unpack
from nearcast.index.gi2.lists import CellLists, block_of, count_of, key_of, place_of
from nearcast.index.quadtree.cells import QuadtreeSpace
from nearcast.index.quadtree.forest import ENTRIES, Forest, bit_of
from nearcast.index.table import Rows
from nearcast.index.verify import Bitmap, accepts, clear_terms, set_terms


@lean_kernel
def scan(
    forest: Forest,
    lists: CellLists,
    space: QuadtreeSpace,
    rows: Rows,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    bitmap: Bitmap,
    hits: Int32s,
    stack: Int64s,
    start: int,
    messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int]:
    """Match messages, as `base.collect` wants it.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. `bitmap`
    has a bit for each term, all zero before and after. `hits` has room for the slots of the longest
    message's terms. A frame of `stack`, (n, 4), is a node, and the column, line and size of its
    cell; it has room for a way down. Pairs go to `messages` and `found`.
    """
    by_term = len(forest.roots) > 1
    written = candidates = 0
    for message in range(start, len(boxes)):
        mark, seen = written, candidates
        first, last = starts[message], starts[message + 1]
        box = boxes[message]
        # Find the finest cells that the message touches.
        x0, y0 = column_of(space.grid, box[0]), line_of(space.grid, box[1])
        x1, y1 = column_of(space.grid, box[2]), line_of(space.grid, box[3])
        several = x0 != x1 or y0 != y1
        set_terms(bitmap, terms, first, last)
        fits = True
        # Search the one tree with all terms, or the tree of each term with that term.
        for turn in range(last - first if by_term else 1):
            begin, end = first, last
            tree = 0
            if by_term:
                begin = first + turn
                end = begin + 1
                tree = terms[begin]
                if tree >= len(forest.roots):
                    continue
            height = 0
            if forest.roots[tree] >= 0:
                stack[0, 0], stack[0, 1], stack[0, 2] = forest.roots[tree], 0, 0
                stack[0, 3] = 1 << space.depth
                height = 1
            while height and fits:
                height -= 1
                node, left, low, size = (
                    stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3],
                )  # fmt: skip
                half = size >> 1
                # Push the children that the message meets.
                for quarter in range(4):
                    child = forest.nodes[node, quarter]
                    west, south = left + half * (quarter & 1), low + half * (quarter >> 1)
                    if (
                        child >= 0
                        and west <= x1
                        and west + half > x0
                        and south <= y1
                        and south + half > y0
                    ):
                        stack[height, 0], stack[height, 1] = child, west
                        stack[height, 2], stack[height, 3] = south, half
                        height += 1
                if forest.nodes[node, ENTRIES] == 0:
                    continue
                # All slots are looked up before any list is read, so that the memory delivers
                # many of them at once.
                hit = 0
                mask = forest.masks[node]
                for at in range(begin, end):
                    if mask & bit_of(terms[at]):
                        place = place_of(lists.slots, key_of(node, terms[at]))
                        hits[hit] = place
                        hit += lists.slots[place, 0] != 0
                # Verify the rows of the lists.
                for nth in range(hit):
                    slot = lists.slots[hits[nth]]
                    block, count = block_of(slot), count_of(slot)
                    candidates += count
                    for at in range(block, block + count):
                        row = lists.arena[at, 0]
                        if not accepts(rows, row, box[0], box[1], box[2], box[3], bitmap):
                            continue
                        if several:
                            # Only in the cell of the first point that row and message share.
                            row_x0, row_y0, _, _ = unpack(space.grid, lists.spans[row])
                            x, y = max(row_x0, x0), max(row_y0, y0)
                            if not (left <= x < left + size and low <= y < low + size):
                                continue
                        if written == len(found):
                            fits = False
                            break
                        messages[written] = message
                        found[written] = row
                        written += 1
                    if not fits:
                        break
            if not fits:
                break
        clear_terms(bitmap, terms, first, last)
        if not fits:
            return message, mark, seen
    return len(boxes), written, candidates
