"""Numbers terms for a core, by their hashes; numbers of unused terms are reused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.slots import Slots, empty_slots, find, mixed, move_slots, put, remove
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.spark.topk.dskype.columns import Terms
from nearcast.text.columns import Hashes

_UNUSED = np.uint64(0)
_FEW = 1 << 12


class NumberedTerms(NamedTuple):
    """Terms by their numbers."""

    starts: Int64s
    terms: Int32s
    counts: Int32s


class Numbers:
    """Maps hashes of terms to small numbers."""

    def __init__(self, memory: Memory, described: Mapping[str, int] | None = None) -> None:
        sizes = described or {"slots": 1 << 10, "count": 0, "free": 0}
        self._memory = memory
        self._slots: Slots = memory.array("term_slots", (sizes["slots"], 2), np.uint64)
        if described is None:
            self._slots[:] = empty_slots(1)
        self._hash = Column(np.uint64, 0, memory, "term_hash", sizes["count"])
        self._free = Column(np.int32, 0, memory, "term_free", sizes["free"])

    def describe(self) -> dict[str, int]:
        """Return what is needed to attach to them in their memory."""
        return {"slots": len(self._slots), "count": self.count, "free": self._free.size}

    @property
    def count(self) -> int:
        """One more than the highest number ever given."""
        return self._hash.size

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return int(self._slots.nbytes + self._hash.nbytes + self._free.nbytes)

    def take(self, hashes: Hashes) -> Int32s:
        """The numbers of terms; terms without one get a new one.

        Numbers are given in the order in which terms occur, so that frequent terms have low ones:
        lists are read from the highest number down, and the short ones should come first.
        """
        numbers = np.empty(len(hashes), np.int32)
        _look_up(self._slots, hashes, numbers)
        new = hashes[numbers < 0]
        if len(new):
            more = len(np.unique(new))
            count, free = self.count, self._free.size
            self._hash.lengthen(more)
            self._make_room(count - free + more)
            count, left = _take(self._slots, new, count, self._free.array, self._hash.array)
            self._hash.shorten(count)
            self._free.shorten(left)
            _look_up(self._slots, hashes, numbers)
        return numbers

    def _make_room(self, terms: int) -> None:
        size = len(self._slots)
        while 2 * terms > size:
            size *= 2
        if size > len(self._slots):
            old = self._slots.copy()
            self._slots = self._memory.array("term_slots", (size, 2), np.uint64)
            self._slots[:] = empty_slots(1)
            move_slots(old, self._slots)

    def known(self, terms: Terms, counts: Int32s) -> NumberedTerms:
        """The terms that have numbers, with their counts."""
        numbers = np.empty(len(terms.hashes), np.int32)
        _look_up(self._slots, terms.hashes, numbers)
        had = numbers >= 0
        before = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(had, out=before[1:])
        return NumberedTerms(before[terms.starts], numbers[had], counts[had])

    def sweep(self, unused: npt.NDArray[np.bool_]) -> None:
        """Free the numbers of unused terms, if enough are taken to be worth it."""
        live = self.count - self._free.size
        if live < _FEW or 8 * live <= 3 * len(self._slots):
            return
        held = self._hash.array != _UNUSED
        gone = np.flatnonzero(unused[: self.count] & held[: len(unused)]).astype(np.int32)
        _forget(self._slots, self._hash.array, gone)
        self._free.extend(gone)


def unit(idf: Floats, count: int) -> Floats:
    """The weights of `count` terms: `idf`, or 1 for each if it is empty."""
    return idf if len(idf) else np.ones(count)


@kernel
def _take(
    slots: Slots, hashes: Hashes, count: int, free: Int32s, hash_of: Hashes
) -> tuple[int, int]:
    """Number the terms in `hashes` that `slots` lacks; return the new count and free numbers."""
    left = len(free)
    for at in range(len(hashes)):
        first = hashes[at]
        if find(slots, first, mixed(first)) >= 0:
            continue
        number = count
        if left > 0:
            left -= 1
            number = int(free[left])
        else:
            count += 1
        put(slots, first, mixed(first), number)
        hash_of[number] = first
    return count, left


@kernel
def _look_up(slots: Slots, hashes: Hashes, numbers: Int32s) -> None:
    for at in range(len(hashes)):
        numbers[at] = find(slots, hashes[at], mixed(hashes[at]))


@kernel
def _forget(slots: Slots, hash_of: Hashes, numbers: Int32s) -> None:
    for number in numbers:
        remove(slots, hash_of[number], mixed(hash_of[number]))
        hash_of[number] = _UNUSED
