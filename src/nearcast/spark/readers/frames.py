"""Frames that users have, as frames with the columns of the event log, or refused by column."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from nearcast.errors import InvalidValue, MissingField
from nearcast.events.fields import EVENT_FIELDS, JSON, NUMBER, TEXT, Field, Many, Struct
from nearcast.spark.readers.schema import spark_type
from nearcast.spark.readers.slices import SEQ

_BAD_LINES = ("raw", "error")  # beside what was read from lines of JSON
_MICROSECONDS = 1e6

_Convert = Callable[[Column], Column]


def as_events(frame: DataFrame) -> DataFrame:
    """The columns of the event log that a frame has, in types that are read; and no others.

    A type that means the same is converted: a time to seconds, a whole number as `id` to text, a
    struct or an array to JSON. Any other is refused, as is a frame without `op` or `id`.
    """
    if not isinstance(frame, DataFrame):
        raise InvalidValue("events", frame, "a DataFrame of Spark, streaming or not")
    types = {each.name: each.dataType for each in frame.schema.fields}
    _check_names(frame.columns)
    chosen = []
    for field in EVENT_FIELDS:
        if field.name in types and not isinstance(types[field.name], t.NullType):
            convert = _conversion(field, types[field.name])
            chosen.append(convert(f.col(field.name)).alias(field.name))
    if SEQ in types:
        if not isinstance(types[SEQ], t.IntegralType):
            raise _refused(SEQ, types[SEQ], "bigint, a number that grows along the log")
        chosen.append(f.col(SEQ).cast("bigint").alias(SEQ))
    if all(isinstance(types.get(name), t.StringType) for name in _BAD_LINES):
        chosen += [f.col(name) for name in _BAD_LINES]
    return frame.select(*chosen)


def _check_names(names: list[str]) -> None:
    ours = [*(field.name for field in EVENT_FIELDS), SEQ]
    for name in ours:
        alike = [each for each in names if each.lower() == name]
        if len(alike) > 1:  # Spark does not tell them apart by default
            raise InvalidValue("events", alike, f"one column {name!r}; drop or rename the others")
    for name in ("op", "id"):
        if name not in names:
            listed = ", ".join(names) or "none"
            raise MissingField(
                f"events.{name}", f"a column of that name; the frame has the columns {listed}"
            )


def _refused(name: str, given: t.DataType, expected: str) -> InvalidValue:
    return InvalidValue(f"events.{name}", given.simpleString(), expected)


def _conversion(field: Field, given: t.DataType) -> _Convert:
    """What makes of a column of a type one that is read."""
    kind, wanted = field.kind, spark_type(field.kind)
    if given.simpleString() == _simple(wanted) or isinstance(given, t.StringType):
        if kind == NUMBER and isinstance(given, t.StringType):
            raise _refused(field.name, given, "double; convert it with cast('double')")
        return _same
    if kind == TEXT:
        if field.name == "id" and isinstance(given, t.IntegralType):
            return lambda column: column.cast("string")
        raise _refused(field.name, given, "string; convert it with cast('string') if that is meant")
    if kind == NUMBER:
        return _number(field.name, given)
    if kind == JSON:
        if isinstance(given, t.StructType | t.MapType | t.VariantType):
            return f.to_json
        raise _refused(field.name, given, "an object, as JSON text, a struct or a map")
    if isinstance(kind, Struct):
        if isinstance(given, t.StructType) and kind.fields[0][0] in given.names:
            return f.to_json
        names = ", ".join(name for name, _ in kind.fields)
        raise _refused(field.name, given, f"JSON text, or a struct with some of {names}")
    assert isinstance(kind, Many)  # noqa: S101 - there is no other kind
    element = given.elementType if isinstance(given, t.ArrayType) else None
    if kind.of == NUMBER and isinstance(element, t.NumericType):
        return lambda column: column.cast(wanted)
    raise _refused(field.name, given, f"{wanted}, or the same as JSON text")


def _number(name: str, given: t.DataType) -> _Convert:
    if isinstance(given, t.NumericType):
        return lambda column: column.cast("double")
    if name == "at" and isinstance(given, t.TimestampType):
        return lambda column: f.unix_micros(column) / f.lit(_MICROSECONDS)
    if name == "at" and isinstance(given, t.TimestampNTZType | t.DateType):
        raise _refused(
            name, given, "seconds as double, or timestamp, which says in which time zone it is"
        )
    raise _refused(name, given, "double, in seconds")


def _same(column: Column) -> Column:
    return column


def _simple(written: str) -> str:
    """A type as Spark writes it."""
    return written.replace(", ", ",").replace(": ", ":")
