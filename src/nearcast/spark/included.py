"""What updates carry besides ids: the message, and the `meta` of the subscription."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.events.bodies import ALL_INCLUDED, to_json
from nearcast.errors import InvalidValue

_OF_MESSAGE = ("text", "point", "region", "properties")
_TYPES = {"at": pa.float64(), "ttl": pa.float64()}

EVERYTHING = (*_OF_MESSAGE, "at", "ttl", "meta")
"""All columns that there may be."""


def columns_for(include: Iterable[str]) -> tuple[str, ...]:
    """The columns of updates for what is to be included: `message`, `meta`, or both."""
    names = [include] if isinstance(include, str) else list(include)
    for name in names:
        if name not in ALL_INCLUDED:
            raise InvalidValue("include", name, f"some of {', '.join(ALL_INCLUDED)}")
    message = _OF_MESSAGE if "message" in names else ()
    return (*message, *(["meta"] if "meta" in names else []))


def included_schema(columns: Sequence[str]) -> list[tuple[str, pa.DataType]]:
    """The columns with their types."""
    return [(name, _TYPES.get(name, pa.string())) for name in columns]


def with_included(
    updates: pa.Table, columns: Sequence[str], bodies: Any, metas: Any
) -> pa.Table:
    """Updates with more columns; `bodies` and `metas` are JSON, empty or null for none.

    `add` and `change` have the message.
    """
    if any(name != "meta" for name in columns):
        ops = updates["op"].to_pylist()
        found = [
            msgspec.json.decode(body) if body and op != "remove" else {}
            for body, op in zip(bodies.to_pylist(), ops, strict=True)
        ]
    for name, kind in included_schema(columns):
        if name == "meta":
            column: Any = pc.if_else(pc.equal(metas, ""), None, metas)
        elif name == "text" or name in _TYPES:
            column = pa.array([fields.get(name) for fields in found], kind)
        else:
            column = pa.array(
                [to_json(fields[name]).decode() if name in fields else None for fields in found],
                kind,
            )
        updates = updates.append_column(pa.field(name, kind), column)
    return updates
