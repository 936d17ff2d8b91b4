"""The AP+-Tree's index of subscriptions: an AP-Tree whose cost model knows how they move."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.index.ap_tree.construct import remake
from nearcast.index.ap_tree.index import ApTree
from nearcast.index.ap_tree.maintain import FIRST_ROOM, MORE_ROOM, MORE_VISITED, shift_rows
from nearcast.index.ap_tree.motion import STILL, Motion
from nearcast.index.ap_tree.tree import GONE, ApTreeArrays, with_room
from nearcast.index.base import Batch, Pairs
from nearcast.index.table import Table

_MEMORY = 0.7  # how much of what was known of a speed stays when a report comes
_WINDOW = 20  # timestamps after which what was counted weighs half


class MessageLists(Protocol):
    """The m-lists of a tree, which follow its changes."""

    def lift(self, top: int) -> Int32s:
        """Take all messages out of the lists of a node and below."""
        ...

    def deal(self, slots: Int32s, top: int) -> None:
        """Put messages into the lists of a node and below."""
        ...

    def deal_all(self) -> None:
        """Put all messages into other lists, since all nodes have other numbers."""
        ...

    def ranked(self, least: int) -> None:
        """Take note that terms have got ranks, from `least` on."""
        ...


class _Reports(NamedTuple):
    """What is known of each row that may move."""

    boxes: Floats  # (rows, 4): as they are in the tree
    speed: Floats  # (rows, 2): degrees east and north in one timestamp
    times: Floats  # (rows, 2): of the latest report, and of the one that comes next; NaN for none
    moved: Int64s  # how many reports there were


class ApPlusTree(ApTree):
    """Divides subscriptions by terms or by place, and less often by place where many move.

    A spatial node costs, besides matching, what moves within it cost and what it costs to
    rebuild it once its subscriptions are elsewhere (equations 7 to 15, Algorithm 8). How fast a
    subscription moves is learnt from its reports; before the first ones, nothing is known to move
    and the cost is that of the AP-Tree. One that moves is found in the leaves of its old box, which
    is kept, where the AP-Tree searches all of them. Active messages are in `lists` of its nodes:
    see `nearcast.active.ap_plus`.

    Parameters besides those of `ApTree`:

    - `timestamp_s`: the seconds of a timestamp;
    - `message_rate` (r_m): messages in one timestamp; counted unless it is given;
    - `update_every` (T_upd): timestamps between two reports of a subscription, on average over all
      of them; counted unless it is given;
    - `horizon` (T_max): the most timestamps that the next reconstruction is thought to be away;
    - `most_copies`: the most lists that a message is in.

    Departures from the paper: the next reconstruction is estimated from a sample of a node's
    subscriptions (`motion.SAMPLE`); a speed is a mean over reports, the latest with a weight of
    0.3, and a report without a time is one timestamp after the one before it.

    From "AP-Tree: efficiently support location-aware Publish/Subscribe" (VLDB J.), section 4.
    """

    name: ClassVar[str] = "ap-plus-tree"

    def __init__(
        self,
        table: Table,
        *,
        timestamp_s: float = 30.0,
        message_rate: float | None = None,
        update_every: float | None = None,
        horizon: int = 10,
        most_copies: int = 64,
        **options: Any,
    ) -> None:
        positive = {
            "timestamp_s": timestamp_s, "message_rate": message_rate, "update_every": update_every
        }  # fmt: skip
        for field, value in positive.items():
            if value is not None and not value > 0:
                raise InvalidValue(field, value, "a number above 0")
        for field, value in {"horizon": horizon, "most_copies": most_copies}.items():
            if value < 1:
                raise InvalidValue(field, value, "at least 1")
        self._timestamp, self._horizon = timestamp_s, horizon
        self._rate, self._every = message_rate, update_every
        self.most_copies = most_copies
        self.lists: MessageLists | None = None
        self._began = self._now = np.nan  # the time that is counted from, and the latest
        self._messages = self._counted = 0.0  # messages and reports since
        self._reports = _Reports(
            np.zeros((0, 4)), np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0, np.int64)
        )
        self._marks: Int64s = np.zeros(0, np.int64)
        self._stamp = 0
        super().__init__(table, **options)
        self._options |= positive | {"horizon": horizon, "most_copies": most_copies}

    @property
    def tree(self) -> ApTreeArrays:
        """The tree as kernels read it."""
        return self._tree

    @property
    def rank(self) -> Int32s:
        """The place of each term in the order."""
        return self._rank

    @property
    def speeds(self) -> Floats:
        """By row: the degrees east and north in one timestamp that its reports say."""
        return self._reports.speed

    @property
    def dummy_share(self) -> float:
        """A row that covers more than this share of the cells is in the dummy cell."""
        return self._plan.share

    @property
    def leaf_capacity(self) -> int:
        """How many rows a leaf has before it is divided."""
        return self._plan.capacity

    @property
    def motion(self) -> Motion:
        """What is known of messages and moves: nothing moves as long as there was no report."""
        elapsed = (self._now - self._began) / self._timestamp
        rate, every = self._rate, self._every
        if rate is None and elapsed > 0:
            rate = max(1.0, self._messages / elapsed)
        if every is None and elapsed > 0 and self._counted:
            every = self.table.live * elapsed / self._counted
        if rate is None or every is None:
            return STILL
        return Motion(self._reports.speed, rate, every, self._horizon)

    def replace_tree(self, tree: ApTreeArrays) -> None:
        """Take over a tree to which leaves without entries were added."""
        self._tree = tree

    def note_time(self, now: float) -> None:
        """Take note of the time."""
        if np.isnan(self._began):
            self._began = now
        self._now = now
        if now - self._began > _WINDOW * self._timestamp:
            self._began += (now - self._began) / 2
            self._messages /= 2
            self._counted /= 2

    def note_reports(self, rows: Int32s, times: Floats) -> None:
        """Take note of the times of the moves that come next."""
        self._reports.times[rows, 1] = times

    def candidates(self, batch: Batch) -> Pairs:
        """Verify the rows of the leaves that each message reaches, and count the messages."""
        self._messages += len(batch)  # an estimate: threads may overwrite each other's sums
        return super().candidates(batch)

    def insert(self, rows: Int32s) -> None:
        """Put rows into their leaves, and note where they are."""
        chosen = np.asarray(rows, np.int32)
        self._remember(chosen)
        self._reports.times[chosen] = (self._now, np.nan)
        super().insert(rows)

    def delete(self, rows: Int32s) -> Int32s:
        """Take rows out of their leaves."""
        chosen = np.ascontiguousarray(rows, np.int32)
        self._reports.speed[chosen] = 0.0
        self._reports.moved[chosen] = 0
        return super().delete(rows)

    def move(self, rows: Int32s) -> None:
        """Take rows out of the leaves that they leave, and put them into those they come to."""
        chosen = np.ascontiguousarray(rows, np.int32)
        tops = self._shift(chosen)
        self._learn(chosen)
        self._remember(chosen)
        self._remake(tops)
        self._after(2 * len(chosen))

    def _shift(self, chosen: Int32s) -> Int64s:
        """Move rows by the four cases of section 4.2.5, and give the nodes to be rebuilt."""
        table, plan = self.table.rows, self._plan
        room, start, found = 256, 0, []
        while start < len(chosen):
            if len(self._marks) < len(self._tree.slots):
                self._marks = np.zeros(len(self._tree.slots), np.int64)
            tops = np.empty(2 * max(room, len(chosen)), np.int64)
            start, noted, why = shift_rows(
                self._tree, table, self._rank, chosen, self._reports.boxes, start, plan.share,
                plan.capacity, plan.capacity, np.empty(room, np.int32),
                np.empty((room, 2), np.int64), np.empty((room, 2), np.int64), self._marks,
                self._stamp, tops,
            )  # fmt: skip
            self._stamp += 2 * len(chosen)
            found.append(tops[:noted])
            if why == MORE_VISITED:
                room *= 4
            elif why == MORE_ROOM:
                extra = room * FIRST_ROOM + len(self._tree.entries) // 2
                self._tree = with_room(self._tree, room, room, extra)
        # Nodes above others have lower numbers: those below them are gone when it is their turn.
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table; speeds are learnt again."""
        index = super().load(folder, table)
        index._remember(table.live_rows())
        return index

    def _start(self, rows: Int32s) -> None:
        lists, self.lists = self.lists, None
        self._remember(rows)
        super()._start(rows)
        self.lists = lists
        if lists is not None:
            lists.deal_all()

    def _pack(self) -> None:
        super()._pack()
        if self.lists is not None:
            self.lists.deal_all()

    def _rank_terms(self, chosen: Int32s) -> None:
        before = self._ranks
        super()._rank_terms(chosen)
        if self.lists is not None and self._ranks > before:
            self.lists.ranked(before)

    def _remember(self, rows: Int32s) -> None:
        """Keep the boxes of rows as they are in the tree."""
        count, known = len(self.table), len(self._reports.boxes)
        if count > known:
            room = max(count, 2 * known)
            grown = _Reports(
                np.zeros((room, 4)), np.zeros((room, 2)), np.full((room, 2), np.nan),
                np.zeros(room, np.int64),
            )  # fmt: skip
            for fresh, old in zip(grown, self._reports, strict=True):
                fresh[:known] = old
            self._reports = grown
        self._reports.boxes[rows] = self.table.rows.box[rows]

    def _learn(self, rows: Int32s) -> None:
        """Learn speeds, in degrees a timestamp, from the way between two reports."""
        known = self._reports
        new, old = self.table.rows.box[rows], known.boxes[rows]
        way = (new[:, :2] + new[:, 2:] - old[:, :2] - old[:, 2:]) / 2
        way[:, 0] = (way[:, 0] + 180.0) % 360.0 - 180.0  # across the antimeridian, if that is less
        passed = (known.times[rows, 1] - known.times[rows, 0]) / self._timestamp
        latest = way / np.where(passed > 0, passed, 1.0)[:, None]
        kept = np.where(known.moved[rows] > 0, _MEMORY, 0.0)[:, None]
        known.speed[rows] = kept * known.speed[rows] + (1 - kept) * latest
        known.times[rows, 0], known.times[rows, 1] = known.times[rows, 1], np.nan
        known.moved[rows] += 1
        self._counted += len(rows)

    def _made(self, tree: ApTreeArrays, tops: Int64s) -> ApTreeArrays:
        """Give the tree with the subtrees of some nodes rebuilt, their messages dealt out again."""
        given = self.table.rows, self._rank, self._hits, self._plan, self.motion
        if self.lists is None:
            return remake(tree, tops, *given)
        for top in tops.tolist():
            if self._tree.nodes["kind"][top] != GONE:
                slots = self.lists.lift(top)
                self._tree = remake(self._tree, np.array([top]), *given)
                self.lists.deal(slots, top)
        return self._tree
