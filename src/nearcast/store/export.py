"""The state of an engine's file as an event log: applied to a new engine, it gives the same state.

Messages come first, then subscriptions: so no message is matched again when it is published, and
the results of active messages and of top-k appear as the subscriptions are added.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from heapq import merge
from itertools import chain
from pathlib import Path

from nearcast.engine.settings import GivenSettings
from nearcast.errors import StoreError
from nearcast.events import Event, Message, Publish, Subscribe
from nearcast.store.connect import naming_file, open_reader
from nearcast.store.messages import lasting_of, messages_of, window_of
from nearcast.store.schema import APPLICATION, VERSION
from nearcast.store.settings import settle
from nearcast.store.subscriptions import all_rows, subscription_of
from nearcast.topk import Window


def export_events(path: Path) -> Iterator[Event]:
    """Yield the state of a file as events; it may be in use, and later changes are left out."""
    if not path.is_file():
        raise StoreError(f"{path}: no such file; expected the file of an engine")
    with closing(open_reader(path)) as reader, naming_file(path):
        reader.execute("BEGIN")
        _check(path, reader)
        window = settle(path, reader, GivenSettings()).window
        now = reader.execute("SELECT now FROM state").fetchone()[0]
        yield from map(Publish, _messages(reader, window, now))
        for row in all_rows(reader):
            yield Subscribe(subscription_of(row), now)


def _check(path: Path, reader: sqlite3.Connection) -> None:
    (whose,) = reader.execute("PRAGMA application_id").fetchone()
    (version,) = reader.execute("PRAGMA user_version").fetchone()
    if whose != APPLICATION:
        raise StoreError(f"{path}: holds something else, not an engine; choose another path")
    if version != VERSION:
        raise StoreError(
            f"{path}: is of version {version}, this release reads {VERSION}; "
            "open it once with this release, or use the one that wrote it"
        )


def _messages(reader: sqlite3.Connection, window: Window, now: float | None) -> Iterator[Message]:
    """The messages that are in the window or active, each once, in the order of their arrival."""
    batches = window_of(reader)
    total = sum(len(batch) for batch in batches)
    seqs = chain.from_iterable(batch.column("seq").to_pylist() for batch in batches)
    windowed = zip(seqs, chain.from_iterable(map(messages_of, batches)), strict=True)
    oldest = 0 if window.count is None else total - window.count
    counted = (
        pair
        for place, pair in enumerate(windowed)
        if place >= oldest and _in_window(pair[1], window, now)
    )
    before = 0
    for seq, message in merge(counted, lasting_of(reader), key=lambda pair: pair[0]):
        if seq != before:  # an active message at a point is stored twice
            yield message
        before = seq


def _in_window(message: Message, window: Window, now: float | None) -> bool:
    if window.seconds is None or now is None or message.at is None:
        return True
    return message.at > now - window.seconds
