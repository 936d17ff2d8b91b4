"""Inverted lists in two flat arrays: a hash from (cell, term), and an arena of blocks.

A list is one contiguous block, so that it is read in one go. Blocks come in fixed sizes; one that
a list has outgrown goes to the free blocks of its size. An entry is one number, the row, or with
inline records `WIDTH` numbers:

    row, second, third and fourth rarest term, west, south, east, north

where absent terms repeat the list's own, and the box is in single precision, rounded outward. Such
a record rejects most rows, and accepts those that are no closer to the border than the rounding,
without a look at the table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.gi2.grid import Spans

WIDTH = 8
TOP, SLOTS, LISTS, ENTRIES = 0, 1, 2, 3
"""Places in `Lists.counts`: arena in use, slots taken, lists not empty, entries of all lists."""

NO_SLOT, NO_ROOM = -1, -2
_FULLEST = 0.8
SIZES = np.array([1, 2, 3] + [size << n for n in range(26) for size in (4, 6)], np.int64)

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_AGAIN = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_COUNT_BITS = np.uint64(26)
_COUNT_MASK = np.uint64((1 << 26) - 1)
_KIND_MASK = np.uint64(63)


class CellLists(NamedTuple):
    """The lists as kernels read and change them."""

    slots: npt.NDArray[np.uint64]  # (n, 2): 0 or key + 1; where its block is, its size and count
    arena: Int32s  # (n, 1) or (n, WIDTH)
    free: Int32s  # the first free block of each size, or -1; its first number names the next
    counts: Int64s
    spans: Spans


@inner
def key_of(cell: int, term: int) -> Any:
    """Give the key of a list, which is never 0."""
    return (np.uint64(cell) << _HALF | np.uint64(term)) + np.uint64(1)


@inner
def _home(key: Any, slots: int) -> Any:
    mixed = key * _SPREAD
    mixed = (mixed ^ mixed >> _HALF) * _AGAIN
    return np.int64((mixed >> _HALF) * np.uint64(slots) >> _HALF)


@inner
def place_of(slots: Any, key: Any) -> Any:
    """Give the slot of a key, or the free slot where it would be."""
    at = _home(key, len(slots))
    while slots[at, 0] != 0 and slots[at, 0] != key:
        at += 1
        if at == len(slots):
            at = 0
    return at


@inner
def block_of(slot: Any) -> Any:
    """Give where the block of a list begins."""
    return np.int64(slot[1] >> _HALF)


@inner
def count_of(slot: Any) -> Any:
    """Give how many entries a list has."""
    return np.int64(slot[1] & _COUNT_MASK)


@inner
def kind_of(slot: Any) -> Any:
    """Give the size of a list's block, as a place in `SIZES`."""
    return np.int64(slot[1] >> _COUNT_BITS & _KIND_MASK)


@inner
def describe(slot: Any, block: int, kind: int, count: int) -> None:
    """Note in a slot where its list is."""
    slot[1] = np.uint64(block) << _HALF | np.uint64(kind) << _COUNT_BITS | np.uint64(count)


@inner
def kind_for(count: int) -> int:
    """Give the smallest size that holds that many entries, as a place in `SIZES`."""
    kind = 0
    while SIZES[kind] < count:
        kind += 1
    return kind


@inner
def _allocate(lists: CellLists, kind: int) -> int:
    block = lists.free[kind]
    if block >= 0:
        lists.free[kind] = lists.arena[block, 0]
        return int(block)
    block = lists.counts[TOP]
    if block + SIZES[kind] > len(lists.arena):
        return NO_ROOM
    lists.counts[TOP] += SIZES[kind]
    return int(block)


@inner
def _give_back(lists: CellLists, block: int, kind: int) -> None:
    lists.arena[block, 0] = lists.free[kind]
    lists.free[kind] = block


@inner
def copy_entry(arena: Int32s, source: int, target: int) -> None:
    """Copy an entry to another place."""
    for number in range(arena.shape[1]):
        arena[target, number] = arena[source, number]


@inner
def _relocate(lists: CellLists, slot: Any, kind: int) -> bool:
    """Move a list to a block of another size, if there is one."""
    count, old, old_kind = count_of(slot), block_of(slot), kind_of(slot)
    block = _allocate(lists, kind)
    if block < 0:
        return False
    for entry in range(count):
        copy_entry(lists.arena, old + entry, block + entry)
    _give_back(lists, old, old_kind)
    describe(slot, block, kind, count)
    return True


@inner
def append(lists: CellLists, key: Any) -> Any:
    """Make a list one entry longer, and give the place to write it, or what there is none of."""
    at = place_of(lists.slots, key)
    slot = lists.slots[at]
    count = count_of(slot)
    if count == 0:
        new = slot[0] == 0
        if new and lists.counts[SLOTS] >= _FULLEST * len(lists.slots):
            return NO_SLOT
        block = _allocate(lists, 0)
        if block < 0:
            return NO_ROOM
        slot[0] = key
        lists.counts[SLOTS] += new
        lists.counts[LISTS] += 1
        describe(slot, block, 0, 0)
    elif count == SIZES[kind_of(slot)] and not _relocate(lists, slot, kind_of(slot) + 1):
        return NO_ROOM
    describe(slot, block_of(slot), kind_of(slot), count + 1)
    lists.counts[ENTRIES] += 1
    return block_of(slot) + count


@inner
def shorten(lists: CellLists, slot: Any, count: int) -> None:
    """Keep the first `count` entries of a list, in a smaller block where that saves half."""
    lists.counts[ENTRIES] -= count_of(slot) - count
    kind = kind_of(slot)
    describe(slot, block_of(slot), kind, count)
    if count == 0:
        _give_back(lists, block_of(slot), kind)
        lists.counts[LISTS] -= 1
    elif 2 * count <= SIZES[kind]:
        _relocate(lists, slot, kind_for(count))


@lean_kernel
def rehash(old: Any, new: Any) -> int:
    """Put the slots of all lists that are not empty into a new hash, and count them."""
    taken = 0
    for at in range(len(old)):
        if count_of(old[at]) > 0:
            place = place_of(new, old[at, 0])
            new[place, 0], new[place, 1] = old[at, 0], old[at, 1]
            taken += 1
    return taken


def fresh_lists(lists: int, entries: int, width: int, spans: Spans) -> CellLists:
    """Make empty lists with room for that many lists and entries."""
    return CellLists(
        np.zeros((int(lists / 0.7) + 16, 2), np.uint64),
        np.empty((entries + 16, width), np.int32),
        np.full(len(SIZES), -1, np.int32),
        np.zeros(4, np.int64),
        spans,
    )


def with_slots(lists: CellLists, wanted: int) -> CellLists:
    """Give the same lists with a hash made for that many."""
    slots = np.zeros((int(wanted / 0.7) + 16, 2), np.uint64)
    lists.counts[SLOTS] = rehash(lists.slots, slots)
    return lists._replace(slots=slots)


def with_arena(lists: CellLists, wanted: int) -> CellLists:
    """Give the same lists with an arena of that many entries."""
    arena = np.empty((wanted, lists.arena.shape[1]), np.int32)
    arena[: len(lists.arena)] = lists.arena
    return lists._replace(arena=arena)
