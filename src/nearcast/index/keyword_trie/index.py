"""The ordered keyword trie as an index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Int32s
from nearcast.errors import InvalidValue
from nearcast.index.ap_tree.cost import last_term, rank_new_terms, term_counts, term_order
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.gi2.lists import LISTS, NO_SLOT, CellLists, fresh_lists, with_arena, with_slots
from nearcast.index.gi2.lists import TOP as ARENA_TOP
from nearcast.index.keyword_trie.scan import scan
from nearcast.index.keyword_trie.trie import (
    NO_NODE,
    TOP,
    KeywordTrieArrays,
    delete_rows,
    empty_trie,
    insert_rows,
)
from nearcast.index.scratch import Bitmaps
from nearcast.index.table import Table

_VERSION = 1
_ORDERS = ("tf", "idf", "random")


class KeywordTrie:
    """A trie over the terms of rows, each in one order; place is only verified.

    A message follows every way whose terms it has. A way that is shared is gone once for all rows
    on it, so many rows with few different texts are cheap. Not for rows that only differ
    in place: all of them are verified for every message with their terms.

    `order` is that of terms: frequent first ("tf"), rare first ("idf"), or "random". With frequent
    ones first more ways are shared; with rare ones first fewer are gone.

    From "Subscription indexes for web syndication systems" (EDBT 2012), as described in AP-Tree
    (ICDE 2015), section II-D, where it is the pattern for keyword nodes.

    Departures: of a node's children and the message's remaining terms the fewer are gone through,
    which LFilter (CIKM 2015), section 3.3, calls cost-based probing; terms that come after the
    trie was built are last in the order until it is rebuilt.
    """

    name: ClassVar[str] = "keyword-trie"
    _rank: Int32s
    _ranks: int

    def __init__(self, table: Table, order: str = "tf") -> None:
        if order not in _ORDERS:
            raise InvalidValue("order", order, f"one of {', '.join(_ORDERS)}")
        self.table = table
        self._order = order
        self._bitmaps = Bitmaps()
        self._start(np.empty(0, np.int32))

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        self._start(self.table.live_rows())

    def insert(self, rows: Int32s) -> None:
        """Put rows at the ends of their ways."""
        chosen = np.ascontiguousarray(rows, np.int32)
        size, known = last_term(self.table.rows, chosen) + 1, len(self._rank)
        if size > known:
            more = np.full(max(size - known, known), -1, np.int32)
            self._rank = np.concatenate([self._rank, more])
        self._ranks = rank_new_terms(self.table.rows, chosen, self._rank, self._ranks)
        self._put(chosen)

    def delete(self, rows: Int32s) -> Int32s:
        """Take rows off their ways; nothing refers to them then."""
        ranks, way = np.empty((2, self._longest + 1), np.int32)
        chosen = np.ascontiguousarray(rows, np.int32)
        delete_rows(self._trie, self._lists, self.table.rows, self._rank, chosen, ranks, way)
        return rows

    def move(self, rows: Int32s) -> None:
        """Nothing to note: place is verified in the table."""

    def candidates(self, batch: Batch) -> Pairs:
        """Verify the rows at the end of every way whose terms a message has."""
        trie, lists, rows, rank = self._trie, self._lists, self.table.rows, self._rank
        ranks = np.empty(int(np.diff(batch.starts).max(initial=0)) + 1, np.int32)
        frames = np.empty((self._longest + 1, 4), np.int32)
        with self._bitmaps.borrow(len(self.table.frequency)) as bitmap:
            return collect(
                len(batch),
                lambda start, messages, found: scan(
                    trie, lists, rows, rank, batch.starts, batch.terms, batch.boxes, bitmap,
                    ranks, frames, start, messages, found,
                ),
            )  # fmt: skip

    def stats(self) -> Mapping[str, float]:
        """Count nodes and bytes."""
        trie, lists = self._trie, self._lists
        nodes = int(trie.counts[TOP])
        return {
            "bytes": nodes * trie.nodes.itemsize * trie.nodes.shape[1]
            + lists.slots.nbytes
            + int(lists.counts[ARENA_TOP]) * lists.arena.itemsize
            + self._rank.nbytes,
            "nodes": int(lists.counts[LISTS]) + 1,
            "depth": self._longest,
        }

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        arrays: dict[str, Any] = {f"lists_{k}": v for k, v in self._lists._asdict().items()}
        arrays |= {f"trie_{k}": v for k, v in self._trie._asdict().items()}
        about = {"order": self._order, "longest": self._longest}
        save_arrays(folder, self.name, _VERSION, about, arrays | {"rank": self._rank})

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        about, mapped = load_arrays(folder, cls.name, _VERSION)
        arrays = {name: np.asarray(array) for name, array in mapped.items()}
        index = cls(table, about["order"])
        index._longest = about["longest"]
        index._rank = arrays["rank"]
        index._ranks = int(index._rank.max(initial=-1)) + 1
        index._trie = KeywordTrieArrays(
            *(arrays[f"trie_{field}"] for field in KeywordTrieArrays._fields)
        )
        index._lists = CellLists(*(arrays[f"lists_{field}"] for field in CellLists._fields))
        return index

    def _start(self, rows: Int32s) -> None:
        """Rebuild the trie, with a fresh order of terms."""
        self._rank = term_order(self._order, term_counts(self.table, rows))
        self._ranks = int(self._rank.max(initial=-1)) + 1
        self._longest = 1
        self._trie = empty_trie(2 * len(rows) + 16)
        self._lists = fresh_lists(len(rows), 3 * len(rows), 1, np.empty(0, np.uint64))
        self._put(np.ascontiguousarray(rows, np.int32))

    def _put(self, rows: Int32s) -> None:
        self._longest = max(self._longest, int(self.table.rows.required[rows].max(initial=0)))
        ranks, progress = np.empty(self._longest + 1, np.int32), np.zeros(1, np.int64)
        while True:
            lists = self._lists
            lacking = insert_rows(
                self._trie, lists, self.table.rows, self._rank, rows, ranks, progress
            )
            if lacking == 0:
                return
            if lacking == NO_NODE:
                nodes = np.empty((len(self._trie.nodes) * 3 // 2 + 64, 5), np.int32)
                nodes[: len(self._trie.nodes)] = self._trie.nodes
                self._trie = self._trie._replace(nodes=nodes)
            elif lacking == NO_SLOT:
                self._lists = with_slots(lists, int(1.5 * lists.counts[LISTS]) + 64)
            else:
                self._lists = with_arena(lists, int(1.5 * len(lists.arena)) + 64)
