"""The cost model (section 5.3): which filter is cheaper, and when lists are worth pruning.

The paper counts operations; what they cost is measured (`calibrate`).
"""

from __future__ import annotations

from math import exp, log, log2
from typing import NamedTuple

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Floats, Int64s

LENGTHS = (8, 64, 512)
"""The lengths of messages for which prices are measured; between them they are interpolated."""


class SearchCosts(NamedTuple):
    """How long the parts of a search take, in nanoseconds."""

    probe: float  # a step of a binary search
    place: float  # to verify the place of a row
    text: float  # to verify place and text of a row


TYPICAL = SearchCosts(4.0, 20.0, 40.0)
"""What a common machine takes."""


class Shape(NamedTuple):
    """What the estimates know of both trees; for a trie or a quadtree alone it is of no use."""

    levels: Int64s  # nodes of the trie on each level
    terms: int  # different terms
    height: int  # levels of the quadtree
    set_size: float  # labels in the sets of a node, on average
    extent: Floats  # west, south, width, height of the quadtree
    leaves: Floats  # (n, n): leaves of the quadtree within each cell of a grid


@inner
def search_cost(probes: float, among: float) -> float:
    """Count the steps of that many binary searches among that many keys."""
    return probes * log2(among + 1.0)


@inner
def trie_cost(shape: Shape, tokens: int) -> float:
    """Estimate the steps by which the trie finds its candidates (equation 1)."""
    total, reached, above = 0.0, 1.0, 1.0
    for level in range(1, len(shape.levels)):
        nodes = float(shape.levels[level])
        if nodes == 0.0:
            break
        by_nodes = search_cost(nodes, tokens)
        by_tokens = tokens * search_cost(above, nodes / above)
        total += min(by_nodes, by_tokens) * reached
        reached *= tokens / max(1.0, float(shape.terms))
        above = nodes
    return total


@lean_kernel
def lists_met(shape: Shape, west: float, south: float, east: float, north: float) -> float:
    """Estimate how many leaves of the quadtree a box meets."""
    side = len(shape.leaves)
    left, low = shape.extent[0], shape.extent[1]
    width, height = shape.extent[2] / side, shape.extent[3] / side
    if width <= 0.0 or height <= 0.0:
        return 1.0
    first = min(max(int((west - left) / width), 0), side - 1)
    last = min(max(int((east - left) / width), first), side - 1)
    bottom = min(max(int((south - low) / height), 0), side - 1)
    top = min(max(int((north - low) / height), bottom), side - 1)
    leaves = 0.0
    for y in range(bottom, top + 1):
        tall = min(north, low + (y + 1) * height) - max(south, low + y * height)
        for x in range(first, last + 1):
            wide = min(east, left + (x + 1) * width) - max(west, left + x * width)
            share = max(0.0, wide) * max(0.0, tall) / (width * height)
            leaves += shape.leaves[y, x] * share
    return max(1.0, leaves)


@inner
def quadtree_cost(shape: Shape, tokens: int, leaves: float) -> float:
    """Estimate the steps by which the quadtree finds that many candidate leaves (equation 3)."""
    sets = min(search_cost(shape.set_size, tokens), search_cost(tokens, shape.set_size))
    return shape.height * leaves * sets


@inner
def pruning_cost(
    costs: SearchCosts, kids: int, tokens: int, terms: int, fanout: float, lists: int, entries: int
) -> float:
    """Estimate what it costs to go on in the trie below a node with some lists (equation 5).

    Departures: the children of the node itself are counted, not all nodes of the next level, and
    below them as many as a node there has on average; and each of the two levels is searched the
    cheaper way, as it really is, instead of both in the same way.
    """
    hits = kids * min(1.0, tokens / max(1.0, float(terms)))
    steps = min(search_cost(kids, tokens), search_cost(tokens, kids))
    steps += hits * min(search_cost(fanout, tokens), search_cost(tokens, fanout))
    steps += hits * search_cost(lists, entries / max(1, lists))
    return steps * costs.probe + costs.place * entries


@inner
def price(prices: Floats, column: int, tokens: int) -> float:
    """Give the price of a message of that many terms, from those of the lengths around it."""
    last = len(LENGTHS) - 1
    at = 0
    while at < last - 1 and tokens > LENGTHS[at + 1]:
        at += 1
    low, high = max(prices[at, column], 1.0), max(prices[at + 1, column], 1.0)
    way = (log(tokens) - log(LENGTHS[at])) / (log(LENGTHS[at + 1]) - log(LENGTHS[at]))
    return exp(log(low) + way * (log(high) - log(low)))
