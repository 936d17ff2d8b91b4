"""IQ-Tree and RQ-Tree: the same cells and lists, entered by place or by term."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Int32s
from nearcast.errors import InvalidValue
from nearcast.index.ap_tree.cost import Observed, observe
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.gi2.lists import ENTRIES as COPIES
from nearcast.index.gi2.lists import (
    LISTS,
    NO_SLOT,
    CellLists,
    fresh_lists,
    with_arena,
    with_slots,
)
from nearcast.index.gi2.lists import TOP as ARENA_TOP
from nearcast.index.quadtree.cells import DEEPEST, QuadtreeSpace, space_over, work_space
from nearcast.index.quadtree.forest import (
    NO_NODE,
    ROWS,
    TOP,
    Forest,
    delete_rows,
    insert_rows,
    masks_of,
    room_for,
)
from nearcast.index.quadtree.scan import scan
from nearcast.index.scratch import Bitmaps
from nearcast.index.table import Table

_VERSION = 1
_WORLD = (-180.0, -90.0, 180.0, 90.0)
_GROWN = 4
_FEW = 1000


class _Quadtree:
    """What both trees share.

    - `depth`: levels below the root;
    - `horizon`: putting a row into one more cell is worth it if that saves a verification within
      this many messages;
    - `history`: messages that their places and terms are expected from;
    - `message_terms`: without a history, how many terms a message has.
    """

    name: ClassVar[str]
    _by_term: ClassVar[bool]
    _toll: ClassVar[float]

    def __init__(
        self,
        table: Table,
        depth: int = 12,
        horizon: float = 10_000.0,
        message_terms: float = 9.0,
        history: Batch | None = None,
    ) -> None:
        if isinstance(depth, bool) or not 1 <= depth <= DEEPEST:
            raise InvalidValue("depth", depth, f"1 to {DEEPEST} levels")
        for field, value in (("horizon", horizon), ("message_terms", message_terms)):
            if not value > 0:
                raise InvalidValue(field, value, "a number above 0")
        self.table = table
        self._options = {"depth": depth, "horizon": horizon, "message_terms": message_terms}
        self._observed: Observed | None = None if history is None else observe(history)
        self._bitmaps = Bitmaps()
        self._start(np.empty(0, np.int32))

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        self._start(self.table.live_rows())

    def insert(self, rows: Int32s) -> None:
        """Put rows into the lists of their cells; when there are many more, choose cells again."""
        if self._forest.counts[ROWS] + len(rows) > _GROWN * self._made_for + _FEW:
            before = np.flatnonzero(self._forest.keys >= 0).astype(np.int32)
            self._start(np.concatenate([before, np.asarray(rows, np.int32)]))
        else:
            self._put(np.ascontiguousarray(rows, np.int32))

    def delete(self, rows: Int32s) -> Int32s:
        """Take rows out of their lists; nothing refers to them then."""
        self._take(rows)
        return rows

    def move(self, rows: Int32s) -> None:
        """Take rows out of the cells that they had, and put them into those that they have now."""
        self._take(rows)
        self._put(np.ascontiguousarray(rows, np.int32))

    def candidates(self, batch: Batch) -> Pairs:
        """Verify the rows in the lists that each message meets."""
        forest, lists, space, rows = self._forest, self._lists, self._space, self.table.rows
        hits = np.empty(int(np.diff(batch.starts).max(initial=0)) + 1, np.int32)
        stack = np.empty((3 * space.depth + 4, 4), np.int64)
        with self._bitmaps.borrow(len(self.table.frequency)) as bitmap:
            return collect(
                len(batch),
                lambda start, messages, found: scan(
                    forest, lists, space, rows, batch.starts, batch.terms, batch.boxes, bitmap,
                    hits, stack, start, messages, found,
                ),
            )  # fmt: skip

    def stats(self) -> Mapping[str, float]:
        """Count nodes, lists, copies of rows and bytes."""
        forest, lists = self._forest, self._lists
        nodes = int(forest.counts[TOP])
        return {
            "bytes": forest.roots.nbytes
            + nodes * forest.nodes.itemsize * forest.nodes.shape[1]
            + forest.keys.nbytes
            + forest.weights.nbytes
            + lists.slots.nbytes
            + int(lists.counts[ARENA_TOP]) * lists.arena.itemsize
            + lists.spans.nbytes,
            "nodes": nodes,
            "lists": int(lists.counts[LISTS]),
            "entries": int(lists.counts[COPIES]),
            "replication": int(lists.counts[COPIES]) / max(1, int(forest.counts[ROWS])),
        }

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        lists, forest = self._lists, self._forest
        arrays: dict[str, Any] = {f"lists_{k}": v for k, v in lists._asdict().items()}
        arrays["lists_arena"] = lists.arena[: lists.counts[ARENA_TOP]]
        kept = {name: array for name, array in forest._asdict().items() if name != "masks"}
        arrays |= {f"forest_{name}": array for name, array in kept.items()}
        arrays |= {"below": self._space.below, "chances": self._chances}
        if self._observed is not None:
            arrays |= {f"seen_{k}": v for k, v in self._observed._asdict().items()}
        about = {
            "options": self._options,
            "extent": list(self._extent),
            "made_for": self._made_for,
        }
        save_arrays(folder, self.name, _VERSION, about, arrays)

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        about, mapped = load_arrays(folder, cls.name, _VERSION)
        arrays = {name: np.asarray(array) for name, array in mapped.items()}
        index = cls(table, **about["options"])
        west, south, east, north = about["extent"]
        index._extent = (west, south, east, north)
        index._made_for = about["made_for"]
        index._chances = arrays["chances"]
        index._space = _space(index._extent, int(index._options["depth"]), None)
        index._space = index._space._replace(below=arrays["below"])
        arrays["forest_masks"] = masks_of(arrays["forest_nodes"])
        index._forest = Forest(*(arrays[f"forest_{field}"] for field in Forest._fields))
        index._lists = CellLists(*(arrays[f"lists_{field}"] for field in CellLists._fields))
        if "seen_share" in arrays:
            index._observed = Observed(*(arrays[f"seen_{field}"] for field in Observed._fields))
        return index

    def _start(self, rows: Int32s) -> None:
        """Rebuild the index from rows, with cells chosen for what is known by now."""
        table = self.table
        boxes = table.rows.box[rows]
        self._extent = _WORLD
        if len(boxes):
            west, south = boxes[:, :2].min(axis=0).tolist()
            east, north = boxes[:, 2:].max(axis=0).tolist()
            self._extent = (west, south, east, north)
        seen = self._observed
        places = boxes if seen is None else np.column_stack((seen.lons, seen.lats) * 2)
        self._space = _space(self._extent, int(self._options["depth"]), places)
        self._chances = self._term_chances()
        count, terms = len(rows), len(table.frequency)
        nodes = room_for(2 * count + 64)
        self._forest = Forest(
            np.full(max(terms, 2) if self._by_term else 1, -1, np.int32),
            nodes,
            masks_of(nodes),
            np.array([0, -1, 0], np.int64),
            np.full(len(table), -1, np.int32),
            np.empty(len(table), np.float32),
        )
        self._lists = fresh_lists(count, 2 * count, 1, np.zeros(len(table), np.uint64))
        self._made_for = count
        self._put(np.ascontiguousarray(rows, np.int32))

    def _term_chances(self) -> Any:
        """Give by term how much a message's share of space weighs against one more copy."""
        frequency = self.table.frequency
        if self._observed is not None:
            share = self._observed.share
        else:
            known = frequency if frequency.any() else np.ones(len(frequency))
            share = float(self._options["message_terms"]) * known / known.sum()
        chances = np.append(np.minimum(share, 1.0), share.min(initial=1.0))
        return (chances * self._options["horizon"]).astype(np.float32)

    def _put(self, rows: Int32s) -> None:
        self._reserve()
        progress, work = np.zeros(2, np.int64), work_space()
        while True:
            lacking = insert_rows(
                self._forest, self._lists, self._space, self._toll, self.table.rows,
                self.table.frequency, self._chances, rows, progress, work,
            )  # fmt: skip
            lists = self._lists
            if lacking == 0:
                return
            if lacking == NO_NODE:
                self._forest = _with_nodes(self._forest)
            elif lacking == NO_SLOT:
                self._lists = with_slots(lists, int(1.5 * lists.counts[LISTS]) + 64)
            else:
                self._lists = with_arena(lists, int(1.5 * len(lists.arena)) + 64)

    def _take(self, rows: Int32s) -> None:
        chosen = np.ascontiguousarray(rows, np.int32)
        delete_rows(self._forest, self._lists, self._space, self._toll, chosen, work_space())

    def _reserve(self) -> None:
        """Make room for all rows and terms of the table."""
        forest, rows, terms = self._forest, len(self.table), len(self.table.frequency)
        if len(forest.keys) < rows:
            room = max(rows, len(forest.keys) * 3 // 2)
            self._forest = forest._replace(
                keys=_longer(forest.keys, room, -1), weights=_longer(forest.weights, room, 0)
            )
            self._lists = self._lists._replace(spans=_longer(self._lists.spans, room, 0))
        if self._by_term and len(forest.roots) < terms:
            self._forest = self._forest._replace(roots=_longer(forest.roots, terms, -1))


def _longer(array: Any, room: int, fill: int) -> Any:
    grown = np.full(room, fill, array.dtype)
    grown[: len(array)] = array
    return grown


def _with_nodes(forest: Forest) -> Forest:
    """Give the same forest with room for more nodes."""
    room = len(forest.nodes) * 3 // 2 + 64
    nodes = room_for(room)
    nodes[: len(forest.nodes)] = forest.nodes
    return forest._replace(nodes=nodes, masks=masks_of(nodes))


def _space(extent: tuple[float, float, float, float], depth: int, places: Any) -> QuadtreeSpace:
    if places is None or not len(places):
        return space_over(extent, depth, np.empty(0), np.empty(0))
    lons, lats = places[:, ::2].mean(axis=1), places[:, 1::2].mean(axis=1)
    return space_over(extent, depth, lons, lats)


class IqTree(_Quadtree):
    """A quadtree whose nodes have inverted lists: by place first, then by the rarest term.

    A row is kept in one or several disjoint cells, chosen so that verifications and copies
    together cost the least, and in each under its rarest term. A message looks into the lists of
    its terms in all cells on its way down. Good where regions are small; where they are large,
    most rows are near the root and space separates few of them.

    From "An efficient query indexing mechanism for filtering geo-textual data" (SIGMOD 2013), as
    described and adapted to memory in AP-Tree (ICDE 2015), sections II-C and V-A: verifications
    take the place of page reads in the cost model.

    Departures: without a history, messages are expected where subscriptions are, and the share of
    a term is its frequency; when the rows have become several times as many, all cells are chosen
    again; a node has a mask of 64 bits over its terms, which spares most vain look-ups; a row is
    kept in some hundred cells at most.
    """

    name: ClassVar[str] = "iq-tree"
    _by_term: ClassVar[bool] = False
    _toll: ClassVar[float] = 0.0


class RqTree(_Quadtree):
    """A quadtree for each term: rows by their rarest term first, then by place.

    A message looks only into the quadtrees of its own terms. Good where terms separate rows well;
    a frequent term that many small regions share costs a way down a large tree.

    From AP-Tree (ICDE 2015), section V-A, where it represents indexes by term first; cells are
    chosen by the cost model of the IQ-Tree.

    Departures: those of `IqTree`; and since a tree belongs to one term alone, each level on the
    way to a cell costs as much as a copy, so that rare terms have a root and nothing below it.
    """

    name: ClassVar[str] = "rq-tree"
    _by_term: ClassVar[bool] = True
    _toll: ClassVar[float] = 1.0
