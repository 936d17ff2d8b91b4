"""The four kinds of event, and their JSON form.

An event is read from a mapping with the keys of the event log (`op`, `id`, `query`, ...). A key
whose value is null counts as absent, because a Parquet row has every column; keys that are not
ours are passed over, so that a log may carry more than Nearcast reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nearcast.errors import InvalidValue, MissingField
from nearcast.events.fields import MOVE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, fields_of
from nearcast.events.values import (
    Message,
    Point,
    Subscription,
    as_top,
    check_id,
    check_region,
    check_seconds,
)
from nearcast.geo import Region, point, region_from_json, region_to_json


def _check_at(event: Subscribe | Move | Unsubscribe) -> None:
    if event.at is not None:
        object.__setattr__(event, "at", check_seconds(event.at, "at"))


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A subscription arrives, or replaces the one with its id."""

    subscription: Subscription
    at: float | None = None

    def __post_init__(self) -> None:
        _check_at(self)


@dataclass(frozen=True, slots=True)
class Move:
    """A subscription goes to another region or, if it is a top-k one, to another point."""

    id: str
    region: Region | None = None
    point: Point | None = None
    at: float | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        _check_at(self)
        if self.point is None:
            if self.region is None:
                raise MissingField("region", "where to move to: a region or a point")
            check_region(self.region)
        elif self.region is not None:
            raise InvalidValue("region", self.region, "either a region or a point, not both")
        else:
            object.__setattr__(self, "point", point(self.point))


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """A subscription ends."""

    id: str
    at: float | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        _check_at(self)


@dataclass(frozen=True, slots=True)
class Publish:
    """A message arrives."""

    message: Message

    @property
    def at(self) -> float | None:
        """The time of the event is the time of its message."""
        return self.message.at


Event = Subscribe | Move | Unsubscribe | Publish

Fields = Mapping[str, Any]


def _region(fields: Fields) -> Region | None:
    value = fields.get("region")
    if value is None:
        return None
    try:
        return region_from_json(value)
    except InvalidValue as error:
        raise error if error.field == "region" else error.inside("region") from None


def subscription_from_json(fields: Fields) -> Subscription:
    """Read a subscription from the fields of its event."""
    get, top = fields.get, fields.get("top")
    return Subscription(
        get("id"),  # type: ignore[arg-type]  # the value types check what they are given
        get("query"),  # type: ignore[arg-type]
        region=_region(fields),
        point=get("point"),
        top=None if top is None else as_top(top),
    )


def message_from_json(fields: Fields) -> Message:
    """Read a message from the fields of its event."""
    get = fields.get
    region = _region(fields)
    return Message(
        get("id"),  # type: ignore[arg-type]  # the value types check what they are given
        get("text"),  # type: ignore[arg-type]
        get("point"),
        region,  # type: ignore[arg-type]
        get("at"),
        get("ttl", 0.0),
    )


def _subscribe(fields: Fields) -> Subscribe:
    return Subscribe(subscription_from_json(fields), fields.get("at"))


def _move(fields: Fields) -> Move:
    return Move(
        fields.get("id"),  # type: ignore[arg-type]  # the event checks what it is given
        region=_region(fields),
        point=fields.get("point"),
        at=fields.get("at"),
    )


def _unsubscribe(fields: Fields) -> Unsubscribe:
    return Unsubscribe(fields.get("id"), fields.get("at"))  # type: ignore[arg-type]  # checked there


def _publish(fields: Fields) -> Publish:
    return Publish(message_from_json(fields))


_READERS: dict[str, Callable[[Fields], Event]] = {
    PUBLISH: _publish,
    SUBSCRIBE: _subscribe,
    MOVE: _move,
    UNSUBSCRIBE: _unsubscribe,
}
_OPS = "one of " + ", ".join(sorted(_READERS))


def event_from_json(fields: object) -> Event:
    """Read one event from its JSON form."""
    if not isinstance(fields, Mapping):
        raise InvalidValue("event", fields, 'an object such as {"op": "publish", ...}')
    op = fields.get("op")
    try:
        read = _READERS[op]  # type: ignore[index]  # a wrong type ends in the except below
    except (KeyError, TypeError):
        if op is None:
            raise MissingField("op", _OPS) from None
        raise InvalidValue("op", op, _OPS) from None
    return read(fields)


_WRITERS: dict[str, Callable[[Any], Any]] = {
    "region": region_to_json,
    "point": list,
    "top": lambda top: {"k": top.k, "alpha": top.alpha},
}
_OPS_OF: dict[type, str] = {
    Subscribe: SUBSCRIBE,
    Move: MOVE,
    Unsubscribe: UNSUBSCRIBE,
    Publish: PUBLISH,
}
_NAMES = {op: tuple(field.name for field in fields_of(op)) for op in _OPS_OF.values()}


def event_to_json(event: Event) -> dict[str, Any]:
    """Write one event in its JSON form; `event_from_json` reads it back."""
    op = _OPS_OF[type(event)]
    carrier: Any = event
    match event:
        case Subscribe(subscription):
            carrier = subscription
        case Publish(message):
            carrier = message
    written: dict[str, Any] = {"op": op}
    for name in _NAMES[op]:
        value = event.at if name == "at" else getattr(carrier, name)
        if value is not None and (value or name != "ttl"):
            written[name] = _WRITERS[name](value) if name in _WRITERS else value
    return written
