"""Indexes of boolean subscriptions: one protocol, one table, one exact verification."""

from nearcast.index.base import Batch, Index, Matches, Pairs, match
from nearcast.index.registry import INDEXES, index_named
from nearcast.index.table import Rows, Table

__all__ = ["INDEXES", "Batch", "Index", "Matches", "Pairs", "Rows", "Table", "index_named", "match"]
