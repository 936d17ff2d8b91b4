"""The trie in flat arrays, and how rows come and go.

A child is known by its parent and the rank of its term: the list of both in `gi2.lists` names the
child first and then the rows whose last term it is. Siblings are chained, so that a node's
children can be walked through as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.ap_tree.cost import sorted_ranks
from nearcast.index.gi2.lists import (
    CellLists,
    append,
    block_of,
    count_of,
    key_of,
    place_of,
    shorten,
)
from nearcast.index.table import Rows

RANK, CHILDREN, FIRST, NEXT, BEFORE = 0, 1, 2, 3, 4
"""Columns of `Trie.nodes`; a freed node names the next one in `NEXT`."""
TOP, FREE = 0, 1
"""Places in `Trie.counts`: nodes in use or freed, and the first freed node, or -1."""
ROOT = 0
NOTHING = -1
NO_NODE = -3


class KeywordTrieArrays(NamedTuple):
    """The nodes; node 0 is the root."""

    nodes: Int32s  # (n, 5)
    counts: Int64s


def empty_trie(room: int) -> KeywordTrieArrays:
    """Make a trie of a root, with room for that many nodes below it."""
    nodes = np.empty((room + 1, 5), np.int32)
    nodes[ROOT] = (NOTHING, 0, NOTHING, NOTHING, NOTHING)
    return KeywordTrieArrays(nodes, np.array([1, NOTHING], np.int64))


@inner
def _add_child(trie: KeywordTrieArrays, parent: int, rank: int) -> int:
    nodes = trie.nodes
    child = trie.counts[FREE]
    if child >= 0:
        trie.counts[FREE] = nodes[child, NEXT]
    else:
        child = trie.counts[TOP]
        trie.counts[TOP] += 1
    after = nodes[parent, FIRST]
    nodes[child, RANK], nodes[child, CHILDREN], nodes[child, FIRST] = rank, 0, NOTHING
    nodes[child, NEXT], nodes[child, BEFORE] = after, NOTHING
    if after >= 0:
        nodes[after, BEFORE] = child
    nodes[parent, FIRST] = child
    nodes[parent, CHILDREN] += 1
    return int(child)


@inner
def _drop_child(trie: KeywordTrieArrays, parent: int, child: int) -> None:
    nodes = trie.nodes
    before, after = nodes[child, BEFORE], nodes[child, NEXT]
    if before >= 0:
        nodes[before, NEXT] = after
    else:
        nodes[parent, FIRST] = after
    if after >= 0:
        nodes[after, BEFORE] = before
    nodes[parent, CHILDREN] -= 1
    nodes[child, NEXT] = trie.counts[FREE]
    trie.counts[FREE] = child


@lean_kernel
def insert_rows(
    trie: KeywordTrieArrays, lists: CellLists, rows: Rows, rank: Int32s, new: Int32s, ranks: Int32s,
    progress: Int64s,
) -> int:  # fmt: skip
    """Put rows at the end of the way of their terms, until done (0) or something is full.

    `progress[0]` rows are done. `ranks` has room for the terms of the longest row.
    """
    while progress[0] < len(new):
        row = new[progress[0]]
        sorted_ranks(rows, rank, row, ranks, 0)
        node, place = ROOT, 0
        for at in range(rows.required[row]):
            place = place_of(lists.slots, key_of(node, ranks[at]))
            if count_of(lists.slots[place]) > 0:
                node = lists.arena[block_of(lists.slots[place]), 0]
                continue
            if trie.counts[FREE] < 0 and trie.counts[TOP] == len(trie.nodes):
                return NO_NODE
            entry = append(lists, key_of(node, ranks[at]))
            if entry < 0:
                return int(entry)
            child = _add_child(trie, node, ranks[at])
            lists.arena[entry, 0] = child
            node = child
        entry = append(lists, lists.slots[place, 0])
        if entry < 0:
            return int(entry)
        lists.arena[entry, 0] = row
        progress[0] += 1
    return 0


@lean_kernel
def delete_rows(
    trie: KeywordTrieArrays,
    lists: CellLists,
    rows: Rows,
    rank: Int32s,
    old: Int32s,
    ranks: Int32s,
    way: Int32s,
) -> None:
    """Take rows out, and the nodes that nothing hangs on any more.

    `ranks` and `way` have room for the terms of the longest row, and one more.
    """
    for row in old:
        sorted_ranks(rows, rank, row, ranks, 0)
        last = rows.required[row] - 1
        way[0] = ROOT
        block = count = 0
        for at in range(last + 1):
            slot = lists.slots[place_of(lists.slots, key_of(way[at], ranks[at]))]
            block, count = block_of(slot), count_of(slot)
            if count == 0:
                break
            way[at + 1] = lists.arena[block, 0]
        entry = block + 1
        while entry < block + count and lists.arena[entry, 0] != row:
            entry += 1
        if entry >= block + count:
            continue  # has left before
        slot = lists.slots[place_of(lists.slots, key_of(way[last], ranks[last]))]
        lists.arena[entry, 0] = lists.arena[block + count - 1, 0]
        shorten(lists, slot, count - 1)
        for at in range(last, -1, -1):
            slot = lists.slots[place_of(lists.slots, key_of(way[at], ranks[at]))]
            if count_of(slot) > 1 or trie.nodes[way[at + 1], CHILDREN] > 0:
                break
            shorten(lists, slot, 0)
            _drop_child(trie, way[at], way[at + 1])
