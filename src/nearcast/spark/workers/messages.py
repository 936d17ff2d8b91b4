"""Messages as tasks read them: checked by the registrar, so only taken apart here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.lists import picked
from nearcast.arrays.slots import as_secret
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.settings import Settings
from nearcast.events.fields import CARRIED, carried_in
from nearcast.events.flat import boxes_of, column_of, points_of, present
from nearcast.events.parquet import table_rows
from nearcast.geo import Region, region_from_json, region_to_json
from nearcast.spark.asking import body_text, has_shape
from nearcast.spark.entries import with_everyone
from nearcast.spark.operations import boxes_in, lists_in
from nearcast.spark.shaped import hull
from nearcast.text.columns import HashedTexts, hash_texts


class ShardMessages(NamedTuple):
    """Messages as a shard matches them; one across the antimeridian has two places here."""

    texts: HashedTexts
    boxes: Floats
    number: Int32s  # of the message that each place belongs to, ascending
    seq: Int64s  # by number


class MessageBatch(NamedTuple):
    """Messages to be matched, and their ids.

    `bodies` has messages as JSON, where that is needed, and `shaped` says which of them are over
    anything but a point or a box.
    """

    messages: ShardMessages
    ids: pa.StringArray
    bodies: pa.StringArray
    shaped: npt.NDArray[np.bool_]


class WantedOfMessages(NamedTuple):
    """What is needed of messages besides their terms and places."""

    everyone: bool = False
    """The term that every message has: somebody asks for it."""
    bodies: bool = False
    """All messages as JSON, and not only those over polygons."""


def messages_of(
    events: pa.Table,
    seq: Int64s,
    wanted: npt.NDArray[np.bool_],
    settings: Settings,
    more: WantedOfMessages = WantedOfMessages(),  # noqa: B008 - it cannot be changed
    times: Floats | None = None,
) -> MessageBatch:
    """Take the wanted rows of events as messages; `times` are those of all rows, if known."""
    if not wanted.all():
        events, seq = events.filter(pa.array(wanted)), seq[wanted]
        times = None if times is None else times[wanted]
    events = events.combine_chunks()
    texts = hash_texts(column_of(events, "text"), settings.analyser, as_secret(settings.secret))
    if more.everyone:
        texts = with_everyone(texts)
    boxes, shaped = _bounds_of(events)
    bodies = pa.nulls(len(events), pa.string())
    if more.bodies or shaped.any():
        rows = np.arange(len(events)) if more.bodies else np.flatnonzero(shaped)
        bodies = _bodies_of(events, rows, boxes, times)
    number = np.arange(len(events), dtype=np.int32)
    messages = cut_up(ShardMessages(texts, boxes, number, seq))
    return MessageBatch(messages, column_of(events, "id"), bodies, shaped)


def shard_messages(operations: pa.Table) -> ShardMessages:
    """Take operations that have messages, as shards match them."""
    texts, number = HashedTexts(*lists_in(operations["terms"])), np.arange(len(operations))
    seq = operations["seq"].to_numpy()
    return cut_up(ShardMessages(texts, boxes_in(operations), number.astype(np.int32), seq))


def messages_in(operations: pa.Table) -> MessageBatch:
    """Take operations that have messages."""
    bodies = operations["body"].combine_chunks()
    shaped = np.array([bool(body) and has_shape(body) for body in bodies.to_pylist()], np.bool_)
    ids = operations["id"].combine_chunks()
    return MessageBatch(shard_messages(operations), ids, bodies, shaped)


def _bounds_of(events: pa.Table) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Where messages are, as boxes, and which of them are only bounded by theirs."""
    boxes = places_of(events)
    shaped = np.isnan(boxes[:, 0])
    for row in np.flatnonzero(shaped).tolist():
        boxes[row] = hull(_region_at(events, row).bounds())
    return boxes, shaped


def _region_at(events: pa.Table, row: int) -> Region:
    fields = next(table_rows(events.select(["region"]).slice(row, 1)))
    return region_from_json(fields["region"])


def _bodies_of(
    events: pa.Table, rows: npt.NDArray[Any], boxes: Floats, times: Floats | None
) -> pa.StringArray:
    """Some messages as JSON, and nulls for the others."""
    bodies: list[str | None] = [None] * len(events)
    wanted = ["text", "region", *CARRIED, "at", "ttl"]
    some = table_rows(events.select(wanted).take(pa.array(rows)))
    for row, fields in zip(rows.tolist(), some, strict=True):
        region = fields["region"]
        at = (fields["at"] or 0.0) if times is None else float(times[row])
        if region is not None:
            region = region_to_json(region_from_json(region))
        bodies[row] = body_text(
            fields["text"], boxes[row].tolist(), region, carried_in(fields), at,
            fields["ttl"] or 0.0,
        )  # fmt: skip
    return pa.array(bodies, pa.string())


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
        found, boxed = boxes_of(region)
        boxes[in_region] = np.where(boxed[:, None], found, np.nan)[in_region]
    return boxes


def cut_up(messages: ShardMessages) -> ShardMessages:
    """Give messages across the antimeridian two places, one on each side."""
    crossing = messages.boxes[:, 0] > messages.boxes[:, 2]
    if not crossing.any():
        return messages
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
