"""When to adjust and by how much: what a pipeline asks between two batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nearcast.partition.adjust.local import LIMIT, adjust
from nearcast.partition.adjust.meter import Watch
from nearcast.partition.adjust.migration import Migration, stages
from nearcast.partition.adjust.recent import Recent
from nearcast.partition.grid import Floats
from nearcast.partition.plan import Plan


@dataclass
class Control:
    """Looks at loads, and hands out one stage of a migration after the other.

    `most_bytes` is what may be carried in one stage, `most_in_all` in one migration. While a
    migration is under way nothing new is begun.
    """

    watch: Watch = field(default_factory=Watch)
    limit: float = LIMIT
    most_bytes: float = np.inf
    most_in_all: float = np.inf
    waiting: list[Migration] = field(default_factory=list)

    def step(self, plan: Plan, busy_ns: Floats, recent: Callable[[], Recent]) -> Migration | None:
        """Give what leads from this plan to the next, if it should change now.

        `recent` is asked only if the loads are too uneven: it is dear to make. Whoever gets a
        migration must come back with the plan it leads to; with any other plan, what was waiting
        is forgotten.
        """
        if self.waiting and self.waiting[0].before != plan.number:
            self.waiting.clear()
        if not self.waiting and self.watch.look(busy_ns):
            done = adjust(plan, recent().reweighed(plan, busy_ns), self.limit, self.most_in_all)
            self.waiting = [] if done is None else stages(plan, done, self.most_bytes)
        return self.waiting.pop(0) if self.waiting else None
