"""The values of the model: subscriptions, messages, updates.

Each class checks itself when it is created, so every instance is valid. Numbers are stored as
floats and points as pairs of floats, whatever kind of number or sequence was given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

from nearcast.errors import InvalidValue, MissingField
from nearcast.geo import Box, Circle, MultiPolygon, Polygon, Region, point

Point = tuple[float, float]

LONGEST_ID = 255
LARGEST_K = 1000

_put = object.__setattr__  # how a frozen class fills in its own fields


def check_id(value: object, field: str = "id") -> str:
    """Accept an identifier: a string of 1 to 255 bytes of UTF-8."""
    expected = f"a string of 1 to {LONGEST_ID} bytes of UTF-8"
    if isinstance(value, str):
        if 0 < len(value) <= LONGEST_ID and value.isascii():
            return value
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise InvalidValue(field, value, f"{expected}, without lone surrogates") from None
        if 0 < size <= LONGEST_ID:
            return value
        raise InvalidValue(field, value, f"{expected}; this has {size}")
    if value is None:
        raise MissingField(field, expected)
    raise InvalidValue(field, value, expected)


def check_text(value: object, field: str) -> str:
    """Accept any string."""
    if isinstance(value, str):
        return value
    if value is None:
        raise MissingField(field, "a string")
    raise InvalidValue(field, value, "a string")


def check_seconds(value: object, field: str) -> float:
    """Accept a finite number of seconds."""
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidValue(field, value, "a number of seconds")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if not math.isfinite(value):
        raise InvalidValue(field, value, "a finite number of seconds")
    return value


@dataclass(frozen=True, slots=True)
class Top:
    """Ask for the `k` best messages of the window; `alpha` weighs nearness against likeness.

    >>> Top(k=20, alpha=0.5)
    Top(k=20, alpha=0.5)
    """

    k: int
    alpha: float

    def __post_init__(self) -> None:
        k, alpha = self.k, self.alpha
        if k is None:
            raise MissingField("k", f"a whole number from 1 to {LARGEST_K}")
        whole = isinstance(k, Integral) or (isinstance(k, Real) and k == k // 1)
        if isinstance(k, bool) or not whole or not 1 <= k <= LARGEST_K:
            raise InvalidValue("k", k, f"a whole number from 1 to {LARGEST_K}")
        if alpha is None:
            raise MissingField("alpha", "a number from 0 to 1")
        if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 <= alpha <= 1:
            raise InvalidValue("alpha", alpha, "a number from 0 to 1")
        _put(self, "k", int(k))
        _put(self, "alpha", float(alpha))


def check_region(value: object) -> Region:
    """Accept a box, a circle, a polygon or several polygons."""
    if isinstance(value, Box | Circle | Polygon | MultiPolygon):
        return value
    expected = "a Box, a Circle, a Polygon or a MultiPolygon"
    if value is None:
        raise MissingField("region", expected)
    raise InvalidValue("region", value, expected)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription: a query within a region, or the top k around a point.

    >>> from nearcast import Circle
    >>> Subscription("s1", "ipad AND sale", Circle((151.2, -33.87), radius=2000)).top is None
    True
    """

    id: str
    query: str
    region: Region | None = None
    point: Point | None = None
    top: Top | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        check_text(self.query, "query")
        if self.top is None:
            if self.point is not None:
                raise MissingField("top", '{"k": ..., "alpha": ...} beside a point, or a region')
            check_region(self.region)
            return
        if not isinstance(self.top, Top):
            _put(self, "top", as_top(self.top))
        if self.region is not None:
            raise InvalidValue("region", self.region, "a point, not a region, together with top")
        if self.point is None:
            raise MissingField("point", "[longitude, latitude], as top is given")
        _put(self, "point", point(self.point))


def as_top(value: object) -> Top:
    """Read `top` from a `Top` or from its JSON form."""
    if isinstance(value, Top):
        return value
    if not isinstance(value, Mapping):
        raise InvalidValue("top", value, '{"k": ..., "alpha": ...}')
    try:
        return Top(value.get("k"), value.get("alpha"))  # type: ignore[arg-type]  # Top checks them
    except InvalidValue as error:
        raise error.inside("top") from None


@dataclass(frozen=True, slots=True)
class Message:
    """Something that happened at a point, or over a box (a range message).

    `at` is its event time in seconds; without it, the time of the event before. With a `ttl`
    above 0 it stays active for `at <= now < at + ttl`.

    >>> Message("m1", "iPad sale!", (151.21, -33.87)).point
    (151.21, -33.87)
    """

    id: str
    text: str
    point: Point | None = None
    region: Box | None = None
    at: float | None = None
    ttl: float = 0.0

    def __post_init__(self) -> None:
        check_id(self.id)
        if type(self.text) is not str:
            check_text(self.text, "text")
        if self.point is None:
            if self.region is None:
                raise MissingField("point", "[longitude, latitude], or a region that is a Box")
            if not isinstance(self.region, Box):
                raise InvalidValue("region", self.region, "a Box: a message covers a point or box")
        elif self.region is not None:
            raise InvalidValue("region", self.region, "either a point or a region, not both")
        else:
            _put(self, "point", point(self.point))
        at = self.at
        if at is not None and not (type(at) is float and math.isfinite(at)):
            _put(self, "at", check_seconds(at, "at"))
        ttl: float | None = self.ttl
        if ttl != 0.0 or type(ttl) is not float:
            ttl = 0.0 if ttl is None else check_seconds(ttl, "ttl")
            if ttl < 0:
                raise InvalidValue("ttl", self.ttl, "0 or more seconds")
            _put(self, "ttl", ttl)


UpdateOp = Literal["add", "remove"]
"""What an update does, by name; `fields.UPDATE_OPS` has the number of each."""


@dataclass(frozen=True, slots=True)
class Update:
    """A message entered (`add`) or left (`remove`) the results of a subscription."""

    op: UpdateOp
    subscription: str
    message: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A message that is in a subscription's results now, with its score if they are ranked."""

    message: str
    score: float | None = None


def in_order(updates: Sequence[Update]) -> list[Update]:
    """Sort the updates of one event as every engine reports them."""
    return sorted(updates, key=lambda u: (u.subscription, u.message, u.op))
