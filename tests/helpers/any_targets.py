"""Plans that a running pipeline may be told to come to: other cells, split cells, other workers."""

from __future__ import annotations

from random import Random

import numpy as np

from nearcast.arrays.slots import term_hash
from nearcast.partition.adjust.versions import in_line
from nearcast.partition.plan import Plan, TextMap


def any_target(plan: Plan, some: Random, words: list[str], workers: int | None = None) -> Plan:
    """A plan in the line of another that differs from it in some cells, or in all."""
    workers = workers or some.choice([plan.workers, plan.workers, some.randint(1, 5)])
    cells = np.where(plan.cell_worker < 0, plan.cell_worker, plan.cell_worker % workers)
    maps = [
        TextMap(each.terms, each.workers % workers, each.others % workers) for each in plan.maps
    ]
    terms = np.sort(np.array([term_hash(word) for word in words], np.uint64))
    for _ in range(some.choice([1, 2, 20])):
        x, y = some.randrange(plan.grid.columns), some.randrange(plan.grid.rows)
        wide, high = some.randint(1, plan.grid.columns), some.randint(1, plan.grid.rows)
        code = some.randrange(workers)
        if some.random() < 0.4:
            chosen = np.array([some.randrange(workers) for _ in terms], np.int32)
            others = np.array([some.randrange(workers) for _ in range(2)], np.int32)
            maps.append(TextMap(terms, chosen, others))
            code = -len(maps)
        cells.reshape(plan.grid.rows, -1)[y : y + high, x : x + wide] = code
    return in_line(plan, plan.changed(workers=workers, cell_worker=cells, maps=maps))
