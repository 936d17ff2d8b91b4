"""The values of the model: subscriptions, messages, updates.

Each class checks itself when it is created, so every instance is valid. Numbers are stored as
floats and points as pairs of floats, whatever kind of number or sequence was given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from numbers import Integral, Real
from typing import Any

import msgspec

from nearcast.errors import InvalidValue, MissingField
from nearcast.events.bodies import LateBody
from nearcast.events.fields import CARRIED, OPS, UpdateOp
from nearcast.events.sized import SizedObject
from nearcast.geo import (
    Area,
    Region,
    as_point,
    as_region,
    point,
)
from nearcast.geo.codec import ANY_AREA, ANY_REGION

Point = tuple[float, float]

LONGEST_ID = 255
LARGEST_K = 1000
LARGEST_META = 4 * 1024
LARGEST_PROPERTIES = 64 * 1024
DEEPEST_OBJECT = 500
"""How many objects and arrays may be inside each other; what reads JSON fails at about 1,000."""

JsonObject = Mapping[str, Any]
"""A JSON object: strings, numbers, true, false, null, lists and objects under names."""

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
    if isinstance(value, datetime | str) and field == "at":
        raise InvalidValue(
            field, value, "a finite number of seconds, such as datetime.timestamp() gives"
        )
    return check_number(value, field, "a finite number of seconds")


def check_number(value: object, field: str, expected: str) -> float:
    """Accept a finite number."""
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidValue(field, value, expected)
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if not math.isfinite(value):
        raise InvalidValue(field, value, expected)
    return value


def check_positive(value: object, name: str, unit: str) -> float:
    """Accept a finite number greater than 0."""
    expected = f"a number of {unit} greater than 0"
    number = check_number(value, name, expected)
    if not number > 0:
        raise InvalidValue(name, value, expected)
    return number


def check_object(value: object, name: str, most: int) -> JsonObject:
    """Accept a JSON object of at most this many bytes, nested as deeply as allowed, and copy it."""
    expected = f"a JSON object of at most {most:,} bytes"
    shallow = f"{expected}, at most {DEEPEST_OBJECT} objects and arrays deep"
    if not isinstance(value, Mapping):
        raise InvalidValue(name, value, expected)
    try:
        written = _encode(dict(value))
    except UnicodeEncodeError:
        raise InvalidValue(name, value, f"{expected}, without lone surrogates") from None
    except RecursionError:
        raise InvalidValue(name, _TOO_DEEP, shallow) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(name, value, f"{expected}; {error}") from None
    size = value.size if isinstance(value, SizedObject) else len(written)
    if size > most:
        raise InvalidValue(name, value, f"{expected}; this has {size:,}")
    if _depth(written) > DEEPEST_OBJECT:
        raise InvalidValue(name, _TOO_DEEP, shallow)
    try:
        copied: JsonObject = msgspec.json.decode(written)
    except ValueError as error:  # of a Decimal that no number of JSON is
        raise InvalidValue(name, value, f"{expected}; {error}") from None
    return copied


def _as_json(value: Any) -> object:
    """Numbers, truth values, strings and arrays of numpy as those of JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is nothing that JSON has")


_encode = msgspec.json.Encoder(enc_hook=_as_json, decimal_format="number").encode
_TOO_DEEP = "an object nested too deeply"
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_BRACKET = re.compile(rb"[][{}]")


def _depth(written: bytes) -> int:
    """How many objects and arrays of a JSON text are inside each other, at most."""
    brackets = written.count(b"{") + written.count(b"[")
    if brackets <= DEEPEST_OBJECT:
        return brackets  # as nearly always; some may stand beside each other, or in strings
    steps = (1 if each in b"{[" else -1 for each in _BRACKET.findall(_STRING.sub(b"", written)))
    return max(accumulate(steps))


def check_ops(value: object) -> tuple[UpdateOp, ...]:
    """Accept a collection of the names of ops that is not empty."""
    expected = "a list of one or more of " + ", ".join(OPS)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection) or not value:
        raise InvalidValue("ops", value, expected)
    for op in value:
        if op not in OPS:
            raise InvalidValue("ops", op, expected)
    return tuple(op for op in OPS if op in value)


@dataclass(frozen=True, slots=True)
class Top:
    """Ask for the `k` best messages of the window; `alpha` weighs nearness against likeness.

    With `scale`, nearness falls to 0 within that many metres instead of across the whole space.
    Messages that score less than `min_score` are never results.

    >>> Top(k=20, alpha=0.5, scale=5000).k
    20
    """

    k: int
    alpha: float
    scale: float | None = None
    min_score: float | None = None

    def __post_init__(self) -> None:
        k, alpha = self.k, self.alpha
        if self.scale is not None:
            _put(self, "scale", check_positive(self.scale, "scale", "metres"))
        if self.min_score is not None:
            _put(self, "min_score", check_number(self.min_score, "min_score", "a finite number"))
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


def check_point(value: object) -> Point:
    """Accept a longitude and a latitude, or a point of another library or format."""
    return point(value) if isinstance(value, tuple | list) else as_point(value)


