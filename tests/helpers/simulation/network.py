"""A network of virtual connections: messages arrive in order, late, or not at all."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from random import Random
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import httpx
import msgspec
from websockets.exceptions import ConnectionClosedError, WebSocketException

from simulation.loops import ProcessLoop, current_loop

Headers = list[tuple[bytes, bytes]]


class Host(Protocol):
    """A process that may be connected to."""

    name: str
    loop: ProcessLoop
    app: Any


class ConnectionLost(Exception):  # noqa: N818 - nothing is wrong with that
    """The connection has ended, or was never made."""


class Endpoint:
    """One end of a connection."""

    def __init__(self, network: SimulatedNetwork, host: Host) -> None:
        self.network = network
        self.host = host
        self.loop = host.loop
        self.peer: Endpoint = self
        self.lost = asyncio.Event()
        self._inbox: deque[Any] = deque()
        self._arrived = asyncio.Event()
        self._latest = 0.0

    @property
    def works(self) -> bool:
        """Whether messages still arrive at the other end."""
        return self.loop.alive and self.peer.loop.alive and not self.peer.lost.is_set()

    def send(self, message: Any) -> None:
        """Send something; it arrives after what was sent before."""
        if self.loop.alive and not self.lost.is_set():
            self._later(self.peer._take, message)

    def close(self) -> None:
        """End the connection: the other end learns of it later."""
        if self.loop.alive:
            self._lose()
        self._later(self.peer._lose)

    def _later(self, act: Callable[..., None], *given: Any) -> None:
        now = self.network.now()
        self._latest = max(self._latest + 1e-6, now + self.network.delay())
        if self.peer.loop.alive:
            self.peer.loop.call_at(self._latest, act, *given)

    def _take(self, message: Any) -> None:
        self._inbox.append(message)
        self._arrived.set()

    def _lose(self) -> None:
        self.lost.set()
        self._arrived.set()

    async def receive(self) -> Any:
        """The next message; what arrived before the end is still received."""
        while not self._inbox:
            if self.lost.is_set():
                raise ConnectionLost
            self._arrived.clear()
            await self._arrived.wait()
        return self._inbox.popleft()


class SimulatedNetwork:
    """All connections, and what is wrong with them: set by who makes trouble."""

    def __init__(self, random: Random, now: Callable[[], float]) -> None:
        self.random = random
        self.now = now
        self.hosts: dict[str, Host] = {}
        self.slow = 0.0  # how many messages of all take long
        self.stalls = 0.0  # how many sendings of all wait for the reader
        self.cut: set[frozenset[str]] = set()
        self.connections: list[tuple[Endpoint, Endpoint]] = []

    def delay(self) -> float:
        """How long a message takes."""
        if self.slow and self.random.random() < self.slow:
            return self.random.uniform(0.05, 1.5)
        return self.random.uniform(0.0001, 0.003)

    def connect(self, source: Host, target: str) -> Endpoint:
        """Connect two processes; the end of the source."""
        host = self.hosts.get(target)
        if (
            host is None
            or not host.loop.alive
            or host.app is None
            or frozenset((source.name, target)) in self.cut
        ):
            raise ConnectionLost
        near, far = Endpoint(self, source), Endpoint(self, host)
        near.peer, far.peer = far, near
        self.connections = [pair for pair in self.connections if not pair[0].lost.is_set()]
        self.connections.append((near, far))
        return near

    def drop(self, *names: str) -> None:
        """End the connections between some processes, or of one with all others."""
        for near, far in self.connections:
            if set(names) <= {near.host.name, far.host.name}:
                near.close()
                far.close()

    def serve(self, near: Endpoint, scope: dict[str, Any], body: bytes) -> None:
        """Have the application of the other end answer a request or take a WebSocket."""
        far = near.peer

        def begin() -> None:
            far.loop.keep(
                _answer(far, scope, body) if scope["type"] == "http" else _talk(far, scope)
            )

        if frozenset((near.host.name, far.host.name)) in self.cut or not far.loop.alive:
            near.close()
        else:
            far.loop.call_at(self.now() + self.delay(), begin)

    async def wait(self) -> None:
        """Wait for a reader, sometimes."""
        if self.stalls and self.random.random() < self.stalls:
            await asyncio.sleep(self.random.uniform(0.1, 3.0))


def scope_of(kind: str, method: str, target: str, headers: Headers) -> dict[str, Any]:
    """The scope of a request, as a server of ASGI gives it to an application."""
    path, _, query = target.partition("?")
    return {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http" if kind == "http" else "ws",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }


async def _answer(end: Endpoint, scope: dict[str, Any], body: bytes) -> None:
    """Call the application with a request."""
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if given:
            return given.pop()
        await end.lost.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body" and message.get("more_body"):
            await end.network.wait()
        end.send(message)

    try:
        await end.host.app(scope, receive, send)
    finally:
        end.close()


async def _talk(end: Endpoint, scope: dict[str, Any]) -> None:
    """Call the application with a WebSocket."""
    begun = False

    async def receive() -> dict[str, Any]:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "websocket.connect"}
        try:
            message: dict[str, Any] = await end.receive()
            return message
        except ConnectionLost:
            return {"type": "websocket.disconnect", "code": 1006}

    async def send(message: dict[str, Any]) -> None:
        if end.lost.is_set():
            raise OSError("the client is gone")
        if message["type"] == "websocket.send":
            await end.network.wait()
        end.send(message)

    try:
        with suppress(OSError):  # which a server of ASGI takes for the end of the connection
            await end.host.app(scope, receive, send)
    finally:
        end.close()


class Answer(msgspec.Struct):
    """A whole response."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        """Its body."""
        return msgspec.json.decode(self.body)


async def request(
    network: SimulatedNetwork,
    source: Host,
    target: str,
    method: str,
    path: str,
    headers: Headers,
    body: bytes = b"",
    within_s: float = 10.0,
) -> Answer:
    """Send a request and return the whole answer."""
    near = network.connect(source, target)
    try:
        network.serve(near, scope_of("http", method, path, headers), body)
        async with asyncio.timeout(within_s):
            head = await near.receive()
            parts: list[bytes] = []
            more = True
            while more:
                message = await near.receive()
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
        return Answer(head["status"], head["headers"], b"".join(parts))
    except TimeoutError:
        raise ConnectionLost from None
    finally:
        near.close()


async def stream(
    network: SimulatedNetwork, source: Host, target: str, path: str, headers: Headers
) -> AsyncIterator[bytes]:
    """Send a request, and yield its answer in pieces; none if it is refused."""
    near = network.connect(source, target)
    try:
        network.serve(near, scope_of("http", "GET", path, headers), b"")
        head = await near.receive()
        while head["status"] == 200:
            message = await near.receive()
            yield message.get("body", b"")
            if not message.get("more_body"):
                return
    finally:
        near.close()


class PeerTransport(httpx.AsyncBaseTransport):
    """Carries requests of one server to another."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self._network = network

    async def handle_async_request(self, request_: httpx.Request) -> httpx.Response:
        """Send a request."""
        source = _user()
        try:
            answer = await request(
                self._network,
                source,
                request_.url.host,
                request_.method,
                request_.url.raw_path.decode(),
                [(name.lower(), value) for name, value in request_.headers.raw
                 if name.lower() != b"host"],
                await request_.aread(),
            )  # fmt: skip
        except ConnectionLost:
            raise httpx.ReadError("lost", request=request_) from None
        return httpx.Response(answer.status, headers=answer.headers, content=answer.body)


