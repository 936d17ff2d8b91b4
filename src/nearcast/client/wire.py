"""Building of requests and reading of responses for both clients, without any I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack
from urllib.parse import quote

import msgspec

from nearcast.client.received import (
    Bulk,
    CurrentResult,
    Gap,
    Logged,
    Published,
    Received,
    Refused,
)
from nearcast.events import (
    Event,
    Message,
    Move,
    Publish,
    Reached,
    Subscribe,
    Subscription,
    event_to_json,
    message_from_json,
    subscription_from_json,
)
from nearcast.events.given import CarriedFields, Place, given_message, given_subscription
from nearcast.geo import as_point, as_region

JSON = "application/json"
NDJSON = "application/x-ndjson"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class HttpRequest(NamedTuple):
    """A request: method, path, parameters, body, headers, and how long to wait for the answer."""

    method: str
    path: str
    params: Mapping[str, Any] = MappingProxyType({})
    body: bytes | None = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed: a request with more is another
    timeout: float | None = None


def _json_request(method: str, path: str, fields: dict[str, Any]) -> HttpRequest:
    return HttpRequest(method, path, body=_encode(fields), headers={"content-type": JSON})


def path_of(id: str) -> str:
    """The path of a subscription."""
    return f"/v1/subscriptions/{quote(id, safe='')}"


def show(id: str) -> HttpRequest:
    """The request for a subscription."""
    return HttpRequest("GET", path_of(id))


def unsubscribe(id: str) -> HttpRequest:
    """The request to end a subscription."""
    return HttpRequest("DELETE", path_of(id))


def results(id: str) -> HttpRequest:
    """The request for the current results of a subscription."""
    return HttpRequest("GET", f"{path_of(id)}/results")


def subscribe(id: str | Subscription | None, at: float | None, *parts: Any) -> HttpRequest:
    """The request to subscribe; with an id it can safely be repeated."""
    made = given_subscription(id, *parts)
    fields = event_to_json(Subscribe(made, at))
    del fields["op"]
    if id is None:
        del fields["id"]
        return _json_request("POST", "/v1/subscriptions", fields)
    return _json_request("PUT", path_of(made.id), fields)


def move(
    id: str, region: Place | None, point: Place | None, ttl: float | None, at: float | None
) -> HttpRequest:
    """The request to move a subscription."""
    where = None if region is None else as_region(region)
    place = None if point is None else as_point(point)
    fields = event_to_json(Move(id, where, place, at, ttl))
    del fields["op"], fields["id"]
    return _json_request("PATCH", path_of(id), fields)


def publish(id: str | Message | None, *parts: Any, **carried: Unpack[CarriedFields]) -> HttpRequest:
    """The request to publish a message."""
    return _message_request("/v1/messages", id, *parts, **carried)


def match(
    text: str | Message | None, point: Place, region: Place, **carried: Unpack[CarriedFields]
) -> HttpRequest:
    """The request to try a message."""
    if isinstance(text, Message):
        return _message_request("/v1/match", text, None, point, region, **carried)
    return _message_request("/v1/match", None, text, point, region, **carried)


def _message_request(
    path: str, id: str | Message | None, *parts: Any, **carried: Unpack[CarriedFields]
) -> HttpRequest:
    fields = event_to_json(Publish(given_message(id, *parts, **carried)))
    del fields["op"]
    if id is None:
        del fields["id"]
    return _json_request("POST", path, fields)


def message_path(id: str) -> str:
    """The path of a message."""
    return f"/v1/messages/{quote(id, safe='')}"


def retract(id: str) -> HttpRequest:
    """The request to retract a message."""
    return HttpRequest("DELETE", message_path(id))


def show_message(id: str) -> HttpRequest:
    """The request for a message."""
    return HttpRequest("GET", message_path(id))


def explain(message: str, subscription: str) -> HttpRequest:
    """The request for why a message matches a subscription, or does not."""
    return HttpRequest("GET", "/v1/explain", {"message": message, "subscription": subscription})


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


def chunks(lines: Iterable[bytes], count: int = 2000, size: int = 1 << 20) -> Iterator[bytes]:
    """Join lines: at most `count` at a time, and about `size` bytes."""
    some: list[bytes] = []
    read = 0
    for line in lines:
        some.append(line)
        read += len(line)
        if len(some) == count or read >= size:
            yield b"".join(some)
            some, read = [], 0
    if some:
        yield b"".join(some)


def read_problem(body: bytes) -> dict[str, Any]:
    """Read a problem document; what is none has no members."""
    try:
        problem = _decode(body)
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {}


def read_nothing(body: bytes) -> None:
    """Take an answer without a body."""
    del body


def read_explanation(body: bytes) -> dict[str, Any]:
    """Read why a message matches a subscription, or does not."""
    explained: dict[str, Any] = _decode(body)
    return explained


def read_subscription(body: bytes) -> Subscription:
    """Read a subscription from a response."""
    return subscription_from_json(_decode(body))


def read_page(body: bytes) -> tuple[list[Subscription], str | None]:
    """Read a page of subscriptions, and what the next one begins after."""
    fields = _decode(body)
    return [subscription_from_json(each) for each in fields["subscriptions"]], fields["next"]


def read_published(body: bytes) -> Published:
    """Read the outcome of one message."""
    fields = _decode(body)
    return Published(fields["id"], fields["updates"])


def read_retracted(body: bytes) -> int:
    """Read how many updates the end of a message caused; none if it had ended before."""
    fields = _decode(body)
    return int(fields.get("updates", 0))


def read_message(body: bytes) -> Message:
    """Read a message."""
    return message_from_json(_decode(body))


def read_matches(body: bytes) -> list[Reached]:
    """Read which subscriptions a message would reach."""
    return [Reached(each["subscription"], each.get("score")) for each in _decode(body)["matches"]]


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
            fields.get("body"),
            fields.get("meta"),
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


def read_update(id: int, data: str) -> Received:
    """Read an update of a stream."""
    fields = _decode(data)
    return Received(
        id,
        fields["op"],
        fields["subscription"],
        fields["message"],
        fields["at"],
        fields.get("score"),
        fields.get("body"),
        fields.get("meta"),
    )


def read_gap(data: str) -> Gap:
    """Read which updates of a stream are missing."""
    fields = _decode(data)
    return Gap(fields["from"], fields["to"])
