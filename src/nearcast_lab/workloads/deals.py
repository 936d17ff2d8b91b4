"""A deal service: a million people who wait for offers around the cities they live in.

Of the regions 60 % are circles of 0.5 to 20 km, 25 % boxes and 15 % polygons of 5 to 12 corners.
They come as tables have them: as structs, as text (the JSON of the event log, WKT, GeoJSON) and as
WKB. A third of the queries have OR, NOT, a phrase, a prefix or a property; hardly two are the same.
Cities are those of GeoNames (CC BY 4.0), as `nearcast_lab.workloads.places` has them.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import shapely

from nearcast.arrays.types import Floats, Int64s
from nearcast.geo import Box, Circle, Polygon, Region
from nearcast_lab.workloads.places import city_points
from nearcast_lab.workloads.words import words_of

CIRCLE, BOX, POLYGON = range(3)
FORMS = ("struct", "text", "wkb")
"""The forms in which tables have regions; see `tables`."""

_AT_A_TIME = 50_000
_VOCABULARY = 60_000
_METRES_A_DEGREE = 111_195.0
_STRUCT = pa.struct(
    [
        ("type", pa.string()),
        ("bbox", pa.list_(pa.float64())),
        ("center", pa.list_(pa.float64())),
        ("radius", pa.float64()),
    ]
)
_CATEGORIES = ("food", "travel", "music", "sport", "home", "games", "books", "garden")
_QUERIES = (
    "{0} {1}", "{0} {1} {2}", "{0} {1}", "{0} {1} {2}", "{0} {1}", "{0} {1} {2}", "{0} {1}",
    "{0} AND {1}",
    "{0} AND ({1} OR {2})", "{0} {1} NOT {2}", '{0} "{1} {2}"', "{0} {1} price:<{3}",
)  # fmt: skip
_RARER = ("{0} OR ({1} AND {2})", "{0} {1} category:{4}", "{0} {1}*")
_EMPTY: Floats = np.empty((0, 2))
_encode = msgspec.json.encode


class DealSubscriptions(NamedTuple):
    """Subscriptions as columns: `corners[i]` are those of a polygon, empty otherwise."""

    ids: list[str]
    queries: list[str]
    kinds: Int64s
    centers: Floats
    radii: Floats  # in metres; of others about half their width
    boxes: Floats  # of boxes
    corners: list[Floats]

    def __len__(self) -> int:
        return len(self.ids)

    def region(self, row: int) -> Region:
        """The region of one of them."""
        if self.kinds[row] == CIRCLE:
            lon, lat = self.centers[row].tolist()
            return Circle((lon, lat), float(self.radii[row]))
        if self.kinds[row] == BOX:
            return Box(*self.boxes[row].tolist())
        return Polygon([[(lon, lat) for lon, lat in self.corners[row].tolist()]])


def subscriptions(count: int, seed: int = 1) -> DealSubscriptions:
    """Make subscriptions; the first are the same however many there are of one seed."""
    parts = [_some(seed, number, min(_AT_A_TIME, count - number)) for number in _firsts(count)]
    ids, queries, kinds, centers, radii, boxes, corners = zip(*parts, strict=True)
    return DealSubscriptions(
        list(chain(*ids)), list(chain(*queries)), np.concatenate(kinds), np.concatenate(centers),
        np.concatenate(radii), np.concatenate(boxes), list(chain(*corners)),
    )  # fmt: skip


def _firsts(count: int) -> range:
    return range(0, count, _AT_A_TIME)


def _some(seed: int, first: int, count: int) -> DealSubscriptions:
    rng = np.random.default_rng([seed, first])
    full = _AT_A_TIME  # draws do not depend on how many are wanted
    centers = _places(rng, full, 0.2)
    kinds = np.searchsorted([0.6, 0.85], rng.random(full), side="right")
    radii = np.exp(rng.uniform(np.log(500.0), np.log(20_000.0), full))
    high = radii / _METRES_A_DEGREE
    wide = high / np.cos(np.radians(centers[:, 1]))
    boxes = np.column_stack([centers - np.column_stack([wide, high]), centers])
    boxes[:, 2:] += np.column_stack([wide, high])
    corners = [_EMPTY] * full
    for row in np.flatnonzero(kinds == POLYGON).tolist():
        n = int(rng.integers(5, 13))
        angles = (np.arange(n) + 0.9 * rng.random(n)) * (2.0 * np.pi / n)
        lengths = rng.uniform(0.4, 1.0, len(angles))
        around = centers[row] + np.column_stack(
            [np.cos(angles) * lengths * wide[row], np.sin(angles) * lengths * high[row]]
        )
        corners[row] = np.vstack([around, around[:1]]).round(6)
    queries = _queries(rng, full)
    ids = [f"deal-{number}" for number in range(first, first + count)]
    return DealSubscriptions(
        ids, queries[:count], kinds[:count], centers[:count], radii[:count], boxes[:count],
        corners[:count],
    )  # fmt: skip


def _places(rng: np.random.Generator, count: int, spread: float) -> Floats:
    """Points around cities, none of them near the antimeridian or a pole."""
    cities = city_points()
    cities = cities[(np.abs(cities[:, 0]) < 178.0) & (np.abs(cities[:, 1]) < 80.0)]
    found: Floats = cities[rng.integers(0, len(cities), count)] + rng.normal(
        0.0, spread / 4, (count, 2)
    )
    return found.round(6)


def _words(rng: np.random.Generator, count: int, width: int) -> Any:
    """Words, of which some are far more frequent than others."""
    ranks = (_VOCABULARY * rng.random(count * width) ** 3).astype(np.int64)
    return words_of(ranks).reshape(count, width)


def _queries(rng: np.random.Generator, count: int) -> list[str]:
    forms = rng.integers(0, len(_QUERIES), count)
    rarer = rng.random(count) < 0.05
    prices = rng.integers(5, 2000, count).tolist()
    categories = rng.integers(0, len(_CATEGORIES), count).tolist()
    rows = zip(_words(rng, count, 3).tolist(), forms.tolist(), rarer.tolist(), strict=True)
    made = []
    for row, (words, form, is_rare) in enumerate(rows):
        written = _RARER[form % len(_RARER)] if is_rare and form > 7 else _QUERIES[form]
        made.append(written.format(*words, prices[row], _CATEGORIES[categories[row]]))
    return made


def messages(count: int, seed: int = 1, *, priced: bool = False) -> pa.Table:
    """Make messages of 6 to 14 words at points around cities, as `publish_table` takes them.

    Those that are `priced` have other ids, and a category and a price as properties.
    """
    rng = np.random.default_rng([seed, 1 << 40])
    words = _words(rng, count, 14).tolist()
    lengths = rng.integers(6, 15, count).tolist()
    texts = [" ".join(row[:length]) for row, length in zip(words, lengths, strict=True)]
    points = _places(rng, count, 0.2)
    kind = "priced" if priced else "offer"
    columns = {
        "id": pa.array([f"{kind}-{number}" for number in range(count)]),
        "text": pa.array(texts),
        "point": pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), 2),
    }
    if priced:
        categories = rng.integers(0, len(_CATEGORIES), count).tolist()
        prices = rng.integers(5, 2000, count).tolist()
        columns["properties"] = pa.array(
            f'{{"category": "{_CATEGORIES[category]}", "price": {price}}}'
            for category, price in zip(categories, prices, strict=True)
        )
    return pa.table(columns)


def tables(
    made: DealSubscriptions, forms: tuple[str, ...] = FORMS, rows: int = 1 << 18
) -> list[pa.Table]:
    """Put subscriptions into tables of up to `rows` rows, each with regions in one form.

    Polygons are WKT, GeoJSON or WKB, a third each; of the others half are structs, and half the
    JSON of the event log beside WKT and GeoJSON. With `text` alone, all are JSON.
    """
    numbers = np.arange(len(made))
    polygon = made.kinds == POLYGON
    which = np.where(polygon, np.where(numbers % 3 == 0, 2, 1), numbers % 2)
    if forms == ("text",):
        which[:] = 1
    found = []
    for form, name in enumerate(FORMS):
        some = np.flatnonzero(which == form)
        for start in range(0, len(some), rows):
            part = some[start : start + rows].tolist()
            only_json = len(forms) == 1
            found.append(_table(made, part, name, only_json))
    return found


def _table(made: DealSubscriptions, rows: list[int], form: str, only_json: bool) -> pa.Table:
    if form == "struct":
        regions = pa.array([_json(made, row) for row in rows], _STRUCT)
    elif form == "wkb":
        shapes = [shapely.Polygon(made.corners[row]) for row in rows]
        regions = pa.array(shapely.to_wkb(np.array(shapes, object)), pa.binary())
    else:
        regions = pa.array([_text(made, row, only_json) for row in rows], pa.string())
    return pa.table(
        {
            "id": pa.array([made.ids[row] for row in rows]),
            "query": pa.array([made.queries[row] for row in rows]),
            "region": regions,
        }
    )


def _json(made: DealSubscriptions, row: int) -> dict[str, Any]:
    if made.kinds[row] == CIRCLE:
        center, radius = made.centers[row].tolist(), float(made.radii[row])
        return {"type": "Circle", "center": center, "radius": radius}
    if made.kinds[row] == BOX:
        return {"type": "Box", "bbox": made.boxes[row].tolist()}
    return {"type": "Polygon", "coordinates": [made.corners[row].tolist()]}


def _text(made: DealSubscriptions, row: int, only_json: bool) -> str:
    if made.kinds[row] == POLYGON and row % 3 == 1 and not only_json:
        pairs = ", ".join(f"{lon!r} {lat!r}" for lon, lat in made.corners[row].tolist())
        return f"POLYGON (({pairs}))"
    return _encode(_json(made, row)).decode()
