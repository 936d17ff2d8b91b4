"""Columns of Arrow as regions and points, in the forms in which tables have them.

Regions: WKB, WKT or GeoJSON text, polygons, several polygons and boxes of GeoArrow, and structs or
JSON text of the event log. Points: WKB, WKT or GeoJSON text, points of GeoArrow, lists of two
numbers, and two columns of longitudes and latitudes. What shapely reads is read and checked all at
once; what is not valid beyond doubt is read on its own by `as_region` or `as_point`, so an entry
means the same, and its error says the same, as it would alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast.geo.foreign import HEX, POINT, REGION, WGS_84, as_point, as_region
from nearcast.geo.polygon_columns import of_geometries
from nearcast.geo.polygons import Region
from nearcast.geo.shapes import Box

Mask = npt.NDArray[np.bool_]
Geometries = npt.NDArray[np.object_]

_POINT = 0  # type of shapely
_AXES = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"))
_EDGES = ("xmin", "ymin", "xmax", "ymax")
_LEVELS = {3: "Polygon", 4: "MultiPolygon"}


class RegionColumn(NamedTuple):
    """The regions of a column, and what is wrong with those that have an error.

    None stands for null, and for an entry with an error.
    """

    regions: list[Region | None]
    errors: dict[int, InvalidValue]


class PointColumn(NamedTuple):
    """The points of a column as (n, 2), and what is wrong with those that have an error.

    NaN stands for null, and for an entry with an error.
    """

    points: Floats
    errors: dict[int, InvalidValue]


def regions_in(column: pa.Array | pa.ChunkedArray) -> RegionColumn:
    """Read a column of regions."""
    column = plain_column(column)
    regions: list[Region | None] = [None] * len(column)
    errors: dict[int, InvalidValue] = {}
    given = _present(column)
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        values = column.to_numpy(zero_copy_only=False)
        polygons, done = of_geometries(_geometries(values))
        for entry, row in enumerate(np.flatnonzero(done).tolist()):
            regions[row] = polygons.region(entry)
        rest = [(row, values[row]) for row in np.flatnonzero(given & ~done).tolist()]
    else:
        values = _region_values(column)
        rest = [(row, values[row]) for row in np.flatnonzero(given).tolist()]
    for row, value in rest:
        try:
            regions[row] = value if isinstance(value, Box) else as_region(value)
        except InvalidValue as error:
            errors[row] = error
    return RegionColumn(regions, errors)


def points_in(
    column: pa.Array | pa.ChunkedArray, lats: pa.Array | pa.ChunkedArray | None = None
) -> PointColumn:
    """Read a column of points, or one of longitudes and one of latitudes."""
    column = plain_column(column)
    if lats is not None:
        return _from_axes(column, plain_column(lats), np.ones(len(column), np.bool_))
    kind = column.type
    axes = _axes(kind)
    if axes is not None:
        lon, lat = axes
        return _from_axes(column.field(lon), column.field(lat), _present(column))
    if pa.types.is_fixed_size_list(kind) and kind.list_size in (2, 3, 4):
        values = column.values.slice(column.offset * kind.list_size, len(column) * kind.list_size)
        places = np.arange(len(column)) * kind.list_size
        lons, lats = (values.take(pa.array(places + axis)) for axis in (0, 1))
        return _from_axes(lons, lats, _present(column))
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        texts = column.to_numpy(zero_copy_only=False)
        found = _geometries(texts)
        good = (shapely.get_type_id(found) == _POINT) & ~shapely.is_empty(found)
        good &= np.isin(shapely.get_srid(found), WGS_84)
        points = np.full((len(found), 2), np.nan)
        points[good] = shapely.get_coordinates(found[good])
        return _checked(points, _present(column), texts)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = np.empty(len(column), object)
        values[:] = column.to_pylist()
        return _checked(np.full((len(column), 2), np.nan), _present(column), values)
    raise POINT.wrong(f"a column of {kind}", _expected_columns("points"))


def are_points(column: pa.Array) -> Mask:
    """Which entries of a plain column are points; the others are regions, or neither."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        values = column.to_numpy(zero_copy_only=False)
        found = shapely.get_type_id(_geometries(values)) == _POINT
        for row in np.flatnonzero(~found).tolist():
            found[row] = isinstance(values[row], str) and values[row].lstrip().startswith("[")
        return np.asarray(found, np.bool_)
    return np.full(len(column), _axes(kind) is not None or _depth(kind) == 1)


