"""What the cost model knows of a trie and a quadtree."""

from __future__ import annotations

import numpy as np

from nearcast.index.lfilter.arena import used_cells
from nearcast.index.lfilter.cost import Shape
from nearcast.index.lfilter.quadtree import NODES
from nearcast.index.lfilter.quadtree_build import EditableQuadtree
from nearcast.index.lfilter.trie import MbrTrieArrays

_LEVEL = 4
"""The level of the quadtree whose nodes represent what is below them (k, section 5.3)."""


def shape_of(trie: MbrTrieArrays, quadtree: EditableQuadtree, terms: int) -> Shape:
    """Look at both trees."""
    quad, side = quadtree.quad, 1 << _LEVEL
    made = quad.nodes[: quad.counts[NODES]]
    leaves = np.zeros((side, side))
    west, south, width, height = quadtree.extent.tolist()
    listed = made[made["child"] < 0]
    level = listed["level"]
    # The south-west corner of a leaf, in cells; what is larger than a cell counts in all of its.
    span = np.maximum(1, side >> np.minimum(level, _LEVEL))
    left = np.where(np.isfinite(listed["west"]), listed["west"], west)
    low = np.where(np.isfinite(listed["south"]), listed["south"], south)
    scale = 1.0 + 1e-9
    x = np.minimum((left - west) / (width or 1.0) * side * scale, side - 1).astype(np.int64)
    y = np.minimum((low - south) / (height or 1.0) * side * scale, side - 1).astype(np.int64)
    for cells in np.unique(span).tolist():
        of_size = span == cells
        share = 1.0 / cells**2
        for right in range(cells):
            for up in range(cells):
                where = (
                    np.minimum(y[of_size] + up, side - 1), np.minimum(x[of_size] + right, side - 1)
                )  # fmt: skip
                np.add.at(leaves, where, share)
    return Shape(
        trie.levels,
        max(1, terms),
        int(made["level"].max(initial=0)) + 1,
        used_cells(quad.sets) / len(made),
        quadtree.extent,
        leaves,
    )
