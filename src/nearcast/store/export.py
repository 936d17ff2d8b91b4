"""The state of an engine's file as an event log: applied to a new engine, it gives the same state.

Messages come first, then subscriptions: so no message is matched again when it is published, and
the results of active messages and of top-k appear as the subscriptions are added. An active message
that was displaced from a window that is not full now must not be in it again: as many others as
the window has room for displace it, and are retracted at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from heapq import merge
from itertools import count, islice
from math import inf, nextafter
from pathlib import Path

from nearcast.engine.settings import GivenSettings
from nearcast.errors import StoreError
from nearcast.events import Event, Message, Publish, Retract, Subscribe
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
        yield from _messages(reader, window)
        for row in all_rows(reader):
            subscription, end = subscription_of(row)
            if end is not None:
                subscription = replace(subscription, ttl=_seconds_until(end, now))
            yield Subscribe(subscription, now)


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


def _seconds_until(end: float, now: float) -> float:
    """The `ttl` that leads from one time to another, exactly if there is such a number."""
    ttl = end - now
    for one in (ttl, nextafter(ttl, inf), nextafter(ttl, 0.0)):
        if now + one == end:
            return one
    return ttl


def _messages(reader: sqlite3.Connection, window: Window) -> Iterator[Event]:
    """Publish the messages that are in the window or active, in the order of their arrival."""
    table = window_of(reader, window)
    seqs = table["seq"].to_pylist()
    windowed = zip(seqs, messages_of(table), strict=True)
    known = frozenset(seqs)
    active = [pair for pair in lasting_of(reader) if pair[0] not in known]
    displaced = [seq for seq, message in active if message.point is not None]
    fillers: list[Message] = []
    if displaced and window.seconds is None:
        last = next(message for seq, message in active if seq == displaced[-1])
        used = {*table["id"].to_pylist(), *(message.id for _, message in active)}
        names = (name for n in count(1) if (name := f"filler-{n}") not in used)
        empty = (window.count or 0) - len(seqs)
        fillers = [Message(name, "", last.point, at=last.at) for name in islice(names, empty)]
    for seq, message in merge(windowed, active, key=lambda pair: pair[0]):
        yield Publish(message)
        if displaced and seq == displaced[-1]:
            yield from map(Publish, fillers)
    for filler in fillers:
        yield Retract(filler.id)
