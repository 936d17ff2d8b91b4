"""The boolean subscriptions of an engine, kept in a table and found through an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s
from nearcast.engine.active import Placement
from nearcast.engine.apart import RegionsApart
from nearcast.engine.loading import NewSubscriptions, put_columns
from nearcast.engine.matching import ArrivedMessage, BooleanSubscription
from nearcast.engine.message_keys import KeyedMessages, read_messages
from nearcast.engine.operands import Operands
from nearcast.engine.ordered import in_order
from nearcast.engine.owners import (
    ANYWHERE,
    ASKS,
    BOX,
    CIRCLE,
    EXCLUDES,
    KEYED,
    KIND,
    POLYGON,
    SCATTERED,
    SEVERAL,
    WORDLESS,
    Owners,
)
from nearcast.engine.single import SingleMatcher
from nearcast.engine.terms import TermIds, TextBatch
from nearcast.errors import NearcastError
from nearcast.events import Message, Subscription
from nearcast.events.carried import CarriedColumns
from nearcast.geo import WORLD, Bounds, Box, Circle, MultiPolygon, Polygon, Region
from nearcast.geo.polygon_columns import polygon_of
from nearcast.geo.region_columns import BOX as REGION_BOX
from nearcast.index import Batch, Matches, Table, match, read_index
from nearcast.index.rarest_term import RarestTerm
from nearcast.index.table import NO_OWNER, RESIDUAL, SHARED
from nearcast.index.warm import warm_up
from nearcast.text import EVERYTHING, Analyser, Conjunct, Query, parse_query
from nearcast.text.keys import is_key

_NONE = np.empty(0, np.int32)
_FEW = 32
_GROWTH = 3  # the index is rebuilt where there are at most this many times the rows added
_KINDS = {Box: BOX, Circle: CIRCLE, Polygon: POLYGON, MultiPolygon: SEVERAL}


class IndexedSubscriptions:
    """Numbers subscriptions as *owners* of rows, and finds those that match through an index.

    A subscription is stored once: its query as text (`owners`), its region in the table. One that
    no message can match has no rows, and its region is an object.
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
        self.owners = Owners()
        self.operands = Operands(self._conjuncts, self._queries, analyser)
        self.single = SingleMatcher()
        self.apart = RegionsApart()
        self._scattered: dict[int, Int32s] = {}  # rows that do not follow each other, by owner
        self._waiting: list[int] = []  # rows in the table but not yet in the index
        self._order: tuple[pa.StringArray, Int32s] | None = None
        self._named = 0  # ids that were put in order without the others

    def __len__(self) -> int:
        return len(self.owners)

    def __contains__(self, id: str) -> bool:
        return self.owners.find(id) >= 0

    @property
    def nbytes(self) -> int:
        """Bytes of the table, ids, queries and predicates; without the index and the terms."""
        return self.table.nbytes + self.owners.nbytes + self.operands.nbytes

    def find(self, id: str) -> BooleanSubscription | None:
        """Rebuild a subscription."""
        subscription = self.subscription(id)
        if subscription is None:
            return None
        return BooleanSubscription(subscription, self._parsed(subscription.query))

    def _parsed(self, query: str | None) -> Query:
        return EVERYTHING if query is None else parse_query(query, self.analyser)

    def _conjuncts(self, owner: int) -> tuple[Conjunct, ...]:
        return self._parsed(self._query(owner)).conjuncts

    def _queries(self, owners: Int32s) -> pa.LargeStringArray:
        return self.owners.queries.take(owners)

    def subscription(self, id: str) -> Subscription | None:
        """Rebuild a subscription, without parsing its query."""
        owner = self.owners.find(id)
        return None if owner < 0 else self._subscription(owner)

    def ids(self) -> Iterable[str]:
        """The ids of all."""
        return self._names(self.owners.live())

    def around(self, bounds: tuple[Bounds, ...], most: int) -> list[str] | None:
        """The ids of all that may meet one of some plain boxes; None if they are more than that."""
        rows = self.table.rows
        found = [np.empty(0, np.int32)]
        for west, south, east, north in bounds:
            near = np.flatnonzero((rows.box[:, 1] <= north) & (rows.box[:, 3] >= south))
            box = rows.box[near]  # few of all, usually
            found.append(rows.owner[near[(box[:, 0] <= east) & (box[:, 2] >= west)]])
        owners = np.concatenate(found)
        owners = owners[owners >= 0]
        if len(owners) + len(self.apart) > most:
            return None
        return self._names(np.unique([*owners.tolist(), *self.apart]).astype(np.int32))

    def put(self, interest: BooleanSubscription) -> None:
        """Add a subscription, replace one, or move one."""
        subscription = interest.subscription
        id, query = subscription.id, subscription.query
        region = WORLD if subscription.region is None else subscription.region
        self.terms.sweep()
        owner = self.owners.find(id)
        if owner >= 0 and self._query(owner) == query:
            placement = self.placement(owner, region)
            if placement is not None:
                self.place(owner, region, placement)
                if subscription.region is None:
                    self.owners.columns.traits[owner] |= ANYWHERE
                return
        asked = self.operands.put(interest.query.conjuncts)
        conjuncts = [
            (self.terms.intern(one.required), self.terms.intern(one.excluded)) for one in asked
        ]
        residuals = [one.residual for one in asked]
        numbers = [number for number in residuals if number is not None]
        try:
            self.table.check_room(conjuncts, region)
        except NearcastError:
            self.operands.drop(interest.query.conjuncts, numbers)
            raise
        if not isinstance(region, Box):
            warm_up(self._kind, "shapes")
        if owner >= 0:
            self._withdraw(owner)
            self.owners.queries.replace(owner, query or "")
        else:
            self._order = None
            owner = self.owners.add(id, query or "")
        self.operands.belong(numbers, owner)
        traits = _KINDS.get(type(region), BOX)
        traits |= WORDLESS if query is None else 0
        traits |= ANYWHERE if subscription.region is None else 0
        if not all(one.is_plain for one in interest.query.conjuncts):
            traits |= ASKS | (KEYED if any(is_key(one.required[-1]) for one in asked) else 0)
        if any(one.excluded for one in asked):
            traits |= EXCLUDES
        rows = self.table.add(owner, conjuncts, region, residuals) if conjuncts else _NONE
        columns = self.owners.columns
        columns.row[owner], columns.rows[owner] = rows[0] if len(rows) else -1, len(rows)
        columns.radius[owner] = region.radius if isinstance(region, Circle) else np.nan
        self.apart.put(owner, region, len(rows))
        columns.traits[owner] = traits
        if (np.diff(rows) != 1).any():
            self.scatter(owner, rows)
        self._waiting += rows.tolist()

    def owner_of(self, id: str) -> int | None:
        """The owner number of a subscription."""
        owner = self.owners.find(id)
        return None if owner < 0 else owner

    def _has(self, id: str, trait: int) -> bool:
        owner = self.owners.find(id)
        return owner >= 0 and bool(self.owners.columns.traits[owner] & trait)

    def asks_more(self, id: str) -> bool:
        """Whether a subscription asks for more than its rows say."""
        return self._has(id, ASKS) or (self.apart.bounded and self.owners.find(id) in self.apart)

    def asks_more_of(self, ids: list[str]) -> bool:
        """Whether one of these subscriptions asks for more than its rows say."""
        if self.apart.bounded:
            return any(map(self.asks_more, ids))
        traits = self.owners.columns.traits
        if not (traits & ASKS).any():
            return False
        owners = self.owners_of(ids)
        return bool((traits[owners[owners >= 0]] & ASKS).any())

    def has_keys(self, id: str) -> bool:
        """Whether a subscription requires keys of its messages."""
        return self._has(id, KEYED)

    def _query(self, owner: int) -> str | None:
        wordless = self.owners.columns.traits[owner] & WORDLESS
        return None if wordless else self.owners.queries[owner]

    def has_any(self, ids: list[str]) -> bool:
        """Whether one of these ids is there."""
        return len(self.owners) > 0 and bool((self.owners_of(ids) >= 0).any())

    def owners_of(self, ids: list[str]) -> Int32s:
        """The owner numbers of subscriptions, NO_OWNER for those that are not there."""
        return self.owners.find_some(ids)

    def rows_of(self, id: str) -> Int32s:
        """The rows of a subscription that is there."""
        return self._rows(self.owners.find(id))

    def _rows(self, owner: int) -> Int32s:
        columns = self.owners.columns
        if columns.traits[owner] & SCATTERED:
            return self._scattered[owner]
        first = int(columns.row[owner])
        return np.arange(first, first + int(columns.rows[owner]), dtype=np.int32)

    def one_row(self, owners: Int32s, circles: bool) -> tuple[Int32s, npt.NDArray[np.bool_]]:
        """The one row of each owner, and whether it has just one, a box or else a circle."""
        columns = self.owners.columns
        traits = columns.traits[owners]
        fits = (traits & KIND) == (CIRCLE if circles else BOX)
        fits &= (columns.rows[owners] == 1) & (traits & EXCLUDES == 0)
        return columns.row[owners], fits

    def placement(self, owner: int, region: Region) -> Placement | None:
        """How to move a subscription within its rows; None if it needs other rows."""
        kind = int(self.owners.columns.traits[owner]) & KIND
        bounds = region.bounds()
        if kind not in (BOX, CIRCLE) or _KINDS.get(type(region)) != kind:
            return None
        if self.apart.bounded and owner in self.apart:
            return None
        rows = self._rows(owner)
        sides = 1 if len(rows) == 1 else len(self._region(owner).bounds())
        if len(bounds) != sides:
            return None
        boxes = np.tile(np.array(bounds), (len(rows) // sides, 1))
        circles = None
        if isinstance(region, Circle):
            circles = np.tile(np.array([*region.center, region.limit]), (len(rows), 1))
        return Placement(rows, boxes, circles, sides == 1)

    def place(self, owner: int, region: Region, placement: Placement) -> None:
        """Store another region in the rows of a subscription."""
        self.shift(placement)
        columns = self.owners.columns
        columns.traits[owner] &= ~np.uint8(ANYWHERE)
        if isinstance(region, Circle):
            columns.radius[owner] = region.radius
        if owner in self.apart:
            self.apart.put(owner, region, 0)

    def have_regions(self, owners: Int32s) -> None:
        """Note that subscriptions have a region from now on."""
        self.owners.columns.traits[owners] &= ~np.uint8(ANYWHERE)

    def keep_radii(self, owners: Int32s, radii: Floats) -> None:
        """Note the radii of subscriptions that are one circle each."""
        self.owners.columns.radius[owners] = radii

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

    def put_columns(self, new: NewSubscriptions) -> tuple[Int32s, npt.NDArray[np.bool_]]:
        """Add many new subscriptions; return the owner of each, and which were not added."""
        self.settle()
        self._order = None
        if (new.regions.kinds > REGION_BOX).any():
            warm_up(self._kind, "shapes")
        owners, rows = put_columns(self, new)
        if self.table.live <= _GROWTH * len(rows):
            warm_up(self._kind, "bulk")
            self.index.build()
        else:
            self.index.insert(rows)
        return owners, owners < 0

    def scatter(self, owner: int, rows: Int32s) -> None:
        """Note that the rows of an owner do not follow each other."""
        self.owners.columns.traits[owner] |= SCATTERED
        self._scattered[owner] = rows

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        owner = self.owners.find(id)
        self._order = None
        self._withdraw(owner)
        self.owners.remove(np.array([owner], np.int32))
        self.terms.sweep()

    def drop_some(self, ids: list[str]) -> None:
        """Remove many subscriptions at once; unknown ones are ignored."""
        owners = self.owners_of(ids)
        self.drop_owners(owners[owners >= 0])

    def drop_owners(self, owners: Int32s) -> None:
        """Remove many subscriptions by number."""
        rows = [self._rows(owner) for owner in owners.tolist()]
        for owner in owners.tolist():
            self._forget(owner)
        self.owners.remove(owners)
        self._order = None
        self._take_out(np.concatenate([_NONE, *rows]))

    def wanting(self, arrived: ArrivedMessage) -> list[str]:
        """The ids of the subscriptions that match one message, from the index."""
        self.settle(1)
        message = arrived.message
        if message.point is not None and isinstance(self.index, RarestTerm):
            return self._meeting(self.single.wanting(self, arrived), message)
        known = self.operands.known(self.terms, arrived)
        if not len(known):
            return []
        self.table.frequency[known] += 1
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
        return self._meeting(self._names(owners), message)

    def _meeting(self, names: list[str], message: Message) -> list[str]:
        """Those subscriptions that a message meets, of those whose rows it matches."""
        if not self.apart.bounded:
            return names
        return [id for id in names if self.apart.meets(self.owners.find(id), message)]

    def _names(self, owners: Int32s) -> list[str]:
        ids = self.owners.ids
        if len(owners) < _FEW:
            return [ids[owner] for owner in owners.tolist()]
        names: list[str] = ids.take(owners).to_pylist()
        return names

    def read(
        self, texts: pa.StringArray, carried: CarriedColumns | None = None
    ) -> TextBatch | KeyedMessages:
        """The terms of messages, and their keys if a query asks for more than terms."""
        if self.operands.is_plain:
            return self.terms.read(texts)
        properties = None if carried is None else carried.properties
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
        return self.apart.within(found, boxes) if self.apart.bounded else found

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions."""
        return (self._subscription(owner) for owner in self.owners.live().tolist())

    def boxes(self) -> Floats:
        """The bounding box of each that has a region; of one with several rows, of its first."""
        rows = self.table.rows
        kept = rows.owner != NO_OWNER
        kept[kept] = self.owners.columns.traits[rows.owner[kept]] & ANYWHERE == 0
        shared = np.flatnonzero(kept & (rows.flags & SHARED != 0))
        kept[shared] = False
        kept[shared[np.unique(rows.owner[shared], return_index=True)[1]]] = True
        boxes: Floats = np.take(rows.box, np.flatnonzero(kept), axis=0)
        return boxes

    def names_in_order(self, owners: Int32s) -> tuple[pa.StringArray, Int32s]:
        """Ids in alphabetical order, of these owners at least, and the rank of each owner there.

        The order of all ids is computed when as many have been asked for one by one, and kept until
        the ids change.
        """
        count = len(self.owners.ids)
        self._named += len(owners)
        if self._order is None and self._named < count:
            some = np.unique(owners)
            return in_order(self.owners.ids.take(some), some, count)
        if self._order is None:
            everyone = self.owners.live()
            self._order = in_order(self.owners.ids.take(everyone), everyone, count)
            self._named = 0
        return self._order

    def _subscription(self, owner: int) -> Subscription:
        anywhere = self.owners.columns.traits[owner] & ANYWHERE
        region = None if anywhere else self._region(owner)
        return Subscription(self.owners.ids[owner], self._query(owner), region)

    def _region(self, owner: int) -> Region:
        if owner in self.apart:
            return self.apart[owner]
        columns, rows = self.owners.columns, self.table.rows
        kind, own = int(columns.traits[owner]) & KIND, self._rows(owner)
        shapes = rows.terms[rows.first[own] - 1]
        if kind == CIRCLE:
            lon, lat, _ = rows.circles[shapes[0]].tolist()
            return Circle((lon, lat), float(columns.radius[owner]))
        if kind == POLYGON:
            return self._polygon(int(shapes[0]))
        if kind == SEVERAL:  # each conjunct has a row for each of them
            each = dict.fromkeys(shapes.tolist())
            return MultiPolygon.of_polygons([self._polygon(shape) for shape in each])
        west, south, east, north = rows.box[own[0]].tolist()
        if len(own) > 1 and east == 180.0:
            # The next row is another conjunct's, or what is beyond the antimeridian.
            other = rows.box[own[1]].tolist()
            if other != [west, south, east, north]:
                east = other[2]
        return Box(west, south, east, north)

    def _polygon(self, shape: int) -> Polygon:
        """A polygon of the table."""
        rows = self.table.rows
        edges = rows.starts[rows.rings[shape] : rows.rings[shape + 1] + 1].tolist()
        some = slice(edges[0], edges[-1])
        pairs = list(zip(rows.lons[some].tolist(), rows.lats[some].tolist(), strict=True))
        return polygon_of(pairs, edges)

    def _forget(self, owner: int) -> None:
        """Forget what an owner asks for, and its region."""
        columns = self.owners.columns
        if columns.traits[owner] & ASKS:
            rows = self._rows(owner)
            rows = rows[self.table.rows.flags[rows] & RESIDUAL != 0]
            numbers = dict.fromkeys(self.table.residuals_of(rows).tolist())
            self.operands.drop(self._conjuncts(owner), numbers)
        self.apart.drop(owner)
        self._scattered.pop(owner, None)

    def _withdraw(self, owner: int) -> None:
        rows = self._rows(owner)
        self._forget(owner)
        columns = self.owners.columns
        columns.row[owner], columns.rows[owner], columns.traits[owner] = -1, 0, 0
        self._take_out(rows)

    def _take_out(self, rows: Int32s) -> None:
        if len(rows):
            self.settle()
            reusable = self.index.delete(rows)
            self.table.remove(rows)
            self.table.release(reusable)
