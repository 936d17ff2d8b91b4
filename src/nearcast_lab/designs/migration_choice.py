"""Which cells to give away: minimum cost migration (PS2Stream, section V-A, phase II).

Given the load and the size of each cell of a worker, find cells whose loads add up to `amount` at
least and whose sizes to as little as possible (definition 4; it is NP-hard). `dynamic` is the
paper's DP and finds the least, `greedy` its GR; `by_size` (SI) and `at_random` (RA) are what it
compares them with. All answer with the numbers of the chosen cells, in ascending order.

The sizes are taken to add up, as in the paper. What really has to be carried is less: rows that
lie across cells are carried once, and not at all if the destination has them (`adjust.rebalance`).
"""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats, Int64s
from nearcast.errors import InvalidValue

_MOST_STEPS = 1 << 31
"""Cells times units of size that `dynamic` goes through before it gives up: some seconds."""


def greedy(loads: Floats, sizes: Floats, amount: float) -> Int64s:
    """GR: take cells by size for their load, as long as they are not enough.

    Each cell that would be enough, together with those taken before it, is a way to end; the
    cheapest of these is chosen.
    """
    _check(loads, sizes, amount)
    if amount <= 0:
        return np.empty(0, np.int64)
    ratio = np.divide(sizes, loads, out=np.full(len(loads), np.inf), where=loads > 0)
    order = np.argsort(ratio, kind="stable")
    own, bytes_ = loads[order], sizes[order]
    # Up to the first that is enough all are taken.
    first = int(np.searchsorted(np.cumsum(own), amount))
    taken = order[:first].tolist()
    load, size = float(own[:first].sum()), float(bytes_[:first].sum())
    best, count, last = np.inf, 0, -1
    for at in range(first, len(order)):
        if size >= best:
            break  # whatever follows costs more than the best way found
        if load + own[at] < amount:
            load += float(own[at])
            size += float(bytes_[at])
            taken.append(int(order[at]))
        elif size + bytes_[at] < best:
            best, count, last = size + float(bytes_[at]), len(taken), int(order[at])
    if last < 0:  # the sum in this order is a hair less than in the order given
        return np.arange(len(loads), dtype=np.int64)
    return np.sort(np.array([*taken[:count], last], np.int64))


def dynamic(loads: Floats, sizes: Floats, amount: float, unit: float = 1.0) -> Int64s:
    """DP: the least size there is, in units that sizes are rounded up to.

    Time and memory grow with cells times the size that GR finds, which bounds the search. (The
    paper's recurrence leaves a cell out whose size is just the room there is; here it is taken.)
    """
    chosen = greedy(loads, sizes, amount)
    if not len(chosen):
        return chosen
    units = np.ceil(sizes / unit).astype(np.int64)
    room = int(units[chosen].sum())
    if len(loads) * (room + 1) > _MOST_STEPS:
        expected = f"at most {_MOST_STEPS}; take a larger unit, or GR"
        raise InvalidValue("cells x units of size", len(loads) * (room + 1), expected)
    most = np.zeros(room + 1)  # the load that can be had within each size
    takes = np.zeros((len(loads), room // 8 + 1), np.uint8)
    for number in np.flatnonzero(units <= room).tolist():
        size = int(units[number])
        had, better = most[size:], most[: room + 1 - size] + loads[number]
        gain = np.zeros(room + 1, np.bool_)
        gain[size:] = better > had
        most = np.concatenate((most[:size], np.maximum(had, better)))
        takes[number] = np.packbits(gain)
    enough = np.flatnonzero(most >= amount)
    if not len(enough):
        return chosen  # sums in another order than that of GR may be a hair less
    left, found = int(enough[0]), []
    for number in range(len(loads) - 1, -1, -1):
        if takes[number, left >> 3] >> (7 - (left & 7)) & 1:
            found.append(number)
            left -= int(units[number])
    return np.array(found[::-1], np.int64)


def by_size(loads: Floats, sizes: Floats, amount: float) -> Int64s:
    """SI: take the largest cells until they are enough."""
    _check(loads, sizes, amount)
    return _until(np.argsort(-sizes, kind="stable"), loads, amount)


def at_random(loads: Floats, sizes: Floats, amount: float, seed: int = 0) -> Int64s:
    """RA: take any cells until they are enough."""
    _check(loads, sizes, amount)
    return _until(np.random.default_rng(seed).permutation(len(loads)), loads, amount)


def _until(order: Int64s, loads: Floats, amount: float) -> Int64s:
    if amount <= 0:
        return np.empty(0, np.int64)
    enough = int(np.searchsorted(np.cumsum(loads[order]), amount))
    return np.sort(order[: enough + 1]).astype(np.int64)


def _check(loads: Floats, sizes: Floats, amount: float) -> None:
    if len(loads) != len(sizes):
        raise InvalidValue("sizes", len(sizes), f"one for each of {len(loads)} cells")
    if len(loads) and (loads.min() < 0 or sizes.min() < 0):
        raise InvalidValue("loads and sizes", "a negative number", "numbers of 0 or more")
    if amount > 0 and float(loads.sum()) < amount:
        raise InvalidValue("amount", amount, f"at most the load of all cells, {loads.sum()}")
