"""Checks of coordinates from outside: they become plain floats, or an error names the field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

from nearcast.errors import InvalidValue

LONGITUDE = "a longitude in [-180, 180]"
LATITUDE = "a latitude in [-90, 90]"
POSITION = "a position [longitude, latitude]"


def longitude(value: object, field: str) -> float:
    """Return a longitude as a float, or say what is wrong with it."""
    number = finite(value)
    if number is None or not -180.0 <= number <= 180.0:
        raise InvalidValue(field, value, LONGITUDE)
    return number


def latitude(value: object, field: str) -> float:
    """Return a latitude as a float, or say what is wrong with it."""
    number = finite(value)
    if number is None or not -90.0 <= number <= 90.0:
        raise InvalidValue(field, value, LATITUDE)
    return number


def finite(value: object) -> float | None:
    """Return a number as a finite float; None for all else, truth values among it."""
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, Real):
            return None
        try:
            value = float(value)
        except OverflowError:
            return None
    return value if math.isfinite(value) else None


def sequence(value: object) -> Sequence[object] | None:
    """Return a list, a tuple or an array as a sequence; None for all else, text among it."""
    if isinstance(value, list | tuple):
        return value
    to_list = getattr(value, "tolist", None)  # numpy arrays, without importing numpy
    if to_list is None:
        return None
    values = to_list()
    return values if isinstance(values, list) else None


def point(value: object, field: str = "point") -> tuple[float, float]:
    """Return a position [longitude, latitude] as two floats, or say what is wrong with it.

    Two floats in a list or a tuple take the short way: every message comes through here.
    """
    if (type(value) is tuple or type(value) is list) and len(value) == 2:
        lon, lat = value
        if (
            type(lon) is float
            and type(lat) is float
            and -180.0 <= lon <= 180.0
            and -90.0 <= lat <= 90.0
        ):
            return lon, lat
    pair = sequence(value)
    if pair is None or len(pair) != 2:
        raise InvalidValue(field, value, POSITION)
    return longitude(pair[0], f"{field}[0]"), latitude(pair[1], f"{field}[1]")
