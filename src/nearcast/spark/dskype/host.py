"""The core of the embedded engine in one of its roles: subscriptions alone, or messages alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Int32s
from nearcast.spark.dskype.columns import Terms
from nearcast.spark.dskype.numbering import Numbers, unit
from nearcast.topk.core import TopK
from nearcast.topk.kernels.layout import DONE, NEXT, TopkScratch, TopkState
from nearcast.topk.window import Window

_MANY = 1 << 30

Space = tuple[float, float, float]
"""West, south and diagonal."""


class CoreArrays(TopK):
    """The core, for kernels of others."""

    @property
    def state(self) -> TopkState:
        """Its arrays; ask again after every call."""
        return self._state

    @property
    def work(self) -> TopkScratch:
        """What a call needs meanwhile."""
        return self._work

    @property
    def subscriptions(self) -> int:
        """One more than the highest number of a subscription."""
        return self._subs

    def take_numbers(self, count: int) -> Int32s:
        """Numbers for so many subscriptions."""
        return self._take_numbers(count)

    def free(self, subs: Int32s) -> None:
        """Let others have the numbers of subscriptions that were withdrawn."""
        self._free.extend(subs)

    def ensure_longest(self, length: int) -> None:
        """Make room for messages of so many terms."""
        self._ensure_longest(length)

    def rebase_if_due(self) -> int:
        """Count messages from a later one on before numbers get too large; give by how many."""
        if self._state.scalars[NEXT] < _MANY:
            return 0
        before = self._base
        self._rebase()
        return self._base - before

    def until_done(self, run: Callable[[int], tuple[int, int]]) -> None:
        """Call a kernel again, from where it came to, with what it asks for, until it is done."""
        done, code = run(0)
        while code != DONE:
            self._grow(code)
            done, code = run(done)


class Host:
    """A core, the numbers of terms in it, and columns of one's own, in some memory."""

    columns: ClassVar[dict[str, tuple[type, int]]] = {}

    def __init__(
        self,
        memory: Memory | None = None,
        space: Space = (0.0, 0.0, 1.0),
        described: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an empty one, or find the one again that `describe` told of."""
        self.memory = memory or Memory()
        if described is None:
            self.core = CoreArrays(Window(1), *space, memory=self.memory)
            self.numbers = Numbers(self.memory)
        else:
            self.core = CoreArrays.attach(self.memory, described["core"])
            self.numbers = Numbers(self.memory, described["numbers"])
        for name, (dtype, width) in self.columns.items():
            size = 0 if described is None else described["sizes"][name]
            setattr(self, f"_{name}", Column(dtype, width, self.memory, name, size))

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        own = sum(getattr(self, f"_{name}").nbytes for name in self.columns)
        core = self.core.message_bytes + self.core.subscription_bytes
        return int(core + self.numbers.nbytes + own)

    def number(self, terms: Terms) -> Int32s:
        """Number terms, and tell the core what they weigh."""
        numbers = self.numbers.take(terms.hashes)
        self.core.ensure_terms(self.numbers.count)
        self.core.weigh(numbers, unit(terms.idf, len(numbers)))
        return numbers

    def describe(self) -> dict[str, Any]:
        """Say what is needed to find it again in its memory."""
        return {
            "core": self.core.describe(),
            "numbers": self.numbers.describe(),
            "sizes": {name: getattr(self, f"_{name}").size for name in self.columns},
        }


def enough(array: np.ndarray, size: int) -> np.ndarray:
    """An array of at least that size, which need not hold anything."""
    return array if len(array) >= size else np.empty(size, array.dtype)
