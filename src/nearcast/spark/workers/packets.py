"""Messages packed for the way to a worker: one Arrow blob for each dispatcher and worker."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from nearcast.arrays.lists import picked
from nearcast.arrays.types import Int32s
from nearcast.spark.workers.messages import MessageBatch, no_messages
from nearcast.spark.workers.shard import ShardMessages
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
    boxes = messages.boxes[places]
    columns = [
        pa.array(messages.seq[number]),
        texts.ids.take(pa.array(number)).cast(pa.string()),
        pa.array(same),
        pa.FixedSizeListArray.from_arrays(pa.array(boxes.reshape(-1)), 4),
        pa.ListArray.from_arrays(
            pa.array(ends.astype(np.int32)), pa.array(messages.texts.hashes[taken])
        ),
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
    table = pa.Table.from_batches(batches, schema=_SCHEMA).combine_chunks()
    if not len(table):
        return no_messages()
    columns = {name: table[name].chunk(0) for name in table.column_names}
    fresh = ~columns["same"].to_numpy(zero_copy_only=False)
    lists = columns["terms"]
    starts = lists.offsets.to_numpy().astype(np.int64)
    texts = HashedTexts(starts - starts[0], lists.values.to_numpy()[starts[0] : starts[-1]])
    # Copied, as all other boxes can be written and the index would be compiled for both.
    boxes = np.array(columns["box"].flatten().to_numpy()).reshape(-1, 4)
    number = (np.cumsum(fresh) - 1).astype(np.int32)
    first = pa.array(fresh)
    seq = columns["seq"].filter(first).to_numpy()
    bodies, shaped = columns["body"].filter(first), columns["shaped"].filter(first)
    return MessageBatch(
        ShardMessages(texts, boxes, number, seq),
        columns["id"].filter(first),
        bodies,
        shaped.to_numpy(zero_copy_only=False),
    )
