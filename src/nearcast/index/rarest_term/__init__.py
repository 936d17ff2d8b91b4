"""The default index: rows under the rarest of their terms, in a tree by place for each term."""

from nearcast.index.rarest_term._layout import RarestTermArrays
from nearcast.index.rarest_term._match import match_batch
from nearcast.index.rarest_term.index import RarestTerm

__all__ = ["RarestTerm", "RarestTermArrays", "match_batch"]
