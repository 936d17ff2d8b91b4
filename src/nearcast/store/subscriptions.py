"""Subscriptions as rows of the file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nearcast.engine.changes import Boxes
from nearcast.events import Subscription, Top
from nearcast.geo import Box, region_from_json, region_to_json
from nearcast.store.packing import decode_text, encode_text

Row = tuple[Any, ...]

_PUT = "INSERT OR REPLACE INTO subscription VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_BOX = (
    "INSERT INTO subscription (id, query, west, south, east, north) VALUES (?, ?, ?, ?, ?, ?)"
)
_ALL = "SELECT id, query, west, south, east, north, region, k, alpha FROM subscription"


def row_of(subscription: Subscription) -> Row:
    """Write a subscription as a row."""
    id, query = subscription.id, encode_text(subscription.query)
    region, top = subscription.region, subscription.top
    if top is not None and subscription.point is not None:
        return (id, query, *subscription.point, *subscription.point, None, top.k, top.alpha)
    if isinstance(region, Box):
        return (id, query, region.west, region.south, region.east, region.north, None, None, None)
    assert region is not None  # noqa: S101 - a subscription without top has a region
    shape = json.dumps(region_to_json(region))
    return (id, query, None, None, None, None, shape, None, None)


def subscription_of(row: Row) -> Subscription:
    """Read a subscription from its row."""
    id, query, west, south, east, north, region, k, alpha = row
    query = decode_text(query)
    if k is not None:
        return Subscription(id, query, point=(west, south), top=Top(k, alpha))
    if region is not None:
        return Subscription(id, query, region_from_json(json.loads(region)))
    return Subscription(id, query, Box(west, south, east, north))


def put_changes(connection: sqlite3.Connection, changed: Mapping[str, Subscription | None]) -> None:
    """Write subscriptions as they are now; None for those that are gone."""
    gone = [(id,) for id, subscription in changed.items() if subscription is None]
    connection.executemany("DELETE FROM subscription WHERE id = ?", gone)
    connection.executemany(_PUT, [row_of(s) for s in changed.values() if s is not None])


def put_boxes(connection: sqlite3.Connection, new: Boxes) -> None:
    """Write many new subscriptions of plain boxes."""
    rows = [
        (id, query, *box)
        for id, query, box in zip(new.ids, new.queries, new.boxes.tolist(), strict=True)
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
