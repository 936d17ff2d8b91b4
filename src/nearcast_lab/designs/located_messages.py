"""Indexes of the AP+-Tree's comparison: lists by place and term, for subscriptions and messages.

- SS-Index: a grid, and in each cell inverted lists. Its messages are kept here, by
  `cell-term-hash`; its subscriptions are those of GI2.
- KK-Index: inverted lists, and for each of them a grid.
- IQ+-Tree: a quadtree, and in each cell inverted lists; a subscription is held in the cells that
  cost least, a message in all cells around its point.
- RQ+-Tree: inverted lists, and for each a quadtree as deep as its subscriptions are many.

Departures from "AP-Tree: efficiently support location-aware Publish/Subscribe" (VLDB J.), section
5.2.1: lists are found through one hash of place and term, in whichever order the paper nests them.
The cost model of the quadtrees, for which the paper refers to another, is the one of `_places`.
All take point messages and plain boxes, which is what is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from nearcast.active.kernels.layout import (
    END,
    GIVEN,
    HEAD,
    LIVE,
    SLOT_BYTES,
    SLOTS,
    UNIT,
    USED,
    empty_state,
    longer,
    more_slots,
)
from nearcast.active.kernels.moves import MORE_FOUND, MORE_ROOM
from nearcast.active.kernels.places import Places, places_in
from nearcast.active.store import ActiveChanges, Ended, MessageTerms
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index import Batch, Pairs, Table
from nearcast.index.base import collect
from nearcast.index.table import Rows
from nearcast.index.verify import bitmap_for
from nearcast_lab.designs._held_kernels import hold_rows, match_held, rarest_of
from nearcast_lab.designs._located_kernels import (
    Hash,
    LocatedScratch,
    add_located,
    expire_located,
    located_moves,
    rehash,
)

GRID = 40
"""Cells of a grid in each direction, as in the paper."""
LEVELS = 6
"""Levels of a quadtree below its root: about as fine as the grids."""
FULL = 40
"""Subscriptions of a term for each cell of the finest level of its quadtree, at most."""
BETWEEN_MOVES = 500_000.0
"""Messages between two moves of a subscription: the paper's 100 k a timestamp, for five of them."""
UPDATE = 8.0
"""What a move costs in each cell, in verifications."""
_NOWHERE = np.inf


def grid(space: Floats, cells: int = GRID) -> Places:
    """A grid, the same for all terms."""
    return _places(space, cells, 0)


def _places(space: Floats, cells: int, levels: int) -> Places:
    nothing = np.zeros(0)
    return Places(space, cells, levels, np.zeros(0, np.int8), levels, nothing, nothing, UPDATE)


def quadtree(table: Table, space: Floats, history: Batch) -> Places:
    """One quadtree for all terms, with the cost of each cell by what is known of messages."""
    cells, size = 1 << LEVELS, len(table.frequency)
    low, high = space[:2], space[2:]
    at = ((history.boxes[:, :2] - low) / (high - low) * cells).astype(np.int64)
    column, line = np.clip(at, 0, cells - 1).T
    weights = []
    for level in range(LEVELS + 1):
        up = LEVELS - level
        cell = ((line >> up) << level) + (column >> up)
        weights.append(np.bincount(cell, minlength=1 << (2 * level)))
    seen = history.terms[history.starts[0] : history.starts[-1]]
    share = np.bincount(seen, minlength=size) / max(1, len(history))
    weight = BETWEEN_MOVES * np.concatenate(weights) / max(1, len(history))
    made = _places(space, cells, LEVELS)
    return made._replace(weight=weight, share=np.maximum(share, 0.5 / max(1, len(history))))


def quadtrees_by_term(table: Table, space: Floats, history: Batch) -> Places:
    """A quadtree for each term, as deep as its subscriptions are many."""
    many = np.bincount(_rarest(table)[table.live_rows()], minlength=len(table.frequency))
    levels = np.ceil(np.log2(np.maximum(many / FULL, 1.0)) / 2)
    return quadtree(table, space, history)._replace(
        depth=np.minimum(levels, LEVELS).astype(np.int8), deepest=0
    )


