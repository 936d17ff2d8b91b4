"""The events of a batch as the registrar reads them: checked, with queries that are parsed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int64s
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError, QueryError
from nearcast.events import Message, Move, Publish, Retract, Subscribe, Subscription
from nearcast.events.flat import present
from nearcast.events.reader import MOVE, POINT, RANGE, RANKED, SHIFT, SUBSCRIBE, CheckedEvents
from nearcast.geo import Box
from nearcast.geo.circles import circle_columns
from nearcast.geo.region_columns import POLYGON
from nearcast.spark.deciding import RETRACT
from nearcast.spark.shaped import hull
from nearcast.text import EVERYTHING, Analyser, Query, parse_bag, parse_query
from nearcast.text.bulk import BulkQueries, read_queries
from nearcast.text.columns import hash_texts, may_have_syntax


def parsed_query(subscription: Subscription, analyser: Analyser) -> Query | None:
    """Parse the query of a boolean subscription, or check that of a top-k one, and its filter."""
    query, asked = subscription.query, subscription.filter
    if subscription.top is None:
        return EVERYTHING if query is None else parse_query(query, analyser)
    parse_bag(query or "", analyser)
    if asked is not None:
        try:
            parse_query(asked, analyser)
        except QueryError as error:
            raise error.of("filter") from None
    return None


class SubscriptionPlaces:
    """Where the subscriptions of a batch are to be, by row, if one plain box bounds them."""

    def __init__(self, checked: CheckedEvents) -> None:
        self.boxes, self.circles = checked.boxes, checked.circles  # NaN for boxes
        rows = np.flatnonzero(~np.isnan(self.circles[:, 0]))
        if len(rows):
            self.boxes, self.circles = self.boxes.copy(), self.circles.copy()
            circles = self.circles[rows]
            boxes, _, whole = circle_columns(circles[:, :2].copy(), circles[:, 2].copy())
            self.boxes[rows[whole]] = boxes[whole]
            self.circles[rows[~whole]] = np.nan
        self.plain = self.boxes[:, 0] <= self.boxes[:, 2]


class EventBatch:
    """The events of a batch, and the queries of those that are not plain words in a plain place.

    `subscriptions`, `messages` and `moves` are those with more than the columns hold, by row. The
    queries of the rows `bulk` were read as columns, and are in `read`.
    """

    def __init__(self, events: pa.Table, settings: Settings) -> None:
        self._settings = settings
        self.checked = CheckedEvents(events, with_carried=True)
        self.kinds = self.checked.kinds
        self.errors = {row: str(error) for row, error in self.checked.errors.items()}
        if "problem" in events.column_names:
            problems = events["problem"].combine_chunks()
            for row in np.flatnonzero(present(problems)).tolist():
                self.errors[row] = problems[row].as_py()
        self.flawed = np.zeros(len(events), np.bool_)  # events that cannot be taken as they are
        self.queries: dict[int, Query] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.messages: dict[int, Message] = {}
        self.moves: dict[int, Move] = {}
        for row, event in self.checked.others.items():
            self._put(row, event)
        self.places = SubscriptionPlaces(self.checked)
        shapes = self.checked.shapes
        self.polygons: Int64s = np.full(len(events), -1, np.int64)
        """By row: the place of a polygon that was read as a column, or -1."""
        if len(shapes.polygon):
            self.polygons = np.where(shapes.kinds == POLYGON, shapes.polygon, -1)
        placed = np.isin(self.kinds, (POINT, RANKED, SHIFT))
        for row in np.flatnonzero(settings.outside(self.checked.points) & placed).tolist():
            self._try(row, partial(settings.check_inside, tuple(self.checked.points[row].tolist())))
        self.bulk: Int64s = np.empty(0, np.int64)
        self.read: BulkQueries | None = None
        for row in self._special():
            self._parse(row)
        for row, subscription in self.subscriptions.items():
            self._try(row, partial(self._read, row, subscription))

    def carried(self, row: int) -> dict[str, Any]:
        """What a message carries."""
        if row in self.messages:
            return self.messages[row].carried
        columns = self.checked.carried
        return {} if columns is None else columns[row]

    def _put(self, row: int, event: Any) -> None:
        """Write an event with more than the columns hold to its row, as far as they hold it."""
        checked = self.checked
        match event:
            case Retract():
                self.kinds[row] = RETRACT
                return
            case Publish(message):
                self.kinds[row] = RANGE if message.point is None else POINT
                self.messages[row] = message
                checked.ttl[row] = message.ttl
                checked.place(row, message.point, message.region)
                if not isinstance(message.region, Box | None):  # known by the box around it
                    checked.boxes[row] = hull(message.region.bounds())
            case Subscribe(one):
                self.kinds[row] = SUBSCRIBE if one.top is None else RANKED
                self.subscriptions[row] = one
                checked.ttl[row] = np.nan if one.ttl is None else one.ttl
                checked.place(row, one.point, one.region if one.top is None else None)
                if one.top is not None:
                    checked.tops[row] = one.top.k, one.top.alpha
            case Move(region=region, point=point, ttl=ttl):
                self.kinds[row] = MOVE if point is None else SHIFT
                self.moves[row] = event
                checked.ttl[row] = np.nan if ttl is None else ttl
                checked.place(row, point, region if point is None else None)

    def _read(self, row: int, subscription: Subscription) -> None:
        query = parsed_query(subscription, self._settings.analyser)
        if query is not None:
            self.queries[row] = query

    def _special(self) -> list[int]:
        """The rows of subscriptions that have to be parsed."""
        boolean = self.kinds == SUBSCRIBE
        boolean[list(self.subscriptions)] = False
        shaped = boolean & (self.polygons >= 0)
        ranked = self.kinds == RANKED
        ranked[list(self.subscriptions)] = False
        asked = np.flatnonzero((boolean & self.places.plain) | ranked)
        queries = self.checked.queries.take(pa.array(asked))
        odd = may_have_syntax(queries)
        texts = hash_texts(queries.filter(pa.array(~odd)), self._settings.analyser)
        odd[np.flatnonzero(~odd)[np.diff(texts.starts) == 0]] = True  # no term at all
        rows = asked[odd]
        left = self._read_queries(np.concatenate([rows[boolean[rows]], np.flatnonzero(shaped)]))
        unusual = np.flatnonzero(boolean & ~self.places.plain & ~shaped)
        return [*rows[ranked[rows]].tolist(), *left.tolist(), *unusual.tolist()]

    def _read_queries(self, rows: Int64s) -> Int64s:
        """Read queries as columns; give the rows of those that are left."""
        rows = np.sort(rows)
        if not len(rows):
            return rows
        queries = self.checked.queries
        read = read_queries(queries.take(pa.array(rows)), self._settings.analyser)
        if read.left.all():
            return rows
        if read.left.any():
            self.bulk = rows[~read.left]
            self.read = read_queries(queries.take(pa.array(self.bulk)), self._settings.analyser)
        else:
            self.bulk, self.read = rows, read
        return rows[read.left]

    def _parse(self, row: int) -> None:
        query, analyser = self.checked.queries[row].as_py(), self._settings.analyser

        def parse() -> None:
            if self.kinds[row] == RANKED:
                parse_bag(query, analyser)
            else:
                self.queries[row] = parse_query(query, analyser)

        self._try(row, parse)

    def _try(self, row: int, check: Any) -> None:
        """Note the error that a check ends in; the first one counts."""
        try:
            check()
        except NearcastError as error:
            self.flawed[row] = True
            self.errors.setdefault(row, str(error))
