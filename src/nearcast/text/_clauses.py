"""Clauses of queries as bits, multiplied out by kernels: see `nearcast.text.bulk`."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner
from nearcast.arrays.types import Bits, Int64s

MOST_CLAUSES = 32
"""A query with more than these is left to the parser."""


@inner
def both(
    required: Bits, excluded: Bits, counts: Int64s, level: int, have: np.uint64, lack: np.uint64
) -> None:
    """Add operands to all clauses of a product; those that contradict themselves are dropped."""
    kept = 0
    for place in range(counts[level]):
        has, lacks = required[level, place] | have, excluded[level, place] | lack
        if has & lacks == 0:
            required[level, kept], excluded[level, kept] = has, lacks
            kept += 1
    counts[level] = kept


@inner
def close_side(
    required: Bits, excluded: Bits, counts: Int64s, sides: Bits, lacking: Bits, held: Int64s,
    level: int,
) -> bool:  # fmt: skip
    """Add a product to the sides of OR, and begin another; return whether there was room."""
    if held[level] + counts[level] > MOST_CLAUSES:
        return False
    for place in range(counts[level]):
        sides[level, held[level]] = required[level, place]
        lacking[level, held[level]] = excluded[level, place]
        held[level] += 1
    counts[level] = 1
    required[level, 0] = excluded[level, 0] = np.uint64(0)
    return True


@inner
def times(
    required: Bits, excluded: Bits, counts: Int64s, sides: Bits, lacking: Bits, held: Int64s,
    level: int, have: Bits, lack: Bits,
) -> bool:  # fmt: skip
    """Multiply a product by the sides of the level above it; return whether there was room."""
    inside, made = level + 1, 0
    if counts[level] * held[inside] > MOST_CLAUSES:
        return False
    for place in range(counts[level]):
        for side in range(held[inside]):
            has = required[level, place] | sides[inside, side]
            lacks = excluded[level, place] | lacking[inside, side]
            if has & lacks == 0:
                have[made], lack[made] = has, lacks
                made += 1
    for place in range(made):
        required[level, place], excluded[level, place] = have[place], lack[place]
    counts[level] = made
    return True


@inner
def write_conjuncts(
    sides: Bits, lacking: Bits, held: Int64s, required: Bits, excluded: Bits, written: int
) -> int:
    """Write the distinct sides of the outermost level; -1 if one has nothing to find."""
    first = written
    for side in range(held[0]):
        has, lacks = sides[0, side], lacking[0, side]
        if has == 0:
            return -1
        again = False
        for other in range(first, written):
            again |= required[other] == has and excluded[other] == lacks
        if not again:
            required[written], excluded[written] = has, lacks
            written += 1
    return written if written > first else -1
