"""How many posts may be under way at once: limits for each endpoint and for each tenant.

One endpoint that answers slowly takes its own slots, and one tenant's endpoints take those of the
tenant; others do not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

_FOR_ENDPOINT = 16
_FOR_TENANT = 64


class WebhookSlots:
    """The slots of all tenants and endpoints; unused ones take no memory."""

    def __init__(self) -> None:
        self._used: dict[Hashable, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def slot(self, tenant: str, url: str) -> AsyncIterator[None]:
        """Hold a slot of the endpoint and of the tenant; wait until both are free."""
        parts = urlsplit(url)
        endpoint = (tenant, parts.scheme, parts.hostname, parts.port)
        # first the endpoint's: waiting for a slow endpoint takes no slot of the tenant
        async with self._one_of(endpoint, _FOR_ENDPOINT), self._one_of(tenant, _FOR_TENANT):
            yield

    @asynccontextmanager
    async def _one_of(self, key: Hashable, most: int) -> AsyncIterator[None]:
        free, users = self._used.get(key) or (asyncio.Semaphore(most), 0)
        self._used[key] = (free, users + 1)
        try:
            async with free:
                yield
        finally:
            free, users = self._used.pop(key)
            if users > 1:
                self._used[key] = (free, users - 1)