def _rarest(table: Table) -> Int32s:
    """The rarest term of each row, by row."""
    keys = np.zeros(len(table), np.int32)
    rarest_of(table.rows, table.live_rows(), table.frequency, keys)
    return keys


class _PlaceLists:
    """Lists by place and term."""

    def __init__(self, places: Places) -> None:
        self._places = places
        size = places_in(places.cells, places.levels)
        self._tools = LocatedScratch(
            np.empty(2 * size, np.int64), np.empty(size), np.zeros(size, np.int64),
            np.zeros(1, np.int64), np.empty(8, np.int64), np.empty(8, np.float32),
        )  # fmt: skip
        self._hash = _empty_hash(1 << 12)
        self._state = empty_state(1 << 11, 1 << 12, 64)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without free room at the ends of arrays."""
        state = self._state
        arena = 4 * UNIT * int(state.counts[USED])
        heads = 4 * HEAD * int(self._hash.lists[0])
        return int(state.counts[SLOTS]) * SLOT_BYTES + arena + heads + 12 * len(self._hash.keys)

    def _grow(self, most: int) -> None:
        """Make what keeps a kernel from going on larger; `most` lists come at a time.

        If it is neither the slots nor the hash, it is the arena, however much of it is free.
        """
        state = self._state
        used, slots = int(state.counts[USED]), int(state.counts[SLOTS])
        full = slots == len(state.messages) and state.counts[GIVEN] == 0
        crowded = 2 * (int(self._hash.lists[0]) + most) > len(self._hash.keys)
        if full:
            state = more_slots(state, slots, 2 * slots)
        if not (full or crowded):
            room = 2 * len(state.ints) // UNIT + 128 * most
            memory = longer(state.memory, used * UNIT, room * UNIT)
            state = state._replace(memory=memory, ints=memory.view(np.int32))
        if crowded:
            fresh = _empty_hash(4 * len(self._hash.keys))
            rehash(self._hash, fresh)
            fresh.lists[0] = self._hash.lists[0]
            self._hash = fresh
            heads = longer(state.heads, len(state.heads), HEAD * len(fresh.keys) // 2, cleared=True)
            state = state._replace(heads=heads)
        self._state = state


def _empty_hash(room: int) -> Hash:
    return Hash(np.full(room, -1, np.int64), np.empty(room, np.int32), np.zeros(1, np.int64))


class LocatedMessages(_PlaceLists):
    """Active messages in lists by place and term."""

    def __init__(self, places: Places) -> None:
        super().__init__(places)
        self._frequency: Int64s = np.zeros(16, np.int64)
        self._found: Int32s = np.empty(1 << 12, np.int32)

    def __len__(self) -> int:
        """How many messages there are."""
        return int(self._state.counts[LIVE])

    @property
    def nbytes(self) -> int:
        """Bytes in use, without free room at the ends of arrays."""
        return super().nbytes + self._frequency.nbytes

    @property
    def ends(self) -> Floats:
        """When each slot's message ends, or ended."""
        return self._state.messages[:, END]

    def add(self, texts: MessageTerms, boxes: Floats, ends: Floats) -> Int32s:
        """Take in messages, and give their slots."""
        slots = np.empty(len(boxes), np.int32)
        most = int(texts.terms.max(initial=-1)) + 1
        if most > len(self._frequency):
            self._frequency = longer(self._frequency, len(self._frequency), 2 * most, cleared=True)
        done = 0
        while done < len(boxes):
            done = add_located(
                self._state, self._hash, self._places, self._frequency, texts.starts, texts.terms,
                boxes, ends, done, slots, self._tools,
            )  # fmt: skip
            if done < len(boxes):
                self._grow(int(np.diff(texts.starts).max()) * (self._places.levels + 1))
        return slots

    def expire(self, now: float, most: int) -> Ended:
        """Remove at most `most` of the messages that have ended by now."""
        gone = np.empty(min(most, len(self)), np.int32)
        count = expire_located(
            self._state, self._hash, self._places, self._frequency, now, gone, self._tools
        )
        return Ended(gone[:count], np.empty(0, np.int32))

    def moves(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats,
        circles: None = None,
    ) -> ActiveChanges:
        """Find what changes if rows get other boxes; see `ActiveStore.moves`."""
        del circles
        start, filled, room = 0, 0, max(256, len(which))
        out_events, out_slots = np.empty(room, np.int32), np.empty(room, np.int32)
        out_ops = np.ones(room, np.int8)
        while start < len(which):
            start, written, why = located_moves(
                self._state, self._hash, self._places, self._frequency, rows, which, events, times,
                boxes, start, self._found, out_events[filled:], out_slots[filled:],
                out_ops[filled:], self._tools,
            )  # fmt: skip
            filled += written
            if why == MORE_FOUND:
                self._found = np.empty(4 * len(self._found), np.int32)
            elif why == MORE_ROOM:
                room *= 2
                out_events = longer(out_events, filled, room)
                out_slots = longer(out_slots, filled, room)
                out_ops = longer(out_ops, filled, room)
        return ActiveChanges(out_events[:filled], out_slots[:filled], out_ops[:filled])


