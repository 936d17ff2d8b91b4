"""Small read-only hash tables from terms to numbers, made once and read by kernels.

A table has a power of two of slots, at most half of them taken; a value of -1 marks a free slot,
and a term that is not in its own slot stands in one of the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, kernel

Terms = npt.NDArray[np.uint64]


def table_size(count: int) -> int:
    """Give the number of slots for so many terms."""
    return 1 << max(2 * count - 1, 1).bit_length()


@kernel
def fill_table(keys: Terms, values: Any, terms: Terms, numbers: Any) -> None:
    """Enter distinct terms with their numbers, which are 0 or more, into a free table."""
    mask = len(keys) - 1
    for at in range(len(terms)):
        slot = np.int64(terms[at] & np.uint64(mask))
        while values[slot] >= 0:
            slot = (slot + 1) & mask
        keys[slot] = terms[at]
        values[slot] = numbers[at]


@inlined
def look_up(keys: Terms, values: Any, start: int, mask: int, term: np.uint64) -> int:
    """Find the number of a term, -1 if it is not there, in the table that begins at `start`."""
    slot = np.int64(term & np.uint64(mask))
    while values[start + slot] >= 0:
        if keys[start + slot] == term:
            return np.int64(values[start + slot])  # type: ignore[return-value]  # an int to callers
        slot = (slot + 1) & mask
    return -1
