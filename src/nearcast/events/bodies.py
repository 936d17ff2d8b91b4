"""The body of an update: the message as it was then, written when it is asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from nearcast.geo import region_to_json

if TYPE_CHECKING:
    from nearcast.events.values import Message

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class LateBody:
    """What an update says of its message; all updates of one event about it share one.

    It is made from the message and its time, or from JSON that was written before.
    """

    __slots__ = ("_at", "_fields", "_json", "_message")

    def __init__(
        self, message: Message | None, at: float = 0.0, written: bytes | None = None
    ) -> None:
        self._message = message
        self._at = at
        self._json = written
        self._fields: dict[str, Any] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """Its text, its point or region, properties and ttl, as far as it has them, and `at`."""
        if self._fields is None:
            if self._message is None:
                self._fields = _decode(self._json or b"{}")
            else:
                self._fields = body_of(self._message, self._at)
        return self._fields

    @property
    def json(self) -> bytes:
        """The same as JSON."""
        if self._json is None:
            self._json = to_json(self.fields)
        return self._json


def body_of(message: Message, at: float) -> dict[str, Any]:
    """The fields of a message that it has, with its time."""
    body: dict[str, Any] = {}
    if message.text:
        body["text"] = message.text
    if message.point is not None:
        body["point"] = list(message.point)
    elif message.region is not None:
        body["region"] = region_to_json(message.region)
    if message.properties is not None:
        body["properties"] = message.properties
    body["at"] = at
    if message.ttl:
        body["ttl"] = message.ttl
    return body


def to_json(value: object) -> bytes:
    """Write a value as JSON, even if a text in it has half of a pair of surrogates."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
