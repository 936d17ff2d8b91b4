"""The columns of the event log and of the updates, as Spark writes them."""

from __future__ import annotations

REGION = (
    "struct<type: string, bbox: array<double>, center: array<double>, radius: double, "
    "coordinates: array<array<array<double>>>>"
)
EVENTS = (
    f"op string, id string, query string, text string, region {REGION}, point array<double>, "
    "top struct<k: bigint, alpha: double>, at double, ttl double"
)
"""The columns of an event log, as in `nearcast.events.parquet.EVENT_SCHEMA`."""

NUMBERED_EVENTS = f"{EVENTS}, seq bigint"
"""An event log whose events carry their place in it."""

UPDATES = "event bigint, op string, subscription string, message string, score double"
"""The columns of updates, as in `nearcast.engine.schema.UPDATE_SCHEMA`."""

LINES = (
    "op string, id string, query string, text string, region string, point string, top string, "
    "at double, ttl double, raw string, error string"
)
"""Events from lines of JSON: places as JSON text; a bad line has `error`, and all have `raw`."""
