"""Restores an engine from its file: all subscriptions first, then the messages in order.

Messages are published again at their own times, without reporting updates: so the window and the
active messages are rebuilt in the same way in which they were first built.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from nearcast.engine.applying import apply_events
from nearcast.engine.changes import EngineChanges
from nearcast.engine.core import EventCore
from nearcast.errors import DamagedStoreError
from nearcast.events import Message, Publish, Subscribe
from nearcast.store.messages import columns_of, lasting_of, messages_of, window_of
from nearcast.store.snapshot import Snapshots
from nearcast.store.subscriptions import (
    Row,
    all_rows,
    ranked_rows,
    some_rows,
    subscription_of,
)

if TYPE_CHECKING:
    from nearcast.engine.indexed import Indexed

_AT_A_TIME = 200_000


def restore_subscriptions(core: EventCore, rows: Iterator[Row], at: float | None) -> None:
    """Add the boolean subscriptions among some rows to a core, all at one time."""
    while some := list(islice(rows, _AT_A_TIME)):
        if not core.plain:
            some = _in_bulk(cast("Indexed", core), some)
        for row in some:
            subscription = subscription_of(row)
            if subscription.top is None:
                core.apply(Subscribe(subscription, at))


def _in_bulk(core: Indexed, rows: list[Row]) -> list[Row]:
    """Add those with plain words and plain boxes as columns, and return the others."""
    plain: list[Row] = []
    others: list[Row] = []
    for row in rows:
        _, query, west, _, east, _, region, k, _ = row
        fits = region is None and k is None and isinstance(query, str) and west <= east
        (plain if fits and _plain_words(query) else others).append(row)
    if plain:
        from nearcast.engine.bulk import put_boxes

        ids, queries = [row[0] for row in plain], [row[1] for row in plain]
        boxes = np.array([row[2:6] for row in plain], np.float64)
        if put_boxes(core.boolean, ids, pa.array(queries, pa.string()), boxes) is None:
            others += plain
    return others


def _plain_words(query: str) -> bool:
    return not ("(" in query or ")" in query or "AND" in query or "OR" in query or "NOT" in query)


def restore_messages(
    core: EventCore, window: list[pa.RecordBatch], lasting: Iterator[tuple[int, Message]]
) -> None:
    """Publish the stored messages again in order, without reporting updates."""
    late = next(lasting, None)
    for batch in window:
        seqs = batch.column("seq").to_numpy()
        done = 0
        while late is not None and late[0] <= seqs[-1]:
            place = int(np.searchsorted(seqs, late[0]))
            outside: list[Message] = []  # these have left the window already
            while late is not None and late[0] < seqs[place]:
                outside.append(late[1])
                late = next(lasting, None)
            if outside:
                _publish_columns(core, batch.slice(done, place - done))
                _publish(core, *outside)
                done = place
            else:
                late = next(lasting, None)  # the same message, stored twice
        _publish_columns(core, batch.slice(done))
    if late is not None:
        _publish(core, late[1], *(message for _, message in lasting))


def _publish(core: EventCore, *messages: Message) -> None:
    for outcome in apply_events(core, map(Publish, messages), EngineChanges(0, 0)):
        if outcome.error is not None:
            raise DamagedStoreError(
                f"holds a message that does not fit ({outcome.error}); restore a backup"
            )


def _publish_columns(core: EventCore, batch: pa.RecordBatch) -> None:
    """Publish messages of the window, as columns where that is possible."""
    if not len(batch):
        return
    if not core.plain and _as_columns(cast("Indexed", core), batch):
        return
    _publish(core, *messages_of(batch))


def _as_columns(core: Indexed, batch: pa.RecordBatch) -> bool:
    columns = columns_of(batch) if core.takes_columns else None
    if columns is None or core.uses_any(columns.ids):
        return False
    from nearcast.engine.bulk import publish_messages

    publish_messages(core, columns, EngineChanges(0, 0))
    return True


def restore(core: EventCore, connection: sqlite3.Connection, snapshots: Snapshots) -> None:
    """Bring an empty core to the state of the file."""
    window = window_of(connection)
    now, early = connection.execute(
        "SELECT now, (SELECT at FROM lasting ORDER BY seq LIMIT 1) FROM state"
    ).fetchone()
    times = [now, early, window[0].column("at")[0].as_py() if window else None]
    first = min((time for time in times if time is not None), default=None)
    changed = None if core.plain else snapshots.load(core)
    if changed is not None:
        cast("Indexed", core).boolean.drop_some(changed)
        restore_subscriptions(core, some_rows(connection, changed), first)
    else:
        restore_subscriptions(core, all_rows(connection), first)
        snapshots.built(core)
    restore_messages(core, window, lasting_of(connection))
    if now is not None:
        core.advance(now)
    _restore_ranked(core, ranked_rows(connection))


def _restore_ranked(core: EventCore, rows: Iterator[Row]) -> None:
    """Add the top-k subscriptions, which find their results in the window."""
    while some := list(islice(rows, _AT_A_TIME)):
        if not core.plain:
            some = _ranked_in_bulk(cast("Indexed", core), some)
        for row in some:
            core.apply(Subscribe(subscription_of(row)))


def _ranked_in_bulk(core: Indexed, rows: list[Row]) -> list[Row]:
    """Add those with plain words as columns, and return the others."""
    plain: list[Row] = []
    others: list[Row] = []
    for row in rows:
        fits = isinstance(row[1], str) and _plain_words(row[1])
        (plain if fits else others).append(row)
    if plain:
        ids, queries, lons, lats, _, _, _, ks, alphas = zip(*plain, strict=True)
        points = np.column_stack([lons, lats]).astype(np.float64)
        found = core.ranked.put_columns(
            list(ids), pa.array(queries, pa.string()), points,
            np.array(alphas, np.float64), np.array(ks, np.int32),
        )  # fmt: skip
        if found is None:
            return rows
        core.ranked.forget_changes()
    return others