def _geometries(values: npt.NDArray[np.object_]) -> Geometries:
    """The geometries of WKB, WKT or GeoJSON; None for what is none of these, or is broken."""
    found = np.full(len(values), None, object)
    if not len(values):
        return found
    forms = np.array([_form(value) for value in values])
    readers = (shapely.from_wkb, shapely.from_geojson, shapely.from_wkt)
    for form, read in enumerate(readers):
        some = forms == form
        if some.any():
            with np.errstate(all="ignore"):  # of numbers that are no floats
                found[some] = read(values[some], on_invalid="ignore")
    return found


def _form(value: object) -> int:
    """Which reader a value is for; -1 for none."""
    if isinstance(value, bytes):
        return 0
    if not isinstance(value, str):
        return -1
    text = value.strip()
    return 0 if HEX.fullmatch(text) else 1 if text.startswith("{") else 2


def _region_values(column: pa.Array) -> list[Any]:
    """The entries of a column of structs or lists, as `as_region` reads them."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        if "type" in names:
            return list(column.to_pylist())
        if set(_EDGES) <= set(names):
            return [_box(entry) for entry in column.to_pylist()]
    type_ = _LEVELS.get(_depth(kind))
    if type_ is None:
        raise REGION.wrong(f"a column of {kind}", _expected_columns("regions"))
    return [
        None if entry is None else {"type": type_, "coordinates": _positions(entry)}
        for entry in column.to_pylist()
    ]


def _box(entry: dict[str, Any] | None) -> dict[str, Any] | None:
    return entry and {"type": "Box", "bbox": [entry[name] for name in _EDGES]}


def _depth(kind: pa.DataType) -> int:
    """How many lists are in each other; a struct of two axes counts as one."""
    if _axes(kind) is not None:
        return 1
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return 1 + _depth(kind.value_type) if any(each(kind) for each in lists) else 0


def _positions(value: Any) -> Any:
    """Positions as lists, whatever they were."""
    if isinstance(value, dict):
        return list(value.values())
    return [_positions(each) for each in value] if isinstance(value, list) else value


def _axes(kind: pa.DataType) -> tuple[str, str] | None:
    """The names of longitude and latitude in a struct, which are its first fields."""
    if not pa.types.is_struct(kind):
        return None
    first = tuple(field.name for field in kind)[:2]
    return next((axes for axes in _AXES if axes == first), None)


def _from_axes(lons: pa.Array, lats: pa.Array, given: Mask) -> PointColumn:
    """Points of two columns of numbers; an entry without both is null."""
    for axis in (lons, lats):
        if not (pa.types.is_floating(axis.type) or pa.types.is_integer(axis.type)):
            raise POINT.wrong(f"a column of {axis.type}", "longitudes and latitudes as numbers")
    if len(lons) != len(lats):
        raise POINT.wrong(f"{len(lons)} longitudes and {len(lats)} latitudes", "as many of both")
    points = np.column_stack([_numbers(lons), _numbers(lats)])
    given = given & (_present(lons) | _present(lats))
    values = np.empty(len(points), object)
    for row in np.flatnonzero(given & ~_on_earth(points)).tolist():
        values[row] = [lons[row].as_py(), lats[row].as_py()]
    return _checked(points, given, values)


def _checked(points: Floats, given: Mask, values: npt.NDArray[np.object_]) -> PointColumn:
    """Look at single entries that are not valid beyond doubt."""
    errors: dict[int, InvalidValue] = {}
    good = _on_earth(points)
    points[~(good & given)] = np.nan
    for row in np.flatnonzero(given & ~good).tolist():
        try:
            points[row] = as_point(values[row])
        except InvalidValue as error:
            errors[row] = error
    return PointColumn(points, errors)


def _on_earth(points: Floats) -> Mask:
    lons, lats = points[:, 0], points[:, 1]
    return (lons >= -180.0) & (lons <= 180.0) & (lats >= -90.0) & (lats <= 90.0)


def _numbers(column: pa.Array) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _present(column: pa.Array) -> Mask:
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_)


def plain_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array of a type that is read here."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [plain_column(chunk) for chunk in column.chunks]
        return pa.concat_arrays(chunks) if chunks else plain_column(pa.array([], column.type))
    if isinstance(column, pa.ExtensionArray):
        return plain_column(column.storage)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain_column(column.dictionary_decode())
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.binary())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string())
    return column


def _expected_columns(what: str) -> str:
    return f"{what} as WKB, WKT, GeoJSON text, GeoArrow, or as in the event log"
