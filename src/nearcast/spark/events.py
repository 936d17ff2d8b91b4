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
from nearcast.geo.codec import POLYGONS

_OPEN = [field.with_nullable(True) for field in EVENT_SCHEMA]
_REGION = EVENT_SCHEMA.field("region").type
_EARLIER_REGION = pa.struct([field for field in _REGION if field.name != POLYGONS])

NORMAL = pa.schema([*_OPEN, ("problem", pa.string()), ("raw", pa.string())])
"""The columns of the event log; for what is no event, what is wrong with it and what it was."""


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
    """Whether a column has the type of the event log, or the one that an earlier release wrote."""
    kinds = (EVENT_SCHEMA.field(field.name).type, _EARLIER_REGION)
    return field.type in kinds[: 1 + (field.name == "region")]


def completed(table: pa.Table) -> pa.Table:
    """Give a table of normal columns those that it lacks, as nulls, and no others."""
    count = len(table)
    columns = [
        table[name] if name in table.column_names else pa.nulls(count, kind)
        for name, kind in zip(NORMAL.names, NORMAL.types, strict=True)
    ]
    place = NORMAL.get_field_index("region")
    if columns[place].type == _EARLIER_REGION:
        columns[place] = _with_polygons(columns[place])
    return pa.Table.from_arrays(columns, schema=NORMAL)


def _with_polygons(regions: pa.ChunkedArray) -> pa.ChunkedArray:
    """Regions that an earlier release wrote, none of which is a MultiPolygon, as those of today."""
    chunks = []
    for chunk in regions.chunks:
        none = pa.nulls(len(chunk), _REGION.field(POLYGONS).type)
        known = [chunk.field(place) for place in range(_EARLIER_REGION.num_fields)]
        parts = pa.StructArray.from_arrays(
            [*known, none], fields=list(_REGION), mask=chunk.is_null()
        )
        chunks.append(parts)
    return pa.chunked_array(chunks, _REGION)


def table_of(records: Iterable[Record]) -> pa.Table:
    """Put records of a log into a table, those that are no events with their problem."""
    return pa.Table.from_pylist([_fields(record) for record in records], schema=NORMAL)


def _fields(record: Record) -> dict[str, Any]:
    if record.event is not None:
        return as_row(event_to_json(record.event))
    return {"problem": str(record.error), "raw": raw_text(record.raw)}


def raw_text(raw: bytes | dict[str, Any]) -> str:
    """What was given, as text that can be kept."""
    if isinstance(raw, bytes):
        return raw.decode(errors="replace")
    return msgspec.json.encode(raw, enc_hook=repr).decode()
