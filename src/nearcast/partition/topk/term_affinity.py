"""The vocabulary, dealt out so that the terms of a subscription share workers.

Algorithm 4 of Skype (`words`) cuts the vocabulary by frequency. Where the terms of a subscription
end up is then left to chance, and nearly as many workers hold it as its prefix has terms. But most
terms are rare: few subscriptions ask for them and few messages have them, so they cost the same
wherever they are. Here each goes to the worker that holds most of its subscriptions by their other
terms, so that these need no copy for it.

Terms are taken one by one, those that cost most first, several times over, as in streaming
partitioners of graphs (Fennel). The more a worker has already, the less it gets: a term that costs
much is given to the worker with the least to do, and only rare ones follow the other terms of
their subscriptions. The cost of a term is the messages that have it, times the subscriptions under
it and what a message costs beside.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.tables import Terms
from nearcast.partition.text_map import TermUnits
from nearcast.partition.topk.words import BUCKETS, UnitLists, units_of

_PASSES = 8
_MESSAGE = 600.0  # postings: what a worker could read while it handles a message
_UNSEEN = 0.3  # messages of a sample that a term may be in though it is in none of them
_EVEN_LOAD, _EVEN_HELD = 10.0, 0.1  # how many copies evenness is worth
_MOST_TERMS = 1 << 20  # that have entries of their own


def units_for(order: tuple[Terms, Int64s], terms: Terms) -> TermUnits:
    """Give entries of their own to frequent terms and to those of subscriptions.

    If these are too many, those with most subscriptions have them.
    """
    found, counts = np.unique(terms, return_counts=True)
    if len(found) > _MOST_TERMS:
        most = np.argsort(-counts, kind="stable")[:_MOST_TERMS]
        found = np.sort(found[most])
    every = np.union1d(order[0], found)
    seen = np.zeros(len(every), np.int64)
    seen[np.searchsorted(every, order[0])] = order[1]
    return units_of(every, seen, BUCKETS)


def deal_by_affinity(
    units: int, subscriptions: UnitLists, messages: UnitLists, workers: int
) -> Int32s:
    """Give each unit a worker, near the units that subscriptions ask for together with it."""
    seen = np.bincount(messages.units, minlength=units) + _UNSEEN
    asked = np.bincount(subscriptions.units, minlength=units)
    load = seen * (asked + _MESSAGE)
    order = np.argsort(-load, kind="stable")
    rows = np.repeat(np.arange(len(subscriptions.starts) - 1), np.diff(subscriptions.starts))
    by_unit = np.argsort(subscriptions.units, kind="stable")
    starts = np.concatenate(([0], np.cumsum(asked)))
    return _deal(
        order, load, starts, rows[by_unit], subscriptions.starts, subscriptions.units, workers,
        _PASSES, _EVEN_LOAD, _EVEN_HELD,
    )  # fmt: skip


@kernel
def _deal(
    order: Int64s,
    load: Floats,
    unit_starts: Int64s,
    unit_rows: Int64s,
    row_starts: Int64s,
    row_units: Int32s,
    workers: int,
    passes: int,
    even_load: float,
    even_held: float,
) -> Int32s:
    """Give each unit a worker, by going over all units until none moves, at most `passes` times.

    Units are taken in `order`; `load` is what each costs. The subscriptions under unit u are
    `unit_rows[unit_starts[u] : unit_starts[u + 1]]`, the units of subscription r are
    `row_units[row_starts[r] : row_starts[r + 1]]`. `even_load` and `even_held` say how many copies
    evenness of loads and of subscriptions is worth.
    """
    # Workers have loads and subscriptions; `shared` counts those of the current unit.
    parts = np.full(len(load), -1, np.int32)
    loads, held, shared = np.zeros(workers), np.zeros(workers), np.zeros(workers)
    known = np.full(workers, -1, np.int64)
    rows = max(float(len(row_starts) - 1), 1.0)
    whole = 0.0
    for unit in range(len(load)):
        whole += load[unit]
    load_price = even_load * rows * workers / max(whole, 1e-9) ** 2
    held_price = even_held * workers / rows
    for _ in range(passes):
        moved = 0
        for at in range(len(order)):
            unit = order[at]
            first, end = unit_starts[unit], unit_starts[unit + 1]
            # Count the subscriptions of the unit that each worker has under another unit.
            for worker in range(workers):
                shared[worker], known[worker] = 0.0, -1
            for place in range(first, end):
                row = unit_rows[place]
                for other in range(row_starts[row], row_starts[row + 1]):
                    worker = parts[row_units[other]]
                    if row_units[other] == unit or worker < 0 or known[worker] == place:
                        continue
                    known[worker] = place
                    shared[worker] += 1.0
            # Take the unit from where it is.
            count, was = float(end - first), parts[unit]
            if was >= 0:
                loads[was] -= load[unit]
                held[was] -= count - shared[was]
            # Give it to the worker with the lowest price: copies to be made, and evenness.
            best, least = 0, np.inf
            for worker in range(workers):
                copies = count - shared[worker]  # that would have to be made
                price = copies * (1.0 + held_price * held[worker])
                price += load_price * load[unit] * loads[worker]
                if price < least:
                    best, least = worker, price
            parts[unit] = best
            loads[best] += load[unit]
            held[best] += count - shared[best]
            moved += best != was
        if moved == 0:
            break
    return parts
