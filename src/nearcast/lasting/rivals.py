"""Other ways to keep active messages, to compare with: lists only, a grid only, a hash of both.

They take point messages and plain boxes, which is what benchmarks compare.
"""

from __future__ import annotations

import numpy as np

from nearcast.index.table import Floats, Int32s, Int64s, Rows
from nearcast.lasting._hashed import add_hashed, expire_hashed, hashed_moves, rehash
from nearcast.lasting._layout import HEAD, SLOTS, UNIT, USED, empty_state, longer
from nearcast.lasting._moves import MORE_FOUND, MORE_ROOM
from nearcast.lasting.store import ActiveStore, Changes, Ended, Texts


class KeywordLists(ActiveStore):
    """Lists by term that are never divided: a move looks at the whole list of its rarest term."""

    def _divide(self, late: int) -> None:
        del late


class GridOnly(ActiveStore):
    """Cells of some messages each, whatever their terms: a move looks at all of some cells."""

    _only = 0


class CellTermHash:
    """Lists by (cell, term), found through a hash: SS-Index and KK-Index in flat form.

    `cells` is how many there are in each direction of the space, 40 in the paper.
    """

    def __init__(self, space: Floats, cells: int = 40) -> None:
        self._space, self._cells = space, cells
        self._keys: Int64s = np.full(1 << 12, -1, np.int64)
        self._values: Int32s = np.empty(1 << 12, np.int32)
        self._count: Int64s = np.zeros(1, np.int64)
        self._frequency: Int64s = np.zeros(16, np.int64)
        self._state = empty_state(1 << 11, 1 << 12, 64)
        self._found: Int32s = np.empty(1 << 12, np.int32)
        self._work = np.empty(8, np.float32)

    def __len__(self) -> int:
        """How many messages there are."""
        return int(self._state.counts[1])

    @property
    def nbytes(self) -> int:
        """Bytes in use, without free room at the ends of arrays."""
        state = self._state
        slots = int(state.counts[SLOTS]) * 56
        arena = 4 * UNIT * int(state.counts[USED])
        heads = 4 * HEAD * int(self._count[0])
        return slots + arena + heads + 12 * len(self._keys) + self._frequency.nbytes

    def add(self, texts: Texts, boxes: Floats, ends: Floats) -> Int32s:
        """Take in messages, and give their slots."""
        slots = np.empty(len(boxes), np.int32)
        most = int(texts.terms.max(initial=-1)) + 1
        if most > len(self._frequency):
            self._frequency = longer(self._frequency, len(self._frequency), 2 * most, cleared=True)
        done = 0
        while done < len(boxes):
            done = add_hashed(
                self._state, self._keys, self._values, self._count, self._frequency, self._space,
                self._cells, texts.starts, texts.terms, boxes, ends, done, slots,
            )  # fmt: skip
            if done < len(boxes):
                self._grow(int(np.diff(texts.starts).max()))
        return slots

    def _grow(self, widest: int) -> None:
        state = self._state
        used, slots = int(state.counts[USED]), int(state.counts[SLOTS])
        if slots == len(state.heap):
            state = state._replace(
                messages=longer(state.messages, slots, 2 * slots),
                heap=longer(state.heap, slots, 2 * slots),
                spare=longer(state.spare, slots, 2 * slots),
            )
        if used + used // 4 > len(state.ints) // UNIT:
            room = 2 * len(state.ints) // UNIT + 64 * widest
            memory = longer(state.memory, used * UNIT, room * UNIT)
            state = state._replace(memory=memory, ints=memory.view(np.int32))
        if 2 * (int(self._count[0]) + widest) > len(self._keys):
            keys = np.full(4 * len(self._keys), -1, np.int64)
            values = np.empty(len(keys), np.int32)
            rehash(self._keys, self._values, keys, values)
            self._keys, self._values = keys, values
            heads = longer(state.heads, len(state.heads), HEAD * len(keys) // 2, cleared=True)
            state = state._replace(heads=heads)
        self._state = state

    def expire(self, now: float, most: int) -> Ended:
        """Take out at most so many of the messages that have ended by now."""
        gone = np.empty(min(most, len(self)), np.int32)
        count = expire_hashed(
            self._state, self._keys, self._values, self._frequency, self._space, self._cells, now,
            gone,
        )  # fmt: skip
        return Ended(gone[:count], np.empty(0, np.int32))

    def moves(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats,
        circles: None = None,
    ) -> Changes:
        """Find what changes if rows get other boxes; see `ActiveStore.moves`."""
        del circles
        start, filled, room = 0, 0, max(256, len(which))
        out_events, out_slots = np.empty(room, np.int32), np.empty(room, np.int32)
        out_ops = np.ones(room, np.int8)
        while start < len(which):
            start, written, why = hashed_moves(
                self._state, self._keys, self._values, self._frequency, self._space, self._cells,
                rows, which, events, times, boxes, start, self._found, out_events[filled:],
                out_slots[filled:], out_ops[filled:], self._work,
            )  # fmt: skip
            filled += written
            if why == MORE_FOUND:
                self._found = np.empty(4 * len(self._found), np.int32)
            elif why == MORE_ROOM:
                room *= 2
                out_events = longer(out_events, filled, room)
                out_slots = longer(out_slots, filled, room)
                out_ops = longer(out_ops, filled, room)
        return Changes(out_events[:filled], out_slots[:filled], out_ops[:filled])
