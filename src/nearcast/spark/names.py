"""Lists and ids by number, in arrays that all processes of a node can map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.strings import buffers, gathered
from nearcast.arrays.types import Int32s, Int64s

_WORTH_TIDYING = 1 << 16


class NumberedLists:
    """A list for each number; `prefix` distinguishes its arrays from others in the memory.

    `dtype` is that of what lists have, `sizes` that of their lengths.
    """

    def __init__(
        self,
        memory: Memory,
        prefix: str,
        described: Mapping[str, int] | None = None,
        *,
        dtype: Any = np.uint64,
        sizes: Any = np.int32,
    ) -> None:
        """Make an empty one, or attach to the one that `describe` described."""
        known = described or {"start": 0, "letters": 0, "dead": 0}
        self._start = Column(np.int64, 0, memory, f"{prefix}_start", known["start"])
        self._size = Column(sizes, 0, memory, f"{prefix}_size", known["start"])
        self._letters = Column(dtype, 0, memory, f"{prefix}_letters", known["letters"])
        self._dead = known["dead"]

    def describe(self) -> dict[str, int]:
        """Return what is needed to attach to them in their memory."""
        return {"start": self._start.size, "letters": self._letters.size, "dead": self._dead}

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._start.nbytes + self._size.nbytes + self._letters.nbytes

    def assign(self, numbers: Int32s, values: npt.NDArray[Any], ends: Int64s) -> None:
        """Set the lists of numbers that have none; list i is `values[ends[i] : ends[i + 1]]`."""
        more = int(numbers.max(initial=-1)) + 1 - self._start.size
        if more > 0:
            self._start.lengthen(more)
            self._size.lengthen(more)
            self._size.array[-more:] = 0
        base = self._letters.extend(values[ends[0] : ends[-1]])
        self._start.array[numbers] = base + ends[:-1] - ends[0]
        self._size.array[numbers] = np.diff(ends)

    def forget(self, numbers: Int32s) -> None:
        """Forget the lists of some numbers, if they have any."""
        numbers = numbers[numbers < self._start.size]
        self._dead += int(self._size.array[numbers].sum(dtype=np.int64))
        self._size.array[numbers] = 0
        if self._dead > max(_WORTH_TIDYING, self._letters.size // 2):
            self.tidy()

    def tidy(self) -> None:
        """Reclaim the room of forgotten lists."""
        values, ends = gathered(self._letters.array, self._start.array, self._size.array)
        self._start.array[:] = ends[:-1]
        self._letters.replace(values)
        self._dead = 0

    def renumber(self, old: Int32s) -> None:
        """Renumber all lists: number `old[i]` becomes `i`."""
        start, size = self._start.array[old].copy(), self._size.array[old].copy()
        self._start.replace(start)
        self._size.replace(size)

    def lists_of(self, numbers: Int32s) -> tuple[npt.NDArray[Any], Int64s]:
        """The lists of numbers, one after the other, and where each starts and ends."""
        return gathered(self._letters.array, self._start.array[numbers], self._size.array[numbers])


class Names(NumberedLists):
    """The id of each number, of at most 255 bytes; or, if `long`, any text."""

    def __init__(
        self,
        memory: Memory,
        prefix: str,
        described: Mapping[str, int] | None = None,
        *,
        long: bool = False,
    ) -> None:
        sizes = np.uint32 if long else np.uint8
        super().__init__(memory, prefix, described, dtype=np.uint8, sizes=sizes)

    def put(self, numbers: Int32s, ids: pa.Array) -> None:
        """Set the ids of numbers that have none."""
        self.assign(numbers, *buffers(ids))

    def of(self, numbers: Int32s) -> pa.Array:
        """The ids of numbers."""
        data, ends = self.lists_of(numbers)
        if ends[-1] < 2**31:
            offsets = pa.py_buffer(ends.astype(np.int32))
            return pa.StringArray.from_buffers(len(numbers), offsets, pa.py_buffer(data))
        return pa.LargeStringArray.from_buffers(
            len(numbers), pa.py_buffer(ends), pa.py_buffer(data)
        )
