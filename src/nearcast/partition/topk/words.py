"""Algorithm 4 of Skype: the vocabulary, frequent terms first, cut until each worker has a part.

The cost of a set of terms is the number of subscriptions that are under any of them times the
share of messages that have any of them (equation 16). A set is cut between two terms where the
costs of both sides differ least, and each has a term for each of its workers. For numbers of
workers that are no power of two see `kd`.

Terms come as hashes and no dictionary is at hand. The terms of at least two sampled messages have
entries of their own; all others are thrown together by hash into buckets, which come behind them
in the order of frequency and are dealt out like terms. What a sample shows once is as much as it
does not show at all (Good and Turing), so the load of buckets is that of terms still to come.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.tables import Terms
from nearcast.partition.text_map import TermUnits

BUCKETS = 1024


class UnitLists(NamedTuple):
    """The units of subscriptions or messages: of the i-th `units[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    units: Int32s


def units_of(order_terms: Terms, order_counts: Int64s, buckets: int = BUCKETS) -> TermUnits:
    """Put terms, sorted by hash, in the order of their counts."""
    rank = np.empty(len(order_terms), np.int32)
    rank[np.argsort(-order_counts, kind="stable")] = np.arange(len(order_terms), dtype=np.int32)
    return TermUnits(order_terms, rank, buckets)


def deal(units: int, subscriptions: UnitLists, messages: UnitLists, workers: int) -> Int32s:
    """Give each unit a worker, by consecutive runs of units."""
    parts = np.zeros(units, np.int32)
    pending = [(0, units, 0, workers)]
    while pending:
        low, high, first, count = pending.pop()
        parts[low:high] = first
        if count == 1 or high - low < 2:
            continue
        fewer = count // 2
        cut = low + best_cut(low, high, subscriptions, messages, (fewer, count - fewer))
        pending.append((low, cut, first, fewer))
        pending.append((cut, high, first + fewer, count - fewer))
    return parts


def best_cut(
    low: int, high: int, subscriptions: UnitLists, messages: UnitLists, workers: tuple[int, int]
) -> int:
    """Give the number of units, from `low` on, that the first side gets.

    Each side gets at least one unit for each of its workers, if there are enough.
    """
    one, other = _profile(*subscriptions, low, high)
    some, rest = _profile(*messages, low, high)
    if not some[-1]:
        some, rest = one, other  # without messages, as many are expected as there are subscriptions
    costs = one * some / workers[0] ** 2, other * rest / workers[1] ** 2
    least = min(workers[0], high - low - 1)
    most = max(high - low - workers[1], least)
    return int(np.argmin(np.abs(costs[0] - costs[1])[least - 1 : most])) + least


def _profile(starts: Int64s, units: Int32s, low: int, high: int) -> tuple[Floats, Floats]:
    """How many lists have any unit from `low` up to each, and how many have any behind it."""
    first, last = np.zeros(high - low), np.zeros(high - low)
    _ends(starts, units, low, high, first, last)
    return np.cumsum(first), last.sum() - np.cumsum(last)


@kernel
def _ends(starts: Int64s, units: Int32s, low: int, high: int, first: Any, last: Any) -> None:
    for row in range(len(starts) - 1):
        least, most = high, low - 1
        for at in range(starts[row], starts[row + 1]):
            unit = units[at]
            if low <= unit < high:
                least, most = min(least, unit), max(most, unit)
        if least < high:
            first[least - low] += 1.0
            last[most - low] += 1.0
