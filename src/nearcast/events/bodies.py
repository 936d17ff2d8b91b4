"""The body of an update: the message as it was then, written when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nearcast.errors import InvalidValue
from nearcast.events.fields import CARRIED
from nearcast.geo import region_to_json

if TYPE_CHECKING:
    from nearcast.events.values import Message

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Include(NamedTuple):
    """What updates carry besides: the body of the message, the `meta` of the subscription."""

    message: bool = True
    meta: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is included."""
        return tuple(name for name, wanted in self._asdict().items() if wanted)


EVERYTHING_INCLUDED, NOTHING = Include(), Include(message=False, meta=False)
ALL_INCLUDED = Include._fields
"""The names of everything that can be included."""


def read_include(given: str, field: str) -> Include:
    """Read what is to be included: `message`, `meta`, both with a comma, or nothing."""
    names = [name.strip() for name in given.split(",")] if given.strip() else []
    for name in names:
        if name not in Include._fields:
            expected = f"{' and '.join(Include._fields)}, with a comma between them"
            raise InvalidValue(field, given, expected)
    return Include("message" in names, "meta" in names)


class LateBody:
    """What an update says of its message; all updates of one event about it share one."""

    __slots__ = ("_at", "_fields", "_json", "_message")

    def __init__(self, message: Message | None, at: float = 0.0) -> None:
        self._message = message
        self._at = at
        self._json: bytes | None = None
        self._fields: dict[str, Any] | None = None

    @classmethod
    def written(cls, json: bytes) -> LateBody:
        """One that was written as JSON before."""
        body = cls(None)
        body._json = json
        return body

    @classmethod
    def ready(cls, fields: dict[str, Any]) -> LateBody:
        """One whose fields are known."""
        body = cls(None)
        body._fields = fields
        return body

    @property
    def fields(self) -> dict[str, Any]:
        """Its text, its point or region, what it carries and its ttl, if it has them, and `at`."""
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
    region = None if message.region is None else region_to_json(message.region)
    return body_fields(message.text, message.point, region, message.carried, at, message.ttl)


def body_fields(
    text: str,
    point: tuple[float, float] | None,
    region: Mapping[str, Any] | None,
    carried: Mapping[str, Any],
    at: float,
    ttl: float | None,
) -> dict[str, Any]:
    """Those fields of a body that have a value, in their order."""
    fields = {
        "text": text or None,
        "point": None if point is None else list(point),
        "region": region,
        **{name: carried.get(name) for name in CARRIED},
        "at": at,
        "ttl": ttl or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def to_json(value: object) -> bytes:
    """Write a value as JSON, even if a text in it has half of a pair of surrogates."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
