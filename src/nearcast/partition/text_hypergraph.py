"""`text-hypergraph`: a hypergraph of terms, cut into parts (PS2Stream, section VI-B).

After the term-based index partitioning of Cambazoglu et al.: terms are vertices, weighing what they
cost, and each message is a net that joins its terms. A net in p parts means p copies of the
message, so the sum of p - 1 over all nets is made small while no part weighs much more than its
fair share. Theirs is a multilevel partitioner (PaToH); here vertices are placed one by one, from
the heaviest down, and then moved for as long as single moves help, at most a few rounds.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition._term_loads import TermLoads, term_loads, text_plan
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample

_SLACK = 1.05
_ROUNDS = 8
_MOST_PINS = 1 << 25  # of the table of nets and parts; with more, only some messages are nets


def text_hypergraph(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan by cutting the hypergraph of terms and messages."""
    loads = term_loads(sample)
    heavy = np.argsort(-loads.loads, kind="stable")
    starts, nets = _some_nets(loads, max(_MOST_PINS // workers, 1))
    pins = np.zeros((int(nets.max(initial=-1)) + 1, workers), np.int32)
    fair = _SLACK * loads.loads.sum() / workers
    chosen = _partition(heavy, loads.loads, starts, nets, fair, pins)
    return text_plan("text-hypergraph", workers, grid, loads, chosen)


def _some_nets(loads: TermLoads, most: int) -> tuple[Int64s, Int32s]:
    """Give the nets of each term, from at most that many messages, spread over the sample."""
    step = max(1, -(-loads.message_count // most))
    kept = loads.holders % step == 0
    ends = np.concatenate(([0], np.cumsum(kept)))[loads.starts]
    return ends.astype(np.int64), loads.holders[kept] // np.int32(step)


@inner_counting
def _benefits(nets: Int32s, pins: Int32s, own: int, benefit: Int64s) -> None:
    """Count for each part how many nets need not be in one part more if a term goes there."""
    benefit[:] = 0
    for net in nets:
        for part in range(len(benefit)):
            benefit[part] += pins[net, part] > (part == own)


@kernel
def _partition(
    heavy: Int64s, loads: Floats, starts: Int64s, nets: Int32s, fair: float, pins: Int32s
) -> Int32s:
    workers = pins.shape[1]
    chosen = np.full(len(heavy), -1, np.int32)
    total = np.zeros(workers)
    benefit = np.zeros(workers, np.int64)
    for turn in range(1 + _ROUNDS):
        moved = 0
        for term in heavy:
            own = chosen[term]
            mine = nets[starts[term] : starts[term + 1]]
            _benefits(mine, pins, own, benefit)
            best = own if turn else np.int32(np.argmin(total))
            for part in range(workers):
                fits = total[part] + loads[term] <= fair
                better = benefit[part] > benefit[best] or (
                    benefit[part] == benefit[best] and total[part] + loads[term] < total[best]
                )
                if part != own and fits and better:
                    best = np.int32(part)
            if best == own:
                continue
            moved += 1
            chosen[term] = best
            total[best] += loads[term]
            if own >= 0:
                total[own] -= loads[term]
            for net in mine:
                pins[net, best] += 1
                if own >= 0:
                    pins[net, own] -= 1
        if moved == 0:
            break
    return chosen
