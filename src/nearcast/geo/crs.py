"""Coordinate reference systems of columns, as tables of Arrow and files of GeoParquet name them.

Coordinates must be degrees on WGS 84, longitude first. Nothing is projected: a column of another
system is refused. A column that names none is taken to be right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.errors import InvalidValue

_EXTENSION, _GEOPARQUET = b"ARROW:extension:metadata", b"geo"
_DEGREES = re.compile(
    r"(?:urn:ogc:def:crs:)?(?:EPSG:(?:[\d.]*:)?(?:4326|4979)|OGC:(?:[\d.]*:)?CRS84h?)",
    re.IGNORECASE,
)
_LAST_ID = re.compile(r'(?:ID|AUTHORITY)\["(\w+)",\s*"?(\w+)"?[^\[\]]*\]\s*\]\s*\Z')
_DATUM = "World Geodetic System 1984"


def check_degrees(table: pa.Table, name: str) -> None:
    """Refuse a column whose coordinates are said to be others than degrees on WGS 84."""
    system = _system_of(table, name)
    if system is not None and not _is_wgs_84(system):
        expected = "degrees on WGS 84, EPSG:4326; a GeoDataFrame converts with to_crs(4326)"
        raise InvalidValue(f"{name}.crs", _short(system), expected)


def _system_of(table: pa.Table, name: str) -> object:
    """What a column says of its system, in its own metadata or in that of GeoParquet."""
    field = table.schema.field(name)
    kind = field.type
    if isinstance(kind, pa.ExtensionType):
        told = kind.__arrow_ext_serialize__()
    else:
        told = (field.metadata or {}).get(_EXTENSION)
    own = _json(told).get("crs")
    if own is not None:
        return own
    columns = _json((table.schema.metadata or {}).get(_GEOPARQUET)).get("columns")
    column = columns.get(name) if isinstance(columns, Mapping) else None
    return column.get("crs") if isinstance(column, Mapping) else None


def _json(text: bytes | None) -> Mapping[str, Any]:
    try:
        read = msgspec.json.decode(text or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return read if isinstance(read, Mapping) else {}


def _is_wgs_84(system: object) -> bool:
    """Whether a system, as PROJJSON, as WKT or by its name, has degrees on WGS 84."""
    if isinstance(system, str):
        if system.lstrip().startswith("{"):
            return _is_wgs_84(_json(system.encode(errors="replace")))
        last = _LAST_ID.search(system)
        return _DEGREES.fullmatch(f"{last[1]}:{last[2]}" if last else system.strip()) is not None
    if not isinstance(system, Mapping) or system.get("type") != "GeographicCRS":
        return False
    datum = system.get("datum") or system.get("datum_ensemble")
    return isinstance(datum, Mapping) and str(datum.get("name")).startswith(_DATUM)


def _short(system: object) -> str:
    """The name of a system."""
    if isinstance(system, str) and system.lstrip().startswith("{"):
        system = _json(system.encode(errors="replace"))
    if not isinstance(system, Mapping):
        return str(system)
    id = system.get("id")
    name = str(system.get("name"))
    return f"{id.get('authority')}:{id.get('code')} {name}" if isinstance(id, Mapping) else name
