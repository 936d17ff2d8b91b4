"""Events and updates as columns of Arrow, after the table of their fields."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from nearcast.events.fields import (
    EVENT_FIELDS,
    NUMBER,
    TEXT,
    UPDATE_FIELDS,
    WHOLE,
    Field,
    Kind,
    Many,
)

_PLAIN = {TEXT: pa.string(), NUMBER: pa.float64(), WHOLE: pa.int64()}


def arrow_type(kind: Kind) -> pa.DataType:
    """The type of a column with values of a kind."""
    if isinstance(kind, str):
        return _PLAIN[kind]
    if isinstance(kind, Many):
        return pa.list_(arrow_type(kind.of))
    return pa.struct([(name, arrow_type(each)) for name, each in kind.fields])


def _schema(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema(
        [pa.field(each.name, arrow_type(each.kind), not each.required) for each in fields]
    )


EVENT_SCHEMA = _schema(EVENT_FIELDS)
"""The columns of an event log; absent values are nulls."""

UPDATE_SCHEMA = _schema(UPDATE_FIELDS)
"""The columns of updates; only `add` for a top-k subscription has a score."""
