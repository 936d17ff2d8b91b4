"""Where messages happen: the space of a workload, its cities, and boxes cut out of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.zipf import cumulative_weights, ranks_of

KM_PER_DEGREE = 111.19508
_DECIMALS = 6  # about a tenth of a metre


class WorldBox(NamedTuple):
    """A box of the world, in degrees."""

    west: float
    south: float
    east: float
    north: float

    @property
    def width(self) -> float:
        """The extent in longitude."""
        return self.east - self.west

    @property
    def height(self) -> float:
        """The extent in latitude."""
        return self.north - self.south


SPACES = {
    "world": WorldBox(-180.0, -90.0, 180.0, 90.0),
    "us": WorldBox(-125.0, 24.0, -66.0, 50.0),
    "uk": WorldBox(-8.2, 49.9, 1.8, 60.9),
    "oldenburg": WorldBox(8.10, 53.05, 8.35, 53.22),
    "san-joaquin": WorldBox(-121.60, 37.45, -120.90, 38.30),
}


def space_named(text: str) -> WorldBox:
    """Read a space: one of the names in `SPACES`, or `W,S,E,N` in degrees."""
    if text in SPACES:
        return SPACES[text]
    expected = f"one of {', '.join(SPACES)}, or W,S,E,N in degrees with W < E and S < N"
    try:
        west, south, east, north = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidValue("space", text, expected) from None
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        raise InvalidValue("space", text, expected)
    return WorldBox(west, south, east, north)


def rounded(degrees: Floats) -> Floats:
    """Round coordinates to what a log shows of them."""
    return np.round(degrees, _DECIMALS)


def cosine(degrees: Floats) -> Floats:
    """Give the cosine by its series, right to 1e-9 between -90 and 90 degrees.

    A library's cosine may differ in the last bit from machine to machine; this one does not.
    """
    square = np.square(degrees * (np.pi / 180.0))
    total = np.ones_like(square)
    for last in range(18, 0, -2):
        total = 1.0 - total * square / (last * (last - 1))
    return total


class Cities:
    """Points around cities: bell-shaped clusters with Zipf weights, and a share of countryside.

    A city's deviation is between 0.1 % and 1 % of the space in each direction.
    """

    def __init__(self, seed: int, space: WorldBox, cities: int, countryside: float) -> None:
        self.space = space
        self._countryside = countryside
        self._weights = cumulative_weights(cities)
        numbers = np.arange(cities, dtype=np.int64)
        # People of a world-wide workload live where people live, not at the poles.
        south, north = max(space.south, -55.0), min(space.north, 70.0)
        if south >= north:
            south, north = space.south, space.north
        self._lon = Draws(seed, "city lon").uniform(numbers, space.west, space.east)
        self._lat = Draws(seed, "city lat").uniform(numbers, south, north)
        self._spread = Draws(seed, "city spread").uniform(numbers, 0.001, 0.01)
        self._city = Draws(seed, "point city")
        self._rural = Draws(seed, "point rural")
        self._x, self._y = Draws(seed, "point x"), Draws(seed, "point y")

    def points(self, numbers: Ints) -> Floats:
        """Give the place of each numbered message, as rows of longitude and latitude."""
        city = ranks_of(self._weights, self._city.uniform(numbers))
        rural = self._rural.uniform(numbers) < self._countryside
        return self._scattered(numbers, city, rural)

    def points_in(self, cities: Ints, numbers: Ints) -> Floats:
        """Give a place for each number, in a city that is given by its rank, the largest first."""
        return self._scattered(numbers, cities, np.zeros(len(numbers), np.bool_))

    def _scattered(self, numbers: Ints, city: Ints, rural: NDArray[np.bool_]) -> Floats:
        """Give places around cities, or anywhere."""
        space, spread = self.space, self._spread[city]
        lon = self._lon[city] + self._x.bell(numbers) * spread * space.width
        lat = self._lat[city] + self._y.bell(numbers) * spread * space.height
        if rural.any():
            lon[rural] = self._x.uniform(numbers[rural], space.west, space.east)
            lat[rural] = self._y.uniform(numbers[rural], space.south, space.north)
        # What falls over the edge is mirrored back: clipping would pile points up on it.
        lon = _mirrored(lon, space.west, space.east)
        lat = _mirrored(lat, space.south, space.north)
        return rounded(np.column_stack((lon, lat)))


def _mirrored(values: Floats, low: float, high: float) -> Floats:
    values = np.where(values < low, 2.0 * low - values, values)
    values = np.where(values > high, 2.0 * high - values, values)
    return np.clip(values, low, high)


def boxes_around(points: Floats, width: Floats, height: Floats) -> Floats:
    """Give boxes of this size, in degrees, centred on the points and clipped to the world."""
    lon, lat = points[:, 0], points[:, 1]
    sides = np.column_stack((lon - width / 2, lat - height / 2, lon + width / 2, lat + height / 2))
    return rounded(np.clip(sides, (-180.0, -90.0, -180.0, -90.0), (180.0, 90.0, 180.0, 90.0)))


def square_boxes(points: Floats, side_km: Floats) -> Floats:
    """Give boxes that are squares on the ground, centred on the points, clipped to the world."""
    height = side_km / KM_PER_DEGREE
    return boxes_around(points, height / np.maximum(cosine(points[:, 1]), 0.01), height)
