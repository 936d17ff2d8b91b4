"""The AP+-Tree's index of subscriptions: an AP-Tree whose cost model knows how they move."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.index.ap_tree.construct import remake
from nearcast.index.ap_tree.index import ApTree
from nearcast.index.ap_tree.maintain import FIRST_ROOM, MORE_ROOM, MORE_VISITED, shift_rows
from nearcast.index.ap_tree.motion import Motion
from nearcast.index.ap_tree.tree import ApTreeArrays, with_room
from nearcast.index.table import Table

_MEMORY = 0.7  # how much of what was known of a speed stays when a report comes


class ApPlusTree(ApTree):
    """Divides subscriptions by terms or by place, and less often by place where many move.

    A spatial node costs, besides matching, what moves within it cost and what it costs to
    rebuild it once its subscriptions are elsewhere (equations 7 to 15, Algorithm 8). How fast a
    subscription moves is learnt from its reports. One that moves is found in the leaves of its old
    box, which is kept, where the AP-Tree searches all of them.

    Parameters besides those of `ApTree`:

    - `message_rate` (r_m): messages in one timestamp;
    - `update_every` (T_upd): timestamps between two reports of a subscription;
    - `horizon` (T_max): the most timestamps that the next reconstruction is thought to be away.

    Departures from the paper: the next reconstruction is estimated from a sample of a node's
    subscriptions (`motion.SAMPLE`); where the messages are, as m-lists of the leaves, is kept by
    `nearcast.active.ap_plus`.

    From "AP-Tree: efficiently support location-aware Publish/Subscribe" (VLDB J.), section 4.
    """

    name: ClassVar[str] = "ap-plus-tree"

    def __init__(
        self,
        table: Table,
        *,
        message_rate: float = 100_000.0,
        update_every: float = 5.0,
        horizon: int = 10,
        **options: Any,
    ) -> None:
        if not message_rate > 0 or not update_every > 0:
            raise InvalidValue("message_rate", message_rate, "rates and times above 0")
        if horizon < 1:
            raise InvalidValue("horizon", horizon, "at least 1")
        self._moving = (message_rate, update_every, horizon)
        self._speed: Floats = np.zeros((0, 2))
        self._boxes: Floats = np.zeros((0, 4))
        self._marks: Int64s = np.zeros(0, np.int64)
        self._stamp = 0
        super().__init__(table, **options)
        self._options |= {
            "message_rate": message_rate,
            "update_every": update_every,
            "horizon": horizon,
        }

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
        return self._speed

    @property
    def dummy_share(self) -> float:
        """A row that covers more than this share of the cells is in the dummy cell."""
        return self._plan.share

    @property
    def leaf_capacity(self) -> int:
        """How many rows a leaf has before it is divided."""
        return self._plan.capacity

    def replace_tree(self, tree: ApTreeArrays) -> None:
        """Take over a tree to which leaves without entries were added."""
        self._tree = tree

    def insert(self, rows: Int32s) -> None:
        """Put rows into their leaves, and remember where they are."""
        self._remember(np.asarray(rows, np.int32))
        super().insert(rows)

    def delete(self, rows: Int32s) -> Int32s:
        """Take rows out of their leaves."""
        chosen = np.ascontiguousarray(rows, np.int32)
        self._speed[chosen] = 0.0
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
                self._tree, table, self._rank, chosen, self._boxes, start, plan.share,
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
        self._remember(rows)
        super()._start(rows)

    def _remember(self, rows: Int32s) -> None:
        """Keep the boxes of rows as they are in the tree."""
        count = len(self.table)
        if count > len(self._boxes):
            room = max(count, 2 * len(self._boxes))
            boxes, speed = np.zeros((room, 4)), np.zeros((room, 2))
            boxes[: len(self._boxes)], speed[: len(self._speed)] = self._boxes, self._speed
            self._boxes, self._speed = boxes, speed
        self._boxes[rows] = self.table.rows.box[rows]

    def _learn(self, rows: Int32s) -> None:
        """Learn speeds, in degrees a timestamp, from the way between two reports."""
        new, old = self.table.rows.box[rows], self._boxes[rows]
        way = (new[:, :2] + new[:, 2:] - old[:, :2] - old[:, 2:]) / 2
        way[:, 0] = (way[:, 0] + 180.0) % 360.0 - 180.0  # across the antimeridian, if that is less
        latest = way / self._moving[1]
        self._speed[rows] = _MEMORY * self._speed[rows] + (1 - _MEMORY) * latest

    def _made(self, tree: ApTreeArrays, tops: Int64s) -> ApTreeArrays:
        motion = Motion(self._speed, *self._moving)
        table = self.table.rows
        return remake(tree, tops, table, self._rank, self._hits, self._plan, motion)
