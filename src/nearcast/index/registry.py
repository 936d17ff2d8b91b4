"""The indexes by name. `auto` is the one that measures best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from nearcast.errors import InvalidValue
from nearcast.index.base import Index

AUTO = "rarest-term"
"""The index that `auto` means."""

_PLACES = {
    "rarest-term": ("rarest_term", "RarestTerm"),
    "ap-tree": ("ap_tree", "ApTree"),
    "ap-plus-tree": ("ap_plus_tree", "ApPlusTree"),
    "gi2": ("gi2", "Gi2"),
    "mbr-trie": ("lfilter", "MbrTrie"),
    "pt-quadtree": ("lfilter", "PtQuadtree"),
    "lfilter": ("lfilter", "LFilter"),
    "iq-tree": ("quadtree", "IqTree"),
    "rq-tree": ("quadtree", "RqTree"),
    "rt-tree": ("rtree", "RtTree"),
    "ir-tree": ("rtree", "IrTree"),
    "keyword-trie": ("keyword_trie", "KeywordTrie"),
    "sequential": ("sequential", "Sequential"),
}


class _Indexes(Mapping[str, type[Index]]):
    """The classes of all indexes; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Index]:
        module, name_of_class = _PLACES[name]
        found = getattr(import_module(f"nearcast.index.{module}"), name_of_class)
        return cast("type[Index]", found)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


INDEXES: Mapping[str, type[Index]] = _Indexes()


def index_named(name: str) -> type[Index]:
    """Find an index by its name."""
    try:
        return INDEXES[AUTO if name == "auto" else name]
    except KeyError:
        raise InvalidValue("index", name, f"one of {', '.join(INDEXES)}") from None
