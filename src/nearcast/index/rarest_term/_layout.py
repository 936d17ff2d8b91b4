"""How the index lies in memory.

Every row hangs on the rarest of its required terms, its *key*. The rows of one key are a *run*:

- up to 8 rows: records in a row, found through `runs` alone;
- up to 16: one *leaf*, whose records are stored as planes, sixteen numbers of each field;
- more: a tree of *nodes* over leaves. A node holds the bounding boxes of up to 16 children as
  planes; all leaves of a run are equally deep. It is an R-tree: full leaves split in two, so that
  it grows without ever being built anew.

A record keeps the row's box in 32 bits, rounded outward, and the two next rarest terms. Free
places have an empty box (from +inf to -inf), which no message meets.

All three kinds lie in arenas with lists of what is free. Kernels see the same memory as float32
and as int32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.index.table import Int32s, Int64s

Float32s = npt.NDArray[np.float32]

SHORT = 8
"""The longest run that is kept as plain records."""

# A record: x0 y0 x1 y1 row second third key. A row that needs the exact check stands inverted.
RECORD = 8
ROW, SECOND, THIRD, KEY = 4, 5, 6, 7
NO_TERM = -1
"""In place of a second or third term: the last word of a bitmap of message terms is all ones."""

# A leaf: the planes x0 y0 x1 y1 row second third, and a last one of these single numbers.
LEAF = 128
ROWS, SECONDS, THIRDS = 64, 80, 96
LEAF_PARENT, LEAF_KEY, LEAF_COUNT = 112, 113, 114

# A node: the planes x0 y0 x1 y1 child, and these single numbers.
NODE = 96
CHILDREN = 64
NODE_PARENT, NODE_KEY, NODE_COUNT = 80, 81, 82

# A parent is `node * 16 + lane`, or ROOT.
ROOT = -1

# The place of a row (`places`): a record, or `~(leaf * 16 + lane)`, or NOWHERE.
NOWHERE = -(2**31)

# What `runs[2 * key]` says: 0 nothing, 1 to SHORT so many records, LEAF_RUN one leaf, below that
# a node: LEAF_RUN - 1 if its children are leaves, and one less for each level more.
LEAF_RUN = -1

# What `counts` holds.
USED_RECORDS, USED_LEAVES, USED_NODES = 0, 1, 2
FREE_LEAF, FREE_NODE, FREE_RECORDS = 3, 4, 5  # FREE_RECORDS + n: runs of n records, n up to 8
LIVE, RUNS, LIVE_LEAVES, LIVE_NODES, LIVE_RECORDS = 14, 15, 16, 17, 18
COUNTS = 24
EMPTY_LIST = -1


class State(NamedTuple):
    """The arrays of the index, flat."""

    runs: Int32s  # two numbers a term: what the run is, and where
    places: Int32s  # where each row is
    counts: Int64s
    records: Float32s
    leaves: Float32s
    nodes: Float32s
    record_ints: Int32s  # the same memory as the three above
    leaf_ints: Int32s
    node_ints: Int32s


def empty_counts() -> Int64s:
    """Make the counts of an index with nothing in it."""
    counts = np.zeros(COUNTS, np.int64)
    counts[FREE_LEAF : FREE_RECORDS + SHORT + 1] = EMPTY_LIST
    return counts


def make_state(
    runs: Int32s, places: Int32s, counts: Int64s, records: Any, leaves: Any, nodes: Any
) -> State:
    """Put arrays together, and add their other views."""
    return State(
        runs, places, counts, records, leaves, nodes,
        records.view(np.int32), leaves.view(np.int32), nodes.view(np.int32),
    )  # fmt: skip


def empty_state(terms: int, rows: int, records: int, leaves: int, nodes: int) -> State:
    """Make an index with nothing in it and room for so much."""
    # Arrays made by numpy, not in kernels: only these lie in huge pages.
    return make_state(
        np.zeros(2 * terms, np.int32),
        np.full(rows, NOWHERE, np.int32),
        empty_counts(),
        np.empty(RECORD * records, np.float32),
        np.empty(LEAF * leaves, np.float32),
        np.empty(NODE * nodes, np.float32),
    )


def grown(array: npt.NDArray[Any], needed: int, fill: int = 0) -> npt.NDArray[Any]:
    """Give an array of at least `needed` entries that starts as this one and goes on with `fill`."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, len(array) + len(array) // 2), array.dtype)
    larger[: len(array)] = array
    larger[len(array) :] = fill
    return larger


