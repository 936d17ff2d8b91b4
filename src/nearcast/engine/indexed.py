"""The boolean subscriptions of an engine, kept in a table and found through an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa

from nearcast.engine.ordered import in_order
from nearcast.engine.ranked import FastRankings
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.engine.standing import Arrived, Interest
from nearcast.engine.terms import TermIds, TextBatch
from nearcast.engine.window import Columns
from nearcast.geo import Bounds, Box, Region, region_from_json
from nearcast.index import Batch, Matches, Table, index_named, match
from nearcast.index.table import NOBODY, SHARED, Floats, Int32s
from nearcast.index.warm import warm_up
from nearcast.model import Subscription
from nearcast.text import Analyser, parse_query
from nearcast.topk.core import Changes

_NONE = np.empty(0, np.int32)
_decode = msgspec.json.Decoder().decode


class LateRegion:
    """A region in its JSON form, not yet made of it."""

    __slots__ = ("json",)

    def __init__(self, json: bytes) -> None:
        self.json = json


class IndexedPopulation:
    """Knows each subscription by an *owner* number, and lets an index find those that match.

    What a subscription is made of is kept once: its query as text, its region in the table if it
    is a plain box, as an object if it is not.
    """

    def __init__(self, index: str, analyser: Analyser) -> None:
        self.table = Table()
        self._kind = index_named(index)
        warm_up(self._kind)
        self.index = self._kind(self.table)
        self.index.build()
        self.looked_at = 0  # rows, by all messages so far
        self.terms = TermIds(self.table, analyser)
        self.analyser = analyser
        self._owners: dict[str, int] = {}
        self._ids: list[str] = []  # by owner; an owner that is free has an empty one
        self._queries: list[str] = []
        self._rows: list[int] = []  # by owner: the first of its rows
        # Owners that are not one plain box.
        self._many: dict[int, tuple[Region | LateRegion, Int32s]] = {}
        self._rowless: set[int] = set()  # owners that no message can match
        self._free: list[int] = []
        self._waiting: list[int] = []  # rows in the table but not yet in the index
        self._order: tuple[pa.StringArray, Int32s] | None = None

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, id: str) -> bool:
        return id in self._owners

    def find(self, id: str) -> Interest | None:
        """Put a subscription together again."""
        subscription = self.subscription(id)
        if subscription is None:
            return None
        return Interest(subscription, parse_query(subscription.query, self.analyser))

    def subscription(self, id: str) -> Subscription | None:
        """Put a subscription together again, without its query in parts."""
        owner = self._owners.get(id)
        return None if owner is None else self._subscription(owner)

    def ids(self) -> Iterable[str]:
        """The ids of all."""
        return self._owners

    def around(self, bounds: tuple[Bounds, ...], most: int) -> list[str] | None:
        """The ids of all that may meet one of some plain boxes; None if they are more than that."""
        rows = self.table.rows
        near = np.zeros(len(rows.owner), np.bool_)
        for west, south, east, north in bounds:
            box = rows.box
            near |= (
                (box[:, 0] <= east) & (box[:, 2] >= west)
                & (box[:, 1] <= north) & (box[:, 3] >= south)
            )  # fmt: skip
        owners = rows.owner[near & (rows.owner >= 0)]
        if len(owners) + len(self._rowless) > most:
            return None
        return [self._ids[owner] for owner in (*np.unique(owners).tolist(), *self._rowless)]

    def put(self, interest: Interest) -> None:
        """Add a subscription, replace one, or move one: in place where only a plain box changes."""
        subscription = interest.subscription
        id, region = subscription.id, subscription.region
        assert region is not None  # noqa: S101 - a subscription without top has a region
        owner = self._owners.get(id)
        box = _plain(region)
        if owner is not None:
            same = self._queries[owner] == subscription.query
            if same and box is not None and owner not in self._many and self._rows[owner] >= 0:
                self.settle()
                rows = np.array([self._rows[owner]], np.int32)
                self.table.move(rows, np.array([box]))
                self.index.move(rows)
                return
        conjuncts = [
            (self.terms.intern(sorted(c.required)), self.terms.intern(sorted(c.excluded)))
            for c in interest.query.conjuncts
        ]
        self.table.check_room(conjuncts, region)
        if not isinstance(region, Box):
            warm_up(self._kind, "shapes")
        if owner is None:
            owner = self._new_owner(id)
        else:
            self._withdraw(owner)
        self._queries[owner] = subscription.query
        rows = self.table.add(owner, conjuncts, region) if conjuncts else _NONE
        if len(rows) == 1 and box is not None and not conjuncts[0][1]:
            self._rows[owner] = int(rows[0])
        else:
            self._many[owner] = (region, rows)
            if not len(rows):
                self._rowless.add(owner)
        self._waiting += rows.tolist()

    def settle(self) -> None:
        """Hand the index the rows that wait for it: together they cost it less."""
        if self._waiting:
            self.terms.settle()
            rows = np.array(self._waiting, np.int32)
            self._waiting.clear()
            self.index.insert(rows)

    def put_boxes(
        self, ids: list[str], queries: list[str], texts: TextBatch, boxes: Floats
    ) -> None:
        """Add many new subscriptions of plain words and a plain box each."""
        self.settle()
        self._order = None
        kept = max(0, len(self._free) - len(ids))
        again, base = self._free[kept:], len(self._ids)
        fresh = range(base, base + len(ids) - len(again))
        owners = np.array(again, np.int32), np.arange(fresh.start, fresh.stop, dtype=np.int32)
        rows = self.table.add_boxes(np.concatenate(owners), boxes, texts.starts, texts.terms)
        del self._free[kept:]
        self._ids += ids[len(again) :]
        self._queries += queries[len(again) :]
        self._rows += rows[len(again) :].tolist()
        for owner, id, query, row in zip(again, ids, queries, rows.tolist(), strict=False):
            self._ids[owner], self._queries[owner], self._rows[owner] = id, query, row
        self._owners.update(zip(ids, chain(again, fresh), strict=True))
        if self.table.live == len(rows):
            warm_up(self._kind, "bulk")
            self.index.build()
        else:
            self.index.insert(rows)

    def drop(self, id: str) -> None:
        """Forget a subscription that is there."""
        owner = self._owners.pop(id)
        self._order = None
        self._withdraw(owner)
        self._ids[owner] = self._queries[owner] = ""
        self._free.append(owner)

    def drop_some(self, ids: list[str]) -> None:
        """Forget many subscriptions at once, those of them that are there."""
        owners = [self._owners.pop(id) for id in ids if id in self._owners]
        specials = [self._many.pop(owner, None) for owner in owners]
        plain = [self._rows[o] for o, special in zip(owners, specials, strict=True) if not special]
        rows = np.concatenate([np.array(plain, np.int32), *(s[1] for s in specials if s)])
        for owner in owners:
            self._ids[owner] = self._queries[owner] = ""
            self._rows[owner] = -1
        self._rowless.difference_update(owners)
        self._free += owners
        self._order = None
        self._take_out(rows)

    def wanting(self, arrived: Arrived) -> list[str]:
        """Ask the index who wants one message."""
        self.settle()
        known = self.terms.known(arrived.terms)
        if not len(known):
            return []
        self.table.frequency[known] += 1
        message = arrived.message
        if message.point is not None:
            lon, lat = message.point
            bounds: tuple[tuple[float, ...], ...] = ((lon, lat, lon, lat),)
        else:
            bounds = message.region.bounds() if message.region else ()
        starts = np.arange(0, (len(bounds) + 1) * len(known), len(known), dtype=np.int64)
        batch = Batch(starts, np.tile(known, len(bounds)), np.array(bounds, np.float64))
        found = match(self.index, batch)
        self.looked_at += found.candidates
        owners = found.owners
        if len(bounds) > 1:
            owners = np.unique(owners)
        return [self._ids[owner] for owner in owners.tolist()]

    def match(self, texts: TextBatch, boxes: Floats, threads: int) -> Matches:
        """Ask the index about many messages at once."""
        self.settle()
        np.add.at(self.table.frequency, texts.terms, 1)
        found = match(self.index, Batch(texts.starts, texts.terms, boxes), threads)
        self.looked_at += found.candidates
        return found

    def subscriptions(self) -> Iterator[Subscription]:
        """All of them."""
        return (self._subscription(owner) for owner in self._owners.values())

    def boxes(self) -> Floats:
        """The bounding box of each; of one with several rows, that of its first."""
        rows = self.table.rows
        kept = rows.owner != NOBODY
        shared = np.flatnonzero(kept & (rows.flags & SHARED != 0))
        kept[shared] = False
        kept[shared[np.unique(rows.owner[shared], return_index=True)[1]]] = True
        boxes: Floats = rows.box[kept]
        return boxes

    def names_in_order(self, owners: Int32s) -> tuple[pa.StringArray, Int32s]:
        """Ids in alphabetical order, of these owners at least, and the rank of each owner there.

        The order of all ids is worked out when it pays, and kept until somebody comes or goes.
        """
        if self._order is None and len(owners) < len(self._ids) // 4:
            some = np.unique(owners)
            return in_order([self._ids[owner] for owner in some.tolist()], some, len(self._ids))
        if self._order is None:
            everyone = np.arange(len(self._ids), dtype=np.int32)
            self._order = in_order(self._ids, everyone, len(self._ids))
        return self._order

    def _subscription(self, owner: int) -> Subscription:
        special = self._many.get(owner)
        if special is not None:
            region = special[0]
            if isinstance(region, LateRegion):
                region = region_from_json(_decode(region.json))
                self._many[owner] = (region, special[1])
        else:
            region = Box(*self.table.rows.box[self._rows[owner]].tolist())
        return Subscription(self._ids[owner], self._queries[owner], region)

    def _new_owner(self, id: str) -> int:
        self._order = None
        if self._free:
            owner = self._free.pop()
            self._ids[owner] = id
        else:
            owner = len(self._ids)
            self._ids.append(id)
            self._queries.append("")
            self._rows.append(-1)
        self._owners[id] = owner
        return owner

    def _withdraw(self, owner: int) -> None:
        special = self._many.pop(owner, None)
        self._rowless.discard(owner)
        rows = special[1] if special else np.array([self._rows[owner]], np.int32)
        self._rows[owner] = -1
        self._take_out(rows)

    def _take_out(self, rows: Int32s) -> None:
        if len(rows):
            self.settle()
            reusable = self.index.delete(rows)
            self.table.remove(rows)
            self.table.release(reusable)


class Indexed(Scan):
    """The engine with an index of its boolean subscriptions and a core for its top-k ones."""

    def __init__(self, settings: Settings | None, index: str) -> None:
        settings = settings or Settings()
        self.boolean = IndexedPopulation(index, settings.analyser)
        self.ranked = FastRankings(settings)
        super().__init__(settings, self.boolean, self.ranked)

    def subscription(self, id: str) -> Subscription | None:
        """Look one up."""
        ranked = self.ranked.find(id)
        return self.boolean.subscription(id) if ranked is None else ranked

    def ids(self) -> Iterable[str]:
        """The ids of all subscriptions."""
        return chain(self.boolean.ids(), self.ranked)

    def ids_around(self, bounds: tuple[Bounds, ...], most: int) -> list[str] | None:
        """The ids of all that may meet one of some plain boxes; None if they are more than that."""
        near = self.boolean.around(bounds, most - len(self.ranked))
        return None if near is None else [*near, *self.ranked]

    def figures(self) -> dict[str, float]:
        """Figures about index and table, for whoever watches."""
        population = self.boolean
        size = population.index.stats()["bytes"] + population.table.nbytes
        return {"bytes": float(size), "candidates": float(population.looked_at)}

    @property
    def has_active(self) -> bool:
        """Whether a lasting message may still be active."""
        return bool(self._active)

    @property
    def has_rankings(self) -> bool:
        """Whether there is a top-k subscription."""
        return len(self.ranked) > 0

    def boxes(self) -> Floats:
        """The bounding boxes of all subscriptions; a top-k one has its point."""
        points = [subscription.point for subscription in self.ranked.subscriptions()]
        ranked = np.array(points, np.float64).reshape(-1, 2)
        return np.concatenate([self.boolean.boxes(), np.hstack([ranked, ranked])])

    @property
    def takes_columns(self) -> bool:
        """Whether instant messages may be matched as columns now."""
        return self.settings.window.count is not None or self.ranked.is_active

    def knows_any(self, ids: list[str]) -> bool:
        """Whether a subscription has one of these ids."""
        return any(id in self.boolean or id in self.ranked for id in ids)

    def uses_any(self, ids: list[str]) -> bool:
        """Whether a message that may be active or in the window has one of these ids."""
        return self.ranked.has_any(ids) or not self._active.keys().isdisjoint(ids)

    def pass_through(self, columns: Columns) -> Changes | None:
        """Let messages that were matched already enter the window; give what that changes."""
        columns.number = self._arrivals
        self._arrivals += len(columns.ids)
        return self.ranked.enter_columns(columns)


def _plain(region: Region) -> tuple[float, float, float, float] | None:
    """The one plain box that a region is, if it is one."""
    if isinstance(region, Box) and region.west <= region.east:
        return region.bounds()[0]
    return None
