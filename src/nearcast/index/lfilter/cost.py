"""The cost model (section 5.3): which filter is cheaper, and when lists are worth pruning.

Costs are in nanoseconds. The paper counts operations; how long each of them takes is measured on
the machine, once in a process (`calibrate`).
"""

from __future__ import annotations

from math import log2
from typing import NamedTuple

from nearcast._jit import inner
from nearcast.index.lfilter.quadtree import Quadtree
from nearcast.index.table import Floats, Int64s


class Costs(NamedTuple):
    """How long the parts of a search take, in nanoseconds."""

    probe: float  # a step of a binary search
    node: float  # to enter a node of the trie
    place: float  # to verify the place of a row
    text: float  # to verify place and text of a row


TYPICAL = Costs(4.0, 15.0, 12.0, 20.0)
"""What a common machine takes."""


class Shape(NamedTuple):
    """What the estimates know of both trees; for a trie or a quadtree alone it is of no use."""

    levels: Int64s  # nodes of the trie on each level
    terms: int  # different terms
    height: int  # levels of the quadtree
    set_size: float  # labels in the sets of a node, on average
    extent: Floats  # west, south, width, height of the quadtree
    leaves: Floats  # (n, n): leaves of the quadtree within each cell of a grid
    entries: Floats  # (n, n): entries of their lists


@inner
def search_cost(probes: float, among: float) -> float:
    """Count the steps of so many binary searches among so many keys."""
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


@inner
def lists_met(
    shape: Shape, west: float, south: float, east: float, north: float
) -> tuple[float, float]:
    """Estimate how many leaves of the quadtree a box meets, and how long their lists are."""
    side = len(shape.leaves)
    left, low = shape.extent[0], shape.extent[1]
    width, height = shape.extent[2] / side, shape.extent[3] / side
    if width <= 0.0 or height <= 0.0:
        return shape.leaves[0, 0], shape.entries[0, 0]
    first = min(max(int((west - left) / width), 0), side - 1)
    last = min(max(int((east - left) / width), first), side - 1)
    bottom = min(max(int((south - low) / height), 0), side - 1)
    top = min(max(int((north - low) / height), bottom), side - 1)
    leaves, entries = 0.0, 0.0
    for y in range(bottom, top + 1):
        tall = min(north, low + (y + 1) * height) - max(south, low + y * height)
        for x in range(first, last + 1):
            wide = min(east, left + (x + 1) * width) - max(west, left + x * width)
            share = max(0.0, wide) * max(0.0, tall) / (width * height)
            leaves += shape.leaves[y, x] * share
            entries += shape.entries[y, x] * share
    return leaves, entries


@inner
def quadtree_cost(shape: Shape, tokens: int, leaves: float) -> float:
    """Estimate the steps by which the quadtree finds so many candidate leaves (equation 3)."""
    sets = min(search_cost(shape.set_size, tokens), search_cost(tokens, shape.set_size))
    return shape.height * leaves * sets


@inner
def pruning_cost(
    costs: Costs, kids: int, tokens: int, terms: int, fanout: float, lists: int, entries: int
) -> float:
    """Estimate what it costs to go on in the trie below a node with some lists (equation 5).

    Departure: the children of the node itself are counted, not all nodes of the next level, and
    below them as many as a node there has on average.
    """
    hits = kids * (tokens / max(1.0, float(terms)))
    by_kids = search_cost(kids + hits * fanout, tokens)
    by_tokens = search_cost(tokens, kids) + hits * search_cost(tokens, fanout)
    ranges = (1.0 + hits) * search_cost(lists, entries / max(1, lists))
    return (min(by_kids, by_tokens) + ranges) * costs.probe + costs.node * hits


@inner
def keeps_order(quad: Quadtree) -> bool:
    """Tell whether lists have ids of their own."""
    return bool(quad.lists.cells.shape[0] > 1)
