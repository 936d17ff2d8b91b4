"""Event logs for pipelines that match messages once, and what `scan` makes of them."""

from __future__ import annotations

import json
from typing import Any

from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.model import event_from_json
from nearcast.model.log import Record

Pairs = set[tuple[int, str, str]]


def instant(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of a log a pipeline without top-k and lasting messages is for."""
    kept = []
    for fields in log:
        if "top" in fields or (fields["op"] == "move" and "point" in fields):
            continue
        if isinstance(fields.get("ttl"), int) and fields["ttl"] > 0:
            fields = {key: value for key, value in fields.items() if key != "ttl"}
        kept.append(fields)
    return kept


def scanned(log: list[dict[str, Any]], chosen: Settings) -> tuple[Pairs, set[int]]:
    """The updates of `scan`, and the positions of the events it refused."""
    engine, pairs, refused = Scan(chosen), set(), set()
    for position, fields in enumerate(log):
        try:
            updates = engine.apply(event_from_json(fields))
        except NearcastError:
            refused.add(position)
            continue
        pairs |= {(position, update.subscription, update.message) for update in updates}
    return pairs, refused


def records(log: list[dict[str, Any]]) -> list[Record]:
    """A log as its reader gives it."""
    found = []
    for position, fields in enumerate(log):
        raw = json.dumps(fields).encode()
        try:
            found.append(Record(position, position + 1, raw, event_from_json(fields), None))
        except NearcastError as error:
            found.append(Record(position, position + 1, raw, None, error))
    return found
