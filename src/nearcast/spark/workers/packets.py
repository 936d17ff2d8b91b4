"""Messages packed for the way to a worker: one Arrow blob for each dispatcher and worker."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from nearcast.arrays.lists import picked
from nearcast.arrays.types import Int32s
from nearcast.spark.operations import boxes_in, fixed_lists, hash_lists, lists_in
from nearcast.spark.workers.messages import MessageBatch, ShardMessages
from nearcast.text.columns import HashedTexts

_SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("id", pa.string()),
        ("same", pa.bool_()),  # the message of the place before, across the antimeridian
        ("box", pa.list_(pa.float64(), 4)),
        ("terms", pa.list_(pa.uint64())),
        ("body", pa.string()),
        ("shaped", pa.bool_()),
    ]
)


def pack(texts: MessageBatch, places: Int32s) -> bytes:
    """Pack messages by any of their places: all places of a message go along."""
    messages = texts.messages
    numbers = np.unique(messages.number[places])
    if len(messages.boxes) > len(messages.seq):
        places = np.flatnonzero(np.isin(messages.number, numbers)).astype(np.int32)
    number = messages.number[places]
    same = np.zeros(len(places), np.bool_)
    same[1:] = number[1:] == number[:-1]
    ends, taken = picked(messages.texts.starts, places)
    columns = [
        pa.array(messages.seq[number]),
        texts.ids.take(pa.array(number)).cast(pa.string()),
        pa.array(same),
        fixed_lists(messages.boxes[places]),
        hash_lists(ends, messages.texts.hashes[taken]),
        texts.bodies.take(pa.array(number)),
        pa.array(texts.shaped[number]),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(packets: Iterable[bytes]) -> MessageBatch:
    """Put the messages of several packets together."""
    batches: list[pa.RecordBatch] = []
    for packet in packets:
        batches += pa.ipc.open_stream(packet)
    table = pa.Table.from_batches(batches, schema=_SCHEMA)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    fresh = ~columns["same"].to_numpy(zero_copy_only=False)
    texts = HashedTexts(*lists_in(columns["terms"]))
    number = (np.cumsum(fresh) - 1).astype(np.int32)
    first = pa.array(fresh)
    seq = columns["seq"].filter(first).to_numpy()
    bodies, shaped = columns["body"].filter(first), columns["shaped"].filter(first)
    return MessageBatch(
        ShardMessages(texts, boxes_in(table), number, seq),
        columns["id"].filter(first),
        bodies,
        shaped.to_numpy(zero_copy_only=False),
    )
