"""The AP-Tree (ICDE 2015)."""

from nearcast.index.ap_tree.index import ApTree

__all__ = ["ApTree"]
