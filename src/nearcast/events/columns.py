"""Events and updates as columns of Arrow, after the table of their fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.events.fields import (
    ADD,
    EVENT_FIELDS,
    JSON,
    NUMBER,
    TEXT,
    UPDATE_FIELDS,
    UPDATE_OPS,
    WHOLE,
    WITHOUT_BODY,
    Field,
    Kind,
    Many,
)

_PLAIN = {TEXT: pa.string(), NUMBER: pa.float64(), WHOLE: pa.int64(), JSON: pa.string()}


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
"""The columns of updates; `add` and `change` for a top-k subscription have a score."""

_OPS = pa.array(UPDATE_OPS)
_ADDS = _OPS[ADD]
_BARE = np.array([op in WITHOUT_BODY for op in UPDATE_OPS])


def op_numbers(names: pa.StringArray) -> pa.Array:
    """The ops of updates, given by name, as their numbers."""
    if pc.equal(names, _ADDS).true_count == len(names):  # as nearly always, and faster
        return pa.array(np.full(len(names), ADD, np.int8))
    return pc.index_in(names, _OPS).cast(pa.int8())


def updates_table(
    events: Any,
    ops: npt.NDArray[Any] | int,
    subscriptions: Any,
    messages: Any,
    scores: npt.NDArray[np.float64] | list[float | None] | None = None,
) -> pa.Table:
    """Put updates into columns; `ops` may be one for all of them.

    Of an array of scores those of removed messages are left out.
    """
    count = len(events)
    if scores is None:
        ranked = pa.nulls(count, pa.float64())
    else:
        removed = _BARE[ops] if isinstance(scores, np.ndarray) else None
        ranked = pa.array(scores, pa.float64(), mask=removed)
    columns = [
        pa.array(np.asarray(events, np.int64)),
        pa.repeat(_OPS[ops], count) if isinstance(ops, int) else _OPS.take(pa.array(ops)),
        _as_strings(subscriptions),
        _as_strings(messages),
        ranked,
    ]
    return pa.Table.from_arrays(columns, schema=UPDATE_SCHEMA)


def _as_strings(ids: Any) -> Any:
    if not isinstance(ids, pa.Array):
        return pa.array(ids, pa.string())
    return ids if ids.type == pa.string() else ids.cast(pa.string())
