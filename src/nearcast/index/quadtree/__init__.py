"""Quadtrees of inverted lists: IQ-Tree by place first, RQ-Tree by term first."""

from nearcast.index.quadtree.index import IqTree, RqTree

__all__ = ["IqTree", "RqTree"]
