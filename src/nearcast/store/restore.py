"""From the file back to memory: subscriptions first, all at once, then the messages in order.

Messages are published again, at their own times, with nobody listening: so the window and the
lasting messages come to be what they were by the same way that made them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from heapq import merge
from itertools import islice

import numpy as np
import pyarrow as pa

from nearcast.engine.applying import apply_events
from nearcast.engine.bulk import put_boxes
from nearcast.engine.changes import Changes
from nearcast.engine.core import Core
from nearcast.engine.indexed import Indexed
from nearcast.model import Message, Publish, Subscribe, Subscription
from nearcast.store.messages import chunks_of, lasting_of, messages_of
from nearcast.store.subscriptions import Row, all_rows, subscription_of

_AT_A_TIME = 200_000
_EVENTS_AT_A_TIME = 20_000


def restore_subscriptions(core: Core, rows: Iterator[Row]) -> list[Subscription]:
    """Give a core the boolean subscriptions, and give back the others."""
    ranked: list[Subscription] = []
    while some := list(islice(rows, _AT_A_TIME)):
        if isinstance(core, Indexed):
            some = _in_bulk(core, some)
        for row in some:
            subscription = subscription_of(row)
            if subscription.top is None:
                core.apply(Subscribe(subscription))
            else:
                ranked.append(subscription)
    return ranked


def _in_bulk(core: Indexed, rows: list[Row]) -> list[Row]:
    """Take in those with plain words and plain boxes as columns, and give back the others."""
    plain: list[Row] = []
    others: list[Row] = []
    for row in rows:
        _, query, west, _, east, _, region, k, _ = row
        fits = region is None and k is None and isinstance(query, str) and west <= east
        (plain if fits and _plain_words(query) else others).append(row)
    if plain:
        ids, queries = [row[0] for row in plain], [row[1] for row in plain]
        boxes = np.array([row[2:6] for row in plain], np.float64)
        if put_boxes(core.boolean, ids, pa.array(queries, pa.string()), boxes) is None:
            others += plain
    return others


def _plain_words(query: str) -> bool:
    return not ("(" in query or ")" in query or "AND" in query or "OR" in query or "NOT" in query)


def restore_messages(core: Core, connection: sqlite3.Connection) -> None:
    """Publish the messages that still count once more, to nobody."""
    windowed = (pair for batch in chunks_of(connection) for pair in messages_of(batch))
    ordered = merge(windowed, lasting_of(connection), key=lambda pair: pair[0])
    events = _each_once(ordered)
    while some := list(islice(events, _EVENTS_AT_A_TIME)):
        apply_events(core, some, Changes(0, 0))


def _each_once(ordered: Iterator[tuple[int, Message]]) -> Iterator[Publish]:
    """A lasting message at a point stands in a chunk and in a row."""
    before = 0
    for seq, message in ordered:
        if seq != before:
            before = seq
            yield Publish(message)


def restore(core: Core, connection: sqlite3.Connection) -> None:
    """Bring an empty core to the state of the file."""
    ranked = restore_subscriptions(core, all_rows(connection))
    restore_messages(core, connection)
    for subscription in ranked:
        core.apply(Subscribe(subscription))
    now = connection.execute("SELECT now FROM state").fetchone()[0]
    if now is not None:
        core.advance(now)
