"""Messages as tasks read them: checked by the registrar, so only taken apart here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.lists import picked
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events.flat import boxes_of, column_of, points_of, present
from nearcast.spark.workers.shard import ShardMessages
from nearcast.text import Analyser
from nearcast.text.columns import hash_texts


class MessageBatch(NamedTuple):
    """Messages to be matched, and their ids."""

    messages: ShardMessages
    ids: pa.StringArray


def messages_of(
    events: pa.Table, seq: Int64s, wanted: npt.NDArray[np.bool_], analyser: Analyser
) -> MessageBatch:
    """Take the wanted rows of events as messages."""
    if not wanted.all():
        events, seq = events.filter(pa.array(wanted)), seq[wanted]
    events = events.select(["id", "text", "point", "region"]).combine_chunks()
    texts = hash_texts(column_of(events, "text"), analyser)
    boxes = places_of(events)
    number = np.arange(len(events), dtype=np.int32)
    messages = ShardMessages(texts, boxes, number, seq)
    crossing = boxes[:, 0] > boxes[:, 2]
    if crossing.any():
        messages = _cut(messages, crossing)
    return MessageBatch(messages, column_of(events, "id"))


def boxes_of_messages(events: pa.Table, wanted: npt.NDArray[np.bool_]) -> Floats:
    """Where the wanted rows of events are, as boxes; one across the antimeridian as two."""
    events = events.select(["point", "region"]).filter(pa.array(wanted)).combine_chunks()
    return cut_in_two(places_of(events))


def cut_in_two(boxes: Floats) -> Floats:
    """Cut boxes across the antimeridian; the eastern parts come last, in their order."""
    crossing = boxes[:, 0] > boxes[:, 2]
    if crossing.any():
        boxes, east = boxes.copy(), boxes[crossing]
        boxes[crossing, 2], east[:, 0] = 180.0, -180.0
        boxes = np.concatenate([boxes, east])
    return boxes


def places_of(events: pa.Table) -> Floats:
    """Where messages are, as boxes: of size zero for points, or across the antimeridian."""
    points, _ = points_of(column_of(events, "point"))
    boxes = np.hstack([points, points])
    region = column_of(events, "region")
    in_region = present(region)
    if in_region.any():
        boxes[in_region] = boxes_of(region)[0][in_region]
    return boxes


def _cut(messages: ShardMessages, crossing: npt.NDArray[np.bool_]) -> ShardMessages:
    """Give messages across the antimeridian two places, one on each side."""
    times = np.where(crossing, 2, 1)
    place: Int32s = np.repeat(messages.number, times)
    second = np.zeros(len(place), np.bool_)
    second[1:] = place[1:] == place[:-1]
    first = crossing[place] & ~second
    boxes = messages.boxes[place]
    boxes[first, 2] = 180.0
    boxes[second, 0] = -180.0
    starts, taken = picked(messages.texts.starts, place)
    texts = messages.texts._replace(starts=starts, hashes=messages.texts.hashes[taken])
    return ShardMessages(texts, boxes, place, messages.seq)
