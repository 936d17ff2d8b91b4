"""The columns of the event log and of the updates, as Spark writes them."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.events.fields import (
    EVENT_FIELDS,
    JSON,
    NUMBER,
    STRUCTURED,
    TEXT,
    UPDATE_FIELDS,
    WHOLE,
    Field,
    Kind,
    Many,
)
from nearcast.spark.included import columns_for, included_schema

_PLAIN = {TEXT: "string", NUMBER: "double", WHOLE: "bigint", JSON: "string"}


def spark_type(kind: Kind) -> str:
    """The type of a column with values of a kind."""
    if isinstance(kind, str):
        return _PLAIN[kind]
    if isinstance(kind, Many):
        return f"array<{spark_type(kind.of)}>"
    return f"struct<{', '.join(f'{name}: {spark_type(each)}' for name, each in kind.fields)}>"


def _columns(fields: Iterable[Field]) -> str:
    return ", ".join(f"{each.name} {spark_type(each.kind)}" for each in fields)


EVENTS = _columns(EVENT_FIELDS)
"""The columns of an event log."""

NUMBERED_EVENTS = f"{EVENTS}, seq bigint"
"""An event log whose events carry their place in it."""

UPDATES = _columns(UPDATE_FIELDS)
"""The columns of updates."""


def updates_with(include: Iterable[str]) -> str:
    """The columns of updates with what they carry besides."""
    more = included_schema(columns_for(include))
    return ", ".join([UPDATES, *(f"{name} string" for name, _ in more)])


_AS_TEXT = [each._replace(kind=TEXT) if each.name in STRUCTURED else each for each in EVENT_FIELDS]
LINES = f"{_columns(_AS_TEXT)}, raw string, error string"
"""Events from lines of JSON: places as JSON text; a bad line has `error`, and all have `raw`."""
