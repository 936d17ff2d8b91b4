"""Indexes of boolean subscriptions: one protocol, one table, one exact verification."""

from nearcast.index.base import Batch, Index, Matches, Pairs, match
from nearcast.index.registry import INDEXES, IndexChoice, index_named, read_index, read_indexes
from nearcast.index.table import Rows, Table

__all__ = [
    "INDEXES",
    "Batch",
    "Index",
    "IndexChoice",
    "Matches",
    "Pairs",
    "Rows",
    "Table",
    "index_named",
    "match",
    "read_index",
    "read_indexes",
]
