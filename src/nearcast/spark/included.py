"""What updates carry besides ids: the message, and the `meta` of the subscription."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidValue
from nearcast.events.bodies import ALL_INCLUDED, Include, to_json
from nearcast.events.fields import CARRIED, EVENT_FIELDS, TEXT, WITHOUT_BODY

_OF_MESSAGE = ("text", "point", "region", *CARRIED)
_PLAIN = {field.name for field in EVENT_FIELDS if field.kind == TEXT}
_TYPES = {"at": pa.float64(), "ttl": pa.float64()}


def columns_for(include: Iterable[str]) -> tuple[str, ...]:
    """The columns of updates for what is to be included: `message`, `meta`, or both."""
    names = [include] if isinstance(include, str) else list(include)
    for name in names:
        if name not in ALL_INCLUDED:
            raise InvalidValue("include", name, f"some of {', '.join(ALL_INCLUDED)}")
    message = _OF_MESSAGE if "message" in names else ()
    return (*message, *(["meta"] if "meta" in names else []))


def replay_columns(include: Include) -> tuple[str, ...]:
    """The columns that a replay needs: bodies have times too."""
    message = (*_OF_MESSAGE, *_TYPES) if include.message else ()
    return (*message, *(["meta"] if include.meta else []))


def has_messages(columns: Sequence[str]) -> bool:
    """Whether updates carry the message."""
    return any(name != "meta" for name in columns)


def body_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an update from its columns."""
    fields = {name: row[name] for name in (*_OF_MESSAGE, *_TYPES) if row.get(name) is not None}
    return {
        name: value if name in _PLAIN or name in _TYPES else msgspec.json.decode(value)
        for name, value in fields.items()
    }


def included_schema(columns: Sequence[str]) -> list[tuple[str, pa.DataType]]:
    """The columns with their types."""
    return [(name, _TYPES.get(name, pa.string())) for name in columns]


def with_included(updates: pa.Table, columns: Sequence[str], bodies: Any, metas: Any) -> pa.Table:
    """Updates with more columns; `bodies` and `metas` are JSON, empty or null for none.

    `add` and `change` have the message.
    """
    if has_messages(columns):
        ops = updates["op"].to_pylist()
        found = [
            msgspec.json.decode(body) if body and op not in WITHOUT_BODY else {}
            for body, op in zip(bodies.to_pylist(), ops, strict=True)
        ]
    for name, kind in included_schema(columns):
        if name == "meta":
            column: Any = pa.nulls(len(updates), kind)
            if metas is not None:
                column = pc.if_else(pc.equal(metas, ""), None, metas)
        elif name in _PLAIN or name in _TYPES:
            column = pa.array([fields.get(name) for fields in found], kind)
        else:
            column = pa.array(
                [to_json(fields[name]).decode() if name in fields else None for fields in found],
                kind,
            )
        updates = updates.append_column(pa.field(name, kind), column)
    return updates
