"""Regions and points as JSON values, and back.

A field that is null counts as absent: a Parquet struct carries all fields of all regions, and has
the coordinates of a MultiPolygon in `polygons`. Fields that a region does not need are not looked
at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from nearcast.errors import InvalidValue, MissingField
from nearcast.geo import checks
from nearcast.geo.polygons import MultiPolygon, Polygon, Region
from nearcast.geo.shapes import Box, Circle

POLYGONS = "polygons"
"""Where a Parquet struct has the coordinates of a MultiPolygon: lists of one level more."""

_TYPES = '"Box", "Circle", "Polygon" or "MultiPolygon"'
_BBOX = "[west, south, east, north] in degrees"
_CENTER = checks.POSITION
_RADIUS = "a radius in metres"
_COORDINATES = "the rings of the polygon, the outer one first"
_POLYGONS = "the polygons, each a list of rings"


def region_from_json(obj: object) -> Region:
    """Make a region of a JSON object; fields in errors are named from inside the object.

    An object that is none at all is reported as the field `region`.
    """
    if not isinstance(obj, Mapping):
        raise InvalidValue("region", obj, f'an object with a "type", which is {_TYPES}')
    kind = _member(obj, "type", _TYPES)
    if kind == "Box":
        given = _member(obj, "bbox", _BBOX)
        edges = checks.sequence(given)
        if edges is None or len(edges) != 4:
            raise InvalidValue("bbox", given, _BBOX)
        return Box(*cast("Any", edges))  # the constructor checks its values
    if kind == "Circle":
        center = cast("Any", _member(obj, "center", _CENTER))
        return Circle(center, cast("Any", _member(obj, "radius", _RADIUS)))
    if kind == "Polygon":
        return Polygon(cast("Any", _member(obj, "coordinates", _COORDINATES)))
    if kind == "MultiPolygon":
        parts = obj.get("coordinates")
        if parts is None:
            parts = obj.get(POLYGONS)
        if parts is None:
            raise MissingField("coordinates", _POLYGONS)
        return MultiPolygon(cast("Any", parts))
    raise InvalidValue("type", kind, _TYPES)


def region_to_json(region: Region) -> dict[str, object]:
    """Write a region as a JSON object of dicts, lists, strings and floats."""
    if isinstance(region, Box):
        return {"type": "Box", "bbox": [region.west, region.south, region.east, region.north]}
    if isinstance(region, Circle):
        return {"type": "Circle", "center": list(region.center), "radius": region.radius}
    if isinstance(region, Polygon):
        return {"type": "Polygon", "coordinates": _lists(region)}
    return {"type": "MultiPolygon", "coordinates": [_lists(each) for each in region.polygons]}


def _lists(polygon: Polygon) -> list[list[list[float]]]:
    return [[list(position) for position in ring] for ring in polygon.coordinates]


def point_from_json(obj: object) -> tuple[float, float]:
    """Make a point of a JSON array [longitude, latitude]; errors name it `point`."""
    return checks.point(obj)


def _member(obj: Mapping[Any, object], name: str, expected: str) -> object:
    value = obj.get(name)
    if value is None:
        raise MissingField(name, expected)
    return value