def grown_arena(array: npt.NDArray[Any], used: int, needed: int) -> npt.NDArray[Any]:
    """Give an arena with room for `needed` entries whose first `used` ones are kept."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, used + used // 2), array.dtype)
    larger[:used] = array[:used]
    return larger


@kernel
def room_for(size: int) -> int:
    """Give how many records a run of `size` has room for: 1, 2, 3, 4, 6 or 8."""
    return size + (1 if size == 5 or size == 7 else 0)


@kernel
def new_records(state: State, size: int) -> int:
    """Take a run of records with room for `room_for(size)`."""
    room = room_for(size)
    state.counts[LIVE_RECORDS] += room
    at = state.counts[FREE_RECORDS + room]
    if at != EMPTY_LIST:
        state.counts[FREE_RECORDS + room] = state.record_ints[at * RECORD]
        return at
    at = state.counts[USED_RECORDS]
    state.counts[USED_RECORDS] += room
    return at


@kernel
def free_records(state: State, at: int, size: int) -> None:
    """Give a run of records back."""
    room = room_for(size)
    state.counts[LIVE_RECORDS] -= room
    state.record_ints[at * RECORD] = state.counts[FREE_RECORDS + room]
    state.counts[FREE_RECORDS + room] = at


@kernel
def new_leaf(state: State, key: int, parent: int) -> int:
    """Take a leaf, empty."""
    state.counts[LIVE_LEAVES] += 1
    leaf = state.counts[FREE_LEAF]
    if leaf != EMPTY_LIST:
        state.counts[FREE_LEAF] = state.leaf_ints[leaf * LEAF]
    else:
        leaf = state.counts[USED_LEAVES]
        state.counts[USED_LEAVES] += 1
    base = leaf * LEAF
    for at in range(base, base + 32):
        state.leaves[at] = np.inf
        state.leaves[at + 32] = -np.inf
    for at in range(base + ROWS, base + LEAF):
        state.leaf_ints[at] = 0
    state.leaf_ints[base + LEAF_PARENT] = parent
    state.leaf_ints[base + LEAF_KEY] = key
    return leaf


@kernel
def free_leaf(state: State, leaf: int) -> None:
    """Give a leaf back."""
    state.counts[LIVE_LEAVES] -= 1
    state.leaf_ints[leaf * LEAF] = state.counts[FREE_LEAF]
    state.counts[FREE_LEAF] = leaf


@kernel
def new_node(state: State, key: int, parent: int) -> int:
    """Take a node, empty."""
    state.counts[LIVE_NODES] += 1
    node = state.counts[FREE_NODE]
    if node != EMPTY_LIST:
        state.counts[FREE_NODE] = state.node_ints[node * NODE]
    else:
        node = state.counts[USED_NODES]
        state.counts[USED_NODES] += 1
    base = node * NODE
    for at in range(base, base + 32):
        state.nodes[at] = np.inf
        state.nodes[at + 32] = -np.inf
    for at in range(base + CHILDREN, base + NODE):
        state.node_ints[at] = 0
    state.node_ints[base + NODE_PARENT] = parent
    state.node_ints[base + NODE_KEY] = key
    return node


@kernel
def free_node(state: State, node: int) -> None:
    """Give a node back."""
    state.counts[LIVE_NODES] -= 1
    state.node_ints[node * NODE] = state.counts[FREE_NODE]
    state.counts[FREE_NODE] = node
