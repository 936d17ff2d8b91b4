"""Ways to keep moving subscriptions and active messages, by name, behind one protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from nearcast.active import ActiveChanges, ActiveStore, Ended, MessageTerms
from nearcast.active.ap_plus import LeafMessages
from nearcast.active.kernels.places import Places
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.index import Batch, Index, Matches, Table, index_named, match
from nearcast.index.ap_plus_tree import ApPlusTree
from nearcast.index.table import Rows
from nearcast_lab.designs.located_messages import (
    LocatedMessages,
    LocatedRows,
    grid,
    quadtree,
    quadtrees_by_term,
)
from nearcast_lab.designs.rivals import (
    AdaptedGrid,
    GridOnly,
    KeywordLists,
    PlainGrid,
    PlainKeywordLists,
    difference,
)


class MessageIndex(Protocol):
    """Where active messages are kept."""

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        ...

    @property
    def ends(self) -> Floats:
        """When each slot's message ends, or ended."""
        ...

    def add(self, texts: MessageTerms, boxes: Floats, ends: Floats) -> Int32s:
        """Take in messages, and give their slots."""
        ...

    def expire(self, now: float, most: int) -> Ended:
        """Take out some of those that have ended."""
        ...

    def moves(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats,
        circles: None,
    ) -> ActiveChanges:
        """Find what changes if rows get other boxes."""
        ...


class ReevaluatingStore(ActiveStore):
    """Our store, asked for all messages of the old and of the new region."""

    def moves(
        self,
        rows: Rows,
        which: Int32s,
        events: Int32s,
        times: Floats,
        boxes: Floats,
        circles: Floats | None,
    ) -> ActiveChanges:
        """Evaluate twice, and give the difference."""
        del circles
        old = self.evaluate(rows, which, events, times)
        held = rows.box[which].copy()
        rows.box[which] = boxes
        new = self.evaluate(rows, which, events, times)
        rows.box[which] = held
        return difference(old, new, len(which), self.slots)


class Design:
    """An index of subscriptions and one of messages, each for itself."""

    def __init__(self, table: Table, index: Index, messages: MessageIndex) -> None:
        self.table, self.index, self.messages = table, index, messages

    def build(self) -> None:
        """Take in all subscriptions of the table."""
        self.index.build()

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table."""
        self.index.insert(rows)

    def delete(self, rows: Int32s) -> None:
        """Forget rows, here and in the table."""
        released = self.index.delete(rows)
        self.table.remove(rows)
        self.table.release(released)

    @property
    def ends(self) -> Floats:
        """When each slot's message ends, or ended."""
        return self.messages.ends

    def publish(self, batch: Batch, ends: Floats) -> Matches:
        """Match messages, and keep them until they end."""
        found = match(self.index, batch)
        self.add(batch, ends)
        return found

    def add(self, batch: Batch, ends: Floats) -> Int32s:
        """Keep messages that are not matched."""
        return self.messages.add(MessageTerms(batch.starts, batch.terms), batch.boxes, ends)

    def changes(self, which: Int32s, events: Int32s, times: Floats, boxes: Floats) -> ActiveChanges:
        """Find what changes if rows move; the table still has their old boxes."""
        return self.messages.moves(self.table.rows, which, events, times, boxes, None)

    def moved(self, which: Int32s, boxes: Floats) -> None:
        """Move rows in the table and in the index of subscriptions."""
        self.table.move(which, boxes)
        self.index.move(which)

    def expire(self, now: float, most: int) -> int:
        """Take out messages that have ended; give how many."""
        return len(self.messages.expire(now, most).slots)

    def nbytes(self) -> tuple[int, int]:
        """Bytes of messages, and of the index of subscriptions without the table."""
        return self.messages.nbytes, int(self.index.stats()["bytes"])


class UnifiedDesign(Design):
    """The AP+-Tree: messages are in the leaves of the index of subscriptions."""

    messages: LeafMessages

    def __init__(self, table: Table, *, numbered: bool = False, **options: Any) -> None:
        index = ApPlusTree(table, **options)
        super().__init__(table, index, LeafMessages(self, numbered=numbered))

    def settle(self) -> None:
        """All rows are in the index at once."""

    def publish(self, batch: Batch, ends: Floats) -> Matches:
        """Match messages, and keep them as a by-product."""
        return self.messages.publish(batch, ends)


