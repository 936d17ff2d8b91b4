"""An array that grows at its end, in memory of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.arrays.memory import Memory


class Column:
    """An array that grows at its end, in steps that double."""

    def __init__(
        self,
        dtype: Any,
        width: int = 0,
        memory: Memory | None = None,
        name: str = "",
        size: int = 0,
    ) -> None:
        self._memory, self._name = memory or Memory(), name
        self._width = width
        kind = np.dtype(dtype)
        held = self._memory.room(name, kind.itemsize * max(width, 1)) if size else 0
        self._data = self._room(max(16, size, held), kind)
        self._filled: npt.NDArray[Any] | None = None
        self.size = size

    def _room(self, count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        shape = (count, self._width) if self._width else count
        return self._memory.array(self._name, shape, dtype)

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Column:
        """Take over an array as it is."""
        column = cls(array.dtype, array.shape[1] if array.ndim == 2 else 0)
        column._data, column.size = array, len(array)
        return column

    def reserve(self, extra: int) -> None:
        """Make room for `extra` more entries."""
        needed = self.size + extra
        if needed > len(self._data):
            grown = self._room(max(needed, 2 * len(self._data)), self._data.dtype)
            if not self._memory.keeps:
                grown[: self.size] = self._data[: self.size]
            self._data = grown

    def replace(self, values: npt.NDArray[Any]) -> None:
        """Hold other entries from now on; `values` must not be a part of the column."""
        self.size = 0
        self.extend(values)

    def append(self, value: Any) -> int:
        """Append one entry, and give its place."""
        place = self.size
        if place == len(self._data):
            self.reserve(1)
        self._data[place] = value
        self._filled = None
        self.size = place + 1
        return place

    def extend(self, values: Any) -> int:
        """Append an array of entries, and give the place of the first."""
        start = self.size
        self.reserve(len(values))
        self._data[start : start + len(values)] = values
        self._filled = None
        self.size += len(values)
        return start

    def lengthen(self, extra: int) -> None:
        """Append `extra` entries that are yet to be filled."""
        self.reserve(extra)
        self._filled = None
        self.size += extra

    def shorten(self, size: int) -> None:
        """Drop all entries but the first `size`."""
        self._filled = None
        self.size = size

    @property
    def array(self) -> npt.NDArray[Any]:
        """What is filled of it, not copied."""
        if self._filled is None:
            self._filled = self._data[: self.size]
        return self._filled

    @property
    def nbytes(self) -> int:
        """Bytes in use, without what is reserved."""
        return int(self.array.nbytes)
