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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PLAIN = 0
"""Begins: one conjunct without NOT, and one plain box."""
OTHER = 1
"""Begins: any other subscription."""
END = 2
"""Ends."""
LASTING = 3
"""A message that lasts."""
CHANGE = 4
"""Asks what changed with the results of a subscription that began as `owner`, and was `was`."""
FORGET = 5
"""A subscription is held elsewhere from now on."""

NEVER = 2**62
"""The sequence number of a *guest*: a subscription that a shard is told of for one step only.

It holds none of its results, and has to know what it matches for the sake of a change.
"""

_HASHES = pa.list_(pa.uint64())

_COMMON = [
    ("kind", pa.int8()),
    ("owner", pa.int32()),
    ("seq", pa.int64()),
    ("id", pa.string()),  # this and all that follows: where something begins
    ("box", pa.list_(pa.float64(), 4)),  # PLAIN, LASTING
    ("terms", _HASHES),  # PLAIN, LASTING
    ("region", pa.string()),  # OTHER, as JSON
    ("required", pa.list_(_HASHES)),  # OTHER: of each conjunct
    ("excluded", pa.list_(_HASHES)),
]

_TIMES = [
    ("at", pa.float64()),  # LASTING and CHANGE: its time
    ("end", pa.float64()),  # LASTING: when it is no longer active
]

BEGUN = pa.schema([*_COMMON, ("query", pa.string())])
"""What the registrar keeps of a subscription while it lasts."""

LOG = pa.schema([*BEGUN, *_TIMES])
"""What the registrar writes down: all that is to be known of subscriptions, and lasting messages.

A log of the first version has no times, and no lasting messages.
"""

OPERATIONS = pa.schema(
    [
        *_COMMON,
        ("key", pa.uint64()),  # PLAIN: the term by which the plan places it
        ("keys", _HASHES),  # OTHER: of each conjunct
        *_TIMES,
        ("was", pa.int32()),  # CHANGE: the version before, or -1
    ]
)
"""What a shard reads."""


class Changes(NamedTuple):
    """Subscriptions that began: their owners, those they had before or -1, and when."""

    owner: npt.NDArray[np.int32]
    was: npt.NDArray[np.int32]
    seq: npt.NDArray[np.int64]
    at: npt.NDArray[np.float64]

    @classmethod
    def none(cls) -> Changes:
        """Nothing to ask about."""
        numbers = np.empty(0, np.int32)
        return cls(numbers, numbers, np.empty(0, np.int64), np.empty(0))


def of_kind(operations: pa.Table, kind: int) -> pa.Table:
    """Those of one kind, in their order."""
    return operations.filter(pc.equal(operations["kind"], kind)).combine_chunks()


def boxes_in(operations: pa.Table) -> npt.NDArray[np.float64]:
    """The boxes of operations that all have one, as an array of one's own."""
    flat = operations["box"].combine_chunks().flatten().to_numpy()
    return np.array(flat, np.float64).reshape(-1, 4)


def begun_in(log: pa.Table) -> pa.Table:
    """The subscriptions that begin in a log, in the schema BEGUN."""
    return log.filter(pc.less(log["kind"], END)).select(BEGUN.names)


def completed(operations: pa.Table, schema: pa.Schema = OPERATIONS) -> pa.Table:
    """Give operations the columns that they lack, as nulls, and no others."""
    names = operations.column_names
    columns = [
        operations[field.name] if field.name in names else pa.nulls(len(operations), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
