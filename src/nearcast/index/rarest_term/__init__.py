"""The default index: every row under the rarest of its terms, rows of one term in a tree by place."""

from nearcast.index.rarest_term.index import RarestTerm

__all__ = ["RarestTerm"]
