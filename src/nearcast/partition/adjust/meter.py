"""What workers and cells had to do lately, and when that has become too uneven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast.partition.load import MEASURED, WorkCosts, balance_of

FIELDS = ("messages", "candidates", "operations", "updates", "busy_ns")
"""What is counted: messages handled, rows looked at, rows that came or went, pairs answered with,
and CPU taken."""


class Meter:
    """Counters that forget: what was counted one half-life ago counts half; none if it is endless.

    One meter counts for the workers of a plan, another for its cells. Time is passed in.
    """

    def __init__(self, size: int, half_life_s: float = 60.0) -> None:
        if not half_life_s > 0:
            raise InvalidValue("half_life_s", half_life_s, "a number above 0")
        self._half_life_s = half_life_s
        self._counts = np.zeros((len(FIELDS), size))
        self._at: float | None = None

    def __len__(self) -> int:
        return self._counts.shape[1]

    def add(self, at: float, **counted: Floats) -> None:
        """Count what was done since the last time, as arrays named after `FIELDS`."""
        if self._at is not None:
            if at < self._at:
                raise InvalidValue("at", at, f"a time not before {self._at}")
            self._counts *= 0.5 ** ((at - self._at) / self._half_life_s)
        self._at = at
        for name, values in counted.items():
            if name not in FIELDS:
                raise InvalidValue("counter", name, f"one of {', '.join(FIELDS)}")
            if np.shape(values) != (len(self),):
                raise InvalidValue(name, np.shape(values), f"{len(self)} numbers")
            self._counts[FIELDS.index(name)] += values

    def counted(self, name: str) -> Floats:
        """Give one of the counters, as it is by the time of the last `add`."""
        return np.array(self._counts[FIELDS.index(name)])

    def loads(self, costs: WorkCosts = MEASURED) -> Floats:
        """What each had to do, in nanoseconds, by what it did.

        Not by the CPU that took: on a machine with other things to do, that is off by a fifth from
        one batch to the next, for reasons that go along with no cell.
        """
        messages, candidates, operations, updates, _ = self._counts
        return np.asarray(
            costs.check_ns * candidates
            + costs.message_ns * messages
            + costs.operation_ns * operations
            + costs.update_ns * updates
        )

    def merged(self, other: Meter) -> Meter:
        """Give what both have counted, together."""
        both = Meter(len(self), self._half_life_s)
        both._counts = self._counts + other._counts
        both._at = other._at if self._at is None else self._at
        return both

    def to_json(self) -> dict[str, Any]:
        """Give the counters as they may be written down."""
        counters: dict[str, Any] = {"at": self._at, "half_life_s": self._half_life_s}
        return counters | dict(zip(FIELDS, self._counts.tolist(), strict=True))

    @classmethod
    def from_json(cls, counters: Mapping[str, Any]) -> Meter:
        """Take up counters that `to_json` gave."""
        meter = cls(len(counters[FIELDS[0]]), counters["half_life_s"])
        meter._at = counters["at"]
        meter._counts[:] = [counters[name] for name in FIELDS]
        return meter


class BalanceWatch:
    """Says when workers are too uneven, without reacting to every fluctuation.

    It goes off when the heaviest worker had more than `above` means in `patience` looks one after
    another, and is quiet again once that is `below` at most.
    """

    def __init__(self, above: float = 1.2, below: float = 1.1, patience: int = 2) -> None:
        if not 1.0 <= below <= above:
            raise InvalidValue("below", below, f"a number from 1 to `above`, {above}")
        if patience < 1:
            raise InvalidValue("patience", patience, "1 or more")
        self._above, self._below, self._patience = above, below, patience
        self._times = 0
        self.uneven = False

    def calm(self) -> None:
        """Be quiet again: something was done about it."""
        self.uneven, self._times = False, 0

    def look(self, loads: Floats) -> bool:
        """Look at the loads of all workers; say whether they should be evened out."""
        balance = balance_of(loads)
        if balance <= self._below:
            self.calm()
        elif balance > self._above:
            self._times += 1
            self.uneven |= self._times >= self._patience
        else:
            self._times = 0
        return self.uneven
