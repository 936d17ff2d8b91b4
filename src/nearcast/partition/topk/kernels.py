"""A spread at work, over arrays: workers of terms, prefixes, and who answers for a pair."""

from __future__ import annotations

from math import sqrt

import numpy as np

from nearcast._jit import inner, kernel, lean_kernel
from nearcast.arrays.in_kernels import longer
from nearcast.arrays.types import Bools, Floats, Int32s, Int64s
from nearcast.partition.owners import worker_of_term
from nearcast.partition.tables import Terms, count_of
from nearcast.partition.topk.spread import SpreadArrays

_SLACK = 1e-9
"""More than rounding can add to a score: what is that near to a threshold may reach it."""


@inner
def outcome_of(a: SpreadArrays, number: int, term: np.uint64) -> int:
    """Give what one of the maps says of a term; map 0 is that of groups."""
    return worker_of_term(
        a.map_slots, a.map_starts, a.map_masks, a.other_starts, a.others, number, term
    )


@inner
def leaf_of(a: SpreadArrays, group: int, x: float, y: float) -> int:
    """Give the leaf of a place in the tree of a group, numbered through all trees."""
    root = a.tree_starts[group]
    node = root
    while a.axis[node] >= 0:
        at = x if a.axis[node] == 0 else y
        node = root + (a.low[node] if at <= a.line[node] else a.high[node])
    return np.int64(a.leaf_starts[group] + a.low[node])  # type: ignore[return-value]


@inner
def worker_for(a: SpreadArrays, key: np.uint64, x: float, y: float, term: np.uint64) -> int:
    """Give the worker that holds a subscription, known by `key` and its place, under a term."""
    if a.by_id:
        return outcome_of(a, 0, key)
    return outcome_of(a, 1 + leaf_of(a, outcome_of(a, 0, term), x, y), term)


@lean_kernel
def first_common(
    terms: Terms, start: int, end: int, message_terms: Terms, message_start: int, message_end: int
) -> int:
    """Give the place of the first term of a subscription that a message has, or -1."""
    for place in range(start, end):
        for other in range(message_start, message_end):
            if message_terms[other] == terms[place]:
                return place
    return -1


@kernel
def answering(
    a: SpreadArrays,
    keys: Terms,
    points: Floats,
    starts: Int64s,
    terms: Terms,
    message_starts: Int64s,
    message_terms: Terms,
    steep: Bools,
    subscriptions: Int32s,
    messages: Int32s,
) -> Int32s:
    """Give for each pair the worker that answers for it, -1 if they have no term in common."""
    workers = np.empty(len(subscriptions), np.int32)
    for at in range(len(subscriptions)):
        s, m = subscriptions[at], messages[at]
        place = first_common(
            terms, starts[s], starts[s + 1],
            message_terms, message_starts[m], message_starts[m + 1],
        )  # fmt: skip
        workers[at] = -1
        if place >= 0:
            if steep[m]:
                place = starts[s]
            workers[at] = worker_for(a, keys[s], points[s, 0], points[s, 1], terms[place])
    return workers


@kernel
def sort_terms(a: SpreadArrays, starts: Int64s, terms: Terms, weights: Floats) -> Int64s:
    """Give the places of the terms of each subscription in the order of prefixes."""
    places = np.arange(len(terms))
    counts = np.empty(len(terms), np.int64)
    for at in range(len(terms)):
        counts[at] = count_of(a.order_terms, a.order_counts, terms[at])
    for s in range(len(starts) - 1):
        for n in range(starts[s] + 1, starts[s + 1]):
            moved = places[n]
            to = n
            while to > starts[s] and _comes_before(terms, weights, counts, moved, places[to - 1]):
                places[to] = places[to - 1]
                to -= 1
            places[to] = moved
    return places


@inner
def _comes_before(terms: Terms, weights: Floats, counts: Int64s, one: int, other: int) -> bool:
    if weights[one] != weights[other]:
        return bool(weights[one] > weights[other])
    if counts[one] != counts[other]:
        return bool(counts[one] < counts[other])
    return bool(terms[one] < terms[other])


