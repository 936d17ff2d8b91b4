"""Places in tables as other systems write them: see `nearcast.geo.columns`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats, Int64s
from nearcast.errors import NearcastError
from nearcast.geo import as_region, region_to_json
from nearcast.geo.columns import RegionColumn, points_in, regions_in
from nearcast.geo.region_columns import UNREAD, RegionArrays, no_regions, regions_of_texts

_POINTS = pa.list_(pa.float64(), 2)


def texts_as_regions(column: pa.Array) -> RegionArrays:
    """Read a column of texts or of WKB, as far as it is valid beyond doubt."""
    kind = column.type
    readable = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if readable and pa.types.is_string(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:  # not UTF-8, as it says
            readable = False
    if readable:
        return regions_of_texts(column)
    found = no_regions(len(column))
    found.kinds[np.asarray(column.is_valid())] = UNREAD
    return found


class ArrowRegions(NamedTuple):
    """Regions of GeoArrow, and what is wrong with some of them."""

    found: RegionColumn

    def value(self, place: int) -> dict[str, Any] | None:
        """The JSON of a region, or its error."""
        if place in self.found.errors:
            raise self.found.errors[place]
        region = self.found.regions[place]
        return None if region is None else region_to_json(region)


def regions_at(table: pa.Table, rows: Int64s) -> ArrowRegions | None:
    """Some regions of a table, if these are GeoArrow and not in the form of the event log."""
    if "region" not in table.column_names:
        return None
    kind = table.schema.field("region").type
    named = pa.types.is_struct(kind) and kind.get_field_index("type") >= 0
    if not (pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType)) or named:
        return None
    return ArrowRegions(regions_in(table["region"].take(pa.array(rows))))


def is_foreign(region: object) -> bool:
    """Whether a region is not in the form of the event log."""
    return region is not None and not (isinstance(region, dict) and "type" in region)


def as_logged(region: object) -> object:
    """A region in the form of the event log; JSON that is none stays as it is, to be refused."""
    try:
        return region_to_json(as_region(region))
    except NearcastError:
        if isinstance(region, str) and region.lstrip().startswith("{"):
            return region
        raise


def with_points(table: pa.Table) -> pa.Table:
    """A table whose points are lists of two numbers, if they are something else that is a point.

    Where text in the form of the event log is no point, all stay as they are, for the checks to
    name it.
    """
    names = table.column_names
    if "point" not in names:
        others = "geometry" in names or names.count("lon") != 1 or names.count("lat") != 1
        if others:  # places that are told otherwise may have a centre besides
            return table
        lons, lats = _numbers(table, "lon"), _numbers(table, "lat")
        if lons is None or lats is None:
            return table
        return table.append_column("point", _listed(np.column_stack([lons, lats])))
    if names.count("point") > 1:
        return table
    kind = table.schema.field("point").type
    if pa.types.is_null(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return table
    if pa.types.is_fixed_size_list(kind) and not pa.types.is_struct(kind.value_type):
        return table
    found = points_in(table["point"])
    for row, error in found.errors.items():
        if all(map(_is_logged, table["point"].to_pylist())):
            return table
        raise error.inside(f"row {row}")
    return table.set_column(names.index("point"), "point", _listed(found.points))


def _is_logged(point: object) -> bool:
    """Whether an entry is null or text other than WKT and WKB, as an event log may have it."""
    return point is None or (isinstance(point, str) and "POINT" not in point.upper())


def _numbers(table: pa.Table, name: str) -> Floats | None:
    column = table[name]
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    numbers: Floats = column.cast(pa.float64()).to_numpy()
    return numbers


def _listed(points: Floats) -> pa.Array:
    missing = np.isnan(points).all(axis=1)
    mask = pa.array(missing) if missing.any() else None
    return pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), type=_POINTS, mask=mask)
