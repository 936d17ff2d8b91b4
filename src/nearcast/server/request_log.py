"""Middleware that adds headers, measures requests and logs failures."""

from __future__ import annotations

from time import perf_counter

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nearcast.server.headers import Headers, as_sent
from nearcast.server.metrics import ServerMetrics
from nearcast.server.problems import plain_problem
from nearcast.server.telemetry import Telemetry

log = structlog.get_logger("nearcast.http")
_STREAMS = ("/v1/updates", "/v1/live")


class RequestLog:
    """Adds headers to every response, measures requests, and logs failures."""

    def __init__(
        self, app: ASGIApp, metrics: ServerMetrics, headers: Headers, telemetry: Telemetry
    ) -> None:
        self._app = app
        self._telemetry = telemetry
        self._metrics = metrics
        self._headers = headers
        self._timers: dict[tuple[str, str, int], object] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = as_sent(scope)
        with self._telemetry.request(scope) as answered:
            answered(await self._handle(scope, receive, send))

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Handle a request, and return the status of its answer; 0 if it was broken off."""
        started = perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            return 0  # the client broke off while sending: there is no one to answer
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if status:
                raise
            answer = plain_problem(500, "something went wrong here; it was written to the log")
            await answer.response()(scope, receive, send_with_headers)
        self._measure(scope, status, perf_counter() - started)
        return status

    def _measure(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        if route not in _STREAMS:
            key = (scope["method"], route, status)
            timer = self._timers.get(key)
            if timer is None:
                if scope["method"] not in _METHODS:
                    return
                timer = self._timers[key] = self._metrics.requests.labels(*key)
            timer.observe(seconds)  # type: ignore[attr-defined]  # a child of the histogram
        if status in (500, 507):
            log.error("answered", method=scope["method"], path=scope["path"], status=status)
        else:
            log.debug("answered", method=scope["method"], path=scope["path"], status=status)


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
