"""The message at hand: its terms in the one order, its weights, and a small table of them."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from nearcast._jit import inlined
from nearcast.arrays.lanes import LANES
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s
from nearcast.topk.kernels.layout import TopkScratch, TopkState

_SPREAD = np.uint32(0x9E3779B1)


@inlined
def _sort_down(terms: Int32s, weights: Any, idfs: Any, count: int) -> None:
    """Sort terms, highest number first, with what belongs to them."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for n in range(gap, count):
            term, weight, idf = terms[n], weights[n], idfs[n]
            at = n
            while at >= gap and terms[at - gap] < term:
                terms[at], weights[at], idfs[at] = (
                    terms[at - gap],
                    weights[at - gap],
                    idfs[at - gap],
                )
                at -= gap
            terms[at], weights[at], idfs[at] = term, weight, idf
        gap //= 3


@inlined
def _first_slot(term: int, size: int) -> int:
    spread = np.uint32(term) * _SPREAD
    return wide(spread ^ (spread >> np.uint32(16))) & (size - 1)


@inlined
def prepare(
    state: TopkState, work: TopkScratch, terms: Int32s, counts: Int32s, start: int, length: int
) -> float:
    """Weigh the terms of a message, in the order of their letters; give its length squared."""
    squared = 0.0
    for n in range(length):
        term = wide(terms[start + n])
        idf = state.idf[term]
        weight = counts[start + n] * idf
        squared += weight * weight
        work.terms[n], work.weights[n], work.idfs[n] = term, weight, idf
    arrange(work, length, squared)
    return squared


@inlined
def arrange(work: TopkScratch, length: int, squared: float) -> None:
    """Bring the terms of a message, weighed already, into the one order, and make the table.

    Terms that no subscription has may be missing: they count in the length of the message only.
    """
    _sort_down(work.terms, work.weights, work.idfs, length)
    norm = sqrt(squared) if length else 1.0
    rest = 0.0
    for back in range(length):
        n = length - 1 - back
        work.likeness[n] = work.weights[n] / norm
        work.rest[n] = sqrt(rest) / norm
        rest += work.weights[n] * work.weights[n]
        work.products[n] = work.idfs[n] * work.weights[n]
    for n in range(length, LANES):
        work.terms[n] = -2  # not that of a subscription with fewer terms than it could have
    if length <= LANES:
        work.products[LANES] = 0.0
    size = table_size(length)
    work.keys[:size] = -1
    for n in range(length):
        term = wide(work.terms[n])
        at = _first_slot(term, size)
        while work.keys[at] >= 0:
            at = (at + 1) & (size - 1)
        work.keys[at], work.key_weights[at], work.key_idfs[at] = (
            term,
            work.weights[n],
            work.idfs[n],
        )


@inlined
def table_size(length: int) -> int:
    """The size of the table for a message of `length` terms."""
    size = 16
    while size < 2 * length:
        size *= 2
    return size


@inlined
def slot_of_term(work: TopkScratch, term: int, size: int) -> int:
    """Where a term is in the table of the message at hand, or -1."""
    at = _first_slot(term, size)
    while work.keys[at] >= 0:
        if work.keys[at] == term:
            return at
        at = (at + 1) & (size - 1)
    return -1
