"""Durable engines: one SQLite file each, and a snapshot of the index beside it."""

from nearcast.store.store import Store, open_store

__all__ = ["Store", "open_store"]
