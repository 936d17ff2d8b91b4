"""A made-up road network, and vehicles that travel on it from junction to junction.

It stands in for the network-based generator that AP+-Tree, section 5.2.1, feeds with road maps.
The network is a grid of junctions, each moved a little off its place, joined to its neighbours in
the four directions; every fifth street is a main road. A vehicle drives to a random junction,
turning on the way as it comes closer, and then to the next.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.workloads.draws import Draws, Floats, Ints
from nearcast.workloads.space import KM_PER_DEGREE, Space, cosine

_JITTER = 0.3  # of the distance between junctions: streets bend, and never cross
_MAIN_EVERY = 5
_MAIN_FACTOR = 1.5
_SLOWEST, _FASTEST = 30 / 3.6, 60 / 3.6  # metres a second


class Roads(NamedTuple):
    """Junctions in metres east and north of the space's south-west corner, by row and column."""

    space: Space
    east_m: Floats
    north_m: Floats
    m_per_degree: tuple[float, float]

    def degrees(self, east_m: Floats, north_m: Floats) -> Floats:
        """Turn places on the network into rows of longitude and latitude."""
        lon = self.space.west + east_m / self.m_per_degree[0]
        lat = self.space.south + north_m / self.m_per_degree[1]
        return np.column_stack((lon, lat))


def build_roads(seed: int, space: Space, junctions: int) -> Roads:
    """Lay about `junctions` junctions over the space, at least two in each direction."""
    middle = cosine(np.array([(space.south + space.north) / 2]))
    m_per_lat = KM_PER_DEGREE * 1000.0
    m_per_lon = m_per_lat * max(float(middle[0]), 0.01)
    width, height = space.width * m_per_lon, space.height * m_per_lat
    columns = max(2, round(sqrt(junctions * width / height)))
    rows = max(2, round(junctions / columns))
    numbers = np.arange(rows * columns, dtype=np.int64)
    off_east = Draws(seed, "junction east").uniform(numbers, -_JITTER, _JITTER)
    off_north = Draws(seed, "junction north").uniform(numbers, -_JITTER, _JITTER)
    east = (numbers % columns + 0.5 + off_east) * (width / columns)
    north = (numbers // columns + 0.5 + off_north) * (height / rows)
    shape = (rows, columns)
    return Roads(space, east.reshape(shape), north.reshape(shape), (m_per_lon, m_per_lat))


class Vehicles:
    """Vehicles under way, each with its own speed, all advanced together."""

    def __init__(self, seed: int, roads: Roads, count: int, velocity: float) -> None:
        self.roads = roads
        rows, columns = roads.east_m.shape
        self._numbers = np.arange(count, dtype=np.int64)
        self._turn, self._goal = Draws(seed, "turn"), Draws(seed, "goal")
        first = Draws(seed, "first junction").integers(self._numbers, 0, rows * columns - 1)
        self._speed = velocity * Draws(seed, "speed").uniform(self._numbers, _SLOWEST, _FASTEST)
        self._row, self._column = first // columns, first % columns
        self._next_row, self._next_column = self._row.copy(), self._column.copy()
        self._goal_row, self._goal_column = self._row.copy(), self._column.copy()
        self._passed = np.zeros(count, dtype=np.int64)
        self._along = np.zeros(count)
        self._leave_junction(self._numbers)

    def _leave_junction(self, who: Ints) -> None:
        """Stand at the next junction, and choose the one after it."""
        rows, columns = self.roads.east_m.shape
        self._row[who], self._column[who] = self._next_row[who], self._next_column[who]
        self._along[who] = 0.0
        at = (self._passed[who] << 32) + who
        self._passed[who] += 1
        arrived = (self._row[who] == self._goal_row[who]) & (
            self._column[who] == self._goal_column[who]
        )
        there = who[arrived]
        goal = self._goal.integers(at[arrived], 0, rows * columns - 2)
        # The junction where it stands is left out of the choice.
        goal += goal >= self._row[there] * columns + self._column[there]
        self._goal_row[there], self._goal_column[there] = goal // columns, goal % columns
        down = self._goal_row[who] - self._row[who]
        across = self._goal_column[who] - self._column[who]
        steps = np.abs(down) + np.abs(across)
        vertical = self._turn.uniform(at) * steps < np.abs(down)
        self._next_row[who] = self._row[who] + np.where(vertical, np.sign(down), 0)
        self._next_column[who] = self._column[who] + np.where(vertical, 0, np.sign(across))

    def _streets(self, who: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        """Give where each vehicle's street starts, and how far it goes east and north."""
        east, north = self.roads.east_m, self.roads.north_m
        here, there = (
            (self._row[who], self._column[who]),
            (self._next_row[who], self._next_column[who]),
        )
        return east[here], north[here], east[there] - east[here], north[there] - north[here]

    def advance(self, seconds: Floats) -> None:
        """Let every vehicle drive for so many seconds."""
        left = seconds.copy()
        who = self._numbers
        while len(who):
            _, _, east, north = self._streets(who)
            length = np.sqrt(east * east + north * north)
            speed = self._speed[who] * np.where(self._on_main_road(who), _MAIN_FACTOR, 1.0)
            needed = (length - self._along[who]) / speed
            reaches = needed <= left[who]
            stays = who[~reaches]
            self._along[stays] += speed[~reaches] * left[stays]
            who = who[reaches]
            left[who] -= needed[reaches]
            self._leave_junction(who)

    def _on_main_road(self, who: Ints) -> NDArray[np.bool_]:
        row, column = self._row[who], self._column[who]
        along_row = row == self._next_row[who]
        main: NDArray[np.bool_] = np.where(along_row, row, column) % _MAIN_EVERY == 0
        return main

    def places(self, who: Ints) -> Floats:
        """Give where these vehicles are, as rows of longitude and latitude."""
        from_east, from_north, east, north = self._streets(who)
        share = self._along[who] / np.sqrt(east * east + north * north)
        return self.roads.degrees(from_east + share * east, from_north + share * north)
