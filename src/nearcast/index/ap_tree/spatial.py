"""Spatial partition (AP-Tree, section IV-C): the edges of strips, one dimension at a time.

Strips are half open: an edge belongs to the strip that begins there. A row from `low` to `high`
lies in every strip it shares a point with.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner_counting
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.ap_tree.tree import is_wide, strip_of

SAMPLE = 32768
"""Edges of a node with more rows are found from this many of them, evenly spread.

A departure: the edges of a large sample are nearly those of all rows, and sorting all of them
would be most of the time of a build.
"""
PSEUDO = 10.0
"""How many messages are thought to be spread evenly beside those of a history."""


@inner_counting
def share_before(x: float, low: float, high: float, points: Floats) -> float:
    """Give the share of messages between `low` and `high` that lie before x."""
    even = min(1.0, max(0.0, (x - low) / (high - low))) if high > low else 0.0
    if len(points) == 0:
        return even
    low_at, high_at = 0, len(points)
    while low_at < high_at:
        middle = (low_at + high_at) >> 1
        if points[middle] < x:
            low_at = middle + 1
        else:
            high_at = middle
    return (low_at + PSEUDO * even) / (len(points) + PSEUDO)


@inner_counting
def strip_edges(
    lows: Floats, highs: Floats, points: Floats, low: float, high: float, count: int
) -> Floats:
    """Find at most `count - 1` inner edges: centres evenly spread, then local improvement.

    `lows` and `highs` are the ends of the rows and `points` the coordinates of messages, each
    sorted for itself, so that a low is no longer beside its high. The strips lie between `low` and
    `high`. Every end of a row is a possible edge.
    """
    # Collect the possible edges, each once, at the front of `ends`.
    number = len(lows)
    ends = np.empty(2 * number)
    for i in range(number):
        ends[i] = lows[i]
        ends[number + i] = np.nextafter(highs[i], np.inf)
    sort(ends, 0, 2 * number)
    kept = 0
    for end in ends:
        if end > low and end < high and (kept == 0 or end > ends[kept - 1]):
            ends[kept] = end
            kept += 1
    # Places 0 and kept + 1 are the borders; begun and ended count rows on either side of an edge.
    begun = np.empty(kept + 2)
    ended = np.empty(kept + 2)
    hit = np.empty(kept + 2)
    begun[0], ended[0], hit[0] = 0.0, 0.0, 0.0
    begun[kept + 1], ended[kept + 1], hit[kept + 1] = number, number, 1.0
    starts = stops = 0
    for place in range(1, kept + 1):
        x = ends[place - 1]
        while starts < number and lows[starts] < x:
            starts += 1
        while stops < number and highs[stops] < x:
            stops += 1
        begun[place], ended[place] = starts, stops
        hit[place] = share_before(x, low, high, points)
    # Choose edges with about as many centres of rows between them.
    places = np.empty(count + 1, np.int64)
    places[0] = 0
    used = 1
    at = 1
    for strip in range(1, count):
        # As many rows have begun or ended here as twice their centres passed.
        target = 2.0 * number * strip / count
        while at <= kept and begun[at] + ended[at] < target:
            at += 1
        if at > kept:
            break
        places[used] = at
        used += 1
        at += 1
    places[used] = kept + 1
    # Move each edge to where its two strips cost least (weight times hit probability).
    for strip in range(1, used):
        left, right = places[strip - 1], places[strip + 1]
        least, best = np.inf, places[strip]
        for middle in range(left + 1, right):
            cost = (begun[middle] - ended[left]) * (hit[middle] - hit[left])
            cost += (begun[right] - ended[middle]) * (hit[right] - hit[middle])
            if cost < least:
                least, best = cost, middle
        places[strip] = best
    edges = np.empty(used - 1)
    for strip in range(1, used):
        edges[strip - 1] = ends[places[strip] - 1]
    return edges


@inner_counting
def cell_weights(
    box: Floats, chosen: Int32s, work: Int32s, start: int, stop: int, across: Floats, up: Floats,
    share: float,
) -> tuple[Int64s, int, int]:  # fmt: skip
    """Count the rows of each cell; give also how many are for the dummy cell, and all copies."""
    columns, lines = len(across) + 1, len(up) + 1
    corner = np.zeros((lines + 1, columns + 1), np.int64)
    wide = copies = 0
    for at in range(start, stop):
        row = chosen[work[at]]
        west = strip_of(across, 0, columns, box[row, 0])
        east = strip_of(across, 0, columns, box[row, 2])
        south = strip_of(up, 0, lines, box[row, 1])
        north = strip_of(up, 0, lines, box[row, 3])
        covered = (east - west + 1) * (north - south + 1)
        if is_wide(covered, columns * lines, share):
            wide += 1
            continue
        copies += covered
        corner[south, west] += 1
        corner[south, east + 1] -= 1
        corner[north + 1, west] -= 1
        corner[north + 1, east + 1] += 1
    weights = np.zeros(columns * lines, np.int64)
    for line in range(lines):
        running = 0
        for column in range(columns):
            running += corner[line, column]
            below = weights[(line - 1) * columns + column] if line > 0 else 0
            weights[line * columns + column] = running + below
    return weights, wide, copies


@inner_counting
def cell_hits(
    region: Floats, across: Floats, up: Floats, lons: Floats, lats: Floats, points: Int32s,
    start: int, stop: int,
) -> Floats:  # fmt: skip
    """Give the hit probability of each cell: its share of area, and of the messages if known."""
    columns, lines = len(across) + 1, len(up) + 1
    hits = np.empty(columns * lines)
    none = np.empty(0)
    for line in range(lines):
        bottom = 0.0 if line == 0 else share_before(up[line - 1], region[1], region[3], none)
        ceiling = 1.0 if line == lines - 1 else share_before(up[line], region[1], region[3], none)
        for column in range(columns):
            left = 0.0 if column == 0 else share_before(
                across[column - 1], region[0], region[2], none
            )  # fmt: skip
            right = 1.0 if column == columns - 1 else share_before(
                across[column], region[0], region[2], none
            )  # fmt: skip
            hits[line * columns + column] = (right - left) * (ceiling - bottom)
    if stop > start:
        for cell in range(len(hits)):
            hits[cell] *= PSEUDO
        for at in range(start, stop):
            column = strip_of(across, 0, columns, lons[points[at]])
            line = strip_of(up, 0, lines, lats[points[at]])
            hits[line * columns + column] += 1.0
        for cell in range(len(hits)):
            hits[cell] /= stop - start + PSEUDO
    return hits
