"""Columns as bytes and back: an Arrow record batch without its schema, packed when it is large."""

from __future__ import annotations

import zlib

import pyarrow as pa

from nearcast.errors import DamagedStoreError
from nearcast.events.fields import CARRIED

_WORTH_PACKING = 1 << 12
_CODEC = "lz4"

MESSAGES = pa.schema(
    [
        ("seq", pa.int64()),
        ("id", pa.string()),
        ("text", pa.binary()),  # UTF-8, but for surrogates that stand alone
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("at", pa.float64()),
        ("ttl", pa.float64()),
        *((name, pa.binary()) for name in CARRIED),  # what is JSON as that; null if it has none
    ]
)


def pack(batch: pa.RecordBatch) -> tuple[int, bytes | memoryview]:
    """Return the unpacked size, or 0 if the data is not compressed, and the data."""
    data = batch.serialize()
    if len(data) < _WORTH_PACKING:
        return 0, memoryview(data)
    return len(data), memoryview(pa.Codec(_CODEC).compress(data))


def checksum(data: bytes | memoryview) -> int:
    """The checksum that is kept beside packed columns."""
    return zlib.crc32(data)


def unpack(schema: pa.Schema, size: int, data: bytes, expected: int | None) -> pa.RecordBatch:
    """Read what `pack` made; `expected` is its checksum, None for one of the first version."""
    try:
        if expected is not None and checksum(data) != expected:
            raise ValueError("another checksum")
        plain = pa.Codec(_CODEC).decompress(data, size) if size else pa.py_buffer(data)
        batch = _read(plain, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or ["empty"])[0]
        raise DamagedStoreError(
            f"damaged columns ({reason}); restore the file from a backup"
        ) from None
    return batch


def _read(data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Read columns; of those that messages carry, an earlier release may have written fewer."""
    try:
        return pa.ipc.read_record_batch(data, schema)
    except pa.ArrowInvalid:
        last = schema.field(len(schema) - 1)
        if last.name not in CARRIED:
            raise
        batch = _read(data, schema.remove(len(schema) - 1))
        return pa.RecordBatch.from_arrays(
            [*batch.columns, pa.nulls(len(batch), last.type)], schema=schema
        )


def encode_text(text: str) -> str | bytes:
    """A text as SQLite can keep it: itself, or bytes if it is not quite Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
    return text


def decode_text(kept: str | bytes) -> str:
    """Read what `encode_text` made."""
    return kept if isinstance(kept, str) else kept.decode(errors="surrogatepass")
