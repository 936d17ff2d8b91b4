"""Events as a table in one schema, whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.events import event_to_json
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.log import Record

_OPEN = [field.with_nullable(True) for field in EVENT_SCHEMA]

NORMAL = pa.schema([*_OPEN, ("problem", pa.string()), ("raw", pa.string())])
"""The columns of the event log; for what is no event, what is wrong with it and what it was."""


def is_normal(schema: pa.Schema) -> bool:
    """Whether a file has the columns of the event log in the types that are read directly."""
    names = [name for name in schema.names if name in EVENT_SCHEMA.names]
    return (
        "op" in names
        and "id" in names
        and len(set(names)) == len(names)
        and all(schema.field(name).type == EVENT_SCHEMA.field(name).type for name in names)
    )


def completed(table: pa.Table) -> pa.Table:
    """Give a table of normal columns those that it lacks, as nulls, and no others."""
    count = len(table)
    columns = [
        table[name] if name in table.column_names else pa.nulls(count, kind)
        for name, kind in zip(NORMAL.names, NORMAL.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=NORMAL)


def table_of(records: Iterable[Record]) -> pa.Table:
    """Put records of a log into a table, those that are no events with their problem."""
    return pa.Table.from_pylist([_fields(record) for record in records], schema=NORMAL)


def _fields(record: Record) -> dict[str, Any]:
    if record.event is not None:
        return event_to_json(record.event)
    return {"problem": str(record.error), "raw": raw_text(record.raw)}


def raw_text(raw: bytes | dict[str, Any]) -> str:
    """What was given, as text that can be kept."""
    if isinstance(raw, bytes):
        return raw.decode(errors="replace")
    return msgspec.json.encode(raw, enc_hook=repr).decode()
