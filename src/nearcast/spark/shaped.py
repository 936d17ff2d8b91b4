"""Rows of subscriptions that are not plain: one for each conjunct and plain box.

Where a region is bounded by one box, as nearly all are, the log says which; then nothing has to be
read from its JSON, and thousands are taken apart as columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events.log import decode_json
from nearcast.geo import Bounds, region_from_json
from nearcast.spark.operations import boxes_in, lists_in
from nearcast.text.columns import Hashes

_AROUND = 360.0  # degrees


class Shaped(NamedTuple):
    """The conjuncts of some subscriptions, and their rows.

    Subscription i has the conjuncts from `starts[i]` up to `starts[i + 1]`, and conjunct j requires
    the terms from `term_starts[j]` up to `term_starts[j + 1]`.
    """

    starts: Int64s
    term_starts: Int64s
    terms: Hashes
    number: Int32s  # by row: of the subscription
    conjunct: Int64s  # by row
    boxes: Floats  # by row


def hull(bounds: tuple[Bounds, ...]) -> Bounds:
    """The box around the boxes of a region; those on both sides of 180 degrees go all around."""
    west, south, east, north = zip(*bounds, strict=True)
    return min(west), min(south), max(east), max(north)


def shaped_in(others: pa.Table) -> Shaped:
    """Take subscriptions apart that are of the kind OTHER."""
    others = others.combine_chunks()
    starts, conjuncts_of = lists_in(others["required"])
    term_starts, terms = lists_in(conjuncts_of)
    boxes = boxes_in(others)
    single = boxes[:, 2] - boxes[:, 0] < _AROUND  # else there may be two, or NaN: none is known
    counts = np.diff(starts)
    number = np.repeat(np.arange(len(others), dtype=np.int32), counts)
    plain = single[number]
    numbers, conjuncts, found = [number[plain]], [np.flatnonzero(plain)], [boxes[number[plain]]]
    odd = np.flatnonzero(~single)
    for at, region in zip(odd.tolist(), others["region"].take(pa.array(odd)), strict=True):
        bounds = region_from_json(decode_json(region.as_py().encode(), "region")).bounds()
        own = np.arange(starts[at], starts[at + 1])
        numbers.append(np.full(len(own) * len(bounds), at, np.int32))
        conjuncts.append(np.repeat(own, len(bounds)))
        found.append(np.tile(np.array(bounds, np.float64), (len(own), 1)))
    return Shaped(
        starts,
        term_starts,
        terms,
        np.concatenate(numbers),
        np.concatenate(conjuncts).astype(np.int64),
        np.concatenate(found),
    )


def spread_lists(rows: npt.NDArray[np.intp], starts: Int64s, values: Hashes, count: int) -> Any:
    """A column of `count` lists: those of some rows, in their order, and nulls elsewhere."""
    ends = np.zeros(count + 1, np.int32)
    ends[1:][rows] = np.diff(starts)
    missing = np.ones(count, np.bool_)
    missing[rows] = False
    offsets = np.cumsum(ends, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=pa.array(missing))
