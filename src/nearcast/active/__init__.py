"""Active messages: kept until they end, found by subscriptions that arrive or move."""

from nearcast.active.store import ActiveChanges, ActiveStore, Ended, MessageTerms

__all__ = ["ActiveChanges", "ActiveStore", "Ended", "MessageTerms"]
