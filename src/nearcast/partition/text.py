"""Plans by text alone: what PS2Stream compares itself with (section VI-B)."""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition import keys
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan, TextMap
from nearcast.partition.sample import Sample, frequent_terms
from nearcast.partition.tables import Terms, places_in

_SLACK = 1.05
_ROUNDS = 8
_MOST_PINS = 1 << 25  # of the table of nets and parts; with more, only some messages are nets


class TermLoads(NamedTuple):
    """The keys of the sampled rows that occur in sampled messages, sorted.

    `rows` counts the rows with that key, `messages` the messages with that term; those of term i
    are `holders[starts[i] : starts[i + 1]]`, numbered from 0 to `message_count` - 1.
    """

    order: tuple[Terms, Int64s]
    terms: Terms
    rows: Int64s
    messages: Int64s
    starts: Int64s
    holders: Int32s
    message_count: int

    @property
    def loads(self) -> Floats:
        """The work of each term: its messages against its rows, and the messages themselves."""
        return (self.messages * self.rows + self.messages).astype(np.float64)


def term_loads(sample: Sample) -> TermLoads:
    """Count what the sample says about the keys of its rows."""
    order = frequent_terms(sample.messages)
    known, rows = np.unique(
        keys.choose_by(order, sample.rows.starts, sample.rows.terms), return_counts=True
    )
    messages = sample.messages
    number = np.repeat(np.arange(messages.size, dtype=np.int32), np.diff(messages.starts))
    place, hit = places_in(known, messages.terms)
    place, number = place[hit], number[hit]
    counts = np.bincount(place, minlength=len(known))
    used = counts > 0
    return TermLoads(
        order=order,
        terms=known[used],
        rows=rows[used].astype(np.int64),
        messages=counts[used].astype(np.int64),
        starts=starts_of(counts[used]),
        holders=number[np.argsort(place, kind="stable")],
        message_count=messages.size,
    )


def text_plan(scheme: str, workers: int, grid: Grid, loads: TermLoads, chosen: Int32s) -> Plan:
    """Give the plan in which every cell is split by the same map; other terms are spread evenly."""
    everyone = np.arange(workers, dtype=np.int32)
    split = np.full(grid.cells, -1, np.int32)
    maps = [TextMap(loads.terms, chosen, everyone)]
    return Plan(scheme, workers, "grid", grid, split, maps, *loads.order)


def heaviest_first(weights: Floats, workers: int) -> Int32s:
    """Give each weight, from the heaviest down, to the worker that has least."""
    chosen = np.empty(len(weights), np.int32)
    loads = [(0.0, worker) for worker in range(workers)]
    heapify(loads)
    for at in np.argsort(-weights, kind="stable").tolist():
        load, worker = loads[0]
        chosen[at] = worker
        heapreplace(loads, (load + float(weights[at]), worker))
    return chosen


def text_frequency(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`text-frequency`: terms shared out by how frequent they are.

    From the most frequent term down, each goes to the worker whose terms are least frequent
    together. Frequent means in many messages; a term that is the key of no row is no load and has
    no place.
    """
    loads = term_loads(sample)
    chosen = heaviest_first(loads.messages.astype(float), workers)
    return text_plan("text-frequency", workers, grid, loads, chosen)


def text_metric(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`text-metric`: terms shared out by a metric (after S3-TM).

    From the heaviest term down, each goes to the worker for which affinity times room is greatest.
    Affinity is the share of the term's messages that the worker sees already, for other terms of
    theirs: those cost no further copy. Room is the part of a fair share of all load, and a
    twentieth more, that the worker has left. PS2Stream names the metric-based way and not the
    metric; this one weighs the same two goods, few copies and balance.
    """
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


def text_hypergraph(sample: Sample, workers: int, grid: Grid) -> Plan:
    """`text-hypergraph`: a hypergraph of terms, cut into parts (after Cambazoglu et al.).

    Terms are vertices, weighing what they cost, and each message is a net that joins its terms. A
    net in p parts means p copies of the message, so the sum of p - 1 over all nets is made small
    while no part weighs much more than its fair share. Theirs is a multilevel partitioner (PaToH);
    here vertices are placed one by one, from the heaviest down, and then moved for as long as
    single moves help, at most a few rounds.
    """
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
