"""Adds the ids of subscriptions and messages to updates, for output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.message_ids import NumberedStrings
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.topk.dskype.columns import Updates

_AT_ONCE = 1 << 19
_OPS = pa.array(["remove", "add"])


def named_updates(
    updates: Updates, names: Callable[[Int32s], pa.Array], ids: NumberedStrings, again: Int64s
) -> Iterator[pa.Table]:
    """Updates as tables with ids; `names` maps owners to the ids of subscriptions.

    With an event in `again`, a message arrives with the id of one that expires. If one replaces the
    other in the results, nothing has changed.
    """
    kept = _net(updates, ids, again)
    for first in range(0, len(kept), _AT_ONCE):
        some = kept[first : first + _AT_ONCE]
        scores = updates.scores[some]
        added = scores >= 0
        columns = [
            pa.array(updates.seq[some]),
            _OPS.take(pa.array(added.astype(np.int8))),
            names(updates.owners[some]).cast(pa.string()),
            ids.take(updates.numbers[some]).cast(pa.string()),
            pa.array(scores, mask=~added),
        ]
        yield pa.Table.from_arrays(columns, schema=UPDATE_SCHEMA)


def _net(updates: Updates, ids: NumberedStrings, again: Int64s) -> npt.NDArray[np.int64]:
    """The places of all updates except those that cancel each other."""
    odd = np.flatnonzero(np.isin(updates.seq, again)) if len(again) else np.empty(0, np.int64)
    if not len(odd):
        return np.arange(len(updates.seq))
    keys = list(
        zip(
            updates.seq[odd].tolist(),
            updates.owners[odd].tolist(),
            ids.take(updates.numbers[odd]).to_pylist(),
            strict=True,
        )
    )
    times = Counter(keys)
    both = odd[[times[key] > 1 for key in keys]]
    return np.setdiff1d(np.arange(len(updates.seq)), both)
