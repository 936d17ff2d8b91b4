"""Load over HTTP at little cost: what takes part in a measurement should not be what it measures.

Connections are plain protocols that write prepared requests and read just enough of the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import cast

from nearcast.errors import SourceError

LINES = "application/x-ndjson"
OnEvent = Callable[[bytes, float], None]


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """A request, ready to be written."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class RequestConnection(asyncio.Protocol):
    """A connection that sends a request, waits for the answer, and sends the next."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None
        self._sent = 0.0
        self.latencies: list[float] = []
        self.failures = 0
        self.answers: list[bytes] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        assert self._transport is not None  # noqa: S101 - it was connected
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            self._finish()
            return
        self._sent = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Read an answer, and go on."""
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._data[:end]).lower()
        start = head.index(b"content-length:") + 15
        length = int(head[start:].split(b"\r\n", 1)[0])
        if len(self._data) < end + 4 + length:
            return
        self.latencies.append(perf_counter() - self._sent)
        if not head.startswith(b"http/1.1 2"):
            self.failures += 1
        self.answers[:] = [bytes(self._data[end + 4 :])]
        self._data.clear()
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        """The server has gone."""
        self._finish(error)

    def _finish(self, error: Exception | None = None) -> None:
        if not self.done.done():
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(SourceError(f"the connection broke: {error}"))


class EventListener(asyncio.Protocol):
    """A connection that listens to Server-Sent Events."""

    def __init__(self, path: str, heard: OnEvent) -> None:
        self._path = path
        self._heard = heard
        self._data = bytearray()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(f"GET {self._path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        """Hand on whole events."""
        now = perf_counter()
        if not self.ready.done():
            self.ready.set_result(None)
        self._data += data
        *events, rest = bytes(self._data).split(b"\n\n")
        self._data = bytearray(rest)
        for event in events:
            if b"event: add" in event:
                self._heard(event, now)

    def close(self) -> None:
        """Listen no longer."""
        if self.transport is not None:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """The server has gone."""
        if not self.ready.done():
            self.ready.set_exception(SourceError(f"could not listen: {error}"))


async def flat_out(
    host: str, port: int, connections: int, requests: Iterator[bytes]
) -> list[RequestConnection]:
    """Send requests over some connections as fast as they are answered."""
    loop = asyncio.get_running_loop()
    posters = []
    for _ in range(connections):
        _, poster = await loop.create_connection(lambda: RequestConnection(requests), host, port)
        posters.append(poster)
    await asyncio.gather(*(poster.done for poster in posters))
    return posters
