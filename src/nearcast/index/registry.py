"""The indexes by name. `auto` is the one that measures best."""

from __future__ import annotations

from nearcast.errors import InvalidValue
from nearcast.index.ap_tree import ApTree
from nearcast.index.base import Index
from nearcast.index.sequential import Sequential

INDEXES: dict[str, type[Index]] = {index.name: index for index in (Sequential, ApTree)}


def index_named(name: str) -> type[Index]:
    """Find an index by its name."""
    try:
        return INDEXES[name]
    except KeyError:
        raise InvalidValue("index", name, f"one of {', '.join(INDEXES)}") from None
