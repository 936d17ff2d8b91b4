"""The messages of the AP+-Tree: in the lists of the leaves that they visit."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from nearcast.active.kernels.ap_plus import (
    MORE_NODES,
    MORE_SLOTS,
    MORE_UNITS,
    empty_lists,
    forget_terms,
    having_ranks,
    hold,
    keep_below,
    lift,
    sweep,
    take_in,
)
from nearcast.active.kernels.ap_plus_moves import MORE_VISITED, tree_matches, tree_moves
from nearcast.active.kernels.change import copy_messages, count_terms, pop_ended
from nearcast.active.kernels.layout import (
    COUNT,
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
from nearcast.active.kernels.moves import DONE, MORE_FOUND, NO_CIRCLES
from nearcast.active.store import ActiveChanges, Ended, MessageTerms, cancel, count_living
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index import Batch, Index, Matches
from nearcast.index.ap_plus_tree import ApPlusTree
from nearcast.index.ap_tree.tree import LEAF, NODES, with_room
from nearcast.index.table import Rows
from nearcast.index.verify import bitmap_for

_NODES = 1024  # room for nodes that messages need
_MOST_HELD = 8  # one in this many messages may be in the list of the root, and _FEW_HELD always
_FEW_HELD = 64
_WORTH_PACKING = 4096
_PACK_BELOW = 8  # pack when fewer than one in this many slots are in use


class TreeOwner(Protocol):
    """Who has the tree: it may be replaced while there are no messages."""

    index: Index

    def settle(self) -> None:
        """Give rows that are in the table alone to the index."""
        ...


class LeafMessages:
    """Keeps active messages in the nodes of an AP+-Tree; otherwise it is as `ActiveStore`.

    A message is in the list of each leaf that it visits, or in that of an inner node where it would
    be in more lists than the tree's `most_copies`. A move goes through the lists of the nodes that
    its old and its new region visit. When a part of the tree is rebuilt, its messages are dealt out
    again. Messages that have ended are passed over, and taken out of all lists once they are a
    share `sweep_share` of all (lazy deletion). If `numbered`, lists say no more than which messages
    they have, as in the paper; else also where each is, and a signature of its terms. `looked_at`
    counts the entries, and the lists, that moves went through.

    Departures from the paper, section 4.2:

    - A message is also kept in the empty cells it falls into and in both cuts beside a term that
      none has, or subscriptions that come there later would miss it.
    - The nodes of a subscription are found from its terms and its box, in place of a list kept for
      each.
    - A term that no subscription had before has no place in the tree: messages that have it already
      are held at the root until there are many, and then all are dealt out again.
    - Range messages, which the paper does not have, are all in one list.
    - An engine matches a message before it keeps it, by two walks down the tree. `publish` does
      both in one, as the paper does.

    From "AP-Tree: efficiently support location-aware Publish/Subscribe" (VLDB J.), section 4.2.
    """

    def __init__(
        self, owner: TreeOwner, *, sweep_share: float = 0.05, numbered: bool = False
    ) -> None:
        self._owner = owner
        self._sweep_share, self._numbered = sweep_share, numbered
        self.looked_at: Int64s = np.zeros(2, np.int64)
        self._now = -np.inf
        self._found: Int32s = np.empty(1 << 12, np.int32)
        self._marks: Int64s = np.zeros(0, np.int64)
        self._stamp = 0
        self._work = np.empty(8, np.float32)
        self._having: Int32s = np.zeros(16, np.int32)  # by term: active messages that have it
        self._reserve_visited(256)
        self._clear()

    def _clear(self) -> None:
        state = empty_state(16, 1 << 12, 64)
        areas = np.zeros(HEAD, np.int32)
        self._state = state._replace(areas=areas)
        self._ended: list[Int32s] = []
        self._copies: Int32s = np.zeros(64, np.int32)  # by slot: lists that have it
        self._held: Int32s = np.zeros(64, np.int32)  # by slot: whether the root's does besides
        self._seen: Int64s = np.zeros(64, np.int64)
        self._having[:] = 0

    def __len__(self) -> int:
        """How many messages have been taken in and not out again."""
        return int(self._state.counts[LIVE])

    @property
    def slots(self) -> int:
        """One more than the highest slot that was ever given."""
        return int(self._state.counts[SLOTS])

    @property
    def boxes(self) -> Floats:
        """The box of each slot's message, of size zero for a point."""
        return self._state.messages[:, :END]

    @property
    def ends(self) -> Floats:
        """When each slot's message ends, or ended."""
        return self._state.messages[:, END]

    @property
    def nbytes(self) -> int:
        """Bytes in use, without free room at the ends of arrays."""
        lists = 4 * HEAD * int(self._tree_of().tree.sizes[NODES])
        return 4 * UNIT * int(self._state.counts[USED]) + SLOT_BYTES * self.slots + lists

    def _tree_of(self) -> ApPlusTree:
        """The tree, which tells these lists from now on what is done to it."""
        index = self._owner.index
        assert isinstance(index, ApPlusTree)  # noqa: S101 - who makes these lists makes such a tree
        index.lists = self
        return index

    def _follow(self, nodes: int = 0) -> ApPlusTree:
        """Have as many lists as the tree has room for nodes, and some room there if asked for."""
        index = self._tree_of()
        if nodes:
            index.replace_tree(with_room(index.tree, nodes, nodes, 0))
        state, wanted = self._state, HEAD * len(index.tree.nodes)
        if wanted > len(state.heads):
            heads = longer(state.heads, len(state.heads), wanted, cleared=True)
            self._state = state._replace(heads=heads)
        if len(index.tree.nodes) > len(self._marks):
            self._marks = np.zeros(len(index.tree.nodes), np.int64)
        return index

    def add(self, texts: MessageTerms, boxes: Floats, ends: Floats) -> Int32s:
        """Take in messages that end at `ends`, and give their slots.

        A point is a box of size zero; a box must not cross the antimeridian.
        """
        slots = self._take_in(texts, boxes, ends)
        self.deal(slots, 0)
        return slots

    def publish(self, batch: Batch, ends: Floats) -> Matches:
        """Match messages at points, and keep them as a by-product."""
        slots = self._take_in(MessageTerms(batch.starts, batch.terms), batch.boxes, ends)
        messages, rows = self._keep(slots, 0, reports=True)
        return Matches(messages, self._tree_of().table.rows.owner[rows], 0)

    def _take_in(self, texts: MessageTerms, boxes: Floats, ends: Floats) -> Int32s:
        starts, own = texts.starts, texts.terms[texts.starts[0] : texts.starts[-1]]
        most = int(own.max(initial=-1)) + 1
        if most > len(self._having):
            fresh = np.zeros(max(most, 2 * len(self._having)), np.int32)
            fresh[: len(self._having)] = self._having
            self._having = fresh
        np.add.at(self._having, own, 1)
        slots, start = np.empty(len(boxes), np.int32), 0
        while start < len(boxes):
            start, why = take_in(self._state, starts, texts.terms, boxes, ends, start, slots)
            self._grow(why)
        self._copies[slots] = self._held[slots] = 0
        return slots

    def _grow(self, why: int) -> None:
        state, count = self._state, self.slots
        if why == MORE_SLOTS:
            self._state = more_slots(state, count, 2 * count)
            self._copies, self._held, self._seen = (
                np.concatenate([array, np.zeros_like(array)])
                for array in (self._copies, self._held, self._seen)
            )
        elif why == MORE_UNITS:
            used = int(state.counts[USED])
            memory = longer(state.memory, used * UNIT, 2 * len(state.memory))
            self._state = state._replace(memory=memory, ints=memory.view(np.int32))

    def lift(self, top: int) -> Int32s:
        """Take all messages out of the lists of a node and below, and give the active ones."""
        if not len(self):
            return np.empty(0, np.int32)
        index = self._follow()
        slots = np.unique(lift(index.tree, top, self._state, self._copies))
        if top == 0:
            self._held[slots] = 0
        active: Int32s = slots[self.ends[slots] > self._now]
        return active

    def deal(self, slots: Int32s, top: int) -> None:
        """Put messages into the lists of a node and below."""
        self._keep(slots, top, reports=False)

    def deal_all(self) -> None:
        """Put all messages into other lists, since all nodes have other numbers."""
        empty_lists(self._state)
        self._copies[:] = self._held[:] = 0
        self.deal(self.active(self._now), 0)

    def ranked(self, least: int) -> None:
        """Hold the messages at the root that have a term of a new rank, from `least` on."""
        index, slots = self._follow(), self.active(self._now)
        if not len(slots) or index.tree.nodes["kind"][0] == LEAF:
            return
        late = having_ranks(self._state, index.rank, least, slots)
        start = 0
        while start < len(late):
            start, why = hold(self._state, self._copies, self._held, late, start)
            self._grow(why)
        if self._state.heads[COUNT] > max(_FEW_HELD, len(slots) // _MOST_HELD):
            self.deal_all()

    def active(self, now: float) -> Int32s:
        """The slots of all messages that are active."""
        slots = np.sort(self._state.heap[FIRST : FIRST + len(self)])
        active: Int32s = slots[self.ends[slots] > now]
        return active

    def _keep(self, slots: Int32s, top: int, *, reports: bool) -> tuple[Int32s, Int32s]:
        if not len(slots):
            return np.empty(0, np.int32), np.empty(0, np.int32)
        index = self._follow()
        bitmap = bitmap_for(len(self._having)) if reports else bitmap_for(0)
        start, filled, room = 0, 0, max(1024, 4 * len(slots)) if reports else 0
        messages, found = np.empty(room, np.int32), np.empty(room, np.int32)
        while start < len(slots):
            start, written, why = keep_below(
                index.tree, index.table.rows, index.rank, self._state, self._copies, slots, top,
                bitmap, index.most_copies, index.leaf_capacity, reports, start, messages[filled:],
                found[filled:],
            )  # fmt: skip
            filled += written
            if why == MORE_NODES:
                self._follow(_NODES)
            elif why == MORE_UNITS:
                self._grow(why)
            elif why != DONE:
                room *= 2
                messages, found = longer(messages, filled, room), longer(found, filled, room)
        return messages[:filled], found[:filled]

    def evaluate(self, rows: Rows, which: Int32s, events: Int32s, times: Floats) -> ActiveChanges:
        """Find the messages that match rows of a table, as they are there."""
        return self._collect(rows, which, events, times, None, None)

    def moves(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats,
        circles: Floats | None,
    ) -> ActiveChanges:
        """Find what changes if rows, none of them twice, get other boxes or circles.

        The table still has the old ones. The tree learns of each when it reports.
        """
        found = self._collect(rows, which, events, times, boxes, circles)
        self._tree_of().note_reports(which, times[events])
        return found

    def _collect(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats | None,
        circles: Floats | None,
    ) -> ActiveChanges:
        self._owner.settle()
        index = self._follow()
        start, filled, room = 0, 0, max(256, len(which))
        out_events, out_slots = np.empty(room, np.int32), np.empty(room, np.int32)
        out_ops = np.ones(room, np.int8)
        while start < len(which) and len(self):
            given = index.tree, rows, index.rank, self._state, index.dummy_share, which, events
            out = out_events[filled:], out_slots[filled:]
            if boxes is None:
                start, written, why = tree_matches(
                    *given, times, start, self._seen, self._stamp, self._found, *out, self._work,
                    self._ranks, self._visited[0], self.looked_at,
                )  # fmt: skip
            else:
                shapes = NO_CIRCLES if circles is None else circles
                start, written, why = tree_moves(
                    *given, times, boxes, shapes, start, self._marks, self._seen, self._stamp,
                    self._found, *out, out_ops[filled:], self._work, self._ranks, *self._visited,
                    self.looked_at, self._numbered,
                )  # fmt: skip
            self._stamp += len(which) + 1  # past all marks of this call
            filled += written
            if why == MORE_FOUND:
                self._found = np.empty(4 * len(self._found), np.int32)
            elif why == MORE_VISITED:
                self._reserve_visited(4 * len(self._ranks))
            elif why != DONE:
                room *= 2
                out_events, out_slots, out_ops = (
                    longer(array, filled, room) for array in (out_events, out_slots, out_ops)
                )
                if boxes is None:
                    out_ops[filled:] = 1
        return ActiveChanges(out_events[:filled], out_slots[:filled], out_ops[:filled])

    def _reserve_visited(self, room: int) -> None:
        """Make room for the terms of a row, and for the nodes on its way."""
        self._ranks: Int32s = np.empty(room, np.int32)
        self._visited = np.empty((room, 2), np.int64), np.empty((room, 2), np.int64)

    def cancel(self, slots: Int32s) -> None:
        """End a message now; it is taken out like those that have ended."""
        cancel(self._state, slots)

    def living(self, now: float) -> int:
        """How many messages have not ended by `now`."""
        return count_living(self._state, now)

    def expire(self, now: float, most: int) -> Ended:
        """Take out at most `most` of the messages that have ended by now; sweep once in a while."""
        self._now = max(self._now, now)
        self._tree_of().note_time(now)
        gone = np.empty(max(0, min(most, len(self))), np.int32)
        count = pop_ended(self._state, now, gone)
        if not count:
            return Ended(gone[:0], gone[:0])
        gone = gone[:count]
        lengths = np.zeros(count + 1, np.int64)
        count_terms(self._state, gone, lengths)
        emptied = np.empty(int(lengths.sum()), np.int32)
        emptied = emptied[: forget_terms(self._state, gone, self._having, emptied)]
        self._ended.append(gone)
        waiting = sum(len(part) for part in self._ended)
        if waiting > self._sweep_share * (len(self) + waiting):
            self._sweep(now)
        return Ended(gone, emptied)

    def _sweep(self, now: float) -> None:
        state, slots = self._state, np.concatenate(self._ended)
        sweep(state, now, slots, self._copies)
        given = int(state.counts[GIVEN])
        state.spare[given : given + len(slots)] = slots
        state.counts[GIVEN] += len(slots)
        self._ended.clear()

    @property
    def is_loose(self) -> bool:
        """Whether so few of many slots are in use that `pack` is worth its time."""
        return self.slots > _WORTH_PACKING and self.slots > _PACK_BELOW * len(self)

    def pack(self) -> Int32s:
        """Give memory back: messages get the slots 0, 1, 2, ...; gives the slots they had."""
        live = np.sort(self._state.heap[FIRST : FIRST + len(self)])
        starts = np.zeros(len(live) + 1, np.int64)
        count_terms(self._state, live, starts)
        np.cumsum(starts, out=starts)
        terms = np.empty(int(starts[-1]), np.int32)
        boxes, ends = np.empty((len(live), 4)), np.empty(len(live))
        copy_messages(self._state, live, starts, terms, boxes, ends)
        self._clear()
        self.add(MessageTerms(starts, terms), boxes, ends)
        return live
