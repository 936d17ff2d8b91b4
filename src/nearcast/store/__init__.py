"""Durable engines: one SQLite file each, and a snapshot of the index beside it."""

from nearcast.store.store import Store, open_store
from nearcast.store.webhooks import WebhookTable, webhooks_in_memory

__all__ = ["Store", "WebhookTable", "open_store", "webhooks_in_memory"]
