"""Who matches each message, in the order of their ids, and who matched the one before it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Int32s, Int64s
from nearcast.events.fields import ADD, CHANGE, REMOVE


@kernel
def sort_within(messages: Int32s, ranks: Int32s) -> None:
    """Sort the ranks of each message."""
    start = 0
    for stop in range(1, len(messages) + 1):
        if stop == len(messages) or messages[stop] != messages[start]:
            sort(ranks, start, stop)
            start = stop


@kernel
def compare(
    new: Int32s, new_edges: Int64s, old: Int32s, old_edges: Int64s, rows: Int64s, events: Int32s,
    ranks: Int32s, ops: npt.NDArray[np.int8],
) -> int:  # fmt: skip
    """Merge, for each message, those who match it with those who matched the one before.

    Both are sorted. Those before message i are the new ones of row `rows[i]`, or else old ones of
    its own. Gives how many updates there are.
    """
    written = 0
    for row in range(len(rows)):
        at, end = new_edges[row], new_edges[row + 1]
        source = old
        was, was_end = old_edges[row], old_edges[row + 1]
        if rows[row] >= 0:
            source = new
            was, was_end = new_edges[rows[row]], new_edges[rows[row] + 1]
        while at < end or was < was_end:
            if was == was_end or (at < end and new[at] < source[was]):
                ranks[written], ops[written] = new[at], ADD
                at += 1
            elif at == end or source[was] < new[at]:
                ranks[written], ops[written] = source[was], REMOVE
                was += 1
            else:
                ranks[written], ops[written] = new[at], CHANGE
                at += 1
                was += 1
            events[written] = row
            written += 1
    return written
