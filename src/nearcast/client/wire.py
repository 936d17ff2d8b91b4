"""Building of requests and reading of responses for both clients, without any I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from httpx_sse import ServerSentEvent

from nearcast.client.received import (
    Bulk,
    CurrentResult,
    Gap,
    Logged,
    Published,
    Received,
    Refused,
    ServerError,
    UnreachableError,
)
from nearcast.errors import InvalidValue
from nearcast.events import (
    Event,
    Message,
    Move,
    Point,
    Publish,
    Subscribe,
    Subscription,
    Top,
    event_to_json,
    subscription_from_json,
)
from nearcast.events.fields import ADD, UPDATE_OPS
from nearcast.geo import Box, Region

JSON = "application/json"
NDJSON = "application/x-ndjson"
RETRIED = (429, 503)
_NOT_READY = (502, 503, 504)
_LONGEST_PAUSE_S = 10.0
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class HttpRequest(NamedTuple):
    """A request: method, path, parameters, body, and the type of the body."""

    method: str
    path: str
    params: Mapping[str, Any] = MappingProxyType({})
    body: bytes | None = None
    kind: str = JSON
    accept: str | None = None


def base_url(url: str) -> str:
    """Return the address of a server without a trailing slash, if it is valid."""
    if not url.startswith(("http://", "https://")):
        raise InvalidValue("url", url, "the address of a server, such as http://127.0.0.1:8080")
    return url.rstrip("/")


def headers_for(key: str | None) -> dict[str, str]:
    """The headers of every request."""
    headers = {"user-agent": "nearcast"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return headers


def pause(attempt: int, retry_after: str | None = None) -> float:
    """Seconds to wait after an attempt: they grow, and are at least what the server asks for."""
    growing = min(_LONGEST_PAUSE_S, 0.2 * 2.0 ** min(attempt, 8))
    if retry_after and retry_after.isdigit():
        return max(growing, float(retry_after))
    return growing


def unreachable(url: object, error: Exception) -> UnreachableError:
    """The error of a server that does not answer."""
    return UnreachableError(str(url), str(error))


def check_ready(url: object, status: int, body: bytes) -> None:
    """Raise an error if `/readyz`, or a proxy before it, says that the server is not ready."""
    if status in _NOT_READY:
        problem = failure(status, body).problem
        raise UnreachableError(str(url), problem.get("detail") or f"status {status}")


def was_done(asked: HttpRequest, status: int, attempt: int) -> bool:
    """Whether a 404 of a repeated DELETE means that an earlier attempt succeeded."""
    return attempt > 0 and asked.method == "DELETE" and status == 404


def path_of(id: str) -> str:
    """The path of a subscription."""
    return f"/v1/subscriptions/{quote(id, safe='')}"


def subscribe(
    id: str | Subscription | None,
    query: str | None,
    region: Region | None,
    point: Point | None,
    top: Top | None,
    at: float | None,
) -> HttpRequest:
    """The request to subscribe; with an id it can safely be repeated."""
    if isinstance(id, Subscription):
        fields = event_to_json(Subscribe(id, at))
        id = id.id
    else:
        made = Subscription(id or "?", query, region, point, top)  # type: ignore[arg-type]  # checked there
        fields = event_to_json(Subscribe(made, at))
    del fields["op"]
    if id is None:
        del fields["id"]
        return HttpRequest("POST", "/v1/subscriptions", body=_encode(fields))
    return HttpRequest("PUT", path_of(id), body=_encode(fields))


def move(id: str, region: Region | None, point: Point | None, at: float | None) -> HttpRequest:
    """The request to move a subscription."""
    fields = event_to_json(Move(id, region, point, at))
    del fields["op"], fields["id"]
    return HttpRequest("PATCH", path_of(id), body=_encode(fields))


def publish(
    id: str | Message | None,
    text: str | None,
    point: Point | None,
    region: Box | None,
    at: float | None,
    ttl: float,
) -> HttpRequest:
    """The request to publish a message."""
    if isinstance(id, Message):
        fields = event_to_json(Publish(id))
    else:
        made = Message(id or "?", text, point, region, at, ttl)  # type: ignore[arg-type]  # checked there
        fields = event_to_json(Publish(made))
        if id is None:
            del fields["id"]
    del fields["op"]
    return HttpRequest("POST", "/v1/messages", body=_encode(fields))


def message_line(message: Message | bytes) -> bytes:
    """A message as a line."""
    if isinstance(message, bytes):
        return message
    fields = event_to_json(Publish(message))
    del fields["op"]
    return _encode(fields) + b"\n"


def event_line(event: Event) -> bytes:
    """An event as a line."""
    return _encode(event_to_json(event)) + b"\n"


def chunks(lines: Iterable[bytes], count: int = 2000) -> Iterator[bytes]:
    """Join lines, `count` at a time."""
    some: list[bytes] = []
    for line in lines:
        some.append(line)
        if len(some) == count:
            yield b"".join(some)
            some = []
    if some:
        yield b"".join(some)


def failure(status: int, body: bytes) -> ServerError:
    """The error that a response stands for."""
    try:
        problem = _decode(body)
    except ValueError:
        problem = None
    return ServerError(status, problem if isinstance(problem, dict) else {})


def read_json(body: bytes) -> Any:
    """Decode a JSON response."""
    return _decode(body)


def read_subscription(body: bytes) -> Subscription:
    """Read a subscription from a response."""
    return subscription_from_json(_decode(body))


def read_published(body: bytes) -> Published:
    """Read the outcome of one message."""
    fields = _decode(body)
    return Published(fields["id"], fields["updates"])


def read_bulk(body: bytes) -> Bulk:
    """Read the outcome of a bulk request."""
    fields = _decode(body)
    errors = [Refused(each["line"], each["detail"]) for each in fields["errors"]]
    seqs = fields.get("seqs", [])
    return Bulk(fields["accepted"], fields["refused"], fields["updates"], errors, seqs)


def together(one: Bulk, other: Bulk, lines: int) -> Bulk:
    """Add up two parts of one bulk request; `lines` is the number of lines of the first."""
    moved = [Refused(each.line + lines, each.detail) for each in other.errors]
    return Bulk(
        one.accepted + other.accepted,
        one.refused + other.refused,
        one.updates + other.updates,
        one.errors + moved,
        one.seqs + other.seqs,
    )


def log_page(after: int, limit: int = 10_000) -> dict[str, int]:
    """The parameters of a page of the log of updates."""
    return {"after": after, "limit": limit}


def read_log(body: bytes) -> list[Logged]:
    """A page of the log of updates."""
    return [
        Logged(
            fields["id"],
            fields["op"],
            fields["subscription"],
            fields["message"],
            fields["at"],
            fields.get("score"),
            fields["seq"],
        )
        for fields in map(_decode, body.splitlines())
    ]


def read_results(body: bytes) -> list[CurrentResult]:
    """The results of a subscription."""
    return [
        CurrentResult(
            fields["message"],
            fields.get("text"),
            tuple(fields["point"]) if "point" in fields else None,
            fields.get("score"),
            fields,
        )
        for fields in _decode(body)["results"]
    ]


class UpdateReader:
    """Turns Server-Sent Events into updates and gaps, and remembers the id to resume after."""

    def __init__(self, after: int | None) -> None:
        self.after = after

    def read(self, event: ServerSentEvent) -> Iterator[Received | Gap]:
        """Yield the update or gap of an event; an update that was given before is left out."""
        id = int(event.id) if event.id.isdigit() else None
        seen = self.after is not None and id is not None and id <= self.after
        if id is not None and not seen:
            self.after = id
        if event.event == "gap":
            fields = _decode(event.data)
            self.after = id
            yield Gap(fields["from"], fields["to"])
        elif event.event in UPDATE_OPS[ADD:] and event.data and id is not None and not seen:
            fields = _decode(event.data)
            yield Received(
                id,
                fields["op"],
                fields["subscription"],
                fields["message"],
                fields["at"],
                fields.get("score"),
            )
