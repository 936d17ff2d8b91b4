"""Changes of rankings as a table of updates in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.strings import strings_at
from nearcast.arrays.types import Bytes, Int32s, Int64s
from nearcast.engine.ranked import FastRankings
from nearcast.events.columns import UPDATE_SCHEMA, updates_table
from nearcast.topk.core import TopkChanges


@inner_counting
def _comes_before(data: Bytes, starts: Int64s, stops: Int64s, one: int, other: int) -> bool:
    at, there = starts[one], starts[other]
    while at < stops[one] and there < stops[other]:
        if data[at] != data[there]:
            return bool(data[at] < data[there])
        at += 1
        there += 1
    return bool(stops[one] - at < stops[other] - there)


@kernel
def _order(
    events: Int32s, ranks: Int32s, data: Bytes, starts: Int64s, stops: Int64s, order: Int64s
) -> None:
    """Sort the rows of each event by the rank of the subscription and the id of the message."""
    begin = 0
    for end in range(1, len(events) + 1):
        if end < len(events) and events[end] == events[begin]:
            continue
        count = end - begin
        gap = 1
        while gap < count // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for n in range(begin + gap, end):
                row, at = order[n], n
                while at >= begin + gap:
                    other = order[at - gap]
                    if ranks[other] < ranks[row] or (
                        ranks[other] == ranks[row]
                        and _comes_before(data, starts, stops, other, row)
                    ):
                        break
                    order[at] = other
                    at -= gap
                order[at] = row
            gap //= 3
        begin = end


def ranked_updates(ranked: FastRankings, changes: TopkChanges) -> pa.Table:
    """Name the changes, in the order in which single calls would report them."""
    if not len(changes.events):
        return UPDATE_SCHEMA.empty_table()
    names, rank = ranked.names_in_order(changes.subscriptions)
    ranks = rank[changes.subscriptions]
    order = np.arange(len(ranks))
    data, starts, stops = ranked.message_spans(changes.messages)
    _order(changes.events, ranks, data, starts, stops, order)
    return updates_table(
        changes.events[order], changes.ops[order], names.take(pa.array(ranks[order])),
        strings_at(data, starts[order], stops[order]), changes.scores[order],
    )  # fmt: skip
