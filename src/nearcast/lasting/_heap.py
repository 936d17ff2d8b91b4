"""Which message ends first: a heap of eight branches, its keys apart from its slots.

The children of a place lie in one cache line, and their ends with them: to take one out of a
million reads seven lines, most of which are in the cache.
"""

from __future__ import annotations

from nearcast._jit import inner
from nearcast.index.table import Floats, Int32s
from nearcast.lasting._layout import FIRST, State, wide

_BRANCHES = 8
# The children of FIRST, 7, are 8 to 15; those of 8 are 16 to 23, and so on.
_ABOVE = FIRST - 1


@inner
def push(heap: Int32s, ends: Floats, size: int, slot: int, end: float) -> None:
    """Put a slot into the heap, which has so many."""
    at = wide(FIRST) + size
    while at > FIRST:
        above = at // _BRANCHES + _ABOVE
        if ends[above] <= end:
            break
        heap[at], ends[at] = heap[above], ends[above]
        at = above
    heap[at], ends[at] = slot, end


@inner
def pop(heap: Int32s, ends: Floats, size: int) -> int:
    """Take out the slot that ends first."""
    first, stop = wide(heap[FIRST]), wide(FIRST) + size - 1
    last, end = heap[stop], ends[stop]
    at = wide(FIRST)
    while True:
        below = (at - _ABOVE) * _BRANCHES
        if below >= stop:
            break
        best, least = below, ends[below]
        for child in range(below + 1, min(below + _BRANCHES, stop)):
            if ends[child] < least:
                best, least = child, ends[child]
        if least >= end:
            break
        heap[at], ends[at] = heap[best], least
        at = best
    heap[at], ends[at] = last, end
    return first


@inner
def has_ended(state: State, now: float) -> bool:
    """Tell whether some message has ended by now and is still there; there must be one."""
    return bool(state.due_at[FIRST] <= now)
