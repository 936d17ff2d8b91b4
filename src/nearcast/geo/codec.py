"""Regions and points as JSON values, and back: one table of all shapes, `SHAPES`.

Everything that lists shapes follows from it: errors, the columns of regions and OpenAPI. A field
that is null counts as absent: a Parquet struct carries all fields of all regions, and has the
coordinates of a MultiPolygon in `polygons`. Fields that a region does not need are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from nearcast.errors import InvalidValue, MissingField
from nearcast.geo import checks
from nearcast.geo.polygons import Area, MultiPolygon, Polygon, Region
from nearcast.geo.shapes import Box, Circle

POLYGONS = "polygons"
"""Where a Parquet struct has the coordinates of a MultiPolygon: lists of one level more."""

_BBOX = "[west, south, east, north] in degrees"
_POINT = {"$ref": "#/components/schemas/Point"}


class ShapeField(NamedTuple):
    """A field of a shape: what an error expects there, and what a client should know of it."""

    expected: str
    depth: int
    """How many lists a number is in."""
    about: dict[str, Any]
    """The field in JSON Schema."""
    column: str | None = None
    """Its name in a column of regions, if that is another one."""


class RegionShape(NamedTuple):
    """A kind of region: its class, its fields, and how one is written as JSON."""

    kind: type[Any]
    fields: dict[str, ShapeField]
    write: Callable[[Any], dict[str, object]]
    example: list[Any] | None = None
    make: Callable[..., Any] | None = None
    """Makes a region of its fields, if the class does not take them as they are."""


def _box(bbox: object) -> Box:
    edges = checks.sequence(bbox)
    if edges is None or len(edges) != 4:
        raise InvalidValue("bbox", bbox, _BBOX)
    return Box(*cast("Any", edges))  # which checks its values


def _rings(polygon: Polygon) -> list[list[list[float]]]:
    return [[list(position) for position in ring] for ring in polygon.coordinates]


_RINGS: dict[str, Any] = {
    "type": "array",
    "description": "Closed rings as in GeoJSON, the outer one first.",
    "items": {"type": "array", "items": _POINT, "minItems": 4},
    "minItems": 1,
}
_EDGES: dict[str, Any] = {
    "type": "array",
    "description": "West, south, east, north; west > east crosses the antimeridian.",
    "items": {"type": "number", "minimum": -180, "maximum": 180},
    "minItems": 4,
    "maxItems": 4,
}
_SEVERAL: dict[str, Any] = {
    "type": "array",
    "description": "Polygons, which may touch and overlap.",
    "items": _RINGS,
    "minItems": 1,
}

SHAPES = {
    "Box": RegionShape(
        Box,
        {"bbox": ShapeField(_BBOX, 1, _EDGES)},
        lambda box: {"type": "Box", "bbox": [box.west, box.south, box.east, box.north]},
        [[151.1, -33.95, 151.3, -33.8]],
        _box,
    ),
    "Circle": RegionShape(
        Circle,
        {
            "center": ShapeField(checks.POSITION, 1, _POINT),
            "radius": ShapeField(
                "a radius in metres", 0,
                {"type": "number", "minimum": 0, "description": "Great-circle metres."},
            ),
        },
        lambda it: {"type": "Circle", "center": list(it.center), "radius": it.radius},
        [[151.2, -33.87], 2000],
    ),
    "Polygon": RegionShape(
        Polygon,
        {"coordinates": ShapeField("the rings of the polygon, the outer one first", 3, _RINGS)},
        lambda polygon: {"type": "Polygon", "coordinates": _rings(polygon)},
    ),
    "MultiPolygon": RegionShape(
        MultiPolygon,
        {"coordinates": ShapeField("the polygons, each a list of rings", 4, _SEVERAL, POLYGONS)},
        lambda it: {"type": "MultiPolygon", "coordinates": [_rings(each) for each in it.polygons]},
    ),
}  # fmt: skip
"""All kinds of regions, by the name that they have as JSON."""
AREAS = [name for name, shape in SHAPES.items() if issubclass(shape.kind, Area)]
"""The kinds that a range message may cover."""
_WRITERS = {shape.kind: shape.write for shape in SHAPES.values()}


def any_of(names: list[str]) -> str:
    """Say in English that one of several is expected."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


_TYPES = any_of([f'"{name}"' for name in SHAPES])
ANY_REGION = any_of([f"a {name}" for name in SHAPES])
ANY_AREA = any_of([f"a {name}" for name in AREAS])


def region_from_json(obj: object) -> Region:
    """Make a region of a JSON object; fields in errors are named from inside the object.

    An object that is none at all is reported as the field `region`.
    """
    if not isinstance(obj, Mapping):
        raise InvalidValue("region", obj, f'an object with a "type", which is {_TYPES}')
    kind = obj.get("type")
    if kind is None:
        raise MissingField("type", _TYPES)
    shape = SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        raise InvalidValue("type", kind, _TYPES)
    given = []
    for name, field in shape.fields.items():
        value = obj.get(name)
        if value is None and field.column is not None:
            value = obj.get(field.column)
        if value is None:
            raise MissingField(name, field.expected)
        given.append(value)
    region: Region = (shape.make or shape.kind)(*given)  # which checks its values
    return region


def region_to_json(region: Region) -> dict[str, object]:
    """Write a region as a JSON object of dicts, lists, strings and floats."""
    return _WRITERS[type(region)](region)


def point_from_json(obj: object) -> tuple[float, float]:
    """Make a point of a JSON array [longitude, latitude]; errors name it `point`."""
    return checks.point(obj)
