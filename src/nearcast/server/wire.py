"""Encoding of updates for Server-Sent Events, for WebSockets, and as lines of JSON."""

from __future__ import annotations

import msgspec

from nearcast.engine.update_log import Entry

_json = msgspec.json.Encoder().encode


def _members(entry: Entry) -> bytes:
    _, _, at, op, subscription, message, score = entry
    ranked = b"" if score is None else b',"score":%b' % repr(score).encode()
    return b'"op":"%b","subscription":%b,"message":%b%b,"at":%b}' % (
        op.encode(),
        _json(subscription),
        _json(message),
        ranked,
        repr(at).encode(),
    )


def sse_update(entry: Entry) -> bytes:
    """Encode an update as a Server-Sent Event."""
    return b"id: %d\nevent: %b\ndata: {%b\n\n" % (entry[0], entry[3].encode(), _members(entry))


def sse_gap(first: int, last: int, place: int) -> bytes:
    """Encode a gap of missing updates; a client that resumes does so after `place`."""
    return b'id: %d\nevent: gap\ndata: {"from":%d,"to":%d}\n\n' % (place, first, last)


def sse_event(name: str, data: object) -> bytes:
    """Encode a Server-Sent Event without an id."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _json(data))


def sse_place(id: int) -> bytes:
    """Encode a keep-alive with the current id: browsers remember it, without an event."""
    return b": keep-alive\nid: %d\n\n" % id


def socket_update(entry: Entry) -> bytes:
    """Encode an update as a WebSocket message."""
    return b'{"type":"update","id":%d,%b' % (entry[0], _members(entry))


def socket_gap(first: int, last: int, place: int) -> bytes:
    """Encode a gap of missing updates, and the id after which the stream goes on."""
    return b'{"type":"gap","from":%d,"to":%d,"after":%d}' % (first, last, place)


def line_update(entry: Entry) -> bytes:
    """Encode an update as a line of JSON, with the number of the event that caused it."""
    return b'{"id":%d,"seq":%d,%b\n' % (entry[0], entry[1], _members(entry))
