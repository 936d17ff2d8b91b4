"""What terms and boxes do not say of a subscription or a message, and plain code decides.

An index of a shard knows hashes of terms, and boxes and shapes of subscriptions. It finds all that
match, and perhaps more: a phrase, a prefix or a property is decided here, from the message as it
was written, and so is a message over polygons, which the index knows by the box around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from nearcast.engine.matching import ArrivedMessage, BooleanSubscription
from nearcast.events import Message, Subscription
from nearcast.events.bodies import body_fields, to_json
from nearcast.events.log import decode_json
from nearcast.events.values import OPS
from nearcast.geo import Box, Region, region_from_json, region_to_json
from nearcast.text import EVERYTHING, Analyser, Query, parse_query

_SOME = 1 << 14
ALL_OPS = 0b111
"""As bits, the first one lowest."""


def needs_asking(query: Query) -> bool:
    """Whether a query asks for more than terms."""
    return any(one.having or one.lacking for one in query.conjuncts)


def asks_of(query: str | None, region: Region) -> str:
    """The query and the region of a subscription in the form of a log."""
    return encoded({"query": query, "region": region_to_json(region)})


def encoded(value: Any) -> str:
    """A value as JSON."""
    return to_json(value).decode()


def mask_of(ops: Iterable[str] | None) -> int | None:
    """The ops that a subscription asks for, as bits; None if it asks for all."""
    return None if ops is None else sum(1 << OPS.index(op) for op in ops)


def body_text(
    text: str | None, place: list[float], region: Any, properties: Any, at: float, ttl: float
) -> str:
    """A message as JSON; `place` is its box, if it has no region."""
    point = (place[0], place[1]) if region is None else None
    return encoded(body_fields(text or "", point, region, properties, at, ttl))


class ExactMatching(NamedTuple):
    """Decides which messages satisfy which subscriptions."""

    analyser: Analyser

    def wants(self, asks: str, body: str) -> bool:
        """Whether a subscription wants a message."""
        return _interest(asks, self.analyser).wants(_arrived(body, self.analyser))

    def meets(self, region: Region, body: str) -> bool:
        """Whether a region and a message have a point in common."""
        message = _arrived(body, self.analyser).message
        if message.point is not None:
            return region.contains(*message.point)
        return message.region is not None and region.meets(message.region)


def has_shape(body: str) -> bool:
    """Whether a message is over anything but a point or a box; it is cheap to say no."""
    return '"coordinates"' in body and _is_shaped(body)


@lru_cache(maxsize=_SOME)
def _is_shaped(body: str) -> bool:
    fields = msgspec.json.decode(body)
    region = fields.get("region")
    return region is not None and not isinstance(region_from_json(region), Box)


@lru_cache(maxsize=_SOME)
def _interest(asks: str, analyser: Analyser) -> BooleanSubscription:
    fields = decode_json(asks.encode(), "asks")
    query = fields["query"]
    parsed = EVERYTHING if query is None else parse_query(query, analyser)
    return BooleanSubscription(Subscription("-", query, region_from_json(fields["region"])), parsed)


@lru_cache(maxsize=_SOME)
def _arrived(body: str, analyser: Analyser) -> ArrivedMessage:
    message = message_of("-", body)
    return ArrivedMessage(message, 0, message.at or 0.0, analyser)


def message_of(id: str, body: str) -> Message:
    """A message from its id and its body."""
    fields = msgspec.json.decode(body)
    region = fields.get("region")
    return Message(
        id,
        fields.get("text", ""),
        fields.get("point"),
        None if region is None else region_from_json(region),  # type: ignore[arg-type]  # an area
        fields.get("at"),
        fields.get("ttl", 0.0),
        fields.get("properties"),
    )
