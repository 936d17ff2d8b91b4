"""The indexes of "A Cost-based Method for Location-Aware Publish/Subscribe Services" (CIKM'15)."""

from nearcast.index.lfilter.index import LFilter
from nearcast.index.lfilter.mbr_trie import MbrTrie
from nearcast.index.lfilter.pt_quadtree import PtQuadtree

__all__ = ["LFilter", "MbrTrie", "PtQuadtree"]
