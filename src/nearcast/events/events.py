"""The five kinds of event, and their JSON form.

An event is read from a mapping with the keys of the event log (`op`, `id`, `query`, ...). A key
whose value is null counts as absent, because a Parquet row has every column; keys that are not
ours are passed over, so that a log may carry more than Nearcast reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nearcast.errors import InvalidValue, MissingField
from nearcast.events.fields import (
    CARRIED,
    MOVE,
    PUBLISH,
    RETRACT,
    SUBSCRIBE,
    UNSUBSCRIBE,
    carried_in,
    fields_of,
)
from nearcast.events.values import (
    Message,
    Point,
    Subscription,
    Top,
    as_top,
    check_id,
    check_point,
    check_positive,
    check_region,
    check_seconds,
)
from nearcast.geo import Region, point_from_json, region_from_json, region_to_json


def _check_at(event: Subscribe | Move | Unsubscribe | Retract) -> None:
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
    """A subscription goes to another region or, if it is a top-k one, to another point or both.

    With a `ttl` it ends that many seconds from now; otherwise its end stays as it is.
    """

    id: str
    region: Region | None = None
    point: Point | None = None
    at: float | None = None
    ttl: float | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        _check_at(self)
        if self.region is not None:
            object.__setattr__(self, "region", check_region(self.region))
        if self.point is not None:
            object.__setattr__(self, "point", check_point(self.point))
        elif self.region is None:
            raise MissingField("region", "where to move to: a region or a point")
        if self.ttl is not None:
            object.__setattr__(self, "ttl", check_positive(self.ttl, "ttl", "seconds"))


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


@dataclass(frozen=True, slots=True)
class Retract:
    """A message that is active or in the window ends before its time."""

    id: str
    at: float | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        _check_at(self)


Event = Subscribe | Move | Unsubscribe | Publish | Retract

Fields = Mapping[str, Any]


def id_of(event: Event) -> str:
    """The id of the subscription or message that an event is about."""
    match event:
        case Subscribe(subscription):
            return subscription.id
        case Publish(message):
            return message.id
    return event.id


def _region(fields: Fields) -> Region | None:
    value = fields.get("region")
    if value is None:
        return None
    try:
        return region_from_json(value)
    except InvalidValue as error:
        raise error if error.field == "region" else error.inside("region") from None


def _point(fields: Fields) -> Point | None:
    """The point of an event: two numbers, and none of the other forms that Python calls take."""
    value = fields.get("point")
    return None if value is None else point_from_json(value)


def subscription_from_json(fields: Fields) -> Subscription:
    """Read a subscription from the fields of its event."""
    get, top = fields.get, fields.get("top")
    return Subscription(
        get("id"),  # type: ignore[arg-type]  # the value types check what they are given
        get("query"),
        region=_region(fields),
        point=_point(fields),
        top=None if top is None else as_top(top),
        filter=get("filter"),
        meta=get("meta"),
        ttl=get("ttl"),
        ops=get("ops"),
    )


def message_from_json(fields: Fields) -> Message:
    """Read a message from the fields of its event."""
    get = fields.get
    parts: Any = (
        get("id"), get("text"), _point(fields), _region(fields), get("at"), get("ttl", 0.0)
    )  # fmt: skip
    for name in CARRIED:  # few messages carry anything, and keyword arguments take time
        if name in fields:
            return Message(*parts, **carried_in(fields))
    return Message(*parts)  # which checks what it is given


def _subscribe(fields: Fields) -> Subscribe:
    return Subscribe(subscription_from_json(fields), fields.get("at"))


def _move(fields: Fields) -> Move:
    return Move(
        fields.get("id"),  # type: ignore[arg-type]  # the event checks what it is given
        region=_region(fields),
        point=_point(fields),
        at=fields.get("at"),
        ttl=fields.get("ttl"),
    )


def _unsubscribe(fields: Fields) -> Unsubscribe:
    return Unsubscribe(fields.get("id"), fields.get("at"))  # type: ignore[arg-type]  # checked there


def _retract(fields: Fields) -> Retract:
    return Retract(fields.get("id"), fields.get("at"))  # type: ignore[arg-type]  # checked there


def _publish(fields: Fields) -> Publish:
    return Publish(message_from_json(fields))


_READERS: dict[str, Callable[[Fields], Event]] = {
    PUBLISH: _publish,
    SUBSCRIBE: _subscribe,
    MOVE: _move,
    UNSUBSCRIBE: _unsubscribe,
    RETRACT: _retract,
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


def top_to_json(top: Top) -> dict[str, Any]:
    """Write `top` in its JSON form."""
    written = {"k": top.k, "alpha": top.alpha, "scale": top.scale, "min_score": top.min_score}
    return {name: value for name, value in written.items() if value is not None}


_WRITERS: dict[str, Callable[[Any], Any]] = {
    "region": region_to_json,
    "point": list,
    "top": top_to_json,
    "ops": list,
}
_OPS_OF: dict[type, str] = {
    Subscribe: SUBSCRIBE,
    Move: MOVE,
    Unsubscribe: UNSUBSCRIBE,
    Publish: PUBLISH,
    Retract: RETRACT,
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
        if value is not None and (value or name not in ("ttl", "text")):
            written[name] = _WRITERS[name](value) if name in _WRITERS else value
    return written
