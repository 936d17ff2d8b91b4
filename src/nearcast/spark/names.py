"""Ids by number, in one array that all processes of a node can map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import kernel
from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Int32s, Int64s
from nearcast.text.columns import buffers

_WORTH_TIDYING = 1 << 16


class Names:
    """The id of each number; `prefix` distinguishes its arrays from others in the memory.

    Ids have at most 255 bytes; `long` ones, which are texts, any number of them.
    """

    def __init__(
        self,
        memory: Memory,
        prefix: str,
        described: Mapping[str, int] | None = None,
        *,
        long: bool = False,
    ) -> None:
        sizes = described or {"start": 0, "letters": 0, "dead": 0}
        self._start = Column(np.int64, 0, memory, f"{prefix}_start", sizes["start"])
        self._size = Column(
            np.uint32 if long else np.uint8, 0, memory, f"{prefix}_size", sizes["start"]
        )
        self._letters = Column(np.uint8, 0, memory, f"{prefix}_letters", sizes["letters"])
        self._dead = sizes["dead"]

    def describe(self) -> dict[str, int]:
        """Return what `attach` needs."""
        return {"start": self._start.size, "letters": self._letters.size, "dead": self._dead}

    @classmethod
    def attach(
        cls, memory: Memory, prefix: str, described: Mapping[str, int], *, long: bool = False
    ) -> Self:
        """Attach to names in memory that is kept in files."""
        return cls(memory, prefix, described, long=long)

    @property
    def size(self) -> int:
        """One more than the highest number that ever had an id."""
        return self._start.size

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._start.nbytes + self._size.nbytes + self._letters.nbytes

    def put(self, numbers: Int32s, ids: pa.Array) -> None:
        """Set the ids of numbers that have none."""
        more = int(numbers.max(initial=-1)) + 1 - self._start.size
        if more > 0:
            self._start.lengthen(more)
            self._size.lengthen(more)
            self._size.array[-more:] = 0
        data, ends = buffers(ids)
        base = self._letters.extend(data[ends[0] : ends[-1]])
        self._start.array[numbers] = base + ends[:-1] - ends[0]
        self._size.array[numbers] = np.diff(ends)

    def forget(self, numbers: Int32s) -> None:
        """Forget the ids of some numbers."""
        self._dead += int(self._size.array[numbers].sum(dtype=np.int64))
        self._size.array[numbers] = 0
        if self._dead > max(_WORTH_TIDYING, self._letters.size // 2):
            self.tidy()

    def tidy(self) -> None:
        """Reclaim the room of forgotten ids."""
        letters = np.empty(self._letters.size, np.uint8)
        used = _copy(self._letters.array, self._start.array, self._size.array, letters)
        self._letters.replace(letters[:used])
        self._dead = 0

    def renumber(self, old: Int32s) -> None:
        """Renumber all ids: number `old[i]` becomes `i`."""
        start, size = self._start.array[old].copy(), self._size.array[old].copy()
        self._start.replace(start)
        self._size.replace(size)

    def of(self, numbers: Int32s) -> pa.Array:
        """The ids of numbers."""
        ends = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(self._size.array[numbers], out=ends[1:])
        data = np.empty(int(ends[-1]), np.uint8)
        _gather(self._letters.array, self._start.array, numbers, ends, data)
        if ends[-1] < 2**31:
            offsets = pa.py_buffer(ends.astype(np.int32))
            return pa.StringArray.from_buffers(len(numbers), offsets, pa.py_buffer(data))
        return pa.LargeStringArray.from_buffers(
            len(numbers), pa.py_buffer(ends), pa.py_buffer(data)
        )


@kernel
def _copy(
    names: npt.NDArray[np.uint8],
    start: Int64s,
    size: npt.NDArray[np.unsignedinteger[Any]],
    out: npt.NDArray[np.uint8],
) -> int:
    used = 0
    for number in range(len(start)):
        begin, start[number] = start[number], used
        for place in range(begin, begin + int(size[number])):
            out[used] = names[place]
            used += 1
    return used


@kernel
def _gather(
    names: npt.NDArray[np.uint8],
    start: Int64s,
    numbers: Int32s,
    ends: Int64s,
    out: npt.NDArray[np.uint8],
) -> None:
    for at in range(len(numbers)):
        shift = start[numbers[at]] - ends[at]
        for place in range(ends[at], ends[at + 1]):
            out[place] = names[shift + place]
