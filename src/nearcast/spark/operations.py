"""Operations as columns: subscriptions that begin and end, and messages that last.

As logged, and as sent to shards.

An operation was checked and read once, by the registrar. What is left of it is ready to be entered
into an index: an *owner*, the number of one version of a subscription; hashes instead of terms; and
the sequence number from which on (or up to which) it counts. A replaced subscription ends under
its old owner and begins under a new one, so that messages before and after it find what was true
for them. A move does the same.

A message that lasts is an operation too, besides being matched as any other: shards keep it for
subscriptions that come later. Who gains and loses what by such a subscription, or by a move, is
asked by a *change*; see `placing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Int64s
from nearcast.text.columns import Hashes

PLAIN = 0
"""Begins: one conjunct without NOT, and one plain box."""
OTHER = 1
"""Begins: any other subscription."""
END = 2
"""Ends."""
LASTING = 3
"""A message that lasts."""
ROUND = 5
"""Begins: one conjunct without NOT, and one circle that a plain box bounds."""
CHANGE = 4
"""Asks what changed with the results of a subscription that began as `owner`, and was `was`."""
FORGET = 6
"""A subscription is held elsewhere from now on."""
RANKED = 7
"""Begins: a top-k subscription, which shards of boolean ones never see."""
GONE = 8
"""Ends a top-k subscription."""
WITHDRAWN = 9
"""An active message, `old`, ends with an event that replaces or retracts it; all shards hear it."""
PAST = 10
"""That message as it was, for the shards that must find out who had it among the results."""
REPLACING = 11
"""The message that takes its place; it is matched from here, and not as other messages are."""

EVERYONE = np.uint64(0xD2A0783EEBF198AB)
"""The hash of `"\\0*"`, a term that no text has: every message is given it.

A conjunct without terms requires it, so it is placed and found as any other.
"""

NEVER = 2**62
"""The sequence number of a *guest*: a subscription that a shard gets for one step only.

The shard holds none of its results, but must match it to answer for a change.
"""

_HASHES = pa.list_(pa.uint64())

_COMMON = [
    ("kind", pa.int8()),
    ("owner", pa.int32()),
    ("seq", pa.int64()),
    ("id", pa.string()),  # this and all that follows: where something begins
    ("box", pa.list_(pa.float64(), 4)),  # PLAIN, ROUND, LASTING; around all there is of OTHER
    ("terms", _HASHES),  # PLAIN, ROUND, LASTING
    ("region", pa.string()),  # OTHER, as JSON
    ("required", pa.list_(_HASHES)),  # OTHER: of each conjunct
    ("excluded", pa.list_(_HASHES)),
]

_MORE = [
    ("circle", pa.list_(pa.float64(), 3)),  # ROUND: longitude, latitude, metres
    ("asks", pa.string()),  # the query and the region, as JSON, if terms and boxes do not say all
    ("ops", pa.int8()),  # the ops that a subscription asks for, as bits; null for all
    ("meta", pa.string()),  # as JSON
]

_TOPS = [
    ("top", pa.list_(pa.float64())),  # RANKED: longitude, latitude, k and alpha
    ("definition", pa.string()),  # RANKED: all of it as JSON, if it has more than that
    ("until", pa.float64()),  # when a subscription ends by itself
]

_TIMES = [
    ("at", pa.float64()),  # LASTING and CHANGE: its time
    ("end", pa.float64()),  # LASTING: when it is no longer active; END, GONE: that it was by time
    ("body", pa.string()),  # LASTING, PAST, REPLACING: the message as JSON
    ("old", pa.int64()),  # WITHDRAWN: the sequence number of the message
]

BEGUN = pa.schema([*_COMMON, ("query", pa.string()), *_MORE, *_TOPS])
"""What the registrar keeps of a subscription while it lasts."""

LOG = pa.schema([*BEGUN, *_TIMES])
"""What the registrar writes down: all that is to be known of subscriptions, and lasting messages.

