"""Places in tables as other libraries have them, turned into the columns of the event log."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidValue
from nearcast.geo import Region, region_to_json

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary)


def with_places(table: pa.Table) -> pa.Table:
    """Give `point` and `region` the form that they have in the event log.

    They may be WKB, WKT or GeoArrow. Where there is neither, a column `geometry` stands for both,
    as data frames with geometries have it: what is no point is a region.
    """
    names = table.schema.names
    if names.count("geometry") == 1 and "point" not in names and "region" not in names:
        return _with_geometry(table)
    if names.count("point") == 1 and _is_foreign_point(table["point"]):
        table = _replaced(table, "point", _points(table["point"]))
    if names.count("region") == 1 and _is_foreign_region(table["region"]):
        table = _replaced(table, "region", _regions(table["region"]))
    return table


def _is_foreign_point(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if _is_text(kind):
        return not _all_begin_with(column, "[")
    # Points of GeoArrow are structs, or lists of two numbers as in the log.
    return _is_bytes(kind) or pa.types.is_struct(kind) or isinstance(kind, pa.BaseExtensionType)


def _is_foreign_region(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if _is_text(kind):
        return not _all_begin_with(column, "{")
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("type") < 0)
    lists = any(each(kind) for each in _LISTS)
    return _is_bytes(kind) or lists or isinstance(kind, pa.BaseExtensionType)


def _is_text(kind: pa.DataType) -> bool:
    return any(each(kind) for each in _TEXTS)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(each(kind) for each in _BYTES)


def _all_begin_with(column: pa.ChunkedArray, bracket: str) -> bool:
    """Whether all texts are JSON of the log, as far as that shows at their beginning."""
    found = pc.all(pc.match_substring_regex(column.cast(pa.large_binary()), rf"^\s*\{bracket}"))
    return found.as_py() is not False


def _replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def _points(column: pa.ChunkedArray) -> pa.Array:
    from nearcast.geo.columns import points_in  # here, as it imports shapely

    read = points_in(column)
    for row, error in read.errors.items():
        raise _in_row(row, error)
    return pa.array([None if lon != lon else [lon, lat] for lon, lat in read.points.tolist()])


def _regions(column: pa.ChunkedArray) -> pa.Array:
    from nearcast.geo.columns import regions_in

    read = regions_in(column)
    for row, error in read.errors.items():
        raise _in_row(row, error)
    return pa.array([_text_of(region) for region in read.regions], pa.string())


def _with_geometry(table: pa.Table) -> pa.Table:
    """Separate the points of a column from its regions."""
    from nearcast.geo.columns import points_in, regions_in

    points, regions = [], []
    column = table["geometry"]
    read = points_in(column) if _holds_points(column.type) else None
    areas = regions_in(column) if read is None or read.errors else None
    for row in range(len(table)):
        lon, lat = (float("nan"),) * 2 if read is None else read.points[row].tolist()
        points.append(None if lon != lon else [lon, lat])
        if areas is not None and lon != lon and row in areas.errors:
            raise _in_row(row, areas.errors[row])
        regions.append(None if areas is None else _text_of(areas.regions[row]))
    table = table.append_column("point", pa.array(points, pa.list_(pa.float64())))
    return table.append_column("region", pa.array(regions, pa.string()))


def _holds_points(kind: pa.DataType) -> bool:
    """Whether entries of a type can be points: they are, unless they are lists of lists."""
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_points(kind.storage_type)
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("xmin") < 0)
    return not any(each(kind) for each in _LISTS) or pa.types.is_floating(kind.value_type)


def _text_of(region: Region | None) -> str | None:
    return None if region is None else msgspec.json.encode(region_to_json(region)).decode()


def _in_row(row: int, error: InvalidValue) -> InvalidValue:
    return error.inside(f"row {row}")
