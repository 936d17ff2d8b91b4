"""Encoding of updates for Server-Sent Events, for WebSockets, and as lines of JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from nearcast.engine.update_log import Entry
from nearcast.events.bodies import Include

_json = msgspec.json.Encoder().encode
Encode = Callable[[Entry], bytes]


def _members(entry: Entry, include: Include) -> bytes:
    score = entry.score
    ranked = b"" if score is None else b',"score":%b' % repr(score).encode()
    members = b'"op":"%b","subscription":%b,"message":%b%b,"at":%b' % (
        entry.op.encode(),
        _json(entry.subscription),
        _json(entry.message),
        ranked,
        repr(entry.at).encode(),
    )
    if include.message and entry.late is not None:
        members += b',"body":%b' % entry.late.json
    if include.meta and entry.meta is not None:
        members += b',"meta":%b' % _json(entry.meta)
    return members + b"}"


@cache
def sse_encoder(include: Include) -> Encode:
    """The function that encodes an update as a Server-Sent Event; the same for each include."""

    def encode(entry: Entry) -> bytes:
        members = _members(entry, include)
        return b"id: %d\nevent: %b\ndata: {%b\n\n" % (entry.id, entry.op.encode(), members)

    return encode


@cache
def socket_encoder(include: Include) -> Encode:
    """The function that encodes an update as a WebSocket message; the same for each include."""
    return lambda entry: b'{"type":"update","id":%d,%b' % (entry.id, _members(entry, include))


@cache
def line_encoder(include: Include) -> Encode:
    """The function that encodes an update as a line of JSON, with the number of its event."""
    return lambda entry: (
        b'{"id":%d,"seq":%d,%b\n'
        % (
            entry.id,
            entry.seq,
            _members(entry, include),
        )
    )


def sse_gap(first: int, last: int, place: int) -> bytes:
    """Encode a gap of missing updates; a client that resumes does so after `place`."""
    return b'id: %d\nevent: gap\ndata: {"from":%d,"to":%d}\n\n' % (place, first, last)


def sse_event(name: str, data: object) -> bytes:
    """Encode a Server-Sent Event without an id."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _json(data))


def sse_place(id: int) -> bytes:
    """Encode a keep-alive with the current id: browsers remember it, without an event."""
    return b": keep-alive\nid: %d\n\n" % id


def socket_gap(first: int, last: int, place: int) -> bytes:
    """Encode a gap of missing updates, and the id after which the stream goes on."""
    return b'{"type":"gap","from":%d,"to":%d,"after":%d}' % (first, last, place)
