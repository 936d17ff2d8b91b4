"""Events as a table in one schema, whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.events import event_to_json
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.log import Record
from nearcast.events.parquet import as_row

_OPEN = [field.with_nullable(True) for field in EVENT_SCHEMA]

NORMAL = pa.schema([*_OPEN, ("problem", pa.string()), ("raw", pa.string())])
"""The columns of the event log; for what is refused, what is wrong with it and what it was."""


def is_normal(schema: pa.Schema) -> bool:
    """Whether a file has the columns of the event log in the types that are read directly."""
    names = [name for name in schema.names if name in EVENT_SCHEMA.names]
    return (
        "op" in names
        and "id" in names
        and len(set(names)) == len(names)
        and all(_is_read(schema.field(name)) for name in names)
    )


def _is_read(field: pa.Field) -> bool:
    """Whether a column has the type of the event log, or a part of it: earlier ones had less."""
    kind = EVENT_SCHEMA.field(field.name).type
    if not (pa.types.is_struct(kind) and pa.types.is_struct(field.type)):
        return bool(field.type == kind)
    given = [each.name for each in field.type]
    return len(set(given)) == len(given) and all(
        kind.get_field_index(each.name) >= 0 and kind.field(each.name).type == each.type
        for each in field.type
    )


def completed(table: pa.Table) -> pa.Table:
    """Give a table of normal columns those that it lacks, as nulls, and no others."""
    count = len(table)
    columns = [
        _widened(table[name], kind) if name in table.column_names else pa.nulls(count, kind)
        for name, kind in zip(NORMAL.names, NORMAL.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=NORMAL)


def _widened(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Give a column of structs the fields that it lacks, as nulls."""
    if column.type == kind:
        return column
    chunks = []
    for chunk in column.chunks:
        parts = [
            pa.nulls(len(chunk), each.type)
            if chunk.type.get_field_index(each.name) < 0
            else chunk.field(each.name)
            for each in kind
        ]
        chunks.append(pa.StructArray.from_arrays(parts, fields=list(kind), mask=chunk.is_null()))
    return pa.chunked_array(chunks, kind)


def table_of(records: Iterable[Record]) -> pa.Table:
    """Put records of a log into a table, those that are refused with their problem."""
    return pa.Table.from_pylist([_fields(record) for record in records], schema=NORMAL)


def _fields(record: Record) -> dict[str, Any]:
    if record.event is None:
        return {"problem": str(record.error), "raw": raw_text(record.raw)}
    return as_row(event_to_json(record.event))


def raw_text(raw: bytes | dict[str, Any]) -> str:
    """What was given, as text that can be kept."""
    if isinstance(raw, bytes):
        return raw.decode(errors="replace")
    return msgspec.json.encode(raw, enc_hook=repr).decode()
