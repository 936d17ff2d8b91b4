"""Lists of 64-bit words by number, in one array that all processes of a node can map."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Int32s, Int64s
from nearcast.spark.topk.dskype.terms import starts_of
from nearcast.text.columns import Hashes

_WORTH_TIDYING = 1 << 14


class NumberedLists:
    """A list for each number; `prefix` distinguishes its arrays from others in the memory."""

    def __init__(
        self, memory: Memory, prefix: str, described: Mapping[str, int] | None = None
    ) -> None:
        sizes = described or {"start": 0, "words": 0, "dead": 0}
        self._start = Column(np.int64, 0, memory, f"{prefix}_start", sizes["start"])
        self._size = Column(np.int32, 0, memory, f"{prefix}_size", sizes["start"])
        self._words = Column(np.uint64, 0, memory, f"{prefix}_words", sizes["words"])
        self._dead = sizes["dead"]

    def describe(self) -> dict[str, int]:
        """Return what is needed to attach to them in their memory."""
        return {"start": self._start.size, "words": self._words.size, "dead": self._dead}

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._start.nbytes + self._size.nbytes + self._words.nbytes

    def put(self, numbers: Int32s, starts: Int64s, words: Hashes) -> None:
        """Set the lists of some numbers."""
        more = int(numbers.max(initial=-1)) + 1 - self._start.size
        if more > 0:
            self._start.lengthen(more)
            self._size.lengthen(more)
            self._size.array[-more:] = 0
        self.forget(numbers)
        base = self._words.extend(words)
        self._start.array[numbers] = base + starts[:-1]
        self._size.array[numbers] = np.diff(starts)

    def forget(self, numbers: Int32s) -> None:
        """Remove the lists of some numbers."""
        self._dead += int(self._size.array[numbers].sum())
        self._size.array[numbers] = 0
        if self._dead > max(_WORTH_TIDYING, self._words.size // 2):
            starts, words = self.of(np.arange(self._start.size, dtype=np.int32))
            self._start.array[:] = starts[:-1]
            self._words.replace(words)
            self._dead = 0

    def of(self, numbers: Int32s) -> tuple[Int64s, Hashes]:
        """The lists of some numbers, concatenated: where each starts, and all words."""
        sizes = self._size.array[numbers]
        starts = starts_of(sizes)
        places = np.repeat(self._start.array[numbers] - starts[:-1], sizes)
        return starts, self._words.array[places + np.arange(starts[-1])]
