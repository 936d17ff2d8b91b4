"""HTTP connections: how many there may be, and how long a client may take to send a request.

uvicorn waits for ever for the rest of a request. A client that sends half of one, or nothing,
would keep its connection, and a few thousand of them all the connections that there can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nearcast.server.config import Config
from nearcast.server.problems import Problem

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]  # what is asked below

log = structlog.get_logger("nearcast.http")
_RESERVED_FILES = 64  # for the files of tenants, and for connections to webhooks
_MANY_FILES = 1 << 20
_LOG_S = 5.0


def raise_file_limit() -> None:
    """Allow this process as many open files as the system lets it."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard and hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class ConnectionLimits:
    """The limits of all connections of a server, and how many were refused."""

    def __init__(self, config: Config, clock: Callable[[], float] = monotonic) -> None:
        self.header_s = config.header_s
        self.body_s = config.body_s
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource else _MANY_FILES
        self.most = max(1, files - _RESERVED_FILES)
        self.refused = self.slow = 0
        self._clock = clock
        self._logged = -_LOG_S

    def refuse(self, open_connections: int) -> None:
        """Count a connection above the limit; some of them are logged."""
        self.refused += 1
        if self._clock() - self._logged >= _LOG_S:
            self._logged = self._clock()
            log.error(
                "too many connections",
                open=open_connections,
                most=self.most,
                refused=self.refused,
                advice="raise the limit of open files (ulimit -n)",
            )


_FULL = Problem(
    503,
    "too-many-connections",
    "no more connections can be opened now; try again in a moment",
    headers={"Retry-After": "5", "Connection": "close"},
)


class TimedProtocol(HttpToolsProtocol):
    """A connection that is closed if its request does not arrive in time."""

    limits: ConnectionLimits
    """Set by the server, in a class of its own."""

    _deadline: asyncio.TimerHandle | None = None
    _heard = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request, or refuse the connection."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.most:
            self.limits.refuse(len(self.connections) - 1)
            transport.write(_raw(_FULL))
            transport.close()
            return
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note that the client sends, and begin to wait for the rest of its request."""
        self._heard = self.loop.time()
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_headers()
        super().data_received(data)

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the WebSocket."""
        self._stop_waiting()
        super().handle_websocket_upgrade()

    def on_headers_complete(self) -> None:
        """Wait for the body from now on."""
        super().on_headers_complete()
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.limits.body_s, self._check_body)

    def on_message_complete(self) -> None:
        """Stop waiting: the request is complete."""
        super().on_message_complete()
        self._stop_waiting()

    def _wait_for_headers(self) -> None:
        self._deadline = self.loop.call_later(self.limits.header_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _check_body(self) -> None:
        """Give up a body of which nothing came for a while, unless the server did not read."""
        silent = self.loop.time() - self._heard
        if self.flow.read_paused:
            silent = 0.0
        if silent >= self.limits.body_s:
            self._give_up()
        else:
            self._deadline = self.loop.call_later(self.limits.body_s - silent, self._check_body)

    def _give_up(self) -> None:
        self._deadline = None
        self.limits.slow += 1
        self.transport.close()


def _raw(problem: Problem) -> bytes:
    response = problem.response()
    head = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
    return b"HTTP/1.1 %d Unavailable\r\n%b\r\n%b" % (problem.status, head, bytes(response.body))
