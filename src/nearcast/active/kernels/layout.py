"""How active messages lie in memory.

A message has a *slot*: a number under which its box (of size zero for a point), its end and its
terms are kept. For every term there is a *list* of entries, one for each active message that has
it. An entry says where the message is, in 32 bits rounded to nearest, its slot, and a signature of
all its terms. The list of a hot term is divided into cells: 2^level columns and lines, with edges
at quantiles of the entries there were when it was last divided, so that a crowded place has as
fine cells as a quiet one. The columns and lines at the border reach to infinity.

Range messages are in lists of their own, `areas`, which are never divided.

Lists, cells, edges and the terms of messages share one arena, counted in units of 16 bytes, the
size of an entry. Pieces have 1, 2, 3, 4, 6, 8, 12, ... units; none begins in the middle of a cache
line and goes on in the next. Those given back wait in a list for the next of their size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.memory import Memory
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s

single = cast("Callable[[float], float]", np.float32)
"""Rounds a coordinate to nearest, as entries have it."""

LINE = 16
"""Numbers of a cache line."""
UNIT = 4
"""Numbers of a unit. An entry: x, y, slot, signature."""
SLOT, SIGNATURE = 2, 3

HEAD = 4
"""Numbers of a term's head: unit of its entries, or of its cells; entries; level; and the size
class of its piece, or the unit of its edges."""
PIECE, COUNT, LEVEL, CLASS = 0, 1, 2, 3
EDGES = 3

CELL = 2
"""Numbers of a cell: unit of its entries; how many there are, times 64, plus the size class."""
CLASS_BITS = 6
CLASSES = 1 << CLASS_BITS
NOTHING = -1
_BEHIND = 4  # units that may be read behind a piece

MESSAGE = 6
"""Numbers of a message: west, south, east, north; when it is no longer active; the unit where its
terms are, their number first."""
END, TERMS = 4, 5
FIRST = 7
"""Where the heap of messages begins: so that its branches start at multiples of eight."""
CANCELLED = 0
"""In front of the heap: how many messages were cancelled, and come there with another end."""
SLOT_BYTES = 8 * MESSAGE + 8 + 2 * 4
"""Bytes of a message without its terms and entries."""

# What `counts` holds; WIDEST is the most terms that a message ever had, and pieces given back are
# listed by size class from FREE on.
USED, LIVE, ENTRIES, SLOTS, SPARE, GIVEN, WIDEST, FREE = range(8)


class ActiveArrays(NamedTuple):
    """The arrays of a store."""

    heads: Int32s  # HEAD numbers a term
    areas: Int32s  # the same for range messages; empty until there is one
    counts: Int64s
    memory: Float32s
    ints: Int32s  # the same memory
    messages: Floats  # (n, MESSAGE) by slot
    heap: Int32s  # slots in use from FIRST on, the one that ends first in front
    due_at: Floats  # when each of those ends
    spare: Int32s  # slots not in use


def empty_state(
    terms: int, units: int, slots: int, allocator: Memory | None = None
) -> ActiveArrays:
    """Make a store with nothing in it and room for so much."""
    allocator = allocator or Memory()
    heads = allocator.array("active_heads", terms * HEAD, np.int32)
    heads[:] = 0
    counts = allocator.array("active_counts", FREE + CLASSES, np.int64)
    counts[:FREE], counts[FREE:] = 0, NOTHING
    state = ActiveArrays(heads, heads[:0], counts, *_room(allocator, units, slots))
    state.due_at[CANCELLED] = 0
    return state


def attached_state(allocator: Memory, sizes: Mapping[str, int]) -> ActiveArrays:
    """Find a store again whose arrays have these sizes, in memory that keeps them."""
    heads = allocator.array("active_heads", sizes["heads"], np.int32)
    areas = heads[:0]
    if sizes["areas"]:
        areas = allocator.array("active_areas", sizes["areas"], np.int32)
    counts = allocator.array("active_counts", FREE + CLASSES, np.int64)
    units = sizes["memory"] // UNIT
    return ActiveArrays(heads, areas, counts, *_room(allocator, units, sizes["messages"]))


def _room(allocator: Memory, units: int, slots: int) -> tuple[Any, ...]:
    memory = allocator.array("active_memory", units * UNIT, np.float32)
    return (
        memory,
        memory.view(np.int32),
        allocator.array("active_messages", (slots, MESSAGE), np.float64),
        allocator.array("active_heap", slots + FIRST, np.int32),
        allocator.array("active_due_at", slots + 2 * FIRST, np.float64),
        allocator.array("active_spare", slots, np.int32),
    )


def longer(
    array: npt.NDArray[Any],
    used: int,
    room: int,
    *,
    cleared: bool = False,
    allocator: Memory | None = None,
    name: str = "",
) -> Any:
    """Give an array with room for so much that starts with what is used of this one."""
    allocator = allocator or Memory()
    grown = allocator.array(f"active_{name}", (room, *array.shape[1:]), array.dtype)
    if not allocator.keeps:
        grown[:used] = array[:used]
    if cleared:
        grown[used:] = 0
    return grown


def more_slots(
    state: ActiveArrays, used: int, room: int, allocator: Memory | None = None
) -> ActiveArrays:
    """Give a store with room for `room` messages."""

    def grown(name: str, lead: int = 0) -> Any:
        return longer(
            getattr(state, name), used + lead, room + lead, allocator=allocator, name=name
        )

    return state._replace(
        messages=grown("messages"),
        heap=grown("heap", FIRST),
        due_at=grown("due_at", 2 * FIRST),
        spare=grown("spare"),
    )


@inlined
def room_in_arena(state: ActiveArrays) -> int:
    """Give how many units the arena has, without the last few: numbers are read by sixteens."""
    return len(state.ints) // UNIT - _BEHIND


@inlined
def size_of(kind: int) -> int:
    """Give the units of a size class."""
    half = wide(kind) >> 1
    return (wide(3) << half) >> 1 if kind & 1 else wide(1) << half


@inlined
def class_for(units: int) -> int:
    """Give the smallest size class with that many units; classes 0 and 1 both have one."""
    kind = wide(0)
    while size_of(kind) < units:
        kind += 1
    return kind


@inlined
def room_to_take(kind: int) -> int:
    """Give how many units to take a piece may need, with what is left in front of it."""
    return size_of(kind) + UNIT - 1


@inner
def take(state: ActiveArrays, kind: int) -> int:
    """Take a piece, uninitialised; there must be room for it."""
    counts = state.counts
    unit: int = counts[FREE + kind]
    if unit != NOTHING:
        following = wide(state.ints[unit * UNIT])
        counts[FREE + kind] = following
        counts[SPARE] -= size_of(kind)
        if following != NOTHING:
            prefetch(state.ints, following * UNIT)  # the next that is taken is there by then
        return unit
    unit, size = counts[USED], size_of(kind)
    spare = -unit & (UNIT - 1)
    if 0 < spare < min(size, wide(UNIT)):
        # The rest of the cache line is for others, so that reading this piece takes no line more.
        counts[USED] += spare
        give_back(state, unit, spare if spare > 1 else wide(0))
        unit += spare
    counts[USED] += size
    return unit


@inner
def give_back(state: ActiveArrays, unit: int, kind: int) -> None:
    """Give a piece back."""
    counts = state.counts
    state.ints[unit * UNIT] = counts[FREE + kind]
    counts[FREE + kind] = unit
    counts[SPARE] += size_of(kind)


@inlined
def signature(term: int) -> int:
    """Give the bit of a term in a signature."""
    return wide(1) << ((wide(term) * wide(2654435761) >> 24) & 31)
