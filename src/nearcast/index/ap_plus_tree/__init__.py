"""The AP+-Tree (VLDB J.): the AP-Tree for subscriptions that move."""

from nearcast.index.ap_plus_tree.index import ApPlusTree

__all__ = ["ApPlusTree"]
