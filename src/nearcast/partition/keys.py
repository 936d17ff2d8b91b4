"""The key of a conjunct: the one required term under which it is filed everywhere.

It is the rarest of the required terms by the counts of a plan (a term that the plan does not know
counts as 0), and of equally rare ones the one with the smaller hash. So it follows from the plan
alone, and every process comes to the same key (PS2Stream, section IV-C, "the least frequent
keyword").
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import kernel, read_only
from nearcast.arrays.types import Int64s
from nearcast.errors import InvalidValue
from nearcast.partition.plan import PlanArrays
from nearcast.partition.tables import Terms, count_of, count_table


def choose(arrays: PlanArrays, starts: Int64s, terms: Terms) -> Terms:
    """Give the key of each conjunct; the terms of the i-th are `terms[starts[i]:starts[i + 1]]`."""
    if len(starts) > 1 and np.diff(starts).min() < 1:
        empty = int(np.argmin(np.diff(starts)))
        raise InvalidValue(f"starts[{empty}]", int(starts[empty]), "a conjunct with a term")
    return _choose(arrays.order_terms, arrays.order_counts, starts, read_only(terms))


def choose_by(order: tuple[Terms, Int64s], starts: Int64s, terms: Terms) -> Terms:
    """Give the keys that a plan with these frequent terms and counts would choose."""
    return _choose(*count_table(*order), starts, read_only(terms))


@kernel
def _choose(order_terms: Terms, order_counts: Int64s, starts: Int64s, terms: Terms) -> Terms:
    keys = np.empty(len(starts) - 1, np.uint64)
    for at in range(len(starts) - 1):
        best = terms[starts[at]]
        if starts[at + 1] - starts[at] > 1:
            rarest = count_of(order_terms, order_counts, best)
            for place in range(starts[at] + 1, starts[at + 1]):
                term = terms[place]
                count = count_of(order_terms, order_counts, term)
                if count < rarest or (count == rarest and term < best):
                    best, rarest = term, count
        keys[at] = best
    return keys
