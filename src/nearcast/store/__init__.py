"""Durable engines: one SQLite file each, and a snapshot of the index beside it."""

from nearcast.store.lineage import Lineage
from nearcast.store.store import Store, open_store
from nearcast.store.webhooks import WebhookTable, webhooks_in_memory

__all__ = ["Lineage", "Store", "WebhookTable", "open_store", "webhooks_in_memory"]
