"""Regions and points as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue, MissingField
from nearcast.geo import (
    Box,
    Circle,
    MultiPolygon,
    Polygon,
    Region,
    point_from_json,
    region_from_json,
    region_to_json,
)

BOX = {"type": "Box", "bbox": [170.0, -20.0, -170.0, -10.0]}
CIRCLE = {"type": "Circle", "center": [151.2, -33.87], "radius": 2000.0}
POLYGON = {
    "type": "Polygon",
    "coordinates": [
        [[0.0, 0.0], [8.0, 0.0], [8.0, 8.0], [0.0, 0.0]],
        [[4.0, 1.0], [5.0, 1.0], [5.0, 2.0], [4.0, 1.0]],
    ],
}
MULTI_POLYGON = {
    "type": "MultiPolygon",
    "coordinates": [POLYGON["coordinates"], [[[8.0, 8.0], [9.0, 8.0], [9.0, 9.0], [8.0, 8.0]]]],
}
lons, lats = st.floats(-180, 180), st.floats(-90, 90)
ALL = pytest.mark.parametrize(
    "written", [BOX, CIRCLE, POLYGON, MULTI_POLYGON], ids=lambda w: w["type"]
)


@st.composite
def regions(draw: st.DrawFn) -> Region:
    kind = draw(st.sampled_from([Box, Circle, Polygon, MultiPolygon]))
    lon, lat = draw(lons), draw(lats)
    if kind is Box:
        south, north = sorted((lat, draw(lats)))
        return Box(lon, south, draw(lons), north)
    if kind is Circle:
        return Circle((lon, lat), draw(st.floats(0, 1e9)))
    lon, lat = lon / 2, lat / 2
    right, up = draw(st.floats(0.1, 80)), draw(st.floats(0.1, 40))
    rings = (((lon, lat), (lon + right, lat), (lon, lat + up), (lon, lat)),)
    if kind is Polygon:
        return Polygon(rings)
    return MultiPolygon(
        (rings, (((0, 0), (right, 0), (0, up), (0, 0)),))[: draw(st.integers(1, 2))]
    )


@given(regions())
def test_there_and_back(region: Region) -> None:
    """A region written as JSON text and read again is the same, to the last bit."""
    assert region_from_json(json.loads(json.dumps(region_to_json(region)))) == region


@ALL
def test_back_and_there(written: dict[str, object]) -> None:
    """The JSON of a region that was read is the JSON it was read from."""
    assert region_to_json(region_from_json(written)) == written


@ALL
def test_null_counts_as_absent(written: dict[str, object]) -> None:
    """A struct with the fields of all regions, the unused ones null, is the one region."""
    names = ("type", "bbox", "center", "radius", "coordinates", "polygons")
    assert region_from_json({n: written.get(n) for n in names}) == region_from_json(written)


def test_a_struct_has_the_coordinates_of_a_multi_polygon_in_a_field_of_their_own() -> None:
    """A field of a struct has one type, and theirs are lists of one level more."""
    struct = {"type": "MultiPolygon", "polygons": MULTI_POLYGON["coordinates"]}
    assert region_from_json(struct | {"coordinates": None}) == region_from_json(MULTI_POLYGON)
    assert region_from_json(struct) == region_from_json(MULTI_POLYGON)


def test_further_fields_are_left_alone() -> None:
    """GeoJSON allows them."""
    assert region_from_json({**POLYGON, "bbox": "?", "name": "x"}) == region_from_json(POLYGON)


def arrays(value: Any) -> Any:
    return np.array(value)


def arrays_of_objects(value: Any) -> Any:
    """Arrays in arrays, as columns of lists come out of a table."""
    if not isinstance(value, list):
        return value
    outer = np.empty(len(value), object)
    for index, each in enumerate(value):
        outer[index] = arrays_of_objects(each)
    return outer


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("shape", [arrays_of_objects, tuples, arrays])
def test_any_sequence_will_do(shape: Any) -> None:
    """Arrays, arrays of arrays and tuples are read like lists."""
    single = {"type": "Polygon", "coordinates": POLYGON["coordinates"][:1]}
    several = {"type": "MultiPolygon", "coordinates": [POLYGON["coordinates"][:1]] * 2}
    for written in (BOX, CIRCLE, POLYGON, single, several):
        shaped = {k: v if isinstance(v, str) else shape(v) for k, v in written.items()}
        if shape is arrays and "radius" in shaped:
            shaped["radius"] = np.float64(2000.0)
        assert region_to_json(region_from_json(shaped)) == written
    assert point_from_json(shape([1.0, 2.0])) == (1.0, 2.0)


@pytest.mark.parametrize(
    "given", [np.array([1, 2]), np.array([1, 2], np.float32), [1, 2], (np.int8(1), 2)]
)
def test_points_become_plain_floats(given: Any) -> None:
    """Whatever the numbers were."""
    lon, lat = point_from_json(given)
    assert (lon, lat) == (1.0, 2.0)
    assert type(lon) is type(lat) is float


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({}, "type"),
        ({"type": None, "bbox": [0, 0, 1, 1]}, "type"),
        ({"type": "Box"}, "bbox"),
        ({"type": "Box", "bbox": None}, "bbox"),
        ({"type": "Circle", "radius": 5}, "center"),
        ({"type": "Circle", "center": [0, 0]}, "radius"),
        ({"type": "Polygon", "bbox": [0, 0, 1, 1]}, "coordinates"),
        ({"type": "Polygon", "polygons": [[]]}, "coordinates"),
        ({"type": "MultiPolygon", "coordinates": None}, "coordinates"),
    ],
)
def test_missing_fields(written: dict[str, object], field: str) -> None:
    """A field that is not there, or null, is named as missing."""
    with pytest.raises(MissingField, match=f"^{field}: missing; expected ") as caught:
        region_from_json(written)
    assert caught.value.field == field


@pytest.mark.parametrize("kind", ["box", "Point", "MultiPoint", 5, True, ["Box"]])
def test_unknown_types_are_told_the_right_ones(kind: object) -> None:
    """The message shows the type that was given and the four that exist."""
    with pytest.raises(InvalidValue) as caught:
        region_from_json({"type": kind, "bbox": [0, 0, 1, 1]})
    expected = '"Box", "Circle", "Polygon" or "MultiPolygon"'
    assert str(caught.value) == f"type: {kind!r} given; expected {expected}"


@pytest.mark.parametrize("thing", [None, 5, "Box", ["type", "Box"], Box(0, 0, 1, 1)])
def test_what_is_no_object(thing: object) -> None:
    """The message shows it, and names the four types."""
    with pytest.raises(InvalidValue, match=r'"Circle", "Polygon" or "MultiPolygon"$') as caught:
        region_from_json(thing)
    assert caught.value.given is thing


@pytest.mark.parametrize("bbox", [[], [0, 0, 1], [0, 0, 1, 1, 2], "0011", 5, {"west": 0}])
def test_boxes_that_are_not_four_numbers(bbox: object) -> None:
    """The whole list is shown."""
    with pytest.raises(InvalidValue, match=r"expected \[west, south, east, north\]") as caught:
        region_from_json({"type": "Box", "bbox": bbox})
    assert caught.value.field == "bbox"
    assert caught.value.given is bbox


def test_mistakes_inside_can_be_placed() -> None:
    """The name of a field inside a region grows with `inside`."""
    with pytest.raises(InvalidValue) as caught:
        region_from_json({"type": "Box", "bbox": [0, "x", 1, 1]})
    assert caught.value.inside("region").field == "region.bbox[1]"
