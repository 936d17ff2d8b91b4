"""Top-k subscriptions in events, and in the log of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events.values import LARGEST_K
from nearcast.spark.columns import floats_of, points_of, present
from nearcast.spark.operations import RANKED

_TOP = 4  # longitude, latitude, k, alpha


def good_tops(column: pa.StructArray) -> npt.NDArray[np.bool_]:
    """Which rows have a valid k and alpha."""
    k, alpha = floats_of(column.field("k")), floats_of(column.field("alpha"))
    with np.errstate(invalid="ignore"):
        good: npt.NDArray[np.bool_] = (k >= 1) & (k <= LARGEST_K) & (alpha >= 0) & (alpha <= 1)
    return good & present(column)


def ranked_log(events: pa.Table, seq: Int64s, rows: Int64s, begins: Int32s) -> dict[str, Any]:
    """Columns of the log for subscriptions that begin with some rows."""
    some = events.select(["id", "query", "point", "top"]).take(pa.array(rows)).combine_chunks()
    top = some["top"].combine_chunks()
    points, _ = points_of(some["point"].combine_chunks())
    tops = np.column_stack([points, floats_of(top.field("k")), floats_of(top.field("alpha"))])
    return _begun(some, seq[rows], begins[rows], tops)


def shifted_log(
    events: pa.Table, seq: Int64s, rows: Int64s, begins: Int32s, known: pa.Table
) -> dict[str, Any]:
    """Columns of the log for subscriptions that move with some rows; `known` are the old ones."""
    tops = tops_in(known)
    tops[:, :2], _ = points_of(events["point"].take(pa.array(rows)).combine_chunks())
    return _begun(known, seq[rows], begins[rows], tops)


def tops_in(begun: pa.Table) -> Floats:
    """Longitude, latitude, k and alpha of top-k subscriptions, as a new array."""
    flat = begun["top"].combine_chunks().flatten().to_numpy()
    return np.array(flat, np.float64).reshape(-1, _TOP)


def _begun(known: pa.Table, seq: Int64s, owners: Int32s, tops: Floats) -> dict[str, Any]:
    ends = np.arange(0, _TOP * (len(tops) + 1), _TOP, dtype=np.int32)
    return {
        "kind": np.full(len(seq), RANKED, np.int8),
        "owner": owners,
        "seq": seq,
        "id": known["id"],
        "query": known["query"],
        "top": pa.ListArray.from_arrays(pa.array(ends), pa.array(tops.reshape(-1))),
    }
