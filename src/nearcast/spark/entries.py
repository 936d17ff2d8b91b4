"""Rows of the log that are made one by one: subscriptions that are not plain, and messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.arrays.slots import as_secret
from nearcast.arrays.types import Floats, Int64s
from nearcast.engine.settings import Settings
from nearcast.geo import Box, Circle, Region, region_to_json
from nearcast.index.table import decides
from nearcast.spark.asking import asks_of, body_text, encoded
from nearcast.spark.batch import EventBatch
from nearcast.spark.operations import EVERYONE, OTHER, PLAIN, ROUND, fixed_lists, hash_lists
from nearcast.spark.shaped import hull
from nearcast.text.columns import HashedTexts, hash_texts


def definition_of(known: dict[str, Any], region: Region) -> dict[str, Any]:
    """One subscription in the form of the log: plain where it is, for the sake of speed.

    `known` has its id and its query, as text and as hashes, and whether there is more to ask.
    """
    entry: dict[str, Any] = {name: known.get(name) for name in ("id", "query", "ops", "meta")}
    if known.get("asks") or not decides(region):
        entry["asks"] = asks_of(known["query"], region)
    required, excluded = known["required"], known["excluded"]
    bounds = region.bounds()
    if len(bounds) == 1 and len(required) == 1 and not excluded[0]:
        entry |= {"box": bounds[0], "terms": required[0]}
        if isinstance(region, Box):
            return entry | {"kind": PLAIN}
        if isinstance(region, Circle):
            return entry | {"kind": ROUND, "circle": [*region.center, region.radius]}
    entry = {key: value for key, value in entry.items() if key != "terms"} | {"box": hull(bounds)}
    shape = encoded(region_to_json(region))
    return entry | {"kind": OTHER, "region": shape, "required": required, "excluded": excluded}


def messages_columns(batch: EventBatch, some: Int64s, settings: Settings) -> dict[str, Any]:
    """Messages of some rows, as they are matched and as they were given.

    Where no time is given, the body has 0; `with_times` writes what it turns out to be.
    """
    checked, where = batch.checked, pa.array(some)
    boxes = np.hstack([checked.points[some], checked.points[some]])
    wide = np.isnan(boxes[:, 0])
    boxes[wide] = checked.boxes[some[wide]]
    texts = checked.texts.take(where)
    times, ttls = np.nan_to_num(checked.at[some]).tolist(), np.nan_to_num(checked.ttl[some])
    hashes = hash_texts(texts, settings.analyser, as_secret(settings.secret))
    bodies, each = [], zip(some.tolist(), texts.to_pylist(), boxes.tolist(), times, strict=True)
    for (row, text, box, at), ttl in zip(each, ttls.tolist(), strict=True):
        region = None
        if np.isnan(checked.points[row, 0]):
            region = region_to_json(checked.region(row))
        bodies.append(body_text(text, box, region, batch.carried(row), at, ttl))
    return {
        "id": checked.ids.take(where),
        "box": fixed_lists(boxes),
        "terms": hash_lists(*with_everyone(hashes)),
        "body": pa.array(bodies, pa.string()),
    }


def with_times(bodies: pa.StringArray, given: Floats, times: Floats) -> pa.StringArray:
    """Write into bodies of messages the times that they have, where none, or NaN, was given."""
    wrong = np.flatnonzero(np.nan_to_num(given) != times)
    if not len(wrong):
        return bodies
    texts = bodies.to_pylist()
    for at in wrong.tolist():
        before, mark, behind = texts[at].rpartition('"at":')
        rest = behind[behind.find(",") :]  # or the brace alone
        texts[at] = f"{before}{mark}{encoded(float(times[at]))}{rest}"
    return pa.array(texts, pa.string())


def with_everyone(texts: HashedTexts) -> HashedTexts:
    """Give every text the term that every message has."""
    starts, hashes = texts
    more = np.arange(len(starts), dtype=np.int64)
    return HashedTexts(starts + more, np.insert(hashes, starts[:-1], EVERYONE))