_NOWHERE = 400.0


def arrive(
    design: Design, owners: Int32s, boxes: Floats, starts: Int64s, terms: Int32s, now: float
) -> tuple[Int32s, ActiveChanges]:
    """Add subscriptions: their rows, and the messages they get, with the number of each as event.

    One that arrives moves there from a place where nothing is (section 4.2.3).
    """
    rows = design.table.add_boxes(owners, np.full((len(owners), 4), _NOWHERE), starts, terms)
    design.insert(rows)
    events = np.arange(len(rows), dtype=np.int32)
    found = design.changes(rows, events, np.full(len(rows), now), boxes)
    design.moved(rows, boxes)
    return rows, found


_OPTIONS: dict[str, dict[str, Any]] = {"gi2": {"grid": 40}}  # as in the paper
EVERY = 5.0
"""Timestamps between two reports of a subscription where one in five reports at each."""


class Maker(Protocol):
    """Makes a design.

    What happens in a timestamp is for those with a cost model of it: `rate` messages come, and
    `every` timestamps a subscription reports.
    """

    def __call__(
        self,
        table: Table,
        space: Floats,
        history: Batch,
        rate: float | None = None,
        every: float = EVERY,
    ) -> Design:
        """Make it over a table."""
        ...


def _cost_options(history: Batch, rate: float | None, every: float) -> dict[str, Any]:
    """What the AP+-Tree knows of messages and moves, the same in every design that has one."""
    return {"history": history, "message_rate": rate, "update_every": every if rate else None}


def _separate(index: str, messages: Callable[[Floats], MessageIndex]) -> Maker:
    def make(
        table: Table,
        space: Floats,
        history: Batch,
        rate: float | None = None,
        every: float = EVERY,
    ) -> Design:
        chosen: Any = index_named(index)
        options = _OPTIONS.get(index, {})
        if index == "ap-plus-tree":
            options = _cost_options(history, rate, every)
        return Design(table, chosen(table, **options), messages(space))

    return make


def _hash(space: Floats) -> LocatedMessages:
    return LocatedMessages(grid(space))


def _located(places: Callable[[Table, Floats, Batch], Places]) -> Maker:
    def make(
        table: Table,
        space: Floats,
        history: Batch,
        rate: float | None = None,
        every: float = EVERY,
    ) -> Design:
        del rate, every
        made = places(table, space, history)
        return Design(table, LocatedRows(table, made), LocatedMessages(made))

    return make


def _unified(*, numbered: bool = False) -> Maker:
    def make(
        table: Table,
        space: Floats,
        history: Batch,
        rate: float | None = None,
        every: float = EVERY,
    ) -> Design:
        del space
        return UnifiedDesign(table, numbered=numbered, **_cost_options(history, rate, every))

    return make


DESIGNS: dict[str, Maker] = {
    "ours": _separate("rarest-term", lambda _: ActiveStore()),
    "re-evaluate": _separate("rarest-term", lambda _: ReevaluatingStore()),
    "keyword-lists": _separate("rarest-term", lambda _: KeywordLists()),
    "grid-only": _separate("rarest-term", lambda _: GridOnly()),
    "adapted-grid": _separate("rarest-term", lambda _: AdaptedGrid()),
    "cell-term-hash": _separate("rarest-term", _hash),
    "ap-plus-tree": _unified(),
    "ap-plus-k": _separate("ap-plus-tree", lambda _: KeywordLists()),
    "ap-plus-s": _separate("ap-plus-tree", lambda _: GridOnly()),
    "plain-ap-plus-tree": _unified(numbered=True),
    "plain-ap-plus-k": _separate("ap-plus-tree", lambda _: PlainKeywordLists()),
    "plain-ap-plus-s": _separate("ap-plus-tree", lambda _: PlainGrid()),
    "plain-grid": _separate("rarest-term", lambda _: PlainGrid()),
    "iq-plus-tree": _located(quadtree),
    "rq-plus-tree": _located(quadtrees_by_term),
    "ss-index": _separate("gi2", _hash),
    "kk-index": _located(lambda _, space, __: grid(space)),
}


def designs_named(text: str) -> list[str]:
    """Read names with commas between them."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in DESIGNS:
            raise InvalidValue("--design", name, f"one of {', '.join(DESIGNS)}")
    return names
