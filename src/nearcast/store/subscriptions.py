"""Subscriptions as rows of the file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nearcast.engine.changes import Boxes
from nearcast.events import Subscription, Top
from nearcast.geo import Box, Region, region_from_json, region_to_json
from nearcast.store.packing import decode_text, encode_text

Row = tuple[Any, ...]

_PUT = "INSERT OR REPLACE INTO subscription VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_BOX = (
    "INSERT INTO subscription (id, query, west, south, east, north) VALUES (?, ?, ?, ?, ?, ?)"
)
_ALL = "SELECT id, query, west, south, east, north, region, k, alpha, more FROM subscription"


def row_of(subscription: Subscription, end: float | None) -> Row:
    """Write a subscription as a row, with the instant at which it ends."""
    region, top, point = subscription.region, subscription.top, subscription.point
    around: tuple[float | None, ...] = (None,) * 4
    if point is not None:
        around = (*point, *point)
    elif isinstance(region, Box):
        around, region = (region.west, region.south, region.east, region.north), None
    return (
        subscription.id,
        encode_text(subscription.query or ""),
        *around,
        None if region is None else json.dumps(region_to_json(region)),
        None if top is None else top.k,
        None if top is None else top.alpha,
        _more(subscription, end),
    )


def _more(subscription: Subscription, end: float | None) -> str | None:
    top = subscription.top
    more = {
        "filter": subscription.filter,
        "scale": None if top is None else top.scale,
        "min_score": None if top is None else top.min_score,
        "meta": subscription.meta,
        "ttl": subscription.ttl,
        "ops": subscription.ops,
        "end": end,
    }
    given = {name: value for name, value in more.items() if value is not None}
    return json.dumps(given) if given else None


def subscription_of(row: Row) -> tuple[Subscription, float | None]:
    """Read a subscription from its row, and the instant at which it ends."""
    id, query, west, south, east, north, shape, k, alpha, more = row
    given: dict[str, Any] = {} if more is None else json.loads(more)
    end = given.pop("end", None)
    region: Region | None = None if shape is None else region_from_json(json.loads(shape))
    if k is not None:
        given["top"] = Top(k, alpha, given.pop("scale", None), given.pop("min_score", None))
        given["point"] = (west, south)
    elif west is not None:
        region = Box(west, south, east, north)
    return Subscription(id, decode_text(query) or None, region, **given), end


def put_changes(connection: sqlite3.Connection, changed: Mapping[str, Row | None]) -> None:
    """Write subscriptions as they are now; None for those that are gone."""
    gone = [(id,) for id, row in changed.items() if row is None]
    connection.executemany("DELETE FROM subscription WHERE id = ?", gone)
    connection.executemany(_PUT, [row for row in changed.values() if row is not None])


def put_boxes(connection: sqlite3.Connection, new: Boxes) -> None:
    """Write many new subscriptions of plain boxes."""
    rows = [
        (id, query, *box)
        for id, query, box in zip(
            new.ids.to_pylist(), new.queries.to_pylist(), new.boxes.tolist(), strict=True
        )
    ]
    rows.sort(key=lambda row: row[0])  # in order, they fill one page after the other
    connection.executemany(_PUT_BOX, rows)


def all_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """All subscriptions as rows, in the order of their ids."""
    return connection.execute(f"{_ALL} ORDER BY id")


def some_rows(connection: sqlite3.Connection, ids: Iterable[str]) -> Iterator[Row]:
    """The subscriptions with some ids as rows, those of them that are there."""
    for id in ids:
        yield from connection.execute(f"{_ALL} WHERE id = ?", (id,))


def ranked_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """The top-k subscriptions as rows."""
    return connection.execute(f"{_ALL} WHERE k IS NOT NULL ORDER BY id")


def attributed_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """The boolean subscriptions that have more than a query and a region, as rows."""
    return connection.execute(f"{_ALL} WHERE more IS NOT NULL AND k IS NULL")
