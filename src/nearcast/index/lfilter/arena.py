"""Many short lists in one flat array, and sorted ones that grow.

A list is one block of cells. Blocks come in fixed sizes, and a list has the smallest that holds it,
so where it begins and how many entries it has says everything. One that a list has outgrown goes
to the free blocks of its size. An arena has one plane of cells or two; the last one has the keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.gi2.lists import SIZES, kind_for

_TOP = len(SIZES)
NO_ROOM = -1


class Arena(NamedTuple):
    """Blocks of cells."""

    cells: Int32s  # (planes, n)
    free: Int64s  # the first free block of each size, or -1; then where unused cells begin


def new_arena(planes: int, room: int) -> Arena:
    """Make an arena without lists."""
    free = np.full(len(SIZES) + 1, -1, np.int64)
    free[_TOP] = 0
    return Arena(np.empty((planes, room), np.int32), free)


def larger(arena: Arena) -> Arena:
    """Give the same lists with half as much room again."""
    planes, room = arena.cells.shape
    cells = np.empty((planes, room * 3 // 2 + 1024), np.int32)
    cells[:, :room] = arena.cells
    return Arena(cells, arena.free)


def trimmed(arena: Arena) -> Arena:
    """Give an arena without the cells that no list has had."""
    return Arena(arena.cells[:, : arena.free[_TOP]], arena.free)


def used_cells(arena: Arena) -> int:
    """How many cells were ever given out."""
    return int(arena.free[_TOP])


def allocate_first(arena: Arena, count: int) -> int:
    """Give an empty arena its first list, of that many entries, for which it must have room."""
    arena.free[_TOP] = SIZES[np.searchsorted(SIZES, count)]
    return 0


def laid_out(counts: Int64s) -> tuple[Int64s, Int64s, int]:
    """Give where lists of that many entries begin, how large their blocks are, and the cells."""
    sizes = np.where(counts > 0, SIZES[np.searchsorted(SIZES, counts)], 0)
    ends = np.cumsum(sizes)
    return ends - sizes, sizes, int(ends[-1]) if len(ends) else 0


def arena_of(cells: Int32s, used: int) -> Arena:
    """Make an arena of cells of which the first `used` are lists already."""
    arena = Arena(cells, new_arena(1, 0).free)
    arena.free[_TOP] = used
    return arena


@inner
def room_for(count: int) -> int:
    """Give the size of the block of a list."""
    return int(SIZES[kind_for(count)]) if count > 0 else 0


@inner
def has_room(arena: Arena, cells: int) -> bool:
    """Return whether lists of that many entries in all fit, however they are cut."""
    return bool(arena.free[_TOP] + cells * 3 // 2 + 64 <= arena.cells.shape[1])


@inner
def allocate(arena: Arena, count: int) -> int:
    """Give where a new list of that many entries begins, or NO_ROOM."""
    kind = kind_for(count)
    block = arena.free[kind]
    if block >= 0:
        arena.free[kind] = arena.cells[0, block]
        return int(block)
    block = arena.free[_TOP]
    if block + SIZES[kind] > arena.cells.shape[1]:
        return NO_ROOM
    arena.free[_TOP] = block + SIZES[kind]
    return int(block)


@inner
def give_back(arena: Arena, block: int, count: int) -> None:
    """Let the block of a list be used again."""
    if count > 0:
        kind = kind_for(count)
        arena.cells[0, block] = arena.free[kind]
        arena.free[kind] = block


@inner
def lower_bound(cells: Int32s, plane: int, low: int, high: int, key: int) -> int:
    """Give the first place from `low` on whose key is not below `key`; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if cells[plane, middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def holds(arena: Arena, block: int, count: int, key: int) -> bool:
    """Return whether a sorted list has a key."""
    plane = arena.cells.shape[0] - 1
    at = lower_bound(arena.cells, plane, wide(block), block + count, key)
    return bool(at < block + count and arena.cells[plane, at] == key)


@inner
def lengthen(arena: Arena, block: int, count: int) -> int:
    """Make a list one entry longer; give where it is now, or NO_ROOM, having changed nothing."""
    if 0 < count < room_for(count):
        return block
    fresh = allocate(arena, wide(count + 1))
    if fresh >= 0:
        for plane in range(arena.cells.shape[0]):
            for at in range(count):
                arena.cells[plane, fresh + at] = arena.cells[plane, block + at]
        give_back(arena, block, count)
    return fresh


@inner
def insert_sorted(arena: Arena, block: int, count: int, value: int, key: int) -> int:
    """Put an entry into a sorted list; give where the list is now, or NO_ROOM."""
    cells, planes = arena.cells, arena.cells.shape[0]
    block = lengthen(arena, block, count)
    if block < 0:
        return block
    at = block + count
    while at > block and cells[planes - 1, at - 1] > key:
        for plane in range(planes):
            cells[plane, at] = cells[plane, at - 1]
        at -= 1
    cells[0, at] = value
    cells[planes - 1, at] = key
    return block


@inner
def remove_sorted(arena: Arena, block: int, count: int, key: int) -> int:
    """Take the entry with a key out of a sorted list that has it; give where the list is now."""
    cells, planes = arena.cells, arena.cells.shape[0]
    place = lower_bound(cells, planes - 1, block, block + count, key)
    fresh = block
    if room_for(count - 1) != room_for(count) and count > 1:
        fresh = allocate(arena, wide(count - 1))
        if fresh < 0:
            return NO_ROOM
    for plane in range(planes):
        for at in range(block, block + count - 1):
            cells[plane, fresh + at - block] = cells[plane, at + (at >= place)]
    if fresh != block or count == 1:
        give_back(arena, block, count)
    return fresh
