"""The boolean subscriptions of an engine, kept in a table and found through an index."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.engine.lasting import LastingMessages, Placement
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.engine.standing import Arrived, Interest
from nearcast.engine.terms import TermIds, TextBatch
from nearcast.engine.window import Columns
from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.index import Batch, Matches, Table, index_named, match
from nearcast.index.table import Floats, Int32s, Int64s
from nearcast.index.warm import warm_up
from nearcast.model import Point, Subscription, Update
from nearcast.text import Analyser, parse_query

_NONE = np.empty(0, np.int32)


class IndexedPopulation:
    """Knows each subscription by an *owner* number, and lets an index find those that match.

    What a subscription is made of is kept once: its query as text, its region in the table if it
    is a plain box or a circle, as an object if it is not.
    """

    def __init__(self, index: str, analyser: Analyser) -> None:
        self.table = Table()
        self._kind = index_named(index)
        warm_up(self._kind)
        self.index = self._kind(self.table)
        self.index.build()
        self.terms = TermIds(self.table, analyser)
        self._analyser = analyser
        self._owners: dict[str, int] = {}
        self._ids: list[str] = []  # by owner; an owner that is free has an empty one
        self._queries: list[str] = []
        self._rows: list[int] = []  # by owner: the first of its rows
        self._radii: dict[int, float] = {}  # owners that are one circle
        self._many: dict[int, tuple[Region, Int32s]] = {}  # owners that are neither
        self._free: list[int] = []
        self._waiting: list[int] = []  # rows in the table but not yet in the index
        self._order: tuple[pa.StringArray, Int32s] | None = None

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, id: str) -> bool:
        return id in self._owners

    def find(self, id: str) -> Interest | None:
        """Put a subscription together again."""
        owner = self._owners.get(id)
        if owner is None:
            return None
        subscription = self._subscription(owner)
        return Interest(subscription, parse_query(subscription.query, self._analyser))

    def put(self, interest: Interest) -> None:
        """Add a subscription, replace one, or move one."""
        subscription = interest.subscription
        id, region = subscription.id, subscription.region
        assert region is not None  # noqa: S101 - a subscription without top has a region
        owner = self._owners.get(id)
        if owner is not None and self._queries[owner] == subscription.query:
            placement = self.placement(owner, region)
            if placement is not None:
                self.place(owner, region, placement)
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
        if len(rows) == 1 and not conjuncts[0][1] and not isinstance(region, Polygon):
            self._rows[owner] = int(rows[0])
            if isinstance(region, Circle):
                self._radii[owner] = region.radius
        else:
            self._many[owner] = (region, rows)
        self._waiting += rows.tolist()

    def owner_of(self, id: str) -> int | None:
        """The owner number of a subscription."""
        return self._owners.get(id)

    def owners_of(self, ids: list[str]) -> Int32s | None:
        """The owner numbers of subscriptions, if all of them are there."""
        get = self._owners.get
        owners = np.array([get(id, -1) for id in ids], np.int32)
        return owners if not len(owners) or owners.min() >= 0 else None

    def rows_of(self, id: str) -> Int32s:
        """The rows of a subscription that is there."""
        owner = self._owners[id]
        special = self._many.get(owner)
        return special[1] if special else np.array([self._rows[owner]], np.int32)

    def one_row(self, owners: Int32s, circles: bool) -> tuple[Int32s, npt.NDArray[np.bool_]]:
        """The one row of each owner, and whether it has just one, a box or else a circle."""
        radii, many, rows = self._radii, self._many, self._rows
        numbers = owners.tolist()
        if len(many):
            fits = [n not in many and (n in radii) == circles for n in numbers]
        elif len(radii) == len(self._owners):
            fits = [circles] * len(numbers)
        else:
            fits = [(n in radii) == circles for n in numbers]
        return np.array([rows[n] for n in numbers], np.int32), np.array(fits, np.bool_)

    def placement(self, owner: int, region: Region) -> Placement | None:
        """How a subscription can take another region without changing its rows; None if not."""
        special = self._many.get(owner)
        if special is not None:
            kind: type[Region] = type(special[0])
            rows = special[1]
            sides = len(special[0].bounds())
        else:
            kind = Circle if owner in self._radii else Box
            rows = np.array([self._rows[owner]], np.int32)
            sides = 1
        bounds = region.bounds()
        if kind is Polygon or type(region) is not kind or len(bounds) != sides:
            return None
        repeats = len(rows) // sides
        boxes = np.tile(np.array(bounds), (repeats, 1))
        circles = None
        if isinstance(region, Circle):
            circles = np.tile(np.array([*region.center, region.limit]), (len(rows), 1))
        return Placement(rows, boxes, circles, sides == 1)

    def place(self, owner: int, region: Region, placement: Placement) -> None:
        """Let a subscription have another region in its rows."""
        self.shift(placement)
        if owner in self._many:
            self._many[owner] = (region, self._many[owner][1])
        elif isinstance(region, Circle):
            self._radii[owner] = region.radius

    def keep_radii(self, owners: Int32s, radii: Floats) -> None:
        """Note the radii of subscriptions that are one circle each."""
        self._radii.update(zip(owners.tolist(), radii.tolist(), strict=True))

    def shift(self, placement: Placement) -> None:
        """Give rows other boxes or circles."""
        rows, boxes, circles, _ = placement
        if len(rows):
            self._settle()
            self.table.move(rows, boxes, circles)
            self.index.move(rows)

    def _settle(self) -> None:
        """Hand the index the rows that wait for it: together they cost it less."""
        if self._waiting:
            self.terms.settle()
            rows = np.array(self._waiting, np.int32)
            self._waiting.clear()
            self.index.insert(rows)

    def put_boxes(
        self, ids: list[str], queries: list[str], texts: TextBatch, boxes: Floats
    ) -> Int32s:
        """Add many new subscriptions of plain words and a plain box each; give their rows."""
        self._settle()
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
        return rows

    def drop(self, id: str) -> None:
        """Forget a subscription that is there."""
        owner = self._owners.pop(id)
        self._order = None
        self._withdraw(owner)
        self._ids[owner] = self._queries[owner] = ""
        self._free.append(owner)

    def wanting(self, arrived: Arrived) -> list[str]:
        """Ask the index who wants one message."""
        self._settle()
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
        owners = match(self.index, batch).owners
        if len(bounds) > 1:
            owners = np.unique(owners)
        return [self._ids[owner] for owner in owners.tolist()]

    def match(self, texts: TextBatch, boxes: Floats, threads: int) -> Matches:
        """Ask the index about many messages at once."""
        self._settle()
        np.add.at(self.table.frequency, texts.terms, 1)
        return match(self.index, Batch(texts.starts, texts.terms, boxes), threads)

    def subscriptions(self) -> Iterator[Subscription]:
        """All of them."""
        return (self._subscription(owner) for owner in self._owners.values())

    def names_in_order(self, owners: Int32s) -> tuple[pa.StringArray, Int32s]:
        """Ids in alphabetical order, of these owners at least, and the rank of each owner there.

        The order of all ids is worked out when it pays, and kept until somebody comes or goes.
        """
        if self._order is None and len(owners) < len(self._ids) // 4:
            some = np.unique(owners)
            return _in_order([self._ids[owner] for owner in some.tolist()], some, len(self._ids))
        if self._order is None:
            everyone = np.arange(len(self._ids), dtype=np.int32)
            self._order = _in_order(self._ids, everyone, len(self._ids))
        return self._order

    def _subscription(self, owner: int) -> Subscription:
        special = self._many.get(owner)
        region: Region
        if special is not None:
            region = special[0]
        elif owner in self._radii:
            rows = self.table.rows
            shape = rows.terms[rows.first[self._rows[owner]] - 1]
            lon, lat, _ = rows.circles[shape].tolist()
            region = Circle((lon, lat), self._radii[owner])
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
        rows = special[1] if special else np.array([self._rows[owner]], np.int32)
        self._radii.pop(owner, None)
        self._rows[owner] = -1
        if len(rows):
            self._settle()
            reusable = self.index.delete(rows)
            self.table.remove(rows)
            self.table.release(reusable)


class Indexed(Scan):
    """The engine with its boolean subscriptions in an index; everything else is as in `Scan`."""

    def __init__(self, settings: Settings | None, index: str) -> None:
        settings = settings or Settings()
        self.boolean = IndexedPopulation(index, settings.analyser)
        self.lasting = LastingMessages(self.boolean)
        super().__init__(settings, self.boolean, self.lasting)

    def _move(
        self, id: str, region: Region | None, point: Point | None, now: float
    ) -> list[Update]:
        owner = self.boolean.owner_of(id)
        if owner is None or region is None or self.lasting.has_split:
            return super()._move(id, region, point, now)
        placement = self.boolean.placement(owner, region)
        if placement is None or not (placement.whole or len(self.lasting) == 0):
            return super()._move(id, region, point, now)
        self.advance(now)
        events = np.zeros(len(placement.rows), np.int32)
        found = self.lasting.moved(placement, events, np.array([now]))
        self.boolean.place(owner, region, placement)
        ops = found.ops.tolist()
        # A message that meets several rows does the same with each.
        changed = dict(zip(self.lasting.names(found.slots), ops, strict=True))
        return [Update("add" if op == 1 else "remove", id, m) for m, op in changed.items()]

    @property
    def has_rankings(self) -> bool:
        """Whether there is a top-k subscription."""
        return bool(self._rankings)

    def knows_any(self, ids: list[str]) -> bool:
        """Whether a subscription has one of these ids."""
        return any(id in self.boolean or id in self._rankings for id in ids)

    def uses_any(self, ids: list[str]) -> bool:
        """Whether a message that may be active or in the window has one of these ids."""
        return self._window.has_any(ids) or self.lasting.has_any(ids, self.now or 0.0)

    def move_at(self, id: str, region: Region, now: float) -> list[Update]:
        """Move a boolean subscription that is there, at a time not before now."""
        return self._move(id, region, None, now)

    def numbers_ahead(self, rows: Int64s) -> Int64s:
        """The order of arrival that messages of a table will have."""
        return self._arrivals + rows

    def pass_time(self, now: float, events: int) -> None:
        """Let time pass, as so many events would."""
        self.lasting.advance(now, events)
        self.advance(now)

    def pass_through(self, columns: Columns) -> None:
        """Let messages that were matched already enter the window, which is one by count."""
        room = self.settings.window.count or 0
        columns.number = self._arrivals
        columns.row = max(0, len(columns.ids) - room)  # those before it would leave it at once
        self._arrivals += len(columns.ids)
        self._window.extend(columns)
        self._window.forget(len(self._window) - room)


def _in_order(ids: list[str], owners: Int32s, count: int) -> tuple[pa.StringArray, Int32s]:
    names = pa.array(ids, pa.string())
    order = pc.sort_indices(names).to_numpy()
    rank = np.empty(count, np.int32)
    rank[owners[order]] = np.arange(len(owners), dtype=np.int32)
    return names.take(pa.array(order)), rank
