"""Terms as small numbers in a shard, by their hashes: those of subscriptions and active messages.

A term of subscriptions keeps its number for ever. One that only active messages have is given back
when they have ended, as in the engine (`nearcast.engine.terms`), and its number is used again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel, read_only
from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.slots import Slots, empty_slots, find, mixed, move_slots, put, remove
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index import Table
from nearcast.text.columns import HashedTexts, Hashes

_PIECE = 1 << 14


class ShardTerms:
    """Numbers terms; the table of the shard has room for all of them."""

    def __init__(
        self, memory: Memory, table: Table, described: Mapping[str, int] | None = None
    ) -> None:
        sizes = described or {"slots": 1 << 10, "count": 0, "free": 0}
        self._memory, self._table = memory, table
        self._slots: Slots = memory.array("term_slots", (sizes["slots"], 2), np.uint64)
        if described is None:
            self._slots[:] = empty_slots(1)
        self.count = sizes["count"]
        """One more than the highest number there was."""
        self._hash = Column(np.uint64, 0, memory, "term_hash", self.count)
        self._kept = Column(np.bool_, 0, memory, "term_kept", self.count)
        self._free = Column(np.int32, 0, memory, "term_free", sizes["free"])

    def describe(self) -> dict[str, int]:
        """Return what is needed to attach to them in their memory."""
        return {"slots": len(self._slots), "count": self.count, "free": self._free.size}

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        columns = (self._hash, self._kept, self._free)
        return self._slots.nbytes + sum(column.nbytes for column in columns)

    def numbers_of(self, hashes: Hashes, *, kept: bool = True) -> Int32s:
        """The numbers of terms; terms without one get a new one.

        It is theirs for ever or, without `kept`, until it is freed.
        """
        numbers, hashes = np.empty(len(hashes), np.int32), read_only(hashes)
        # In pieces, as most terms are known and room is made for each as if it were new.
        for start in range(0, len(hashes), _PIECE):
            some = hashes[start : start + _PIECE]
            self._make_room(len(some))
            free = self._free.array
            count, left = _intern(
                self._slots, some, self.count, free, self._hash.array, self._kept.array, kept,
                numbers[start : start + _PIECE],
            )  # fmt: skip
            self.count = count
            self._free.shorten(left)
        self._hash.shorten(self.count)
        self._kept.shorten(self.count)
        self._table.ensure_terms(self.count)
        return numbers

    def _make_room(self, more: int) -> None:
        most = self.count + more
        for column in (self._hash, self._kept):
            column.lengthen(max(0, most - column.size))
        size = len(self._slots)
        while 2 * most > size:
            size *= 2
        if size > len(self._slots):
            old = self._slots.copy()
            self._slots = self._memory.array("term_slots", (size, 2), np.uint64)
            self._slots[:] = empty_slots(1)
            move_slots(old, self._slots)

    def take_back(self, numbers: Int32s) -> None:
        """Forget terms that no active message has any more, unless a subscription had them."""
        gone = numbers[~self._kept.array[numbers]]
        if len(gone):
            _forget(self._slots, self._hash.array, gone)
            self._table.frequency[gone] = 0
            self._free.extend(gone)

    def known(self, texts: HashedTexts) -> tuple[Int64s, Int32s]:
        """The numbers of the terms of texts, where they have one, and where each text starts."""
        starts = np.zeros(len(texts.starts), np.int64)
        terms = np.empty(len(texts.hashes), np.int32)
        count = _known(self._slots, texts.starts, read_only(texts.hashes), starts, terms)
        return starts, terms[:count]


@kernel
def _intern(
    slots: Slots, hashes: Hashes, count: int, free: Int32s, hash_of: Hashes,
    kept: npt.NDArray[np.bool_], keep: bool, numbers: Int32s,
) -> tuple[int, int]:  # fmt: skip
    left = len(free)
    for at in range(len(hashes)):
        first = hashes[at]
        second = mixed(first)
        number = find(slots, first, second)
        if number < 0:
            if left > 0:
                left -= 1
                number = int(free[left])
            else:
                number = count
                count += 1
            put(slots, first, second, number)
            hash_of[number] = first
            kept[number] = keep
        elif keep:
            kept[number] = True
        numbers[at] = number
    return count, left


@kernel
def _forget(slots: Slots, hash_of: Hashes, numbers: Int32s) -> None:
    for number in numbers:
        remove(slots, hash_of[number], mixed(hash_of[number]))


@kernel
def _known(slots: Slots, starts: Int64s, hashes: Hashes, out_starts: Int64s, terms: Int32s) -> int:
    """Look terms up; those without a number are left out."""
    count = 0
    for text in range(len(starts) - 1):
        out_starts[text] = count
        for at in range(starts[text], starts[text + 1]):
            number = find(slots, hashes[at], mixed(hashes[at]))
            if number >= 0:
                terms[count] = number
                count += 1
    out_starts[len(starts) - 1] = count
    return count
