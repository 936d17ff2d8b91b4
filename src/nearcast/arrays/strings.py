"""Strings by number, as bytes in one array: a string costs its bytes and 12 more."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import kernel, read_only
from nearcast.arrays.column import Column
from nearcast.arrays.types import Bytes, Int32s, Int64s

_NO_BYTES = read_only(np.empty(0, np.uint8))
_WORTH_COMPACTING = 1 << 16  # bytes


@kernel
def _gather(data: Bytes, starts: Int64s, offsets: Int64s, out: Bytes) -> None:
    """Write the strings that start at these places one after the other."""
    for n in range(len(starts)):
        begin = starts[n]
        for at in range(offsets[n + 1] - offsets[n]):
            out[offsets[n] + at] = data[begin + at]


def buffers(strings: pa.Array) -> tuple[Bytes, Int64s]:
    """The bytes of strings, or of bytes, without nulls, and where each starts and ends."""
    large = pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type)
    array = strings if large else strings.cast(pa.large_string())
    _, offsets, data = array.buffers()
    if offsets is None or not offsets.size:
        return _NO_BYTES, np.zeros(1, np.int64)
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return _NO_BYTES if data is None else read_only(np.frombuffer(data, np.uint8)), ends


def gathered(
    data: npt.NDArray[Any], starts: Int64s, sizes: Int64s | Int32s
) -> tuple[npt.NDArray[Any], Int64s]:
    """The parts of `data` with these starts and sizes, and where each starts and ends there."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(offsets[-1], data.dtype)
    _gather(data, starts, offsets, out)
    return out, offsets


def strings_at(data: Bytes, starts: Int64s, stops: Int64s) -> pa.LargeStringArray:
    """The strings that start and stop at these offsets."""
    out, offsets = gathered(data, starts, stops - starts)
    return pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(out))


class StringArena:
    """Strings by number; each can be replaced, and what that leaves behind is compacted away.

    Half of a pair of surrogates, which UTF-8 does not know, is kept as three bytes.
    """

    def __init__(self) -> None:
        self._data, self._starts = Column(np.uint8), Column(np.int64)
        self._sizes = Column(np.int32)
        self._dead = 0

    @classmethod
    def of(cls, data: Bytes, offsets: Int64s) -> StringArena:
        """Take over strings."""
        arena = cls()
        arena.extend(data, offsets)
        return arena

    def __len__(self) -> int:
        return self._sizes.size

    def __getitem__(self, number: int) -> str:
        start, size = int(self._starts.array[number]), int(self._sizes.array[number])
        return self._data.array[start : start + size].tobytes().decode(errors="surrogatepass")

    @property
    def sizes(self) -> Int32s:
        """How many bytes each has."""
        sizes: Int32s = self._sizes.array
        return sizes

    @property
    def nbytes(self) -> int:
        """The memory of all strings."""
        return self._data.nbytes + self._starts.nbytes + self._sizes.nbytes

    def encoded(self, number: int) -> Bytes:
        """The bytes of one string."""
        start = int(self._starts.array[number])
        found: Bytes = self._data.array[start : start + int(self._sizes.array[number])]
        return found

    def append(self, text: str) -> int:
        """Add a string, and return its number."""
        self._starts.append(self._data.size)
        self._data.extend(data := np.frombuffer(text.encode(errors="surrogatepass"), np.uint8))
        return self._sizes.append(len(data))

    def extend(self, data: Bytes, offsets: Int64s) -> int:
        """Add strings, and return the number of the first."""
        base = self._data.extend(data[offsets[0] : offsets[-1]])
        self._starts.extend(offsets[:-1] + (base - offsets[0]))
        return self._sizes.extend(np.diff(offsets))

    def assign(self, numbers: Int32s, data: Bytes, offsets: Int64s) -> None:
        """Give strings to numbers that have the empty one, or that follow the last in order."""
        more = int(numbers.max(initial=-1)) + 1 - len(self)
        if more > 0:
            self._starts.lengthen(more)
            self._sizes.lengthen(more)
        base = self._data.extend(data[offsets[0] : offsets[-1]])
        self._starts.array[numbers] = offsets[:-1] + (base - offsets[0])
        self._sizes.array[numbers] = np.diff(offsets)

    def replace(self, number: int, text: str) -> None:
        """Give a number another string."""
        self._dead += int(self._sizes.array[number])
        data = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
        self._starts.array[number] = self._data.extend(data)
        self._sizes.array[number] = len(data)
        self._tidy()

    def clear(self, numbers: Int32s) -> None:
        """Give numbers the empty string."""
        self._dead += int(self._sizes.array[numbers].sum())
        self._sizes.array[numbers] = 0
        self._tidy()

    def _tidy(self) -> None:
        if self._dead > max(_WORTH_COMPACTING, self._data.size // 2):
            data, offsets = self.buffers()
            self._data = Column.of(data)
            self._starts.array[:] = offsets[:-1]
            self._dead = 0

    def buffers(self) -> tuple[Bytes, Int64s]:
        """The bytes of all strings, and where each starts and ends."""
        return gathered(self._data.array, self._starts.array, self._sizes.array)

    def take(self, numbers: Int32s) -> pa.LargeStringArray:
        """The strings with these numbers, which must be UTF-8."""
        starts = self._starts.array[numbers]
        return strings_at(self._data.array, starts, starts + self._sizes.array[numbers])