class PeerSocket:
    """The WebSocket of a server to another, as `websockets.connect` makes one."""

    def __init__(self, network: SimulatedNetwork, url: str, headers: dict[str, str]) -> None:
        parts = urlsplit(url)
        self._network = network
        self._target = parts.hostname or ""
        path = f"{parts.path}?{parts.query}"
        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._scope = scope_of("websocket", "GET", path, given)
        self._end: Endpoint | None = None

    async def __aenter__(self) -> PeerSocket:
        """Connect."""
        try:
            self._end = self._network.connect(_user(), self._target)
            self._network.serve(self._end, self._scope, b"")
            async with asyncio.timeout(10.0):
                message = await self._end.receive()
        except ConnectionLost:
            raise OSError("lost") from None
        if message["type"] != "websocket.accept":
            raise WebSocketException("refused")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        if self._end is not None:
            self._end.close()

    async def send(self, data: str | bytes) -> None:
        """Send a message."""
        assert self._end is not None
        if self._end.lost.is_set():
            raise ConnectionClosedError(None, None)
        kind = "text" if isinstance(data, str) else "bytes"
        self._end.send({"type": "websocket.receive", kind: data})

    async def recv(self) -> str | bytes:
        """Receive a message."""
        assert self._end is not None
        try:
            message = await self._end.receive()
        except ConnectionLost:
            raise ConnectionClosedError(None, None) from None
        if message["type"] == "websocket.close":
            raise ConnectionClosedError(None, None)
        found: str | bytes | None = message.get("bytes")
        return str(message["text"]) if found is None else found


def _user() -> Any:
    loop = current_loop()
    assert loop is not None
    return vars(loop)["user"]
