"""Event logs for pipelines, which know no top-k, and what `scan` makes of them."""

from __future__ import annotations

import json
from typing import Any

from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import event_from_json
from nearcast.events.log import Record

Updates = set[tuple[int, str, str, str]]
"""Event, op, subscription, message."""


def boolean(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of a log a pipeline without top-k is for."""
    return [
        fields
        for fields in log
        if "top" not in fields and not (fields["op"] == "move" and "point" in fields)
    ]


def scanned(log: list[dict[str, Any]], chosen: Settings) -> tuple[Updates, set[int]]:
    """The updates of `scan`, and the positions of the events that it, or a pipeline, refuses."""
    engine, refused = Scan(chosen), set()
    found: Updates = set()
    for position, fields in enumerate(log):
        try:
            updates = engine.apply(event_from_json(fields))
        except NearcastError:
            refused.add(position)
            continue
        found |= {(position, each.op, each.subscription, each.message) for each in updates}
    return found, refused


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
