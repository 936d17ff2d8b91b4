"""The event log as Parquet: its fields as columns, absent values as nulls.

`region`, `point` and `top` are read as structs and lists or as their JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.errors import NearcastError, SourceError
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.fields import EVENT_FIELDS, JSON, STRUCTURED
from nearcast.events.log import decode_json
from nearcast.events.sized import SizedObject
from nearcast.events.streams import ByteSink
from nearcast.geo.codec import POLYGONS

ROWS_AT_A_TIME = 8192

_AS_TEXT = tuple(field.name for field in EVENT_FIELDS if field.kind == JSON)


def _from_text(value: object) -> object:
    """Read a value given as JSON text; what is broken about it will show when it is checked."""
    if not isinstance(value, str):
        return value
    try:
        return decode_json(value.encode())
    except NearcastError:
        return value


def _sized_from_text(value: object) -> object:
    """Read an object of limited size given as JSON text; the limit is about that text."""
    read = _from_text(value)
    if isinstance(value, str) and type(read) is dict:
        return SizedObject(read, len(value.encode()))
    return read


def event_columns(names: list[str]) -> list[str]:
    """The columns that are ours, in the order of the schema."""
    for name in EVENT_SCHEMA.names:
        if names.count(name) > 1:
            raise SourceError(f"has more than one column {name!r}; keep one")
    return [name for name in EVENT_SCHEMA.names if name in names]


def _values_of(column: pa.Array) -> list[Any]:
    """The values of a column; what claims to be text and is not stays bytes, for the checks."""
    try:
        return cast("list[Any]", column.to_pylist())
    except UnicodeDecodeError:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise
        return [_text_or_bytes(value) for value in column.cast(pa.large_binary()).to_pylist()]


def _text_or_bytes(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def _rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = event_columns(batch.schema.names)
    values = [_values_of(batch.column(name)) for name in columns]
    for at, column in enumerate(columns):
        if column in STRUCTURED:
            read = _sized_from_text if column in _AS_TEXT else _from_text
            values[at] = [read(value) for value in values[at]]
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def table_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with the columns of the event log as mappings."""
    for batch in table.to_batches(max_chunksize=ROWS_AT_A_TIME):
        yield from _rows_of(batch)


def read_rows(file: BinaryIO, name: str) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield the rows of a Parquet file as mappings, each with the part of the file read so far."""
    try:
        parquet = pq.ParquetFile(file)
        columns = event_columns(parquet.schema_arrow.names)
        for needed in ("op", "id"):
            if needed not in columns:
                raise SourceError(f"has no column {needed!r}; an event log needs op and id")
        rows, total = 0, parquet.metadata.num_rows
        for batch in parquet.iter_batches(batch_size=ROWS_AT_A_TIME, columns=columns):
            for fields in _rows_of(batch):
                rows += 1
                yield fields, rows / total
    except SourceError as error:
        raise SourceError(f"{name}: {error}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise SourceError(
            f"{name}: not a readable Parquet file: {reason.rstrip('.')}; get a complete copy of it"
        ) from None


def as_row(fields: dict[str, Any]) -> dict[str, Any]:
    """Turn an event in its JSON form into a row of a table, where a field has one type."""
    written: dict[str, Any] = {
        name: msgspec.json.encode(fields[name]).decode()
        for name in _AS_TEXT
        if isinstance(fields.get(name), dict)
    }
    region = fields.get("region")
    if isinstance(region, dict) and region.get("type") == "MultiPolygon":
        parts = region.get("coordinates", region.get(POLYGONS))
        written["region"] = {"type": "MultiPolygon", POLYGONS: parts}
    return fields | written if written else fields


class ParquetSink:
    """Gathers events and writes them as row groups."""

    def __init__(self, file: ByteSink, rows_per_group: int = 1 << 16) -> None:
        self._rows: list[dict[str, Any]] = []
        self._rows_per_group = rows_per_group
        self._writer = pq.ParquetWriter(file, EVENT_SCHEMA, compression="zstd")

    def write(self, fields: dict[str, Any]) -> None:
        """Take one event in its JSON form."""
        self._rows.append(as_row(fields))
        if len(self._rows) >= self._rows_per_group:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=EVENT_SCHEMA))
        self._rows.clear()

    def close(self) -> None:
        """Write what is left and the end of the file."""
        if self._rows:
            self._flush()
        self._writer.close()
