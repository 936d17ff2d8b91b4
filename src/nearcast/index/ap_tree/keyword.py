"""Keyword partition (AP-Tree, section IV-B): where to cut an ordered list of terms.

The terms 0 to v - 1 have a weight and a hit probability each, given as sums: `weight[i]` and
`hit[i]` are those of the terms before i. A partition is an array of stops: cut c holds the terms
from `stops[c - 1]`, or 0, to `stops[c]`, without the latter. Its cost is the sum over the cuts of
weight times hit probability (equation 1).
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner_counting
from nearcast.arrays.types import Floats, Int64s

SWEEPS = 8
"""How often the heuristic may go over all cuts; the paper goes over them once."""


@inner_counting
def cut_cost(weight: Floats, hit: Floats, start: int, stop: int) -> float:
    """Give the cost of one cut (equation 3)."""
    return float((weight[stop] - weight[start]) * (hit[stop] - hit[start]))


@inner_counting
def partition_cost(weight: Floats, hit: Floats, stops: Int64s) -> float:
    """Give the cost of a partition; no cut is hit more than once a message."""
    total, start = 0.0, 0
    for stop in stops:
        total += (weight[stop] - weight[start]) * min(1.0, hit[stop] - hit[start])
        start = stop
    return total


@inner_counting
def even_cuts(weight: Floats, count: int) -> Int64s:
    """Cut into parts of similar weight: each takes its share of what is left."""
    terms = len(weight) - 1
    stops = np.empty(count, np.int64)
    start = 0
    for cut in range(count):
        after = count - cut - 1
        latest = terms - after
        target = weight[start] + (weight[terms] - weight[start]) / (after + 1)
        stop = start + 1
        while stop < latest and weight[stop] < target:
            stop += 1
        if stop > start + 1 and target - weight[stop - 1] < weight[stop] - target:
            stop -= 1
        if after == 0:
            stop = terms
        stops[cut] = stop
        start = stop
    return stops


@inner_counting
def improve_cuts(weight: Floats, hit: Floats, stops: Int64s) -> None:
    """Move each border between two cuts to its best place (Algorithm 3).

    Departure: the sweep is repeated, at most SWEEPS times, while it still gains one in a thousand.
    """
    for _ in range(SWEEPS):
        gain = total = 0.0
        for cut in range(1, len(stops)):
            start = stops[cut - 2] if cut > 1 else 0
            stop = stops[cut]
            before = cut_cost(weight, hit, start, stops[cut - 1])
            before += cut_cost(weight, hit, stops[cut - 1], stop)
            best, place = before, stops[cut - 1]
            for at in range(start + 1, stop):
                cost = cut_cost(weight, hit, start, at) + cut_cost(weight, hit, at, stop)
                if cost < best:
                    best, place = cost, at
            stops[cut - 1] = place
            gain += before - best
            total += best
        if gain <= total * 0.001:
            break


@inner_counting
def heuristic_cuts(weight: Floats, hit: Floats, count: int) -> Int64s:
    """Find a good partition (Algorithm 3): even weights, then local improvement."""
    stops = even_cuts(weight, count)
    if count < len(weight) - 1:
        improve_cuts(weight, hit, stops)
    return stops


@inner_counting
def optimal_cuts(weight: Floats, hit: Floats, count: int) -> Int64s:
    """Find the best partition into `count` cuts by dynamic programming (Algorithm 2).

    `weight` and `hit` are sums over the terms, as the module says. `best[j]` is the least cost of
    the first j terms with the cuts so far. The cost of a cut obeys the quadrangle inequality, so
    the best start of the last cut never moves back as j grows, and each layer is filled by halving:
    O(f v log v), where the paper's program takes O(f v^2) for the same optimum.
    """
    # The first layer has one cut.
    terms = len(weight) - 1
    best = np.empty(terms + 1)
    for stop in range(terms + 1):
        best[stop] = cut_cost(weight, hit, 0, stop)
    # Each further layer adds a cut. A span holds the stops still to be settled, from `low` to
    # `high`, and the range in which their best starts lie.
    choice = np.zeros((count, terms + 1), np.int32)
    following = np.empty(terms + 1)
    spans = np.empty((128, 4), np.int64)
    for layer in range(1, count):
        top = 0
        spans[0, 0], spans[0, 1], spans[0, 2], spans[0, 3] = layer + 1, terms, layer, terms - 1
        while top >= 0:
            low, high, first, last = spans[top, 0], spans[top, 1], spans[top, 2], spans[top, 3]
            top -= 1
            if low > high:
                continue
            stop = (low + high) >> 1
            # Settle the middle stop; it bounds the starts of the stops on either side.
            least, place = np.inf, first
            for start in range(first, min(last, stop - 1) + 1):
                cost = best[start] + cut_cost(weight, hit, start, stop)
                if cost < least:
                    least, place = cost, start
            following[stop] = least
            choice[layer, stop] = place
            top += 1
            spans[top, 0], spans[top, 1], spans[top, 2], spans[top, 3] = low, stop - 1, first, place
            top += 1
            spans[top, 0], spans[top, 1], spans[top, 2], spans[top, 3] = stop + 1, high, place, last
        best, following = following, best
    # Follow the choices back from the last cut.
    stops = np.empty(count, np.int64)
    stop = terms
    for layer in range(count - 1, -1, -1):
        stops[layer] = stop
        stop = choice[layer, stop]
    return stops
