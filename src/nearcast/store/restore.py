"""Restores an engine from its file: its subscriptions, then the messages in order.

Messages that are active or in the window go in by the code that took them in when they were
published, without updates. Top-k subscriptions come last, and find their results in the window.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.engine.core import EventCore
from nearcast.events import Message
from nearcast.events.fields import CARRIED
from nearcast.store.messages import columns_of, lasting_of, messages_of, window_of
from nearcast.store.snapshot import Snapshots
from nearcast.store.subscriptions import (
    Row,
    all_rows,
    attributed_rows,
    ranked_rows,
    some_rows,
    subscription_of,
)
from nearcast.topk import Window

if TYPE_CHECKING:
    from nearcast.engine.indexed import Indexed

_AT_A_TIME = 200_000
_WORTH_COLUMNS = 8  # fewer messages are faster one by one


def restore_subscriptions(core: EventCore, rows: Iterator[Row]) -> None:
    """Add the boolean subscriptions among some rows to a core."""
    rows = (row for row in rows if row[7] is None)
    while some := list(islice(rows, _AT_A_TIME)):
        if not core.plain:
            some = _in_bulk(cast("Indexed", core), some)
        for row in some:
            core.resume(*subscription_of(row))


def _in_bulk(core: Indexed, rows: list[Row]) -> list[Row]:
    """Add those that columns can have, and return the others."""
    from nearcast.engine.loading import NewSubscriptions
    from nearcast.geo.region_columns import put_boxes, regions_of_texts

    plain = [row for row in rows if row[9] is None and (row[1] is None or isinstance(row[1], str))]
    if not plain:
        return rows
    shapes = [None if row[6] is None else _text_of(row[6]) for row in plain]
    regions = regions_of_texts(pa.array(shapes, pa.string()))
    boxed = np.array([row[2] is not None for row in plain], np.bool_)
    boxes = np.array([row[2:6] for row, is_box in zip(plain, boxed, strict=True) if is_box])
    put_boxes(regions, np.flatnonzero(boxed), boxes.astype(np.float64).reshape(-1, 4))
    ids = pa.array([row[0] for row in plain], pa.string())
    queries = pa.array([row[1] or None for row in plain], pa.string())
    _, left = core.boolean.put_columns(NewSubscriptions(ids, queries, regions))
    kept = {row[0] for row, is_left in zip(plain, left.tolist(), strict=True) if not is_left}
    return [row for row in rows if row[0] not in kept]


def _text_of(shape: str | bytes) -> str:
    return shape if isinstance(shape, str) else shape.decode()


def _divided(rows: list[Row], fits: list[bool]) -> tuple[list[Row], list[Row]]:
    """Those rows that fit and whose queries are plain words, and the others."""
    from nearcast.text.columns import may_have_syntax

    some = [row for row, fit in zip(rows, fits, strict=True) if fit and isinstance(row[1], str)]
    odd = may_have_syntax(pa.array([row[1] for row in some], pa.string())).tolist()
    plain = [row for row, is_odd in zip(some, odd, strict=True) if not is_odd]
    ids = {row[0] for row in plain}
    return plain, [row for row in rows if row[0] not in ids]


def restore_messages(
    core: EventCore, window: pa.Table, lasting: Iterator[tuple[int, Message]]
) -> None:
    """Take in the stored messages again, in the order of their events."""
    seqs = window["seq"].to_numpy()
    outside = [(seq, message) for seq, message in lasting if not _is_in(seqs, seq)]
    places = np.searchsorted(seqs, [seq for seq, _ in outside]).tolist()
    done = 0
    for place, some in groupby(zip(places, outside, strict=True), lambda pair: int(pair[0])):
        _restore_window(core, window.slice(done, place - done))
        done = place
        _restore_active(core, [message for _, (_, message) in some])
    _restore_window(core, window.slice(done))


def _is_in(seqs: npt.NDArray[np.int64], seq: int) -> bool:
    place = int(np.searchsorted(seqs, seq))
    return place < len(seqs) and bool(seqs[place] == seq)


def _restore_window(core: EventCore, rows: pa.Table) -> None:
    """Take in messages of the window, as columns where that is possible."""
    if core.plain or not cast("Indexed", core).takes_columns:
        _one_by_one(core, messages_of(rows), in_window=True)
        return
    from nearcast.engine.bulk import bring_back

    for batch in rows.to_batches():
        carries = np.zeros(len(batch), np.bool_)
        for name in CARRIED:
            carries |= batch.column(name).is_valid().to_numpy(zero_copy_only=False)
        edges = [0, *(np.flatnonzero(np.diff(carries)) + 1).tolist(), len(batch)]
        for start, stop in pairwise(edges):
            part = batch.slice(start, stop - start)
            columns = columns_of(part) if len(part) >= _WORTH_COLUMNS else None
            if columns is None:
                _one_by_one(core, messages_of(part), in_window=True)
            else:
                bring_back(cast("Indexed", core), columns, in_window=True)


def _restore_active(core: EventCore, messages: list[Message]) -> None:
    """Take in active messages that are not in the window, as columns where that is possible."""
    if core.plain:
        _one_by_one(core, messages, in_window=False)
        return
    from nearcast.engine import runs
    from nearcast.engine.bulk import bring_back

    for together, some in groupby(messages, runs.is_at_point):
        run = list(some)
        columns = runs.columns_of(run) if together else None
        if columns is None:
            _one_by_one(core, run, in_window=False)
        else:
            bring_back(cast("Indexed", core), columns, in_window=False)


def _one_by_one(core: EventCore, messages: Iterable[Message], in_window: bool) -> None:
    for message in messages:
        core.bring_back(message, in_window)


def restore(
    core: EventCore, connection: sqlite3.Connection, window: Window, snapshots: Snapshots
) -> int:
    """Bring an empty core to the state of the file, and count the messages of the window."""
    (now,) = connection.execute("SELECT now FROM state").fetchone()
    if now is None:
        return 0  # nothing has happened yet
    core.advance(now)
    changed = None if core.plain else snapshots.load(core)
    if changed is not None:
        cast("Indexed", core).boolean.drop_some(changed)
        for row in attributed_rows(connection):
            core.attributes.put(*subscription_of(row))
        restore_subscriptions(core, some_rows(connection, changed))
    else:
        restore_subscriptions(core, all_rows(connection))
        snapshots.built(core)
    messages = window_of(connection, window)
    restore_messages(core, messages, lasting_of(connection))
    core.advance(now)
    _restore_ranked(core, ranked_rows(connection))
    return len(messages)


def _restore_ranked(core: EventCore, rows: Iterator[Row]) -> None:
    """Add the top-k subscriptions, which find their results in the window."""
    while some := list(islice(rows, _AT_A_TIME)):
        if not core.plain:
            some = _ranked_in_bulk(cast("Indexed", core), some)
        for row in some:
            core.resume(*subscription_of(row))


def _ranked_in_bulk(core: Indexed, rows: list[Row]) -> list[Row]:
    """Add those with plain words as columns, and return the others."""
    plain, others = _divided(rows, [row[6] is None and row[9] is None for row in rows])
    if plain:
        ids, queries, lons, lats, _, _, _, ks, alphas, _ = zip(*plain, strict=True)
        points = np.column_stack([lons, lats]).astype(np.float64)
        found = core.ranked.put_columns(
            list(ids), pa.array(queries, pa.string()), points,
            np.array(alphas, np.float64), np.array(ks, np.int32),
        )  # fmt: skip
        if found is None:
            return rows
        core.ranked.forget_changes()
    return others
