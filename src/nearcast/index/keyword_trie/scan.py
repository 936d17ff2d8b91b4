"""Matching: down all ways whose terms a message has."""

from __future__ import annotations

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.ap_tree.tree import rank_of
from nearcast.index.gi2.lists import CellLists, block_of, count_of, key_of, place_of
from nearcast.index.keyword_trie.trie import CHILDREN, FIRST, NEXT, RANK, ROOT, KeywordTrieArrays
from nearcast.index.table import Rows
from nearcast.index.verify import Bitmap, accepts, clear_terms, set_terms


@inner
def _position(ranks: Int32s, start: int, stop: int, rank: int) -> int:
    """Give where a rank is among sorted ones, or -1."""
    end = stop
    while start < stop:
        middle = (start + stop) >> 1
        if ranks[middle] < rank:
            start = middle + 1
        else:
            stop = middle
    return start if start < end and ranks[start] == rank else -1


@inner
def _enter(
    trie: KeywordTrieArrays, frames: Int32s, depth: int, node: int, at: int, known: int
) -> None:
    """Begin with the children of a node, for the terms of the message from `at` on.

    Whichever are fewer are gone through: its children, or the terms.
    """
    frames[depth, 0], frames[depth, 1] = node, at
    by_child = trie.nodes[node, CHILDREN] <= known - at
    frames[depth, 2] = by_child
    frames[depth, 3] = trie.nodes[node, FIRST] if by_child else at


@lean_kernel
def scan(
    trie: KeywordTrieArrays,
    lists: CellLists,
    rows: Rows,
    rank: Int32s,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    bitmap: Bitmap,
    ranks: Int32s,
    frames: Int32s,
    start: int,
    messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int]:
    """Match messages, as `base.collect` wants it.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. `rank` is
    the place of each term in the order of terms. `bitmap` has a bit for each term, all zero before
    and after. `ranks` has room for the longest message, `frames` for the longest row and one more:
    a frame is a node, the first rank that counts below it, whether its children are gone through,
    and the cursor. Pairs go to `messages` and `found`.
    """
    written = candidates = 0
    for message in range(start, len(boxes)):
        mark, seen = written, candidates
        first, last = starts[message], starts[message + 1]
        box = boxes[message]
        set_terms(bitmap, terms, first, last)
        # Sort the ranks of the terms that some row has required.
        known = 0
        for at in range(first, last):
            ranks[known] = rank_of(rank, terms[at])
            known += ranks[known] >= 0
        sort(ranks, 0, known)
        # Walk down all paths whose terms the message has, depth first.
        _enter(trie, frames, 0, ROOT, 0, known)
        depth, fits = 0, True
        while depth >= 0 and fits:
            node, cursor = frames[depth, 0], frames[depth, 3]
            # Find the next rank that leads to a child, by its children or by the ranks.
            if frames[depth, 2]:
                if cursor < 0:
                    depth -= 1
                    continue
                frames[depth, 3] = trie.nodes[cursor, NEXT]
                at = _position(ranks, frames[depth, 1], known, trie.nodes[cursor, RANK])
                if at < 0:
                    continue
            else:
                at = cursor
                if at == known:
                    depth -= 1
                    continue
                frames[depth, 3] = at + 1
            # Verify the rows that end at the child; its number is in front of them.
            slot = lists.slots[place_of(lists.slots, key_of(node, ranks[at]))]
            block, count = block_of(slot), count_of(slot)
            if count == 0:
                continue
            candidates += count - 1
            for entry in range(block + 1, block + count):
                row = lists.arena[entry, 0]
                if not accepts(rows, row, box[0], box[1], box[2], box[3], bitmap):
                    continue
                if written == len(found):
                    fits = False
                    break
                messages[written] = message
                found[written] = row
                written += 1
            # Go on below the child.
            child = lists.arena[block, 0]
            if trie.nodes[child, CHILDREN] > 0 and at + 1 < known:
                depth += 1
                _enter(trie, frames, depth, child, at + 1, known)
        clear_terms(bitmap, terms, first, last)
        if not fits:
            return message, mark, seen
    return len(boxes), written, candidates
