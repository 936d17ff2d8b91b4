"""Lasting messages: kept while they are active, found by subscriptions that arrive or move."""

from nearcast.lasting.store import ActiveStore, Changes, Ended, Texts

__all__ = ["ActiveStore", "Changes", "Ended", "Texts"]
