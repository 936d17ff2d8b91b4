"""Files with the messages of the window, which workers read."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int64s
from nearcast.errors import SourceError
from nearcast.events.fields import CARRIED
from nearcast.spark.io.files import Files
from nearcast.spark.operations import completed
from nearcast.spark.workers.ranked_work import MessageFile

_SEAL = 8  # bytes of a checksum behind the rest

MESSAGES = pa.schema(
    [
        ("number", pa.int64()),  # of the message, or -1: the window only slides
        ("seq", pa.int64()),
        ("at", pa.float64()),
        ("first", pa.int64()),  # the oldest in the window after the event
        ("again", pa.bool_()),  # its id was that of a message that leaves with this event
        ("id", pa.string()),
        ("text", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("ttl", pa.float64()),
        *((name, pa.string()) for name in CARRIED),  # what is JSON as that
        ("taken", pa.int64()),  # the number of a message that the event takes out, or -1
    ]
)
"""The events of a step that concern the window, in their order."""


def read_messages(files: Files, span: MessageFile) -> pa.Table:
    """The messages of a file, in mapped memory."""
    data = files.map(span.name)
    with pa.ipc.open_file(data.slice(0, data.size - _SEAL)) as reader:
        return completed(reader.read_all(), MESSAGES)  # an earlier release wrote fewer columns


def window_messages(
    files: Files,
    spans: Sequence[MessageFile],
    first: int,
    next: int,
    living: Int64s | None = None,
) -> pa.Table:
    """The messages with numbers from `first` to before `next`, oldest first.

    With `living`, only those among them.
    """
    parts = [MESSAGES.empty_table()]
    for span in spans:
        table = read_messages(files, span)
        numbers = table["number"].to_numpy()
        inside = (numbers >= first) & (numbers < next)
        if living is not None:
            inside &= np.isin(numbers, living)
        parts.append(table if inside.all() else table.filter(pa.array(inside)))
    return pa.concat_tables(parts)


def write_messages(files: Files, name: str, table: pa.Table, durable: bool) -> None:
    """Write messages, and a checksum behind them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, MESSAGES) as writer:
        writer.write_table(table.combine_chunks())
    data = sink.getvalue()
    seal = zlib.crc32(data).to_bytes(_SEAL, "little")
    files.fill(name, lambda stream: (stream.write(data), stream.write(seal)), durable=durable)


def is_sound(files: Files, span: MessageFile) -> bool:
    """Whether a file is there and has its checksum."""
    try:
        data = files.map(span.name)
    except SourceError:
        return False
    body = data.slice(0, max(data.size - _SEAL, 0))
    seal = data.slice(body.size).to_pybytes()
    return bool(data.size > _SEAL and zlib.crc32(body).to_bytes(_SEAL, "little") == seal)
