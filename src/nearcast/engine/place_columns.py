"""Tables as data frames have them: geometries in one column, which become points and regions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_GEOMETRY, _POINT, _REGION = "geometry", "point", "region"


def arrow_of(frame: Any) -> pa.Table:
    """The table of an object that exports an Arrow stream.

    The stream of a GeoDataFrame lacks its coordinate reference system, which `to_arrow` writes; its
    geometry may have any name.
    """
    if not (hasattr(frame, "to_arrow") and hasattr(frame, "active_geometry_name")):
        return pa.table(frame)
    table = pa.table(frame.to_arrow(index=False, geometry_encoding="WKB"))
    active = frame.active_geometry_name
    if active in (None, _GEOMETRY, _POINT, _REGION):
        return table
    others = [name for name in table.column_names if name != _GEOMETRY]
    return table.select(others).rename_columns({active: _GEOMETRY})


def with_places(table: pa.Table) -> pa.Table:
    """Give a table a `point`, a `region` or both where a column `geometry` stands for them.

    What is no point is a region. In columns of their own, the reader knows all their forms.
    """
    names = table.schema.names
    named = [name for name in (_POINT, _REGION, _GEOMETRY) if names.count(name) == 1]
    if not named:
        return table
    from nearcast.geo.crs import check_degrees

    for name in named:
        check_degrees(table, name)
    if named != [_GEOMETRY] or _POINT in names or _REGION in names:
        return table
    from nearcast.geo.columns import are_points, plain_column  # here, as it imports shapely

    column = plain_column(table[_GEOMETRY])
    pointed = pa.array(are_points(column))
    for name, held in ((_POINT, pointed), (_REGION, pc.invert(pointed))):
        some = pc.and_(held, column.is_valid())
        if some.true_count == len(column) - column.null_count:
            return table.append_column(name, column)
        if some.true_count:
            rows = pa.array(range(len(column)), pa.int64(), mask=pc.invert(some).to_numpy(False))
            table = table.append_column(name, column.take(rows))
    return table
