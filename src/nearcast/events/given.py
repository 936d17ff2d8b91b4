"""Subscriptions and messages from the arguments of a call, as engines and clients take them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict, Unpack

from nearcast.errors import InvalidValue
from nearcast.events.ids import new_id
from nearcast.events.values import Message, Subscription, Top, as_top
from nearcast.geo import as_point, as_region

Place = Any
"""A point or a region: of this package, or anything that `geo.as_point`, `geo.as_region` read."""
GivenTop = Top | Mapping[str, Any]


class CarriedFields(TypedDict, total=False):
    """What a message carries, as keyword arguments of the calls that take messages."""

    properties: Mapping[str, Any] | None


def given_subscription(
    id: str | Subscription | None,
    query: str | None = None,
    region: Place | None = None,
    point: Place | None = None,
    top: GivenTop | None = None,
    filter: str | None = None,
    meta: Mapping[str, Any] | None = None,
    ttl: float | None = None,
    ops: Collection[str] | None = None,
) -> Subscription:
    """A subscription from its parts, or as it is; None as its id makes a new one."""
    if isinstance(id, Subscription):
        check_alone(id, query, region, point, top, filter, meta, ttl, ops)
        return id
    return Subscription(
        new_id("s") if id is None else id,
        query,
        None if region is None else as_region(region),
        None if point is None else as_point(point),
        None if top is None else as_top(top),
        filter,
        meta,
        ttl,
        ops,  # type: ignore[arg-type]  # checked there
    )


def given_message(
    id: str | Message | None,
    text: str | None = None,
    point: Place | None = None,
    region: Place | None = None,
    at: float | None = None,
    ttl: float | None = None,
    **carried: Unpack[CarriedFields],
) -> Message:
    """A message from its parts, or as it is; None as its id makes a new one."""
    if isinstance(id, Message):
        check_alone(id, text, point, region, at, ttl, *carried.values())
        return id
    return Message(
        new_id("m") if id is None else id,
        "" if text is None else text,
        point if type(point) is tuple or point is None else as_point(point),  # checked there
        None if region is None else as_region(region),  # type: ignore[arg-type]  # checked there
        at,
        0.0 if ttl is None else ttl,
        **carried,
    )


def check_alone(ready_made: Subscription | Message, *others: object) -> None:
    """Refuse arguments beside a ready-made object: they would be ignored."""
    for other in others:
        if other is not None:
            kind = type(ready_made).__name__
            raise InvalidValue(kind, other, f"nothing beside a ready-made {kind}: put it in there")
