"""Tables of events: flat columns of all rows that are valid, and an error for every other one.

Rows are checked as columns. What is not valid beyond doubt is read row by row by the classes of the
model, so a row means the same, and its error says the same, as in a log of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Floats, Int64s
from nearcast.errors import NearcastError
from nearcast.events import fields as names
from nearcast.events.carried import CarriedColumns
from nearcast.events.events import (
    Event,
    Move,
    Publish,
    Retract,
    Subscribe,
    Unsubscribe,
    event_from_json,
    id_of,
)
from nearcast.events.flat import (
    Mask,
    boxes_of,
    circles_of,
    column_of,
    floats_of,
    ids_of,
    points_of,
    polygons_of,
    present,
    strings_of,
    tops_of,
)
from nearcast.events.foreign import as_logged, is_foreign, regions_at, texts_as_regions, with_points
from nearcast.events.parquet import event_columns, table_rows
from nearcast.events.values import Message, Point, Subscription, Top
from nearcast.geo import Box, Circle, Region
from nearcast.geo.columns import plain_column
from nearcast.geo.region_columns import (
    ABSENT,
    BOX,
    CIRCLE,
    UNREAD,
    RegionArrays,
    no_regions,
    put_boxes,
    put_circles,
)

Codes = npt.NDArray[np.int8]

POINT, RANGE, SUBSCRIBE, UNSUBSCRIBE, MOVE, BAD, RANKED, SHIFT, OTHER = range(9)
"""What a row is; RANKED begins a top-k subscription, SHIFT moves one, and BAD has an error.