class LocatedRows(_PlaceLists):
    """Subscriptions in the lists of their rarest terms, in some places: an `Index` of points."""

    name: ClassVar[str] = "located"

    def __init__(self, table: Table, places: Places) -> None:
        super().__init__(places)
        self.table = table
        self._keys: Int32s = np.zeros(0, np.int32)  # by row: the term it is listed under
        self._boxes: Floats = np.zeros((0, 4))  # by row: the box it is listed with

    def build(self) -> None:
        """Take in all live rows of the table; there must be none yet."""
        self.insert(self.table.live_rows())

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table."""
        table, known = self.table, len(self._keys)
        if len(table) > known:
            room = 2 * len(table)
            self._keys = longer(self._keys, known, room, cleared=True)
            self._boxes = longer(self._boxes, known, room, cleared=True)
        rarest_of(table.rows, rows, table.frequency, self._keys)
        self._hold(rows, np.full((len(rows), 4), _NOWHERE), table.rows.box[rows])

    def delete(self, rows: Int32s) -> Int32s:
        """Forget rows; nothing refers to them then."""
        self._hold(rows, self._boxes[rows], np.full((len(rows), 4), _NOWHERE))
        return rows

    def move(self, rows: Int32s) -> None:
        """Put rows whose boxes have changed in the table where they belong now."""
        self._hold(rows, self._boxes[rows], self.table.rows.box[rows])

    def _hold(self, rows: Int32s, old: Floats, new: Floats) -> None:
        done = 0
        while done < len(rows):
            done = hold_rows(
                self._state, self._hash, self._places, rows, self._keys, old, new, done,
                self._tools,
            )  # fmt: skip
            if done < len(rows):
                self._grow(len(self._tools.best))
        self._boxes[rows] = new

    def candidates(self, batch: Batch) -> Pairs:
        """Find the rows that match each message, which must be at a point."""
        rows, bitmap = self.table.rows, bitmap_for(len(self.table.frequency))
        return collect(
            len(batch),
            lambda start, messages, found: match_held(
                self._state, self._hash, self._places, rows, batch.starts, batch.terms,
                batch.boxes, bitmap, start, messages, found, self._tools.cells,
            ),
        )  # fmt: skip

    def stats(self) -> Mapping[str, float]:
        """Figures about the index."""
        own = self._keys.nbytes + self._boxes.nbytes
        return {"bytes": self.nbytes + own, "lists": int(self._hash.lists[0])}

    def save(self, folder: Path) -> None:
        """Not to be had: it is for comparison."""
        raise NotImplementedError(f"{folder}: a design for comparison is not saved")

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Not to be had: it is for comparison."""
        del table
        raise NotImplementedError(f"{folder}: a design for comparison is not loaded")
