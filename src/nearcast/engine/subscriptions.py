"""The boolean subscriptions of an engine, kept in a table and found through an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s
from nearcast.engine.active import Placement
from nearcast.engine.matching import ArrivedMessage, BooleanSubscription
from nearcast.engine.message_keys import KeyedMessages, read_messages
from nearcast.engine.operands import Operands, is_key
from nearcast.engine.ordered import in_order
from nearcast.engine.terms import TermIds, TextBatch
from nearcast.errors import NearcastError
from nearcast.events import Subscription
from nearcast.events.properties import PropertyColumn
from nearcast.geo import WORLD, Bounds, Box, Circle, Region, region_from_json
from nearcast.index import Batch, Matches, Table, match, read_index
from nearcast.index.rarest_term import RarestTerm
from nearcast.index.table import NO_OWNER, RESIDUAL, SHARED
from nearcast.index.warm import warm_up
from nearcast.text import EVERYTHING, Analyser, Query, parse_query

_NONE = np.empty(0, np.int32)
_decode = msgspec.json.Decoder().decode


class LateRegion:
    """A region as JSON, decoded on first use."""

    __slots__ = ("json",)

    def __init__(self, json: bytes) -> None:
        self.json = json


class Asking(NamedTuple):
    """What a subscription asks for beside terms."""

    residuals: list[int]
    keyed: bool  # whether a conjunct requires keys


class IndexedSubscriptions:
    """Numbers subscriptions as *owners* of rows, and finds those that match through an index.

    A subscription is stored once: its query as text, its region in the table if it is a plain
    box or a circle, otherwise as an object.
    """

    def __init__(self, index: str, analyser: Analyser) -> None:
        self.table = Table()
        self.choice = read_index(index)
        self._kind = self.choice.kind
        warm_up(self._kind)
        self.index = self.choice.make(self.table)
        self.index.build()
        self.looked_at = 0  # rows, by all messages so far
        self.terms = TermIds(self.table, analyser)
        self.analyser = analyser
        self._owners: dict[str, int] = {}
        self._ids: list[str] = []  # by owner; empty for an unused number
        self._queries: list[str] = []
        self._rows: list[int] = []  # by owner: the first of its rows
        self._radii: dict[int, float] = {}  # owners that are one circle
        # Owners that are neither one plain box nor one circle.
        self._many: dict[int, tuple[Region | LateRegion, Int32s]] = {}
        self.operands = Operands()
        self._asking: dict[int, Asking] = {}  # owners that ask for more than terms
        self._anywhere: set[int] = set()  # owners without a region
        self._wordless: set[int] = set()  # owners without a query
        self._rowless: set[int] = set()  # owners that no message can match
        self._free: list[int] = []
        self._waiting: list[int] = []  # rows in the table but not yet in the index
        self._order: tuple[pa.StringArray, Int32s] | None = None
        self._named = 0  # ids that were put in order without the others

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, id: str) -> bool:
        return id in self._owners

    def find(self, id: str) -> BooleanSubscription | None:
        """Rebuild a subscription."""
        subscription = self.subscription(id)
        if subscription is None:
            return None
        return BooleanSubscription(subscription, self._parsed(subscription.query))

    def _parsed(self, query: str | None) -> Query:
        return EVERYTHING if query is None else parse_query(query, self.analyser)

    def subscription(self, id: str) -> Subscription | None:
        """Rebuild a subscription, without parsing its query."""
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

    def put(self, interest: BooleanSubscription) -> None:
        """Add a subscription, replace one, or move one."""
        subscription = interest.subscription
        id, query = subscription.id, subscription.query
        region = WORLD if subscription.region is None else subscription.region
        self.terms.sweep()
        owner = self._owners.get(id)
        if owner is not None and self._query(owner) == query:
            placement = self.placement(owner, region)
            if placement is not None:
                self.place(owner, region, placement)
                if subscription.region is None:
                    self._anywhere.add(owner)
                return
        asked = self.operands.put(interest.query.conjuncts)
        conjuncts = [
            (self.terms.intern(one.required), self.terms.intern(one.excluded)) for one in asked
        ]
        residuals = [one.residual for one in asked]
        try:
            self.table.check_room(conjuncts, region)
        except NearcastError:
            self.operands.drop(interest.query.conjuncts, _numbers(residuals))
            raise
        if not isinstance(region, Box):
            warm_up(self._kind, "shapes")
        if owner is None:
            owner = self._new_owner(id)
        else:
            self._withdraw(owner)
        self._queries[owner] = query or ""
        if query is None:
            self._wordless.add(owner)
        if subscription.region is None:
            self._anywhere.add(owner)
        if not all(one.is_plain for one in interest.query.conjuncts):
            keyed = any(is_key(one.required[-1]) for one in asked)
            self._asking[owner] = Asking(_numbers(residuals), keyed)
        rows = self.table.add(owner, conjuncts, region, residuals) if conjuncts else _NONE
        if len(rows) == 1 and not conjuncts[0][1] and isinstance(region, Box | Circle):
            self._rows[owner] = int(rows[0])
            if isinstance(region, Circle):
                self._radii[owner] = region.radius
        else:
            self._many[owner] = (region, rows)
            if not len(rows):
                self._rowless.add(owner)
        self._waiting += rows.tolist()

    def owner_of(self, id: str) -> int | None:
        """The owner number of a subscription."""
        return self._owners.get(id)

    def asks_more(self, id: str) -> bool:
        """Whether a subscription asks for more than terms."""
        return self._owners.get(id) in self._asking

    def asks_more_of(self, ids: list[str]) -> bool:
        """Whether one of these subscriptions asks for more than terms."""
        return bool(self._asking) and any(map(self.asks_more, ids))

    def has_keys(self, id: str) -> bool:
        """Whether a subscription requires keys of its messages."""
        asking = self._asking.get(self._owners.get(id, NO_OWNER))
        return asking is not None and asking.keyed

    def _query(self, owner: int) -> str | None:
        return None if owner in self._wordless else self._queries[owner]

    def has_any(self, ids: list[str]) -> bool:
        """Whether one of these ids is there."""
        return not self._owners.keys().isdisjoint(ids)

    def owners_of(self, ids: list[str]) -> Int32s:
        """The owner numbers of subscriptions, NO_OWNER for those that are not there."""
        get = self._owners.get
        return np.array([get(id, NO_OWNER) for id in ids], np.int32)

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
        """How to move a subscription within its rows; None if it needs other rows."""
        special = self._special(owner)
        if special is not None:
            kind: type[Region] = type(special[0])
            rows, sides = special[1], len(special[0].bounds())
        else:
            kind = Circle if owner in self._radii else Box
            rows, sides = np.array([self._rows[owner]], np.int32), 1
        bounds = region.bounds()
        if kind not in (Box, Circle) or type(region) is not kind or len(bounds) != sides:
            return None
        repeats = len(rows) // sides
        boxes = np.tile(np.array(bounds), (repeats, 1))
        circles = None
        if isinstance(region, Circle):
            circles = np.tile(np.array([*region.center, region.limit]), (len(rows), 1))
        return Placement(rows, boxes, circles, sides == 1)

    def place(self, owner: int, region: Region, placement: Placement) -> None:
        """Store another region in the rows of a subscription."""
        self.shift(placement)
        self._anywhere.discard(owner)
        if owner in self._many:
            self._many[owner] = (region, self._many[owner][1])
        elif isinstance(region, Circle):
            self._radii[owner] = region.radius

    def have_regions(self, owners: Int32s) -> None:
        """Note that subscriptions have a region from now on."""
        if self._anywhere:
            self._anywhere.difference_update(owners.tolist())

    def keep_radii(self, owners: Int32s, radii: Floats) -> None:
        """Note the radii of subscriptions that are one circle each."""
        self._radii.update(zip(owners.tolist(), radii.tolist(), strict=True))

    def shift(self, placement: Placement) -> None:
        """Set the boxes or circles of rows."""
        rows, boxes, circles, _ = placement
        if len(rows):
            self.settle()
            self.table.move(rows, boxes, circles)
            self.index.move(rows)

    def settle(self, messages: int = 0) -> None:
        """Add the waiting rows to the index; it may tidy up in proportion to `messages`."""
        if self._waiting:
            self.terms.settle()
            rows = np.array(self._waiting, np.int32)
            self._waiting.clear()
            self.index.insert(rows)
        if messages and isinstance(self.index, RarestTerm):
            self.index.tidy(messages)

    def put_boxes(
        self, ids: list[str], queries: list[str], texts: TextBatch, boxes: Floats
    ) -> Int32s:
        """Add many new subscriptions of plain words and one plain box; return their rows."""
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
        return rows

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        owner = self._owners.pop(id)
        self._order = None
        self._withdraw(owner)
        self._ids[owner] = self._queries[owner] = ""
        self._free.append(owner)
        self.terms.sweep()

    def drop_some(self, ids: list[str]) -> None:
        """Remove many subscriptions at once; unknown ones are ignored."""
        owners = [self._owners.pop(id) for id in ids if id in self._owners]
        specials = [self._many.pop(owner, None) for owner in owners]
        plain = [self._rows[o] for o, special in zip(owners, specials, strict=True) if not special]
        rows = np.concatenate([np.array(plain, np.int32), *(s[1] for s in specials if s)])
        for owner in owners:
            self._rows[owner] = -1
            self._radii.pop(owner, None)
        for owner in owners:
            self._forget_operands(owner)
            self._ids[owner] = self._queries[owner] = ""
        self._rowless.difference_update(owners)
        self._free += owners
        self._order = None
        self._take_out(rows)

    def wanting(self, arrived: ArrivedMessage) -> list[str]:
        """The ids of the subscriptions that match one message, from the index."""
        self.settle(1)
        known = self.terms.known(self.operands.terms_of(arrived))
        if not len(known):
            return []
        self.table.frequency[known] += 1
        message = arrived.message
        if message.point is not None and isinstance(self.index, RarestTerm):
            return self._wanting_point(arrived, known, *message.point)
        if message.point is not None:
            lon, lat = message.point
            bounds: tuple[tuple[float, ...], ...] = ((lon, lat, lon, lat),)
        else:
            bounds = message.region.bounds() if message.region else ()
        starts = np.arange(0, (len(bounds) + 1) * len(known), len(known), dtype=np.int64)
        batch = Batch(starts, np.tile(known, len(bounds)), np.array(bounds, np.float64))
        content, decided_for = arrived.content, self.operands.decided_for
        found = match(self.index, batch, 1, lambda _, numbers: decided_for(content, numbers))
        self.looked_at += found.candidates
        owners = found.owners
        if len(bounds) > 1:
            owners = np.unique(owners)
        area = message.region
        if area is not None and not isinstance(area, Box):  # found by its bounding box
            meeting = (self._region(owner).meets(area) for owner in owners.tolist())
            owners = owners[np.fromiter(meeting, np.bool_, len(owners))]
        return [self._ids[owner] for owner in owners.tolist()]

    def _wanting_point(
        self, arrived: ArrivedMessage, known: Int32s, lon: float, lat: float
    ) -> list[str]:
        """The same for a message at a point, without what only many messages need."""
        assert isinstance(self.index, RarestTerm)  # noqa: S101 - the caller has looked
        found, looked_at = self.index.match_point(known, lon, lat)
        self.looked_at += looked_at
        table, ids = self.table, self._ids
        if not len(found):
            return []
        if table.residual and (table.rows.flags[found] & RESIDUAL).any():
            asking = (table.rows.flags[found] & RESIDUAL) != 0
            numbers = table.residuals_of(found[asking])
            kept = ~asking
            kept[asking] = self.operands.decided_for(arrived.content, numbers)
            found = found[kept]
        owners = found if table.own_rows else table.rows.owner[found]
        some = owners.tolist()
        return [ids[owner] for owner in (set(some) if table.shared else some)]

    def read(
        self, texts: pa.StringArray, properties: PropertyColumn | None = None
    ) -> TextBatch | KeyedMessages:
        """The terms of messages, and their keys if somebody asks for more than terms."""
        if self.operands.is_plain:
            return self.terms.read(texts)
        return read_messages(self.terms, self.operands, texts, properties)

    def match(self, messages: TextBatch | KeyedMessages, boxes: Floats, threads: int) -> Matches:
        """Match many messages at once."""
        self.settle(len(boxes))
        if isinstance(messages, TextBatch):
            terms, residuals = messages, None
        else:
            keyed, conditions = messages, self.operands.conditions
            terms = keyed.terms

            def residuals(some: Int32s, numbers: Int32s) -> npt.NDArray[np.bool_]:
                return conditions.decide(some, numbers, keyed.numbers, keyed.content)

        np.add.at(self.table.frequency, terms.terms, 1)
        found = match(self.index, Batch(terms.starts, terms.terms, boxes), threads, residuals)
        self.looked_at += found.candidates
        return found

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions."""
        return (self._subscription(owner) for owner in self._owners.values())

    def boxes(self) -> Floats:
        """The bounding box of each that has a region; of one with several rows, of its first."""
        rows = self.table.rows
        kept = rows.owner != NO_OWNER
        if self._anywhere:
            kept &= ~np.isin(rows.owner, list(self._anywhere))
        shared = np.flatnonzero(kept & (rows.flags & SHARED != 0))
        kept[shared] = False
        kept[shared[np.unique(rows.owner[shared], return_index=True)[1]]] = True
        boxes: Floats = rows.box[kept]
        return boxes

    def names_in_order(self, owners: Int32s) -> tuple[pa.StringArray, Int32s]:
        """Ids in alphabetical order, of these owners at least, and the rank of each owner there.

        The order of all ids is computed when as many have been asked for one by one, and kept until
        the ids change.
        """
        self._named += len(owners)
        if self._order is None and self._named < len(self._ids):
            some = np.unique(owners)
            return in_order([self._ids[owner] for owner in some.tolist()], some, len(self._ids))
        if self._order is None:
            everyone = np.arange(len(self._ids), dtype=np.int32)
            self._order, self._named = in_order(self._ids, everyone, len(self._ids)), 0
        return self._order

    def _subscription(self, owner: int) -> Subscription:
        region = None if owner in self._anywhere else self._region(owner)
        return Subscription(self._ids[owner], self._query(owner), region)

    def _region(self, owner: int) -> Region:
        special = self._special(owner)
        if special is not None:
            return special[0]
        if owner in self._radii:
            rows = self.table.rows
            shape = rows.terms[rows.first[self._rows[owner]] - 1]
            lon, lat, _ = rows.circles[shape].tolist()
            return Circle((lon, lat), self._radii[owner])
        return Box(*self.table.rows.box[self._rows[owner]].tolist())

    def _special(self, owner: int) -> tuple[Region, Int32s] | None:
        """The region and the rows of an owner that is neither one plain box nor one circle."""
        special = self._many.get(owner)
        if special is None:
            return None
        region, rows = special
        if isinstance(region, LateRegion):
            region = region_from_json(_decode(region.json))
            self._many[owner] = (region, rows)
        return region, rows

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

    def _forget_operands(self, owner: int) -> None:
        asking = self._asking.pop(owner, None)
        if asking is not None:
            self.operands.drop(self._parsed(self._query(owner)).conjuncts, asking.residuals)
        self._anywhere.discard(owner)
        self._wordless.discard(owner)

    def _withdraw(self, owner: int) -> None:
        self._forget_operands(owner)
        special = self._many.pop(owner, None)
        self._rowless.discard(owner)
        rows = special[1] if special else np.array([self._rows[owner]], np.int32)
        self._radii.pop(owner, None)
        self._rows[owner] = -1
        self._take_out(rows)

    def _take_out(self, rows: Int32s) -> None:
        if len(rows):
            self.settle()
            reusable = self.index.delete(rows)
            self.table.remove(rows)
            self.table.release(reusable)


def _numbers(residuals: list[int | None]) -> list[int]:
    return [number for number in residuals if number is not None]
