"""The `sts` workloads as arrays of term ids and boxes, for planning and for benchmarks.

The same draws as in the event logs, without events and text in between. Unlike the other array
workloads a subscription may have several conjuncts: one for each term, if its terms are joined
by OR.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast.index import Batch
from nearcast_lab.workloads.arrays import (
    Subscriptions,
    chunks,
    frequencies,
    joined,
    messages_of,
)
from nearcast_lab.workloads.draws import Ints
from nearcast_lab.workloads.registry import convert_options
from nearcast_lab.workloads.sts import Group, StsOptions, StsSubscriptions, sts_corpus

STS_WORKLOADS: dict[str, Group] = {"sts-q1": "q1", "sts-q2": "q2", "sts-q3": "q3"}
"""The workloads of the paper."""

LOCAL = {f"{name}-local": group for name, group in STS_WORKLOADS.items()}
"""The same with words that depend on place."""

_DIALECTS = {"local": 1.0, "foreign": 0.5}


class Conjuncts(NamedTuple):
    """Conjunctions within boxes, each of a subscription: its *owner*.

    The terms of the i-th are `terms[starts[i] : starts[i + 1]]`.
    """

    boxes: Floats
    starts: Ints
    terms: NDArray[np.int32]
    owners: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.boxes)


class StsArrays:
    """The subscriptions and messages of one group, by number."""

    def __init__(self, group: Group, seed: int, options: StsOptions) -> None:
        self._corpus = sts_corpus(seed, options)
        self._drawn = StsSubscriptions(group, self._corpus, options).drawn
        self.frequency: Ints = frequencies(self._corpus.weights)
        self.options = options

    @classmethod
    def named(cls, name: str, seed: int, **options: Any) -> StsArrays:
        """Make the workload of that name; options may be given as text."""
        known = STS_WORKLOADS | LOCAL
        if name not in known:
            raise InvalidValue("workload", name, f"one of {', '.join(known)}")
        chosen = (_DIALECTS if name in LOCAL else {}) | options
        return cls(known[name], seed, convert_options(name, StsOptions, chosen))

    @property
    def space(self) -> tuple[float, float, float, float]:
        """West, south, east and north of where it takes place."""
        west, south, east, north = self._corpus.space
        return west, south, east, north

    def subscriptions(self, first: int, end: int) -> Subscriptions:
        """Make the subscriptions numbered `first` up to `end`."""
        made = [self._drawn(numbers) for numbers in chunks(first, end)]
        either = np.concatenate([np.empty(0, np.bool_), *(part[2] for part in made)])
        return Subscriptions(*joined(part[:2] for part in made), either)

    def conjuncts(self, first: int, end: int) -> Conjuncts:
        """Make the conjuncts of the subscriptions numbered `first` up to `end`."""
        boxes, starts, terms, either = self.subscriptions(first, end)
        assert either is not None  # noqa: S101 - these subscriptions have it
        counts = np.diff(starts)
        owners = np.repeat(np.arange(len(boxes), dtype=np.int32), np.where(either, counts, 1))
        lengths = np.where(either, 1, counts)[owners]
        return Conjuncts(boxes[owners], starts_of(lengths), terms, owners)

    def messages(self, first: int, end: int) -> Batch:
        """Make the messages numbered `first` up to `end`, each at a point."""
        return messages_of(self._corpus, first, end, self._places)

    def _places(self, numbers: Ints) -> Floats:
        """Where these messages are."""
        return self._corpus.cities.points(numbers)
