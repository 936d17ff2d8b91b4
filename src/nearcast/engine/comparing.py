"""Who matches each message, in the order of their ids, and who matched the one before it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s, Int64s
from nearcast.events.fields import ADD, CHANGE, REMOVE

_DIGIT = 11  # bits of a rank that are sorted at a time
_PART = 1 << 16  # ranks that are sorted together: as many as fit into the cache of a processor
_MANY = 24  # ranks a message, for which digits are faster than comparisons


@kernel
def sort_within(messages: Int32s, ranks: Int32s) -> None:
    """Sort the ranks of each message; those of a message are side by side."""
    count, start = len(messages), 0
    top = 0
    for at in range(count):
        top = max(top, wide(ranks[at]))
    one = two = edges = np.empty(0, np.int64)
    while start < count:
        # Some whole messages.
        stop, some = start, 0
        while stop < count:
            end = stop + 1
            while end < count and messages[end] == messages[stop]:
                end += 1
            if stop > start and end - start > _PART:
                break
            stop = end
            some += 1
        if stop - start >= _MANY * some:
            if len(one) < stop - start:
                one, two = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
            if len(edges) < some:
                edges = np.empty(some, np.int64)
            _sort_by_digits(messages, ranks, start, stop, top, one, two, edges)
        else:
            begin = start
            for end in range(start + 1, stop + 1):
                if end == stop or messages[end] != messages[begin]:
                    sort(ranks, begin, end)
                    begin = end
        start = stop


@inner_counting
def _sort_by_digits(
    messages: Int32s, ranks: Int32s, start: int, stop: int, top: int, one: Int64s, two: Int64s,
    edges: Int64s,
) -> None:  # fmt: skip
    """Sort the ranks of some messages, none above `top`, by their digits, the lowest first.

    `one`, `two` and `edges`, one for each message, are scratch.
    """
    size, mask = stop - start, (1 << _DIGIT) - 1
    ends = np.empty(1 << _DIGIT, np.int64)
    number = -1
    for at in range(start, stop):
        if at == start or messages[at] != messages[at - 1]:
            number += 1
            edges[number] = at
        one[at - start] = number << 32 | wide(ranks[at])
    shift = 0
    while top >> shift > 0:
        ends[:] = 0
        for at in range(size):
            ends[one[at] >> shift & mask] += 1
        before = np.int64(0)
        for digit in range(1 << _DIGIT):
            before, ends[digit] = before + ends[digit], before
        for at in range(size):
            digit = one[at] >> shift & mask
            two[ends[digit]] = one[at]
            ends[digit] += 1
        one, two = two, one
        shift += _DIGIT
    for at in range(size):
        number = one[at] >> 32
        ranks[edges[number]] = np.int32(one[at] & 0x7FFFFFFF)
        edges[number] += 1


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