OTHER is an event with more than the columns hold: `CheckedEvents.others` has it."""

_OPS = [names.PUBLISH, names.SUBSCRIBE, names.UNSUBSCRIBE, names.MOVE]
_PUBLISH, _SUBSCRIBE, _UNSUBSCRIBE, _MOVE = range(4)


class CheckedEvents:
    """The rows of a table of events, checked; `op` says what all of them do if no column does.

    By row: `kinds`; `ids`, `texts` and `queries`; `points` (n, 2), `boxes` (n, 4), `circles` (n, 3)
    and `tops` (n, 2: k and alpha); `at` and `ttl` in seconds. What a row does not have is null or
    NaN. `others` are the events of kind OTHER.
    `shapes` has all regions as arrays, as far as they were read as columns, and `attributes` the
    `meta`, `ttl` and `ops` of rows of kind SUBSCRIBE that have some, without query and region.

    In a table of one `op`, regions and points may have all forms of `nearcast.geo.columns`, a
    point may be two columns `lon` and `lat`, and a row of kind SUBSCRIBE may lack a query or a
    region.

    With `with_carried` messages at points that carry something are no other events: `carried` has
    that, where it is given as text.
    """

    def __init__(
        self, table: pa.Table, op: str | None = None, *, with_carried: bool = False
    ) -> None:
        count = len(table)
        if op is not None:
            table = with_points(table)
        self._foreign = op is not None
        event_columns(table.schema.names)
        columns = {field.name: column_of(table, field.name) for field in names.EVENT_FIELDS}
        self.kinds: Codes = np.full(count, BAD, np.int8)
        self.errors: dict[int, NearcastError] = {}
        self._regions: dict[int, Region] = {}
        self.others: dict[int, Event] = {}
        self.attributes: dict[int, Subscription] = {}
        self.ids, identified = ids_of(columns["id"])
        self.texts, worded = strings_of(columns["text"])
        if op == names.PUBLISH and self.texts.null_count:
            absent = ~present(columns["text"])
            self.texts, worded = pc.fill_null(self.texts, ""), worded | absent
        self.queries, asking = strings_of(columns["query"])
        self.points, placed = points_of(columns["point"])
        self.at, timed = _seconds(columns["at"])
        self.ttl, lasting = _seconds(columns["ttl"])
        self.boxes: Floats = np.broadcast_to(np.nan, (count, 4))
        self.circles: Floats = np.broadcast_to(np.nan, (count, 3))
        self.tops: Floats = np.broadcast_to(np.nan, (count, 2))
        in_region, pointed = present(columns["region"]), present(columns["point"])
        sound = identified & timed
        does = _codes(columns["op"], op)
        more = {name: present(columns[name]) for name in ("filter", "meta", "ops")}
        publishes = sound & (does == _PUBLISH) & worded & lasting & ~(self.ttl < 0)
        carries = {name: present(columns[name]) for name in names.CARRIED}
        self.carried: CarriedColumns | None = None
        if with_carried and any(some.any() for some in carries.values()):
            self.carried = _carried({name: columns[name] for name in carries})
        for name, some in carries.items():
            publishes &= self._is_sure(name) | ~some
        unending = ~present(columns["ttl"])
        wordless = ~present(columns["query"]) if self._foreign else np.zeros(count, np.bool_)
        attributed = more["meta"] | more["ops"] | ~unending
        asks = sound & (does == _SUBSCRIBE) & (asking | wordless) & ~more["filter"]
        subscribes = asks & ~attributed
        moves = sound & (does == _MOVE) & unending
        placed &= ~in_region
        self.kinds[publishes & placed] = POINT
        self.kinds[sound & (does == _UNSUBSCRIBE)] = UNSUBSCRIBE
        self.kinds[moves & placed] = SHIFT
        topped = present(columns["top"])
        if topped.any():
            self.tops, good = tops_of(columns["top"])
            self.kinds[subscribes & placed & good & ~wordless] = RANKED
        self.shapes = no_regions(0)
        if in_region.any():
            self.shapes = self._read_regions(columns["region"])
            self.boxes, self.circles = self.shapes.boxes, self.shapes.circles
            self.kinds[publishes & (self.shapes.kinds == BOX) & ~pointed] = RANGE
            covered = (self.shapes.kinds >= BOX) & ~pointed
            self.kinds[(asks if self._foreign else subscribes) & covered & ~topped] = SUBSCRIBE
            self.kinds[moves & covered] = MOVE
        if self._foreign:
            anywhere = asks & ~(wordless | in_region | pointed | topped)
            self.kinds[anywhere] = SUBSCRIBE
            if anywhere.any() and not in_region.any():
                self.shapes = no_regions(count)
            with_some = np.flatnonzero((self.kinds == SUBSCRIBE) & attributed)
            self._read_attributes(table, with_some)
        self._look_closely(table, op, np.flatnonzero(self.kinds == BAD))

    def _is_sure(self, name: str) -> Mask | bool:
        """Which values of a field that messages carry are valid beyond doubt."""
        if name != "properties" or self.carried is None or self.carried.properties is None:
            return False
        return self.carried.properties.values.flat

    def __len__(self) -> int:
        return len(self.kinds)

    def _read_regions(self, column: pa.Array) -> RegionArrays:
        """Read the regions that are valid beyond doubt."""
        if self._foreign and not pa.types.is_struct(column.type):
            return texts_as_regions(plain_column(column))
        found = no_regions(len(column))
        boxes, boxed = boxes_of(column)
        circles, round_ = circles_of(column)
        found.kinds[present(column)] = UNREAD
        put_boxes(found, np.flatnonzero(boxed), boxes[boxed])
        put_circles(found, np.flatnonzero(round_), circles[round_])
        return polygons_of(column, found)

    def are_all(self, kind: int) -> bool:
        """Whether all rows are of one kind."""
        return bool((self.kinds == kind).all())

    def _read_attributes(self, table: pa.Table, rows: Int64s) -> None:
        """Read what no index looks at; a row with something that is not valid is BAD."""
        if not len(rows):
            return
        wanted = [name for name in ("id", "meta", "ttl", "ops") if name in table.column_names]
        for row, fields in _rows_at(table.select(wanted), rows):
            try:
                self.attributes[row] = Subscription(**fields, query="*")
            except NearcastError:
                self.kinds[row] = BAD

    def _look_closely(self, table: pa.Table, op: str | None, rows: Int64s) -> None:
        """Read single rows that are invalid, or merely unusual."""
        if not len(rows):
            return
        given = {} if op is None else {"op": op}
        strings: dict[int, tuple[str, str | None, str | None]] = {}
        arrow = regions_at(table, rows) if self._foreign else None
        for place, (row, fields) in enumerate(_rows_at(table, rows)):
            try:
                if arrow is not None:
                    fields["region"] = arrow.value(place)
                elif self._foreign and is_foreign(fields.get("region")):
                    fields["region"] = as_logged(fields["region"])
                event = event_from_json(fields | given)
            except NearcastError as error:
                self.errors[row] = error
                continue
            if not strings:
                # They are views of the table, or of one value for all rows.
                for name in ("points", "boxes", "circles", "tops", "at", "ttl"):
                    setattr(self, name, getattr(self, name).copy())
                shapes = self.shapes if len(self.shapes.kinds) else no_regions(len(self))
                self.shapes = shapes._replace(boxes=self.boxes, circles=self.circles)
            strings[row] = self._put(row, event)
        for place, name in enumerate(("ids", "texts", "queries")):
            column = getattr(self, name)
            wanted = {row: each[place] for row, each in strings.items() if each[place] is not None}
            if any(not column[row].is_valid for row in wanted):  # of a type that is no string
                whole = column.to_pylist()
                found = [wanted.get(n, value) for n, value in enumerate(whole)]
                setattr(self, name, pa.array(found, pa.string()))

    def _put(self, row: int, event: Event) -> tuple[str, str | None, str | None]:
        """Write an event to its row, apart from its strings, which are returned."""
        self.at[row] = np.nan if event.at is None else event.at
        if _has_more(event) and not self._holds(event):
            self.kinds[row], self.others[row] = OTHER, event
            return id_of(event), None, None
        match event:
            case Publish(message):
                self.kinds[row] = RANGE if message.point is None else POINT
                self.ttl[row] = message.ttl
                self.place(row, message.point, message.region)
                return message.id, message.text, None
            case Subscribe(subscription):
                self.kinds[row] = SUBSCRIBE if subscription.top is None else RANKED
                self.place(row, subscription.point, subscription.region)
                if subscription.top is not None:
                    self.tops[row] = subscription.top.k, subscription.top.alpha
                return subscription.id, None, subscription.query
            case Move(id, region, point):
                self.kinds[row] = SHIFT if region is None else MOVE
                self.place(row, point, region)
                return id, None, None
        self.kinds[row] = UNSUBSCRIBE
        return id_of(event), None, None

    def _holds(self, event: Event) -> bool:
        """Whether an event is a message at a point that carries no more than our columns have."""
        if self.carried is None or not isinstance(event, Publish):
            return False
        message = event.message
        return message.point is not None and message.carried.keys() <= self.carried.columns.keys()

    def place(self, row: int, point: Point | None, region: Region | None) -> None:
        """Write where one of the other events is, or asks for, to its row."""
        self.points[row] = np.nan if point is None else point
        self.boxes[row] = self.circles[row] = np.nan
        kinds = self.shapes.kinds
        kinds[row] = ABSENT if region is None else UNREAD
        if isinstance(region, Box):
            self.boxes[row] = region.west, region.south, region.east, region.north
            kinds[row] = BOX
        elif isinstance(region, Circle):
            self.circles[row], kinds[row] = (*region.center, region.radius), CIRCLE
        elif region is not None:
            self._regions[row] = region

    def region(self, row: int) -> Region:
        """The region of a row that has one."""
        if row in self._regions:
            return self._regions[row]
        if len(self.shapes.polygon) and self.shapes.polygon[row] >= 0:
            return self.shapes.polygons.region(int(self.shapes.polygon[row]))
        lon, lat, radius = self.circles[row].tolist()
        return Box(*self.boxes[row].tolist()) if np.isnan(lon) else Circle((lon, lat), radius)

    def events(self) -> Iterator[Event]:
        """Yield all rows as events; none may have an error."""
        columns = self.ids, self.texts, self.queries, self.kinds, self.at, self.ttl, self.points
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for row, (id, text, query, kind, at, ttl, place) in enumerate(rows):
            at, point = None if np.isnan(at) else at, None if np.isnan(place[0]) else place
            if kind == OTHER:
                yield self.others[row]
                continue
            if kind == UNSUBSCRIBE:
                yield Unsubscribe(id, at)
                continue
            absent = kind in (POINT, RANKED, SHIFT) or self.shapes.kinds[row] == ABSENT
            region = None if absent else self.region(row)
            if kind <= RANGE:
                ttl = 0.0 if np.isnan(ttl) else ttl
                given = {} if self.carried is None else self.carried[row]
                yield Publish(Message(id, text, point, region, at, ttl, **given))  # type: ignore[arg-type]  # a box
            elif kind in (MOVE, SHIFT):
                yield Move(id, region, point, at)
            else:
                top = Top(*self.tops[row].tolist()) if kind == RANKED else None
                made = Subscription(id, query, region, point, top)
                if row in self.attributes:
                    made = replace(self.attributes[row], query=query, region=region)
                yield Subscribe(made, at)


def _has_more(event: Event) -> bool:
    """Whether an event has more than the columns hold."""
    match event:
        case Publish(message):
            plain = message.region is None or isinstance(message.region, Box)
            return bool(message.carried) or not plain
        case Subscribe(one):
            if one.top is None:
                partial = one.query is None or one.region is None
            else:
                partial = one.region is not None or one.filter is not None
                partial |= one.top.scale is not None or one.top.min_score is not None
            extra = one.meta is not None or one.ttl is not None or one.ops is not None
            return partial or extra
        case Move(region=region, point=point, ttl=ttl):
            return ttl is not None or (region is not None and point is not None)
    return isinstance(event, Retract)


def _carried(columns: dict[str, pa.Array]) -> CarriedColumns | None:
    """What messages carry, as far as it is given as text."""
    texts = {
        name: strings_of(column)[0]
        for name, column in columns.items()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    }
    return CarriedColumns(texts) if texts else None


def _rows_at(table: pa.Table, rows: Int64s) -> Iterator[tuple[int, dict[str, Any]]]:
    """Some rows as mappings, with their numbers."""
    try:
        some = table_rows(table.take(pa.array(rows)))
    except pa.ArrowNotImplementedError:  # of views
        wanted = set(rows.tolist())
        return ((row, fields) for row, fields in enumerate(table_rows(table)) if row in wanted)
    return zip(rows.tolist(), some, strict=True)


def _seconds(column: pa.Array) -> tuple[Floats, Mask]:
    """Numbers of seconds, NaN for null, and which rows are finite or null."""
    seconds, given = floats_of(column)
    return seconds, (np.isfinite(seconds) & given) | ~present(column)


def _codes(column: pa.Array, op: str | None) -> npt.NDArray[Any]:
    if op is not None:
        return np.array(_OPS.index(op), np.int32)
    ops, good = strings_of(column)
    codes = pc.fill_null(pc.index_in(ops.cast(pa.string()), pa.array(_OPS)), -1).to_numpy()
    return np.where(good, codes, -1)
