"""The core of the embedded engine with subscriptions only (a finder), or messages only (a part)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Int32s
from nearcast.spark.topk.dskype.terms import Numbers, Terms, unit
from nearcast.topk.core import TopK
from nearcast.topk.kernels.layout import DONE, NEXT, TopkScratch, TopkState
from nearcast.topk.window import Window

_MANY = 1 << 30

Space = tuple[float, float, float]
"""West, south and diagonal."""


class CoreArrays(TopK):
    """The core, with its arrays open to the kernels of this package."""

    @property
    def state(self) -> TopkState:
        """Its arrays; read it again after every call, which may replace them."""
        return self._state

    @property
    def work(self) -> TopkScratch:
        """Its scratch space."""
        return self._work

    @property
    def subscriptions(self) -> int:
        """One more than the highest number of a subscription."""
        return self._subs

    def take_numbers(self, count: int) -> Int32s:
        """Take numbers for `count` subscriptions."""
        return self._take_numbers(count)

    def free(self, subs: Int32s) -> None:
        """Return the numbers of withdrawn subscriptions for reuse."""
        self._free.extend(subs)

    def ensure_longest(self, length: int) -> None:
        """Make room for messages of `length` terms."""
        self._ensure_longest(length)

    def rebase_if_due(self) -> int:
        """Renumber messages from a later base before numbers overflow; return by how much."""
        if self._state.scalars[NEXT] < _MANY:
            return 0
        before = self._base
        self._rebase()
        return self._base - before

    def until_done(self, run: Callable[[int], tuple[int, int]]) -> None:
        """Call a kernel until it is done, from where it stopped, and grow what it asks for."""
        done, code = run(0)
        while code != DONE:
            self._grow(code)
            done, code = run(done)


class CoreHolder:
    """A core, the numbers of its terms, and the columns of a subclass, in some memory."""

    columns: ClassVar[dict[str, tuple[type, int]]] = {}

    def __init__(
        self,
        memory: Memory | None = None,
        described: Mapping[str, Any] | None = None,
        *,
        space: Space = (0.0, 0.0, 1.0),
    ) -> None:
        """Make an empty one, or attach to the one that `describe` described."""
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
        """Number terms, and set their weights in the core."""
        numbers = self.numbers.take(terms.hashes)
        self.core.ensure_terms(self.numbers.count)
        self.core.weigh(numbers, unit(terms.idf, len(numbers)))
        return numbers

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to it in its memory."""
        return {
            "core": self.core.describe(),
            "numbers": self.numbers.describe(),
            "sizes": {name: getattr(self, f"_{name}").size for name in self.columns},
        }


def enough(array: np.ndarray, size: int) -> np.ndarray:
    """The array if it has at least that size, or an uninitialised one that does."""
    return array if len(array) >= size else np.empty(size, array.dtype)
