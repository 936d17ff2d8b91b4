"""`text-metric`: terms shared out by a metric (PS2Stream, section VI-B, after S3-TM).

From the heaviest term down, each goes to the worker for which affinity times room is greatest.
Affinity is the share of the term's messages that the worker sees already, for other terms of
theirs: those cost no further copy. Room is the part of a fair share of all load, and a twentieth
more, that the worker has left. PS2Stream names the metric-based way and not the metric; this one
weighs the same two goods, few copies and balance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition._term_loads import term_loads, text_plan
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample

_SLACK = 1.05


def text_metric(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan by affinity and room."""
    loads = term_loads(sample)
    heavy = np.argsort(-loads.loads, kind="stable")
    fair = _SLACK * loads.loads.sum() / workers
    sees = np.zeros((loads.message_count, workers), np.bool_)
    chosen = _assign(heavy, loads.loads, loads.starts, loads.holders, fair, sees)
    return text_plan("text-metric", workers, grid, loads, chosen)


@kernel
def _assign(
    heavy: Int64s,
    loads: Floats,
    starts: Int64s,
    holders: Int32s,
    fair: float,
    sees: npt.NDArray[np.bool_],
) -> Int32s:
    workers = sees.shape[1]
    chosen = np.zeros(len(heavy), np.int32)
    total = np.zeros(workers)
    shared = np.zeros(workers, np.int64)
    for term in heavy:
        shared[:] = 0
        for at in range(starts[term], starts[term + 1]):
            for worker in range(workers):
                shared[worker] += sees[holders[at], worker]
        best, best_value = int(np.argmin(total)), 0.0
        for worker in range(workers):
            room = 1.0 - (total[worker] + loads[term]) / fair
            # One message more than are shared: room alone decides where nothing is shared.
            value = (shared[worker] + 1.0) * room
            if room > 0.0 and value > best_value:
                best, best_value = worker, value
        chosen[term] = best
        total[best] += loads[term]
        for at in range(starts[term], starts[term + 1]):
            sees[holders[at], best] = True
    return chosen
