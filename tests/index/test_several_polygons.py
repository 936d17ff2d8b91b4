"""A region of several polygons in every index: its parts are rows, and it counts once."""

from __future__ import annotations

from typing import Any

import numpy as np

from any_index import Conjuncts, Kept, Sent, every_index, random_messages, random_terms
from nearcast.geo import Box, MultiPolygon

Ring = list[tuple[float, float]]


def square(lon: float, lat: float, size: float) -> Ring:
    return [(lon, lat), (lon + size, lat), (lon + size, lat + size), (lon, lat + size), (lon, lat)]


def triangle(lon: float, lat: float, size: float) -> Ring:
    return [(lon, lat), (lon + size, lat), (lon, lat + size), (lon, lat)]


REGIONS = [
    MultiPolygon([[square(0, 0, 10)], [square(10, 0, 10)]]),  # a side in common
    MultiPolygon([[square(0, 0, 10)], [square(10, 10, 10)]]),  # a corner in common
    MultiPolygon([[square(0, 0, 10)], [square(5, 5, 10)]]),  # overlapping
    MultiPolygon([[square(0, 0, 10)], [square(0, 0, 10)]]),  # the same twice
    MultiPolygon([[square(0, 0, 30), square(5, 5, 20)], [square(10, 10, 5)]]),  # one in a hole
    MultiPolygon([[square(0, 0, 9), square(3, 3, 3)], [square(3, 3, 3)]]),  # a hole that is filled
    MultiPolygon([[square(170, -10, 10)], [square(-180, -10, 10)]]),  # both sides of 180 degrees
    MultiPolygon([[triangle(170, 80, 10)], [triangle(-180, 80, 10)], [triangle(0, 80, 10)]]),
    MultiPolygon([[triangle(-40, -40, 5)], [triangle(40, 40, 5)]]),  # far apart
    MultiPolygon([[triangle(-40, -40, 5)]]),  # only one
]
ASKED: list[Conjuncts] = [[([1], [])], [([1, 2], [3])], [([1], []), ([2], [3])]]
LONS = [-180.0, -175.0, -40.0, -37.0, 0.0, 3.0, 4.5, 5.0, 7.0, 10.0, 12.0, 15.0, 20.0, 30.0, 41.0]
LATS = [-40.0, -38.0, -5.0, 0.0, 3.0, 4.5, 5.0, 10.0, 12.0, 15.0, 20.0, 30.0, 41.0, 80.0, 90.0]
POINTS = [(lon, lat) for lon in [*LONS, 170.0, 177.0, 180.0] for lat in LATS]
AREAS: list[Box] = [Box(4, 4, 5, 5), Box(11, 0, 11, 9), Box(6, 6, 9, 9), Box(175, -20, -175, 20), *(
    Box(lon, lat, lon + 1, lat + 1) for lon in (-38.0, 9.0, 24.0) for lat in (-38.0, 9.0, 24.0)
)]  # fmt: skip


@every_index
def test_owners_of_several_polygons_are_found_once(name: str, options: dict[str, Any]) -> None:
    """Where polygons touch, overlap or have holes, and on both sides of 180 degrees."""
    kept = Kept(name, options)
    kept.table.ensure_terms(4)
    kept.table.frequency[:4] = 9, 5, 3, 1
    for owner in range(3 * len(REGIONS)):
        kept.add(owner, ASKED[owner % 3], REGIONS[owner // 3])
    texts = [frozenset(terms) for terms in ((1,), (1, 2), (2, 3))]
    sents = [Sent(text, point) for text in texts for point in POINTS]
    sents += [Sent(text, area) for text in texts for area in AREAS]
    expected = kept.expected(sents)
    assert {owner for _, owner in expected} == set(range(3 * len(REGIONS)))
    assert kept.answer(sents) == expected
    assert kept.answer(sents, threads=2) == expected
    kept.remove([owner for owner in range(3 * len(REGIONS)) if owner % 2])
    assert kept.answer(sents) == kept.expected(sents)
    kept.move(0, REGIONS[8])
    kept.move(2, REGIONS[1])
    kept.index.build()
    assert kept.answer(sents) == kept.expected(sents)


@every_index
def test_subscriptions_of_many_rows_come_and_go(name: str, options: dict[str, Any]) -> None:
    """The numbers of their rows are used again, and nothing of them stays."""
    random, messages = np.random.default_rng(5), random_messages(20)
    kept = Kept(name, options)
    kept.table.ensure_terms(300)

    def put(owner: int) -> None:
        lon, lat, size = random.uniform(-60, 40), random.uniform(-40, 30), random.uniform(0.1, 25)
        region = MultiPolygon([[triangle(lon - part, lat, size)] for part in range(owner % 5 + 1)])
        kept.add(owner, [(random_terms(random, 3), [])], region)

    for owner in range(150):
        put(owner)
    for first in range(0, 150, 30):
        kept.remove(list(range(first, first + 30)))
        assert kept.answer(messages) == kept.expected(messages)
        for owner in range(first, first + 30):
            put(owner)
        assert kept.answer(messages) == kept.expected(messages)
    kept.remove(list(kept.truth))
    assert kept.answer(messages) == set()
    assert len(kept.table.live_rows()) == 0
