"""The indexes by name. `auto` is the one that measures best."""

from __future__ import annotations

from nearcast.errors import InvalidValue
from nearcast.index.ap_plus_tree import ApPlusTree
from nearcast.index.ap_tree import ApTree
from nearcast.index.base import Index
from nearcast.index.gi2 import Gi2
from nearcast.index.keyword_trie import KeywordTrie
from nearcast.index.lfilter import LFilter, MbrTrie, PtQuadtree
from nearcast.index.quadtree import IqTree, RqTree
from nearcast.index.rarest_term import RarestTerm
from nearcast.index.rtree import IrTree, RtTree
from nearcast.index.sequential import Sequential

AUTO = "rarest-term"
"""The index that `auto` means."""

_ALL: tuple[type[Index], ...] = (
    RarestTerm, ApTree, ApPlusTree, Gi2,
    MbrTrie, PtQuadtree, LFilter,
    IqTree, RqTree, RtTree, IrTree, KeywordTrie,
    Sequential,
)  # fmt: skip

INDEXES: dict[str, type[Index]] = {index.name: index for index in _ALL}


def index_named(name: str) -> type[Index]:
    """Find an index by its name."""
    try:
        return INDEXES[AUTO if name == "auto" else name]
    except KeyError:
        raise InvalidValue("index", name, f"one of {', '.join(INDEXES)}") from None
