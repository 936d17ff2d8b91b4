"""Posts to webhooks: bounded in time and size, and only to addresses that were checked.

A connection belongs to the name in its URL. It is kept and used again for that name alone, so the
certificate that was checked is that of the name, also where many names share an address.

Posts have a thread and an event loop of their own. A post is about a millisecond of work, more with
TLS, and an endpoint can have many made: requests and listeners do not wait for them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine, Iterable, Mapping
from threading import Thread
from typing import Any, TypeVar

import httpcore

from nearcast.server.addresses import Resolve, checked_addresses

_LARGEST_ANSWER = 1 << 16  # bytes; of an answer only its status counts
_KEPT_CONNECTIONS = 100
_KEPT_S = 30.0
T = TypeVar("T")
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
        self._network = CheckedNetwork(private=private, resolve=resolve)
        self._trusted = trusted
        self._connections: httpcore.AsyncConnectionPool | None = None
        self._thread: Thread | None = None  # started with the first post
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, headers: Mapping[str | bytes, str | bytes], body: bytes) -> int:
        """Post once and return the status of the answer; all of it within the deadline."""
        return await self._beside(self._post(url, headers, body))

    async def _beside(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(target=self._loop.run_forever, name="webhooks", daemon=True)
            self._thread.start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _post(self, url: str, headers: Mapping[str | bytes, str | bytes], body: bytes) -> int:
        async with (
            asyncio.timeout(self._deadline_s),
            self._pool().stream("POST", url, headers=headers, content=body) as answer,
        ):
            size = 0
            async for piece in answer.aiter_stream():  # as it is sent: not decompressed
                size += len(piece)
                if size > _LARGEST_ANSWER:
                    break  # the rest is not read, and the connection is closed
            return int(answer.status)

    def _pool(self) -> httpcore.AsyncConnectionPool:
        if self._connections is None:
            self._connections = httpcore.AsyncConnectionPool(
                # one for all: reading the certificates that are trusted takes 30 ms
                ssl_context=self._trusted or httpcore.default_ssl_context(),
                max_connections=None,  # a request has a slot before it posts
                max_keepalive_connections=_KEPT_CONNECTIONS,
                keepalive_expiry=_KEPT_S,
                network_backend=self._network,
            )
        return self._connections

    async def close(self) -> None:
        """Close all connections."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        await self._beside(self._close())
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._connections is not None:
            await self._connections.aclose()
            self._connections = None
        await asyncio.get_running_loop().shutdown_default_executor()