def check_region(value: object) -> Region:
    """Accept a region, also of another library or format."""
    if value is None:
        raise MissingField("region", ANY_REGION)
    return as_region(value)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription: a query within a region, or the top k around a point.

    One of `query` and `region` may be left out: without a query it gets every message in the
    region, without a region what matches anywhere. A top-k subscription has a query (a bag of
    words), a point and `top`, and may have a `filter` (a query) and a region: only messages that
    satisfy both are ranked. `meta` is given back with every update; with a `ttl` it ends after that
    many seconds; of `ops` alone (`add`, `remove`, `change`) it gets updates.

    >>> from nearcast import Circle
    >>> Subscription("s1", "ipad AND sale", Circle((151.2, -33.87), radius=2000)).top is None
    True
    """

    id: str
    query: str | None = None
    region: Region | None = None
    point: Point | None = None
    top: Top | None = None
    filter: str | None = None
    meta: JsonObject | None = field(default=None, hash=False)
    ttl: float | None = None
    ops: tuple[UpdateOp, ...] | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        if self.meta is not None:
            _put(self, "meta", check_object(self.meta, "meta", LARGEST_META))
        if self.ttl is not None:
            _put(self, "ttl", check_positive(self.ttl, "ttl", "seconds"))
        if self.ops is not None:
            _put(self, "ops", check_ops(self.ops))
        if self.region is not None:
            _put(self, "region", check_region(self.region))
        if self.query is not None:
            check_text(self.query, "query")
        if self.top is None:
            if self.point is not None:
                raise MissingField("top", '{"k": ..., "alpha": ...} beside a point, or a region')
            if self.filter is not None:
                raise MissingField("top", '{"k": ..., "alpha": ...} beside a filter')
            if self.query is None and self.region is None:
                raise MissingField("query", "a string, or a region without a query")
            return
        if not isinstance(self.top, Top):
            _put(self, "top", as_top(self.top))
        check_text(self.query, "query")
        if self.filter is not None:
            check_text(self.filter, "filter")
        if self.point is None:
            raise MissingField("point", "[longitude, latitude], as top is given")
        _put(self, "point", check_point(self.point))


def as_top(value: object) -> Top:
    """Read `top` from a `Top` or from its JSON form."""
    if isinstance(value, Top):
        return value
    if not isinstance(value, Mapping):
        raise InvalidValue("top", value, '{"k": ..., "alpha": ...}')
    try:
        return Top(
            value.get("k"),  # type: ignore[arg-type]  # Top checks them
            value.get("alpha"),  # type: ignore[arg-type]
            value.get("scale"),
            value.get("min_score"),
        )
    except InvalidValue as error:
        raise error.inside("top") from None


@dataclass(frozen=True, slots=True)
class Message:
    """Something that happened at a point, or over an area (a range message).

    `at` is its event time in seconds; without it, the time of the event before. With a `ttl`
    above 0 it stays active for `at <= now < at + ttl`. Queries may ask for its `properties`, a
    JSON object; without a text it has no terms.

    >>> Message("m1", "iPad sale!", (151.21, -33.87)).point
    (151.21, -33.87)
    """

    id: str
    text: str = ""
    point: Point | None = None
    region: Area | None = None
    at: float | None = None
    ttl: float = 0.0
    properties: JsonObject | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        check_id(self.id)
        if type(self.text) is not str:
            _put(self, "text", "" if self.text is None else check_text(self.text, "text"))
        if self.point is None:
            if self.region is None:
                raise MissingField("point", "[longitude, latitude], or a region")
            if not isinstance(self.region, Area):
                _put(self, "region", as_region(self.region))
            if not isinstance(self.region, Area):
                raise InvalidValue("region", self.region, ANY_AREA)
        elif self.region is not None:
            raise InvalidValue("region", self.region, "either a point or a region, not both")
        else:
            _put(self, "point", check_point(self.point))
        if self.properties is not None:
            _put(
                self, "properties", check_object(self.properties, "properties", LARGEST_PROPERTIES)
            )
        at = self.at
        if at is not None and not (type(at) is float and math.isfinite(at)):
            _put(self, "at", check_seconds(at, "at"))
        ttl: float | None = self.ttl
        if ttl != 0.0 or type(ttl) is not float:
            ttl = 0.0 if ttl is None else check_seconds(ttl, "ttl")
            if ttl < 0:
                raise InvalidValue("ttl", self.ttl, "0 or more seconds")
            _put(self, "ttl", ttl)

    @property
    def carried(self) -> dict[str, Any]:
        """Those of its fields that are kept as they are, as far as it has them."""
        found = ((name, getattr(self, name)) for name in CARRIED)
        return {name: value for name, value in found if value is not None}


@dataclass(frozen=True, slots=True)
class Update:
    """A message entered (`add`) or left (`remove`) the results of a subscription.

    `change` is for one that was replaced, or whose score changed by a move, and is still a result.
    An `add` or `change` has the message as its `body`, and every update has the `meta` of the
    subscription, if it has one; two updates are equal whatever these are.
    """

    op: UpdateOp
    subscription: str
    message: str
    score: float | None = None
    meta: JsonObject | None = field(default=None, compare=False, repr=False)
    late: LateBody | None = field(default=None, compare=False, repr=False)
    """Its body, until it is asked for."""

    @property
    def body(self) -> JsonObject | None:
        """The text, place, properties, time and ttl of the message, as far as it has them."""
        return None if self.late is None else self.late.fields


@dataclass(frozen=True, slots=True)
class Result:
    """A message that is in a subscription's results now, with its score if they are ranked."""

    message: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """A subscription that a message would reach now, with its score if that one ranks."""

    subscription: str
    score: float | None = None


def in_order(updates: Sequence[Update]) -> list[Update]:
    """Sort the updates of one event as every engine reports them."""
    return sorted(updates, key=lambda u: (u.subscription, u.message, u.op))