A log of the first version has no times and no lasting messages, and a circle is any other region;
one of the second has no top-k subscriptions. Up to the fourth there were neither messages that end
before their time nor anything that plain code has to decide, and the terms of lasting messages
lack `EVERYONE`.
"""

OPERATIONS = pa.schema(
    [
        *_COMMON,
        *_MORE,
        ("key", pa.uint64()),  # PLAIN, ROUND: the term by which the plan places it
        ("keys", _HASHES),  # OTHER: of each conjunct
        *_TIMES,
        ("was", pa.int32()),  # CHANGE: the version before, or -1; LASTING: -1 if it was elsewhere
    ]
)
"""What a shard reads."""


class BegunSubscriptions(NamedTuple):
    """Subscriptions that began: their owners, those they had before or -1, and when."""

    owner: npt.NDArray[np.int32]
    was: npt.NDArray[np.int32]
    seq: npt.NDArray[np.int64]
    at: npt.NDArray[np.float64]

    @classmethod
    def none(cls) -> BegunSubscriptions:
        """Nothing to ask about."""
        numbers = np.empty(0, np.int32)
        return cls(numbers, numbers, np.empty(0, np.int64), np.empty(0))


def of_kind(operations: pa.Table, kind: int) -> pa.Table:
    """Those of one kind, in their order."""
    return operations.filter(pc.equal(operations["kind"], kind)).combine_chunks()


def boxes_in(operations: pa.Table) -> npt.NDArray[np.float64]:
    """The boxes of operations, as an array of one's own; NaN for those without one."""
    return numbers_in(operations, "box")


def numbers_in(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """The rows of a column that `fixed_lists` gives, as an array of one's own."""
    column = _whole(table[name])
    flat, width = column.flatten().to_numpy(), column.type.list_size
    if not column.null_count:
        return np.array(flat, np.float64).reshape(-1, width)
    rows = np.full((len(column), width), np.nan)
    rows[column.is_valid().to_numpy(zero_copy_only=False)] = flat.reshape(-1, width)
    return rows


def fixed_lists(rows: npt.NDArray[np.float64]) -> pa.FixedSizeListArray:
    """Rows of numbers as a column; one that begins with NaN is null."""
    width = rows.shape[1]
    missing = pa.array(np.isnan(rows[:, 0])) if np.isnan(rows[:, :1]).any() else None
    flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, width, mask=missing)


def hash_lists(starts: Int64s, hashes: Hashes) -> pa.ListArray:
    """The hashes of texts as a column."""
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pa.array(hashes))


def lists_in(column: pa.ListArray | pa.ChunkedArray) -> tuple[Int64s, Any]:
    """Where the lists of a column start, and all that they have: an array, or a column of lists."""
    lists = _whole(column)
    starts = np.asarray(lists.offsets.to_numpy(), np.int64) if len(lists) else np.zeros(1, np.int64)
    values = lists.values.slice(starts[0], starts[-1] - starts[0])
    return starts - starts[0], values if pa.types.is_list(values.type) else values.to_numpy()


def _whole(column: Any) -> Any:
    """A column as one array."""
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.array([], found.type) if isinstance(found, pa.ChunkedArray) else found  # of nothing


def begun_in(log: pa.Table) -> pa.Table:
    """The subscriptions that begin in a log, in the schema BEGUN."""
    return log.filter(pa.array(begins(log))).select(BEGUN.names)


def begins(log: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows of a log begin a subscription."""
    kinds = log["kind"].to_numpy()
    begun: npt.NDArray[np.bool_] = (kinds < END) | (kinds == ROUND) | (kinds == RANKED)
    return begun


def ended_in(log: pa.Table) -> npt.NDArray[np.int32]:
    """The owners of all that end in a log, in its order."""
    kinds = log["kind"].to_numpy()
    owners: npt.NDArray[np.int32] = log["owner"].to_numpy()[(kinds == END) | (kinds == GONE)]
    return owners


def ranks(log: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows of a log begin or end a top-k subscription."""
    kinds = log["kind"].to_numpy()
    ranked: npt.NDArray[np.bool_] = (kinds == RANKED) | (kinds == GONE)
    return ranked


def unranked(log: pa.Table) -> pa.Table:
    """The rows of a log that concern boolean subscriptions and lasting messages."""
    ranked = ranks(log)
    return log.filter(pa.array(~ranked)) if ranked.any() else log


def with_columns(table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """A table with other values in some of its columns."""
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), values)
    return table


def completed(
    given: pa.Table | Mapping[str, Any], schema: pa.Schema = OPERATIONS, count: int | None = None
) -> pa.Table:
    """Give operations, or columns of `count` of them, those that they lack, and no others."""
    names: Collection[str] = given
    if isinstance(given, pa.Table):
        names, count = given.column_names, len(given)
    columns = [
        _as_arrow(given[field.name], field.type)
        if field.name in names
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _as_arrow(values: Any, kind: pa.DataType) -> Any:
    return pa.array(values, kind) if isinstance(values, np.ndarray | list) else values
