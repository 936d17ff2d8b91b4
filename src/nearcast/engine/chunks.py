"""The columns of a chunk of the update log."""

from __future__ import annotations

import pyarrow as pa

from nearcast.engine.update_log import Rows
from nearcast.events.fields import UPDATE_OPS

CHUNK_SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("at", pa.float64()),
        ("op", pa.int8()),
        ("subscription", pa.string()),
        ("message", pa.string()),
        ("score", pa.float64()),
    ]
)


def as_columns(rows: Rows) -> pa.RecordBatch:
    """Put the updates of a chunk into columns."""
    if not isinstance(rows, list):
        return rows.columns
    columns = [
        pa.array([row.seq for row in rows], pa.int64()),
        pa.array([row.at for row in rows], pa.float64()),
        pa.array([UPDATE_OPS.index(row.update.op) for row in rows], pa.int8()),
        pa.array([row.update.subscription for row in rows], pa.string()),
        pa.array([row.update.message for row in rows], pa.string()),
        pa.array([row.update.score for row in rows], pa.float64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CHUNK_SCHEMA)
