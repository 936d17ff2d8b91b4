"""Operations as columns: subscriptions that begin and end, as logged and as sent to shards.

An operation was checked and read once, by the registrar. What is left of it is ready to be entered
into an index: an *owner*, the number of one version of a subscription; hashes instead of terms; and
the sequence number from which on (or up to which) it counts. A replaced subscription ends under
its old owner and begins under a new one, so that messages before and after it find what was true
for them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

PLAIN = 0
"""Begins: one conjunct without NOT, and one plain box."""
OTHER = 1
"""Begins: any other subscription."""
END = 2
"""Ends."""

_HASHES = pa.list_(pa.uint64())

_COMMON = [
    ("kind", pa.int8()),
    ("owner", pa.int32()),
    ("seq", pa.int64()),
    ("id", pa.string()),  # this and all that follows: where something begins
    ("box", pa.list_(pa.float64(), 4)),  # PLAIN
    ("terms", _HASHES),  # PLAIN
    ("region", pa.string()),  # OTHER, as JSON
    ("required", pa.list_(_HASHES)),  # OTHER: of each conjunct
    ("excluded", pa.list_(_HASHES)),
]

LOG = pa.schema([*_COMMON, ("query", pa.string())])
"""What the registrar writes down: everything that is to be known of a subscription."""

BEGUN = LOG
"""What the registrar keeps of a subscription while it lasts."""

OPERATIONS = pa.schema(
    [
        *_COMMON,
        ("key", pa.uint64()),  # PLAIN: the term by which the plan places it
        ("keys", _HASHES),  # OTHER: of each conjunct
    ]
)
"""What a shard reads."""


def of_kind(operations: pa.Table, kind: int) -> pa.Table:
    """Those of one kind, in their order."""
    return operations.filter(pc.equal(operations["kind"], kind)).combine_chunks()
