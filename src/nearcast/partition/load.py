"""What work costs a worker: rows looked at, messages handled, operations handled.

PS2Stream (definition 1) takes a worker's load to be `c1 |O| |Q| + c2 |O| + c3 |Qi| + c4 |Qd|`, as
if every message were compared with every subscription. The index of a worker looks at a small part
of them, and not at the same part everywhere. So our load counts what that index really looks at:

    check_ns x rows looked at + message_ns x messages + operation_ns x insertions and deletions
                                                      + update_ns x pairs that are reported
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats


class WorkCosts(NamedTuple):
    """Nanoseconds of CPU that a unit of each kind of work takes (`calibrate` measures them)."""

    check_ns: float
    message_ns: float
    operation_ns: float
    update_ns: float = 0.0


MEASURED = WorkCosts(check_ns=2.4, message_ns=250.0, operation_ns=200.0)
"""Measured by `calibrate` with the index `rarest-term`, on one core of a 2-core cloud machine."""


class WorkerLoads(NamedTuple):
    """The work of every worker in one period: as many messages as were sampled."""

    candidates: Floats
    messages: Floats
    operations: Floats
    updates: Floats | float = 0.0  # counted only where they cost something

    def ns(self, costs: WorkCosts) -> Floats:
        """Nanoseconds of each worker."""
        return np.asarray(
            costs.check_ns * self.candidates
            + costs.message_ns * self.messages
            + costs.operation_ns * self.operations
            + costs.update_ns * self.updates
        )


def balance_of(ns: Floats) -> float:
    """How much more the heaviest worker has to do than the mean of all: 1 is perfect."""
    mean = float(ns.mean()) if len(ns) else 0.0
    return float(ns.max()) / mean if mean > 0 else 1.0


def rate_of(messages: int, ns: Floats) -> float:
    """The messages a second that the heaviest worker allows."""
    heaviest = float(ns.max()) if len(ns) else 0.0
    return messages * 1e9 / heaviest if heaviest > 0 else float("inf")
