"""Rows of the log that are made one by one: subscriptions that are not plain, and messages."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int64s
from nearcast.geo import Box, Circle, Region, region_to_json
from nearcast.spark.asking import asks_of, body_text
from nearcast.spark.batch import EventBatch
from nearcast.spark.deciding import NO_OWNER, Records
from nearcast.spark.operations import EVERYONE, LOG, OTHER, PLAIN, ROUND, fixed_lists
from nearcast.spark.shaped import hull
from nearcast.text.columns import HashedTexts, Hashes


def entry_of(row: Any, known: dict[str, Any], region: Region) -> dict[str, Any]:
    """One subscription in the form of the log: plain where it is, for the sake of speed.

    `known` has its id and its query, as text and as hashes, and whether there is more to ask.
    """
    entry: dict[str, Any] = {"owner": int(row["begins"]), "seq": int(row["seq"])}
    entry |= {name: known.get(name) for name in ("id", "query", "ops", "meta")}
    entry["until"] = None if np.isnan(row["until"]) else float(row["until"])
    if known.get("asks"):
        entry["asks"] = asks_of(known["query"], region)
    required, excluded = known["required"], known["excluded"]
    bounds = region.bounds()
    if len(bounds) == 1 and len(required) == 1 and not excluded[0]:
        entry |= {"box": bounds[0], "terms": required[0]}
        if isinstance(region, Box):
            return entry | {"kind": PLAIN}
        if isinstance(region, Circle):
            return entry | {"kind": ROUND, "circle": [*region.center, region.radius]}
    shape = msgspec.json.encode(region_to_json(region)).decode()
    entry = {key: value for key, value in entry.items() if key != "terms"} | {"box": hull(bounds)}
    return entry | {"kind": OTHER, "region": shape, "required": required, "excluded": excluded}


def messages_log(
    kind: int, batch: EventBatch, rows: Records, some: Int64s, terms: pa.ListArray
) -> pa.Table:
    """The log of messages of some rows, as they are matched and as they were given."""
    checked = batch.checked
    boxes = np.hstack([checked.points[some], checked.points[some]])
    wide = np.isnan(boxes[:, 0])
    boxes[wide] = checked.boxes[some[wide]]
    texts, bodies = checked.texts.take(pa.array(some)).to_pylist(), []
    for row, text, box in zip(some.tolist(), texts, boxes.tolist(), strict=True):
        given, region = batch.messages.get(row), None
        if np.isnan(checked.points[row, 0]):
            region = region_to_json(checked.region(row))
        properties = None if given is None else given.properties
        ttl = float(rows["ttl"][row])
        at = float(rows["time"][row])
        bodies.append(body_text(text, box, region, properties, at, 0.0 if np.isnan(ttl) else ttl))
    columns = {
        "kind": np.full(len(some), kind, np.int8),
        "owner": np.full(len(some), NO_OWNER, np.int32),
        "seq": rows["seq"][some],
        "id": checked.ids.take(pa.array(some)),
        "box": fixed_lists(boxes),
        "terms": terms,
        "at": rows["time"][some],
        "end": rows["until"][some],
        "body": pa.array(bodies, pa.string()),
    }
    return completed_log(columns, len(some))


def with_everyone(texts: HashedTexts) -> HashedTexts:
    """Give every text the term that every message has."""
    starts, hashes = texts
    more = np.arange(len(starts), dtype=np.int64)
    return HashedTexts(starts + more, np.insert(hashes, starts[:-1], EVERYONE))


def hash_lists(starts: Int64s, hashes: Hashes) -> pa.ListArray:
    """The hashes of texts as a column."""
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pa.array(hashes))


def completed_log(columns: dict[str, Any], count: int) -> pa.Table:
    """Columns of a log, with nulls for those that are not given."""
    arrays = [
        columns[name] if name in columns else pa.nulls(count, LOG.field(name).type)
        for name in LOG.names
    ]
    return pa.Table.from_arrays([_as_arrow(array) for array in arrays], schema=LOG)


def _as_arrow(array: Any) -> Any:
    return pa.array(array) if isinstance(array, np.ndarray) else array
