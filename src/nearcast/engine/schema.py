"""The columns of a table of updates."""

import pyarrow as pa

UPDATE_SCHEMA = pa.schema(
    [
        ("event", pa.int64()),
        ("op", pa.string()),
        ("subscription", pa.string()),
        ("message", pa.string()),
        ("score", pa.float64()),
    ]
)
