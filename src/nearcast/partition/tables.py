"""Small read-only hash tables from terms to numbers, made once and read by kernels.

A table has a power of two of slots, at most half of them taken; a term that is not in its own slot
is in one of the next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, kernel
from nearcast.arrays.types import Int32s, Int64s

Terms = npt.NDArray[np.uint64]

_FREE = np.uint64(0)
_WORKER_BITS = np.uint64(16)
_WORKER = np.uint64(0xFFFF)


def no_terms() -> Terms:
    """Terms, of which there are none."""
    return np.empty(0, np.uint64)


def no_counts() -> Int64s:
    """And how often they occur."""
    return np.empty(0, np.int64)


def places_in(known: Terms, terms: Terms) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """The places of terms among sorted ones, and which of them are there."""
    place = np.minimum(np.searchsorted(known, terms), max(len(known) - 1, 0))
    return place, known[place] == terms if len(known) else np.zeros(len(terms), np.bool_)


def table_size(count: int) -> int:
    """Give the number of slots for that many terms."""
    return 1 << max(2 * count - 1, 1).bit_length()


def count_table(terms: Terms, counts: Int64s) -> tuple[Terms, Int64s]:
    """Make a table of distinct terms and their counts, which are 1 or more."""
    size = table_size(len(terms))
    keys, values = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    _fill_counts(keys, values, terms, counts)
    return keys, values


@kernel
def _fill_counts(keys: Terms, values: Int64s, terms: Terms, counts: Int64s) -> None:
    mask = len(keys) - 1
    for at in range(len(terms)):
        slot = np.int64(terms[at] & np.uint64(mask))
        while values[slot] > 0:
            slot = (slot + 1) & mask
        keys[slot] = terms[at]
        values[slot] = counts[at]


@inner
def count_of(keys: Terms, values: Int64s, term: np.uint64) -> int:
    """Find the count of a term, 0 if it is not there."""
    mask = len(keys) - 1
    slot = np.int64(term & np.uint64(mask))
    while values[slot] > 0:
        if keys[slot] == term:
            return np.int64(values[slot])  # type: ignore[return-value]  # an int to callers
        slot = (slot + 1) & mask
    return 0


@kernel
def fill_workers(slots: Terms, terms: Terms, workers: Int32s) -> None:
    """Enter terms with their workers; a slot has the low 48 bits of a term above worker + 1.

    Terms that share these bits share a worker. That is as good as any other choice, as long as
    every process makes it.
    """
    mask = len(slots) - 1
    for at in range(len(terms)):
        slot = np.int64(terms[at] & np.uint64(mask))
        while slots[slot] != _FREE:
            slot = (slot + 1) & mask
        slots[slot] = terms[at] << _WORKER_BITS | np.uint64(workers[at] + 1)


@inner
def worker_in(slots: Terms, start: int, mask: int, term: np.uint64) -> int:
    """Find the worker of a term, -1 if it has none, in the table that begins at `start`."""
    tag = term << _WORKER_BITS
    slot = np.int64(term & np.uint64(mask))
    while slots[start + slot] != _FREE:
        if (slots[start + slot] ^ tag) <= _WORKER:
            return np.int64(slots[start + slot] & _WORKER) - 1  # type: ignore[return-value]
        slot = (slot + 1) & mask
    return -1