@kernel
def steepness(starts: Int64s, counts: Int64s, weights: Floats) -> Floats:
    """Give the most that a term of each message adds to its vector, for each unit of its weight."""
    found = np.zeros(len(starts) - 1)
    for m in range(len(found)):
        squared, most = 0.0, 0
        for at in range(starts[m], starts[m + 1]):
            weight = counts[at] * weights[at]
            squared += weight * weight
            most = max(most, counts[at])
        if most > 0:
            found[m] = most / sqrt(squared)
    return found


@kernel
def prefix_lengths(
    by_sum: bool,
    steepest: float,
    starts: Int64s,
    weights: Floats,
    alphas: Floats,
    thetas: Floats,
) -> Int32s:
    """Give how many terms of each subscription, in order, no message that counts can do without.

    Messages that are steeper than `steepest` are not thought of.
    """
    lengths = np.empty(len(alphas), np.int32)
    for s in range(len(alphas)):
        start, end = starts[s], starts[s + 1]
        squared = 0.0
        for at in range(start, end):
            squared += weights[at] * weights[at]
        norm = sqrt(squared) if squared > 0.0 else 1.0
        length, total, rest = end - start, 0.0, 0.0
        while length > 1:
            idf = weights[start + length - 1]
            weight = idf / norm
            if idf > 0.0:
                total += weight * min(1.0, steepest * idf)
            rest += weight * weight
            likeness = total if by_sum else min(total, sqrt(rest))
            # Not `>= theta`, so that a threshold that is not a number leaves the whole.
            if not alphas[s] + (1.0 - alphas[s]) * likeness + _SLACK < thetas[s]:
                break
            length -= 1
        lengths[s] = length
    return lengths


@kernel
def post(
    a: SpreadArrays,
    keys: Terms,
    points: Floats,
    starts: Int64s,
    terms: Terms,
    had: Int32s,
    have: Int32s,
) -> tuple[Int32s, Int64s, Int32s, Bools]:
    """Give a row for each term from the prefix that was had to the one to have.

    Columns: subscription, place of the term, worker, and whether the worker is another one than
    those of all terms before.
    """
    total = 0
    for s in range(len(keys)):
        total += max(have[s] - had[s], 0)
    numbers, places = np.empty(total, np.int32), np.empty(total, np.int64)
    workers, fresh = np.empty(total, np.int32), np.empty(total, np.bool_)
    seen = np.full(a.workers, -1, np.int64)
    filled = 0
    for s in range(len(keys)):
        if have[s] <= had[s]:
            continue
        for n in range(have[s]):
            place = starts[s] + n
            worker = worker_for(a, keys[s], points[s, 0], points[s, 1], terms[place])
            if n >= had[s]:
                numbers[filled], places[filled], workers[filled] = s, place, worker
                fresh[filled] = seen[worker] != s
                filled += 1
            seen[worker] = s
    return numbers, places, workers, fresh


@kernel
def route(a: SpreadArrays, starts: Int64s, terms: Terms, steep: Bools) -> tuple[Int32s, Int32s]:
    """Give the workers of each message, each once: those of its terms, wherever a subscription is.

    Those that are steep go to all workers. Pairs of the number of a message and a worker, in the
    order of messages.
    """
    numbers, workers = np.empty(len(terms) + 16, np.int32), np.empty(len(terms) + 16, np.int32)
    seen = np.full(a.workers, -1, np.int64)
    filled = 0
    for m in range(len(starts) - 1):
        if filled + a.workers > len(numbers):
            room = 2 * len(numbers) + a.workers
            numbers, workers = longer(numbers, room), longer(workers, room)
        if steep[m] and starts[m + 1] > starts[m]:
            for worker in range(a.workers):
                numbers[filled], workers[filled] = m, worker
                filled += 1
            continue
        for at in range(starts[m], starts[m + 1]):
            group = outcome_of(a, 0, terms[at])
            for leaf in range(a.leaf_starts[group], a.leaf_starts[group + 1]):
                worker = outcome_of(a, 1 + leaf, terms[at])
                if seen[worker] != m:
                    seen[worker] = m
                    numbers[filled], workers[filled] = m, worker
                    filled += 1
    return numbers[:filled].copy(), workers[:filled].copy()
