"""Clients of a Nearcast server: `Client`, and `AsyncClient` for asyncio."""

from nearcast.client.asynchronous import AsyncClient
from nearcast.client.received import Bulk, Gap, Published, Received, ServerError, UnreachableError
from nearcast.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "Bulk",
    "Client",
    "Gap",
    "Published",
    "Received",
    "ServerError",
    "UnreachableError",
]
