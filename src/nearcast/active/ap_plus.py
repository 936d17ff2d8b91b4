"""The AP+-Tree whole: subscriptions and active messages in one tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.active.kernels.ap_plus import (
    MORE_NODES,
    MORE_SLOTS,
    MORE_UNITS,
    match_and_keep,
    sweep,
    tree_moves,
)
from nearcast.active.kernels.change import copy_messages, count_terms, pop_ended
from nearcast.active.kernels.layout import (
    END,
    FIRST,
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
from nearcast.active.kernels.moves import DONE, MORE_FOUND
from nearcast.active.store import ActiveChanges
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index import Batch, Matches, Table
from nearcast.index.ap_plus_tree import ApPlusTree
from nearcast.index.ap_tree.tree import NODES, with_room
from nearcast.index.verify import bitmap_for

_NODES = 1 << 14


class _StaticTree(ApPlusTree):
    """A tree whose nodes stay what they are until it is rebuilt as a whole."""

    def _remake(self, tops: Int64s) -> None:
        del tops

    def _after(self, changes: int) -> None:
        del changes


class UnifiedApPlusTree:
    """Keeps point messages in the lists of the leaves they visit when they are matched.

    `most_copies` bounds in how many lists a message is: one that is in as many, or will be
    when all nodes noted for it have been visited, is held in the list of an inner node. If
    `numbered`, lists say no more than which messages they have, as in the paper; else also where
    each is, and a signature of its terms. `looked_at` counts the entries, and the lists, that moves
    went through. Messages
    that have ended are passed over, and taken out of all lists once they are a share
    `sweep_share` of all (lazy deletion).

    Departures from the paper: a message is also kept in the empty cells it falls into and in both
    cuts beside a term that none has, or subscriptions that come there later would miss it; the
    nodes of a subscription are found from its terms and its box, in place of a list kept for each;
    leaves that overflow by moves are divided when the tree is rebuilt (`rebuild`), since every
    division deals messages out again. Subscriptions that arrive later need that too: it is for
    populations that move.

    From "AP-Tree: efficiently support location-aware Publish/Subscribe" (VLDB J.), section 4.2.
    """

    def __init__(
        self,
        table: Table,
        history: Batch | None = None,
        *,
        most_copies: int = 64,
        sweep_share: float = 0.05,
        numbered: bool = False,
        **options: Any,
    ) -> None:
        self.table = table
        self.index = _StaticTree(table, history=history, rebuild=False, **options)
        self._most, self._sweep_share = most_copies, sweep_share
        self._numbered = numbered
        self.looked_at: Int64s = np.zeros(2, np.int64)
        self._found: Int32s = np.empty(1 << 12, np.int32)
        self._marks: Int64s = np.zeros(0, np.int64)
        self._stamp = 0
        self._work = np.empty(8, np.float32)
        self._ended: list[Int32s] = []
        self._reserve_visited(256)
        self._state = empty_state(16, 1 << 12, 64)

    def build(self) -> None:
        """Take in all subscriptions of the table; there must be no messages yet."""
        self.index.build()
        self._follow()

    def rebuild(self) -> None:
        """Rebuild the tree, with the speeds that were learnt, and deal all messages out again."""
        batch, ends = self._contents()
        self._state = empty_state(16, 1 << 12, 64)
        self._ended.clear()
        self.index.build()
        self._follow()
        self.add(batch, ends)

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table; `changes` must then move them to their places.

        A term that no subscription had is not known of the messages that are there: the tree is
        rebuilt for it.
        """
        terms, rank = self.table.rows.terms, self.index.rank
        new = False
        for first, required in zip(
            self.table.rows.first[rows].tolist(),
            self.table.rows.required[rows].tolist(),
            strict=True,
        ):
            own = terms[first : first + required]
            new |= bool((own >= len(rank)).any()) or bool((rank[own[own < len(rank)]] < 0).any())
        self.index.insert(rows)
        if new:
            self.rebuild()
        self._follow()

    def delete(self, rows: Int32s) -> None:
        """Forget rows, here and in the table."""
        released = self.index.delete(rows)
        self.table.remove(rows)
        self.table.release(released)

    def _reserve_visited(self, room: int) -> None:
        """Make room for the terms of a row, and for the nodes on its way."""
        self._ranks: Int32s = np.empty(room, np.int32)
        self._visited = np.empty((room, 2), np.int64), np.empty((room, 2), np.int64)

    def _follow(self) -> None:
        """Have as many lists as the tree has room for nodes, and some room."""
        tree = with_room(self.index.tree, _NODES, _NODES, 0)
        self.index.replace_tree(tree)
        state, wanted = self._state, HEAD * len(tree.nodes)
        if wanted > len(state.heads):
            heads = longer(state.heads, len(state.heads), wanted, cleared=True)
            self._state = state._replace(heads=heads)
        if len(tree.nodes) > len(self._marks):
            self._marks = np.zeros(len(tree.nodes), np.int64)

    def publish(self, batch: Batch, ends: Floats) -> Matches:
        """Match messages, and keep them as a by-product."""
        return self._visit(batch, ends, reports=True)

    def add(self, batch: Batch, ends: Floats) -> None:
        """Keep messages that need no matching."""
        self._visit(batch, ends, reports=False)

    def _visit(self, batch: Batch, ends: Floats, *, reports: bool) -> Matches:
        self._follow()
        table = self.table
        bitmap = bitmap_for(len(table.frequency))
        start, filled, room = 0, 0, max(1024, 4 * len(batch))
        messages, found = np.empty(room, np.int32), np.empty(room, np.int32)
        while start < len(batch):
            start, written, why = match_and_keep(
                self.index.tree, table.rows, self.index.rank, self._state, batch.starts,
                batch.terms, batch.boxes, ends, bitmap, self._most, self.index.leaf_capacity,
                reports, start, messages[filled:], found[filled:],
            )  # fmt: skip
            filled += written
            if why == MORE_NODES:
                self._follow()
            elif why in (MORE_UNITS, MORE_SLOTS):
                self._grow(why == MORE_SLOTS)
            elif why != DONE:
                room *= 2
                messages, found = longer(messages, filled, room), longer(found, filled, room)
        return Matches(messages[:filled], table.rows.owner[found[:filled]], 0)

    def _grow(self, slots: bool) -> None:
        state = self._state
        used, count = int(state.counts[USED]), int(state.counts[SLOTS])
        if slots:
            self._state = more_slots(state, count, 2 * count)
        else:
            memory = longer(state.memory, used * UNIT, 2 * len(state.memory))
            self._state = state._replace(memory=memory, ints=memory.view(np.int32))

    def changes(self, which: Int32s, events: Int32s, times: Floats, boxes: Floats) -> ActiveChanges:
        """Find what changes if rows move; the table still has their old boxes."""
        start, filled, room = 0, 0, max(256, len(which))
        out_events, out_slots = np.empty(room, np.int32), np.empty(room, np.int32)
        out_ops = np.ones(room, np.int8)
        while start < len(which):
            start, written, why = tree_moves(
                self.index.tree, self.table.rows, self.index.rank, self._state,
                self.index.dummy_share, which, events, times, boxes, start, self._marks,
                self._stamp, self._found, out_events[filled:], out_slots[filled:],
                out_ops[filled:], self._work, self._ranks, *self._visited, self.looked_at,
                self._numbered,
            )  # fmt: skip
            self._stamp += len(which)  # past all marks of this call
            filled += written
            if why == MORE_FOUND:
                self._found = np.empty(4 * len(self._found), np.int32)
            elif why == MORE_NODES:
                self._reserve_visited(4 * len(self._ranks))
            elif why != DONE:
                room *= 2
                out_events = longer(out_events, filled, room)
                out_slots = longer(out_slots, filled, room)
                out_ops = longer(out_ops, filled, room)
        return ActiveChanges(out_events[:filled], out_slots[:filled], out_ops[:filled])

    def moved(self, which: Int32s, boxes: Floats) -> None:
        """Move rows in the table and in the tree."""
        self.table.move(which, boxes)
        self.index.move(which)
        self._follow()

    def expire(self, now: float, most: int) -> int:
        """Let messages end, and sweep once there are many."""
        gone = np.empty(min(most, int(self._state.counts[LIVE])), np.int32)
        count = pop_ended(self._state, now, gone)
        self._ended.append(gone[:count])
        waiting = sum(len(part) for part in self._ended)
        if waiting > self._sweep_share * (int(self._state.counts[LIVE]) + waiting):
            self._sweep(now)
        return count

    def _sweep(self, now: float) -> None:
        state = self._state
        slots = np.concatenate(self._ended)
        sweep(state, int(self.index.tree.sizes[NODES]), now, slots)
        given = int(state.counts[GIVEN])
        state.spare[given : given + len(slots)] = slots
        state.counts[GIVEN] += len(slots)
        self._ended.clear()

    def _contents(self) -> tuple[Batch, Floats]:
        live = np.sort(self._state.heap[FIRST : FIRST + int(self._state.counts[LIVE])])
        starts = np.zeros(len(live) + 1, np.int64)
        count_terms(self._state, live, starts)
        np.cumsum(starts, out=starts)
        terms = np.empty(int(starts[-1]), np.int32)
        boxes, ends = np.empty((len(live), 4)), np.empty(len(live))
        copy_messages(self._state, live, starts, terms, boxes, ends)
        return Batch(starts, terms, boxes), ends

    @property
    def ends(self) -> Floats:
        """When each slot's message ends, or ended."""
        return self._state.messages[:, END]

    def nbytes(self) -> tuple[int, int]:
        """Bytes of messages, and of the tree without the table."""
        state = self._state
        messages = 4 * UNIT * int(state.counts[USED]) + SLOT_BYTES * int(state.counts[SLOTS])
        lists = 4 * HEAD * int(self.index.tree.sizes[NODES])
        return messages + lists, int(self.index.stats()["bytes"])
