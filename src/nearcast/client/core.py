"""The protocol of both clients, without any I/O: what to send, when to try again, what it means.

An exchange is a generator. It yields requests to send and pauses to make, is sent the reply to
each request, and returns or yields what the caller of a client asked for. A transport only
carries them out, so the blocking client and the one for asyncio cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from httpx_sse import ServerSentEvent

from nearcast.client import wire
from nearcast.client.received import (
    Bulk,
    Gap,
    Logged,
    Received,
    ServerError,
    UnreachableError,
)
from nearcast.client.wire import NDJSON, HttpRequest
from nearcast.errors import InvalidValue
from nearcast.events import Event, Message, Subscription
from nearcast.events.bodies import ALL_INCLUDED
from nearcast.events.fields import ADD, UPDATE_OPS
from nearcast.geo import Box

T = TypeVar("T")
_RETRIED = (429, 503)
_NOT_READY = (502, 503, 504)
_LONGEST_PAUSE_S = 10.0


class Reply(NamedTuple):
    """The response to a request; `broken` says why there is none."""

    status: int
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    broken: str | None = None

    @property
    def is_success(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300


class Pause(NamedTuple):
    """A wait between two attempts."""

    seconds: float


Step = HttpRequest | Pause
Exchange = Generator[Step, Reply, T]
"""Ends with a value."""
Series = Generator[Step | list[T], Reply, None]
"""Also yields lists of values."""


def pause_s(attempt: int, retry_after: str | None = None) -> float:
    """Seconds to wait after an attempt: they grow, and are at least what the server asks for."""
    growing = min(_LONGEST_PAUSE_S, 0.2 * 2.0 ** min(attempt, 8))
    if retry_after and retry_after.isdigit():
        return max(growing, float(retry_after))
    return growing


class ClientCore:
    """The exchanges with one server."""

    def __init__(self, url: str, key: str | None, retries: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidValue("url", url, "the address of a server, such as http://127.0.0.1:8080")
        self.url = url.rstrip("/")
        self.headers = {"user-agent": "nearcast"}
        if key is not None:
            self.headers["authorization"] = f"Bearer {key}"
        self._retries = retries

    def _answer(self, asked: HttpRequest) -> Exchange[Reply]:
        """Send a request until it is answered; a POST has its effect once."""
        if asked.method == "POST":
            asked = asked._replace(headers=asked.headers | {"idempotency-key": uuid4().hex})
        for attempt in count():
            last = attempt >= self._retries
            reply = yield asked
            if reply.broken is not None:
                if last:
                    raise UnreachableError(self.url, reply.broken)
                yield Pause(pause_s(attempt))
                continue
            # a repeated DELETE finds nothing if an earlier attempt succeeded
            deleted = attempt > 0 and asked.method == "DELETE" and reply.status == 404
            if reply.is_success or deleted:
                return reply
            if last or reply.status not in _RETRIED:
                raise failure(reply)
            yield Pause(pause_s(attempt, reply.headers.get("retry-after")))
        raise AssertionError  # the loop has no other end

    def ask(self, asked: HttpRequest, read: Callable[[bytes], T]) -> Exchange[T]:
        """Send a request, and read its answer."""
        return read((yield from self._answer(asked)).body)

    def check_ready(self, timeout: float) -> Exchange[None]:
        """Raise an error if `/readyz`, or a proxy before it, says that the server is not ready."""
        reply = yield HttpRequest("GET", "/readyz", timeout=timeout)
        if reply.broken is not None:
            raise UnreachableError(self.url, reply.broken)
        if reply.status in _NOT_READY:
            reason = failure(reply).problem.get("detail") or f"status {reply.status}"
            raise UnreachableError(self.url, reason)

    def subscriptions(self, bbox: Box | None, page: int) -> Series[Subscription]:
        """All subscriptions in the order of their ids, or those that meet a box."""
        params: dict[str, Any] = {"limit": page}
        if bbox is not None:
            params["bbox"] = f"{bbox.west},{bbox.south},{bbox.east},{bbox.north}"
        while True:
            asked = HttpRequest("GET", "/v1/subscriptions", params)
            found, after = yield from self.ask(asked, wire.read_page)
            yield found
            if after is None:
                return
            params = params | {"after": after}

    def publish_many(self, messages: Iterable[Message | bytes]) -> Exchange[Bulk]:
        """Publish messages, some at a time."""
        return self._lines("/v1/messages", map(wire.message_line, messages), {})

    def apply(
        self, events: Iterable[Event], *, stop_at_error: bool, log_time: bool
    ) -> Exchange[Bulk]:
        """Send the events of a log, some at a time."""
        params = {"on_error": "stop"} if stop_at_error else {}
        params |= {"clock": "log"} if log_time else {}
        return self._lines("/v1/events", map(wire.event_line, events), params)

    def _lines(self, path: str, lines: Iterable[bytes], params: dict[str, str]) -> Exchange[Bulk]:
        total, sent = Bulk(), 0
        for chunk in wire.chunks(lines):
            asked = HttpRequest("POST", path, params, chunk, {"content-type": NDJSON})
            total = wire.together(total, (yield from self.ask(asked, wire.read_bulk)), sent)
            sent += chunk.count(b"\n")
        return total

    def _log_page(self, after: int, limit: int, include: Collection[str] = ()) -> Exchange[Reply]:
        params = {"after": after, "limit": limit, "include": ",".join(include)}
        return self._answer(HttpRequest("GET", "/v1/updates", params, headers={"accept": NDJSON}))

    def last_update(self) -> Exchange[int]:
        """The id of the latest update."""
        return int((yield from self._log_page(0, 1)).headers["nearcast-last"])

    def log(self, after: int, up_to_seq: int | None, include: Collection[str]) -> Series[Logged]:
        """The stored updates after one; with `up_to_seq` wait for those of that event."""
        for attempt in count():
            reply = yield from self._log_page(after, 10_000, include)
            yield wire.read_log(reply.body)
            after = int(reply.headers["nearcast-next"])
            if after < int(reply.headers["nearcast-last"]):
                continue
            if up_to_seq is None or int(reply.headers["nearcast-seq"]) >= up_to_seq:
                return
            yield Pause(pause_s(min(attempt, 2)))


def failure(reply: Reply) -> ServerError:
    """The error that a response stands for."""
    return ServerError(reply.status, wire.read_problem(reply.body))


class UpdateStream:
    """Updates over any number of connections: each is given once, and the last id is resumed."""

    connect_s = 10.0
    read_s = 60.0

    def __init__(
        self,
        subscriptions: Iterable[str],
        after: int | None,
        *,
        gaps: bool,
        include: Collection[str] = ALL_INCLUDED,
    ) -> None:
        self.after = after
        self._include = include
        self._subscriptions = list(subscriptions)
        self._gaps = gaps
        self._begun_after = after
        self._retry_after: str | None = None
        self._attempt = 0

    def request(self) -> HttpRequest:
        """The request that opens the next connection."""
        self._begun_after, self._retry_after = self.after, None
        params: dict[str, Any] = {"subscription": self._subscriptions}
        params["include"] = ",".join(self._include)
        if self.after is not None:
            params["after"] = self.after
        return HttpRequest("GET", "/v1/updates", params)

    def refused(self, status: int, headers: Mapping[str, str]) -> bool:
        """Whether a response to it ends the stream; otherwise it is read, or asked for again."""
        self._retry_after = headers.get("retry-after") if status in _RETRIED else None
        return status not in _RETRIED and not 200 <= status < 300

    def pause_s(self) -> float:
        """Seconds to wait after a connection has ended: none if it brought something."""
        if self.after != self._begun_after:
            self._attempt = 0
            return 0.0
        self._attempt += 1
        return pause_s(self._attempt - 1, self._retry_after)

    def read(self, event: ServerSentEvent) -> Iterator[Received | Gap]:
        """Yield the update or gap of an event; an update that was given before is left out."""
        id = int(event.id) if event.id.isdigit() else None
        seen = self.after is not None and id is not None and id <= self.after
        if id is not None and not seen:
            self.after = id
        if event.event == "gap":
            self.after = id
            if self._gaps:
                yield wire.read_gap(event.data)
        elif event.event in UPDATE_OPS[ADD:] and event.data and id is not None and not seen:
            yield wire.read_update(id, event.data)
