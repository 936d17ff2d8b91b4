"""R-trees with inverted files: Rt-Tree, Rt+-Tree, Rt++-Tree, and the IR-Tree for messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Int32s
from nearcast.errors import InvalidValue
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.rtree.change import delete_rows, insert_rows, work_space
from nearcast.index.rtree.pack import packed
from nearcast.index.rtree.scan import scan
from nearcast.index.rtree.tree import (
    ALL,
    DONE,
    HIGHEST,
    LEVELS,
    NO_NODE,
    ONE,
    ROOT,
    ROWS,
    SLOTS,
    TOP,
    RTreeArrays,
    copy_slots,
    note_rows,
)
from nearcast.index.scratch import Bitmaps
from nearcast.index.table import Table

_VERSION = 1
_WIDEST = 64
_GROWN = 4
_FEW = 1000
_VARIANTS = {"rt": ALL, "rt+": ONE, "rt++": LEVELS}


class _TokenTree:
    """What the trees share: an R-tree, and for each node which entries have which terms."""

    name: ClassVar[str]
    _counting: ClassVar[bool]
    _terms: int

    def __init__(self, table: Table, fanout: int = 64) -> None:
        if isinstance(fanout, bool) or not 4 <= fanout <= _WIDEST:
            raise InvalidValue("fanout", fanout, f"4 to {_WIDEST} entries a node")
        self.table = table
        self._fanout = int(fanout)
        self._bitmaps = Bitmaps()
        self._start(np.empty(0, np.int32))

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        self._start(self.table.live_rows())

    def insert(self, rows: Int32s) -> None:
        """Put rows where boxes grow the least; a tree of few is rebuilt when many come."""
        held = int(self._tree.counts[ROWS])
        if held + len(rows) > _GROWN * self._made_for + _FEW:
            self._start(np.concatenate([self._held(), np.asarray(rows, np.int32)]))
        else:
            self._put(np.ascontiguousarray(rows, np.int32))

    def delete(self, rows: Int32s) -> Int32s:
        """Take rows out of their leaves; nothing refers to them then."""
        self._take(rows)
        self._tidy()
        return rows

    def move(self, rows: Int32s) -> None:
        """Take rows out, and put them where they belong now."""
        self._take(rows)
        self._put(np.ascontiguousarray(rows, np.int32))
        self._tidy()

    def candidates(self, batch: Batch) -> Pairs:
        """Verify the rows of the leaves that each message reaches."""
        tree, rows, counting = self._tree, self.table.rows, self._counting
        stack, counts = np.empty(_WIDEST * HIGHEST, np.int32), np.zeros(_WIDEST, np.int32)
        with self._bitmaps.borrow(len(self.table.frequency)) as bitmap:
            return collect(
                len(batch),
                lambda start, messages, found: scan(
                    tree, rows, counting, batch.starts, batch.terms, batch.boxes, bitmap, stack,
                    counts, start, messages, found,
                ),
            )  # fmt: skip

    def stats(self) -> Mapping[str, float]:
        """Count nodes, entries of inverted files and bytes."""
        tree, nodes = self._tree, int(self._tree.counts[TOP])
        node = sum(
            array.nbytes // len(array)
            for array in (tree.nodes, tree.used, tree.entries, tree.boxes, tree.masks)
        )
        return {
            "bytes": nodes * node + tree.slots.nbytes + tree.where.nbytes,
            "nodes": nodes,
            "height": int(tree.nodes[tree.counts[ROOT], 0]) + 1,
            "inverted_entries": int(tree.counts[SLOTS]),
        }

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        about = {"options": self._options(), "made_for": self._made_for, "gone": self._gone}
        save_arrays(folder, self.name, _VERSION, about, self._tree._asdict())

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        about, arrays = load_arrays(folder, cls.name, _VERSION)
        index = cls(table, **about["options"])
        index._made_for, index._gone = about["made_for"], about["gone"]
        index._tree = RTreeArrays(*(np.asarray(arrays[field]) for field in RTreeArrays._fields))
        return index

    def _options(self) -> dict[str, Any]:
        return {"fanout": self._fanout}

    def _held(self) -> Int32s:
        return np.flatnonzero(self._tree.where >= 0).astype(np.int32)

    def _start(self, rows: Int32s) -> None:
        """Rebuild the tree from rows."""
        self._tree = packed(self.table, rows, self._fanout, 2 * len(rows) + 64)
        self._made_for, self._gone = len(rows), 0
        progress = np.zeros(1, np.int64)
        while True:
            done = note_rows(
                self._tree, self.table.rows, self.table.frequency, self._terms, rows, progress
            )
            if done == DONE:
                return
            self._more_slots()

    def _put(self, rows: Int32s) -> None:
        where = self._tree.where
        if len(where) < len(self.table):
            grown = np.full(max(len(self.table), len(where) * 3 // 2), -1, np.int32)
            grown[: len(where)] = where
            self._tree = self._tree._replace(where=grown)
        progress, work = np.zeros(1, np.int64), work_space(len(self.table))
        while True:
            lacking = insert_rows(
                self._tree, self.table.rows, self.table.frequency, self._terms, rows, work,
                progress,
            )  # fmt: skip
            if lacking == DONE:
                return
            if lacking == NO_NODE:
                self._more_nodes()
            else:
                self._more_slots()

    def _take(self, rows: Int32s) -> None:
        delete_rows(self._tree, self.table.rows, np.ascontiguousarray(rows, np.int32))
        self._gone += len(rows)

    def _tidy(self) -> None:
        """Rebuild the tree once half as many rows have left as it has."""
        if 2 * self._gone > self._tree.counts[ROWS] + _WIDEST:
            self._start(self._held())

    def _more_nodes(self) -> None:
        tree, room = self._tree, len(self._tree.nodes) * 3 // 2 + _WIDEST
        grown = {}
        for field in ("nodes", "used", "entries", "boxes", "masks"):
            old = getattr(tree, field)
            grown[field] = np.zeros((room, *old.shape[1:]), old.dtype)
            grown[field][: len(old)] = old
        self._tree = tree._replace(**grown)

    def _more_slots(self) -> None:
        slots = np.zeros((len(self._tree.slots) * 3 // 2 + 64, 2), np.uint64)
        self._tree.counts[SLOTS] = copy_slots(self._tree, slots)
        self._tree = self._tree._replace(slots=slots)


class RtTree(_TokenTree):
    """An R-tree whose nodes know terms of the rows below them.

    A message goes down to children whose boxes it meets and that know one of its terms. `variant`
    says which terms of a row its nodes know: all ("rt"), the rarest alone ("rt+"), or another one
    at each level ("rt++"), so that a way down asks for several terms of the same row: the rarest
    right above the leaves, the second in the leaf, more frequent ones towards the root.
    `fanout` is the most entries of a node. Boxes that overlap much, as large regions do, leave the
    tree little to distinguish.

    From "Location-aware publish/subscribe" (KDD 2013), as described in AP-Tree (ICDE 2015),
    section II-C.

    Departures: a node's terms are an inverted file, which names the children that have a term;
    a full node is divided in half along the axis on which its entries spread more; rows that come
    together make a packed tree; boxes and terms above the leaves are not taken back when rows
    leave, but the whole tree is packed again once half have left.
    """

    name: ClassVar[str] = "rt-tree"
    _counting: ClassVar[bool] = False

    def __init__(self, table: Table, variant: str = "rt++", fanout: int = 64) -> None:
        if variant not in _VARIANTS:
            raise InvalidValue("variant", variant, f"one of {', '.join(_VARIANTS)}")
        self._variant, self._terms = variant, _VARIANTS[variant]
        super().__init__(table, fanout)

    def _options(self) -> dict[str, Any]:
        return {"variant": self._variant, "fanout": self._fanout}


class IrTree(_TokenTree):
    """An R-tree with an inverted file of all terms at each node, turned to subscriptions.

    Made for finding objects by query; here the rows are the objects. A message goes down to
    children whose boxes it meets and that have one of its terms; in a leaf the inverted file counts
    how many terms of each row it has, and rows that lack none are looked at.

    From "Efficient retrieval of the top-k most relevant spatial web objects" (PVLDB 2009), turned
    to this problem as in LFilter (CIKM 2015), section 6: nodes are pruned by place and by terms.

    Departures: those of `RtTree`; there are no weights of terms, since nothing is ranked.
    """

    name: ClassVar[str] = "ir-tree"
    _counting: ClassVar[bool] = True
    _terms = ALL
