"""A column `geometry` in a table, as data frames have it, taken apart into points and regions."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from nearcast.errors import InvalidValue
from nearcast.geo import Region, region_to_json

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def with_places(table: pa.Table) -> pa.Table:
    """Give a table a `point` and a `region` where a column `geometry` stands for both.

    What is no point is a region. In columns of their own, the reader knows all their forms.
    """
    names = table.schema.names
    if names.count("geometry") != 1 or "point" in names or "region" in names:
        return table
    from nearcast.geo.columns import points_in, regions_in  # here, as it imports shapely

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
