"""Posts to webhooks: bounded in time and size, and only to addresses that were checked.

A connection belongs to the name in its URL. It is kept and used again for that name alone, so the
certificate that was checked is that of the name, also where many names share an address.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping

import httpcore

from nearcast.server.addresses import Resolve, checked_addresses

_LARGEST_ANSWER = 1 << 16  # bytes; of an answer only its status counts
_KEPT_CONNECTIONS = 100
_KEPT_S = 30.0
SocketOptions = Iterable[httpcore.SOCKET_OPTION]


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Looks names up, and connects to the address that was checked."""

    def __init__(self, *, private: bool, resolve: Resolve | None) -> None:
        self._private = private
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host, if all of them may be called."""
        addresses = await checked_addresses(
            host, port, private=self._private, resolve=self._resolve
        )
        return await self._network.connect_tcp(
            addresses[0], port, timeout, local_address, socket_options
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: a webhook has an address on the network."""
        del timeout, socket_options
        raise httpcore.ConnectError(f"{path}: not an address on the network")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class WebhookPosts:
    """Posts bodies, over connections that are kept for a while."""

    def __init__(
        self,
        *,
        private: bool,
        deadline_s: float,
        resolve: Resolve | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._deadline_s = deadline_s
        self._connections = httpcore.AsyncConnectionPool(
            ssl_context=trusted,
            max_connections=None,  # whoever posts holds a slot
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEPT_S,
            network_backend=CheckedNetwork(private=private, resolve=resolve),
        )

    async def post(self, url: str, headers: Mapping[str | bytes, str | bytes], body: bytes) -> int:
        """Post once and return the status of the answer; all of it within the deadline."""
        async with (
            asyncio.timeout(self._deadline_s),
            self._connections.stream("POST", url, headers=headers, content=body) as answer,
        ):
            size = 0
            async for piece in answer.aiter_stream():  # as it is sent: not decompressed
                size += len(piece)
                if size > _LARGEST_ANSWER:
                    break  # the rest is not read, and the connection is closed
            return int(answer.status)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.aclose()
