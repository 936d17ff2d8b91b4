"""Regions of arenas: taken, given back, chained by class when free."""

from __future__ import annotations

from nearcast._jit import inlined
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s, Int64s


@inlined
def take(ints: Int32s, free: Int32s, scalars: Int64s, end: int, kind: int, size: int) -> int:
    """Give where a region of a class starts; `end` names the scalar where fresh ones begin."""
    at = wide(free[kind])
    if at >= 0:
        free[kind] = ints[at]
        return at
    at = wide(scalars[end])
    scalars[end] += size
    return at


@inlined
def give_back(ints: Int32s, free: Int32s, kind: int, at: int) -> None:
    """Chain a region to the free ones of its class."""
    ints[at] = free[kind]
    free[kind] = at
