"""How the index lies in memory.

Every row hangs on the rarest of its required terms, its *key*. The rows of one key are a *run*:

- up to 8 rows: records one after the other;
- up to 16: one *leaf*, a block whose records are stored as planes, sixteen numbers of each field;
- more: a tree of *nodes* over leaves. A node is a block with the bounding boxes of up to 16
  children as planes; all leaves of a run are equally deep. It is an R-tree: full blocks split in
  two, unless a leaf beside a full one had better take the record, so that it grows without ever
  being rebuilt.

A record keeps the row's box in 32 bits, rounded outward, and the two next rarest terms. Free
places have an empty box (from +inf to -inf), which no message meets.

Everything lies in one arena that kernels see as float32 and as int32. It is counted in units of
32 bytes, the size of a record; blocks have 16 units and start at multiples of 16, so that a lane
of a block can be named by the block's unit plus its number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import LANES
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Float32s, Int32s, Int64s

SHORT = 8
"""The longest run that is kept as plain records."""

# A record: x0 y0 x1 y1 row second third key. A row that needs the exact check is inverted.
RECORD = 8
ROW, SECOND, THIRD, KEY = 4, 5, 6, 7
NO_TERM = -1
"""In place of a second or third term. As an index it means the last word of a bitmap, all ones."""
ROUND = -2
"""In place of a third term: there is none, and the row is a circle. As an index it means the same
as NO_TERM."""

# A block: the planes x0 y0 x1 y1; in a leaf row, second, third, in a node the children's units;
# and a last plane of single numbers.
BLOCK = RECORD * LANES
ROWS, SECONDS, THIRDS = 64, 80, 96
CHILDREN = 64
PARENT, OF_KEY, COUNT, FULL, ARRANGED_BOX, BOUND = 112, 113, 114, 115, 116, 120
"""FULL, in a node over leaves: the bits of those that were full when last seen. It may be wrong.
ARRANGED_BOX, in a leaf under a node: its bounding box when it was arranged, four numbers. BOUND, in
a block under a node: its bounding box as that has it, so that a move need not look there."""
ROOT = -1
"""The parent of a block that has none; other parents are a node's unit plus the lane in it."""

NOWHERE = -(2**31)
"""The place of a row that the index does not have; others are a record's unit, or inverted the
unit of a leaf plus the lane in it."""

LEAF_RUN = -1
"""What `runs[2 * key]` says of one leaf. 0 is nothing, 1 to SHORT that many records, and below
LEAF_RUN is a node: one less if its children are leaves, and so on."""

# What `counts` holds. Free records of n units are listed at FREE + n, free blocks at FREE + 16.
USED, SHORT_AT, SHORT_END, LIVE, RUNS, LEAVES, NODES, RECORDS, FREE = range(9)
EMPTY_LIST = -1


class RarestTermArrays(NamedTuple):
    """The arrays of the index, flat."""

    runs: Int32s  # two numbers a term: what the run is, and its unit
    places: Int32s  # where each row is
    counts: Int64s
    memory: Float32s
    ints: Int32s  # the same memory


def make_state(runs: Int32s, places: Int32s, counts: Int64s, memory: Any) -> RarestTermArrays:
    """Put arrays together."""
    return RarestTermArrays(runs, places, counts, memory, memory.view(np.int32))


def empty_state(allocator: Memory, terms: int, rows: int, units: int) -> RarestTermArrays:
    """Make an index with nothing in it and room for so much."""
    counts = allocator.array("index-counts", FREE + LANES + 1, np.int64)
    counts[:FREE] = 0
    counts[FREE:] = EMPTY_LIST
    runs = allocator.array("index-runs", 2 * terms, np.int32)
    runs[:] = 0
    places = allocator.array("index-places", rows, np.int32)
    places[:] = NOWHERE
    return make_state(runs, places, counts, allocator.array("index", units * RECORD, np.float32))


def grown(
    allocator: Memory, name: str, array: npt.NDArray[Any], needed: int, fill: int
) -> npt.NDArray[Any]:
    """Give an array that starts as this one and goes on with `fill`."""
    if needed <= len(array):
        return array
    larger = allocator.array(name, max(needed, len(array) + len(array) // 4), array.dtype)
    larger[: len(array)] = array
    larger[len(array) :] = fill
    return larger


@inlined
def room_for(size: int) -> int:
    """Give how many records a run of `size` has room for: 1, 2, 3, 4, 6 or 8."""
    return size + 1 if size == 5 or size == 7 else size


@inlined
def release(state: RarestTermArrays, unit: int, units: int) -> None:
    """Give a block, or a run of records, back."""
    state.ints[unit * RECORD] = state.counts[FREE + units]
    state.counts[FREE + units] = unit


@inner
def take_block(state: RarestTermArrays) -> int:
    """Take a block, uninitialised."""
    counts = state.counts
    unit: int = counts[FREE + LANES]
    if unit != EMPTY_LIST:
        counts[FREE + LANES] = state.ints[unit * RECORD]
    else:
        unit = counts[USED]
        counts[USED] += LANES
    return unit


@inner
def take_records(state: RarestTermArrays, room: int) -> int:
    """Take a run of records, uninitialised."""
    counts = state.counts
    counts[RECORDS] += room
    unit: int = counts[FREE + room]
    if unit != EMPTY_LIST:
        counts[FREE + room] = state.ints[unit * RECORD]
        return unit
    if counts[SHORT_AT] + room > counts[SHORT_END]:
        # Another block to cut records from; what is left of the last one serves shorter runs.
        while counts[SHORT_AT] < counts[SHORT_END]:
            left = min(4, counts[SHORT_END] - counts[SHORT_AT])
            release(state, counts[SHORT_AT], left)
            counts[SHORT_AT] += left
        counts[SHORT_AT] = take_block(state)
        counts[SHORT_END] = counts[SHORT_AT] + LANES
    unit = counts[SHORT_AT]
    counts[SHORT_AT] += room
    return unit


@inner
def new_block(state: RarestTermArrays, key: int) -> int:
    """Take a block with all lanes empty and no parent."""
    unit = take_block(state)
    base = unit * RECORD
    for at in range(base, base + 32):
        state.memory[at] = np.inf
        state.memory[at + 32] = -np.inf
    for at in range(base + 64, base + BLOCK):
        state.ints[at] = 0
    state.ints[base + PARENT] = ROOT
    state.ints[base + OF_KEY] = key
    return unit


@inlined
def empty_box(memory: Float32s, at: int, step: int) -> None:
    """Empty the box whose x0 is at `at`, and its other sides `step` apart."""
    memory[at] = memory[at + step] = np.inf
    memory[at + 2 * step] = memory[at + 3 * step] = -np.inf
