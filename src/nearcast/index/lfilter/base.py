"""What the three indexes share: they follow the table, mark what is deleted, and search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Int32s
from nearcast.errors import InvalidValue
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.lfilter.arena import Arena, larger, trimmed, used_cells
from nearcast.index.lfilter.cost import LENGTHS, TYPICAL, SearchCosts
from nearcast.index.lfilter.order import TermOrder
from nearcast.index.lfilter.quadtree import DEEPEST, ENTRIES, PtQuadtreeArrays
from nearcast.index.lfilter.quadtree_build import Division, EditableQuadtree
from nearcast.index.lfilter.search import (
    COST,
    FRAME,
    TOKEN_SET,
    TRIE,
    SearchOptions,
    SearchScratch,
    match_batch,
)
from nearcast.index.lfilter.shape import shape_of
from nearcast.index.lfilter.trie import (
    DEPTH,
    DONE,
    NO_IDS,
    NO_KIDS,
    NO_NODES,
    NODES,
    MbrTrieArrays,
    empty_trie,
    insert_in_trie,
    move_in_trie,
)
from nearcast.index.lfilter.trie_build import build_trie
from nearcast.index.table import Table
from nearcast.index.verify import Bitmap, bitmap_for

_VERSION = 1
_FEW = 64
_SEGMENTS = 1024
_NO_DIVISION = Division(1, 1.0, 1.0, False, 0.0)
_NOTHING = np.empty(0, np.int32)
PROBES = {"cost": COST, "token-set": TOKEN_SET, "trie": TRIE}


class FilterIndex:
    """An MBRTrie, a PT-Quadtree, or both.

    Deleted rows are marked, by the table, and stay where they are until a quarter of all rows are
    such; then everything is rebuilt. So it is when the rows have doubled, when as many rows
    have moved as there are, and when there is no id left where one is needed.
    """

    name: ClassVar[str]

    def __init__(
        self, table: Table, options: Mapping[str, Any], filters: int, division: Division | None
    ) -> None:
        self.table = table
        self._options = dict(options)
        self._filters = filters
        self._order = TermOrder(one_of("order", options.get("order", "idf"), ("idf", "tf")))
        self._probe = PROBES[one_of("probe", options.get("probe", "cost"), tuple(PROBES))]
        self._has_trie, self._has_quadtree = "probe" in options, division is not None
        planes = 2 if self._has_trie and self._has_quadtree else 1
        self._quadtree = EditableQuadtree(division or _NO_DIVISION, len(table), planes)
        self._trie = empty_trie(len(table), self._has_trie)
        self._rows = self._built = self._moved = 0  # rows held, when built, and moved since
        self._held = np.zeros(len(table), np.bool_)  # by row: the table may have others as well
        self._dead: list[Int32s] = []
        self._freed: list[Int32s] = []
        self._shelf: list[tuple[Bitmap, SearchScratch]] = []
        self._costs, self._prices = TYPICAL, np.zeros((len(LENGTHS), 3))
        self._started_over(_NOTHING)

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        self._held[:] = False
        self._hold(self.table.live_rows())
        self._rebuild()

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table."""
        new = np.ascontiguousarray(rows, np.int32)
        if not len(new):
            return
        self._hold(new)
        if self._rows + len(new) > 2 * self._built + _FEW:
            self._rebuild()
            return
        self._order.extend(self.table, new)
        if self._has_trie and not self._insert_in_trie(new):
            self._rebuild()
            return
        self._rows += len(new)
        if self._has_quadtree:
            self._quadtree.insert(self.table, new, self._ids, self._order, self._rows)
        if self._rows > self._measured + self._measured // 8 + _FEW:
            self._plan = self._fresh_plan()

    def delete(self, rows: Int32s) -> Int32s:
        """Mark rows as gone, and give those that nothing refers to any more."""
        self._dead.append(np.array(rows, np.int32))
        self._held[rows] = False
        if 4 * sum(map(len, self._dead)) > self._rows + _FEW:
            self._rebuild()
        freed = np.concatenate([*self._freed, _NOTHING])
        self._freed.clear()
        return freed

    def move(self, rows: Int32s) -> None:
        """Take note that the boxes of rows have changed in the table."""
        moved = np.ascontiguousarray(rows, np.int32)
        self._moved += len(moved)
        if self._moved > self._rows + _FEW:
            self._rebuild()
            return
        table, order = self.table, self._order
        if self._has_trie:
            path = self._path_room(moved)
            move_in_trie(self._trie, table.rows, order.labels, moved, path)
        if self._has_quadtree:
            self._quadtree.move(table, moved, self._ids, order, self._rows)

    def candidates(self, batch: Batch) -> Pairs:
        """Find the rows that match each message."""
        trie, quad, rows, plan = self._trie, self._quadtree.quad, self.table.rows, self._plan
        labels = self._order.labels
        longest = int(np.diff(batch.starts).max(initial=0))
        bitmap, tools = self._borrow(longest)

        def scan(start: int, messages: Int32s, found: Int32s) -> tuple[int, int, int]:
            nonlocal tools
            while True:
                following, written, looked, full = match_batch(
                    trie, quad, rows, labels, plan, batch.starts, batch.terms, batch.boxes,
                    bitmap, tools, start, messages, found,
                )  # fmt: skip
                if not full or following > start:
                    return following, written, looked
                tools = tools._replace(segments=np.empty((4 * len(tools.segments), 3), np.int64))

        pairs = collect(len(batch), scan)
        self._shelf.append((bitmap, tools))
        return pairs

    def stats(self) -> Mapping[str, float]:
        """Figures about the index; `bytes` is without the table and without free room."""
        figures = {"bytes": float(self._order.labels.nbytes), "rows": float(self._rows)}
        if self._has_trie:
            trie = self._trie
            nodes = int(trie.counts[NODES])
            held = 8 * used_cells(trie.kids) + 4 * used_cells(trie.rows)
            figures["bytes"] += nodes * trie.nodes.itemsize + held + trie.ids.nbytes
            figures["trie_nodes"] = nodes
        if self._has_quadtree:
            quad = self._quadtree.quad
            nodes = int(quad.counts[NODES])
            held = 4 * len(quad.lists.cells) * used_cells(quad.lists) + 4 * used_cells(quad.sets)
            figures["bytes"] += nodes * quad.nodes.itemsize + held + quad.boxes.nbytes
            figures["quadtree_nodes"] = nodes
            figures["entries"] = int(quad.counts[ENTRIES])
            figures["pivots"] = used_cells(quad.sets)
        return figures

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        about = {
            "options": self._options,
            "used": self._order.used,
            "rows": self._rows,
            "built": self._built,
            "moved": self._moved,
            "costs": self._costs,
        }
        arrays = {
            "labels": self._order.labels,
            "extent": self._quadtree.extent,
            "prices": self._prices,
            "held": self._held,
            "dead": np.concatenate([*self._dead, _NOTHING]),
            "freed": np.concatenate([*self._freed, _NOTHING]),
        }
        for prefix, tree in (("trie", self._trie), ("quadtree", self._quadtree.quad)):
            for field, value in tree._asdict().items():
                if isinstance(value, Arena):
                    arrays[f"{prefix}_{field}"] = trimmed(value).cells
                    arrays[f"{prefix}_{field}_free"] = value.free
                else:
                    arrays[f"{prefix}_{field}"] = value
        save_arrays(folder, self.name, _VERSION, about, arrays)

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        about, mapped = load_arrays(folder, cls.name, _VERSION)
        arrays = {name: np.asarray(array) for name, array in mapped.items()}
        make: Any = cls
        index: Self = make(table, **about["options"])
        index._order.labels, index._order.used = arrays["labels"], about["used"]
        index._dead, index._freed = [np.array(arrays["dead"])], [np.array(arrays["freed"])]
        index._quadtree.extent, index._held = np.array(arrays["extent"]), arrays["held"]
        index._trie = MbrTrieArrays(**_fields(arrays, "trie", MbrTrieArrays._fields))
        index._quadtree.quad = PtQuadtreeArrays(
            **_fields(arrays, "quadtree", PtQuadtreeArrays._fields)
        )
        index._rows, index._built, index._moved = about["rows"], about["built"], about["moved"]
        index._costs, index._prices = SearchCosts(*about["costs"]), np.array(arrays["prices"])
        index._plan = index._fresh_plan()
        return index

    @property
    def _ids(self) -> Int32s:
        """The ids by which lists are ordered, if not by the numbers of rows."""
        return self._trie.ids if self._has_trie else _NOTHING

    def _hold(self, rows: Int32s) -> None:
        if len(self._held) < len(self.table):
            held = np.zeros(max(len(self.table), len(self._held) * 3 // 2), np.bool_)
            held[: len(self._held)] = self._held
            self._held = held
        self._held[rows] = True

    def _rebuild(self) -> None:
        """Rebuild everything, of the rows that are held."""
        chosen = np.flatnonzero(self._held).astype(np.int32)
        self._freed += self._dead
        self._dead = []
        self._order.start(self.table, chosen)
        if self._has_trie:
            self._trie = build_trie(self.table, chosen, self._order.labels)
        if self._has_quadtree:
            self._quadtree.build(self.table, chosen, self._ids, self._order)
        self._started_over(chosen)
        self._calibrate(chosen)

    def _calibrate(self, chosen: Int32s) -> None:
        """Measure what the cost model needs to know; nothing where there is no choice."""

    def _started_over(self, chosen: Int32s) -> None:
        self._rows = self._built = len(chosen)
        self._moved = 0
        self._plan = self._fresh_plan()

    def _fresh_plan(self) -> SearchOptions:
        self._measured = self._rows
        shape = shape_of(self._trie, self._quadtree, self._order.used)
        return SearchOptions(self._filters, self._probe, self._costs, self._prices, shape)

    def _insert_in_trie(self, new: Int32s) -> bool:
        """Insert rows, and say whether there was an id for each of them."""
        trie, start, ended = self._trie, 0, DONE
        if len(trie.ids) < len(self.table):
            ids = np.zeros(max(len(self.table), len(trie.ids) * 3 // 2), np.int32)
            ids[: len(trie.ids)] = trie.ids
            trie = trie._replace(ids=ids)
        path, bounds = self._path_room(new), np.empty(2, np.int64)
        while start < len(new) and ended != NO_IDS:
            start, ended = insert_in_trie(
                trie, self.table.rows, self._order.labels, new, start, path, bounds
            )
            if ended == NO_NODES:
                nodes = np.zeros(len(trie.nodes) * 3 // 2, trie.nodes.dtype)
                nodes[: len(trie.nodes)] = trie.nodes
                trie = trie._replace(nodes=nodes)
            elif ended == NO_KIDS:
                trie = trie._replace(kids=larger(trie.kids))
            elif ended != NO_IDS:
                trie = trie._replace(rows=larger(trie.rows) if ended else trie.rows)
        self._trie = trie
        return ended != NO_IDS

    def _path_room(self, rows: Int32s) -> Int32s:
        return np.empty(2 * int(self.table.rows.required[rows].max(initial=1)), np.int32)

    def _borrow(self, longest: int) -> tuple[Bitmap, SearchScratch]:
        """Take tools that no other thread uses; a large bitmap is expensive to make."""
        terms, depth = len(self.table.frequency), int(self._trie.counts[DEPTH]) + 2
        try:
            bitmap, tools = self._shelf.pop()
        except IndexError:
            bitmap, tools = bitmap_for(terms), new_tools(longest, depth)
        if 64 * len(bitmap) <= terms:
            bitmap = bitmap_for(terms)
        if len(tools.tokens) < longest or len(tools.frames) < depth:
            tools = new_tools(2 * longest, 2 * depth)
        return bitmap, tools


def new_tools(longest: int, depth: int) -> SearchScratch:
    """Make room for searches with messages of that many terms, in a trie of that depth."""
    return SearchScratch(
        np.empty(longest + 1, np.int32),
        np.empty((depth + 1, FRAME), np.int64),
        np.empty(4 * DEEPEST + 8, np.int64),
        np.empty((_SEGMENTS, 3), np.int64),
        np.zeros(1, np.int64),
    )


def one_of(field: str, given: str, expected: tuple[str, ...]) -> str:
    """Give a choice back, or refuse one that there is not."""
    if given not in expected:
        raise InvalidValue(field, given, f"one of {', '.join(expected)}")
    return given


def _fields(arrays: Mapping[str, Any], prefix: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: Arena(arrays[f"{prefix}_{name}"], np.array(arrays[f"{prefix}_{name}_free"]))
        if f"{prefix}_{name}_free" in arrays
        else arrays[f"{prefix}_{name}"]
        for name in names
    }
