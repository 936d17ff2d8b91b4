"""A made-up road network, and vehicles that travel on it from junction to junction.

It replaces the network-based generator that AP+-Tree, section 5.2.1, feeds with road maps.
The network is a grid of junctions, each moved a little off its place, joined to its neighbours in
the four directions; every fifth street is a main road. A vehicle drives to a random junction,
turning on the way as it comes closer, and then to the next.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.types import Floats
from nearcast_lab.workloads.draws import STEP, Draws, Ints, as_unit, mixed, stream_key
from nearcast_lab.workloads.space import KM_PER_DEGREE, WorldBox, cosine

_JITTER = 0.3  # of the distance between junctions: streets bend, and never cross
_MAIN_EVERY = 5
_MAIN_FACTOR = 1.5
_SLOWEST, _FASTEST = 30 / 3.6, 60 / 3.6  # metres a second


class Roads(NamedTuple):
    """Junctions in metres east and north of the space's south-west corner, by row and column."""

    space: WorldBox
    east_m: Floats
    north_m: Floats
    m_per_degree: tuple[float, float]

    def degrees(self, east_m: Floats, north_m: Floats) -> Floats:
        """Turn places on the network into rows of longitude and latitude."""
        lon = self.space.west + east_m / self.m_per_degree[0]
        lat = self.space.south + north_m / self.m_per_degree[1]
        return np.column_stack((lon, lat))


def build_roads(seed: int, space: WorldBox, junctions: int) -> Roads:
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


_STATE = np.dtype(
    [
        ("speed", np.float64),
        ("along", np.float64),
        ("passed", np.int64),
        ("row", np.int32),
        ("column", np.int32),
        ("next_row", np.int32),
        ("next_column", np.int32),
        ("goal_row", np.int32),
        ("goal_column", np.int32),
    ]
)
"""A vehicle: its metres a second off main roads, its metres along the street from one junction to
the next, the junctions it has passed, and where it is heading."""


@inner_counting
def _leave_junction(number: Any, one: Any, turn_key: Any, goal_key: Any, shape: Any) -> None:
    """Arrive at the next junction, and choose the one after it."""
    rows, columns = shape
    one.row, one.column = one.next_row, one.next_column
    one.along = 0.0
    place = np.uint64((one.passed << 32) + number) * STEP
    one.passed += 1
    if one.row == one.goal_row and one.column == one.goal_column:
        goal = np.int64(as_unit(mixed(place + goal_key)) * (rows * columns - 1))
        # The junction where it is is not a choice.
        if goal >= one.row * columns + one.column:
            goal += 1
        one.goal_row, one.goal_column = goal // columns, goal % columns
    down, across = one.goal_row - one.row, one.goal_column - one.column
    if as_unit(mixed(place + turn_key)) * (abs(down) + abs(across)) < abs(down):
        one.next_row = one.row + (1 if down > 0 else -1)
    else:
        one.next_column = one.column + (1 if across > 0 else -1)


@kernel
def _drive(
    who: Any, seconds: Any, state: Any, east_m: Any, north_m: Any, turn_key: Any, goal_key: Any
) -> None:
    for place in range(len(who)):
        one = state[who[place]]
        left = seconds[place]
        while True:
            here, there = (one.row, one.column), (one.next_row, one.next_column)
            east, north = east_m[there] - east_m[here], north_m[there] - north_m[here]
            street = one.row if one.row == one.next_row else one.column
            speed = one.speed * (_MAIN_FACTOR if street % _MAIN_EVERY == 0 else 1.0)
            needed = (np.sqrt(east * east + north * north) - one.along) / speed
            if needed > left:
                one.along += speed * left
                break
            left -= needed
            _leave_junction(who[place], one, turn_key, goal_key, east_m.shape)


class Vehicles:
    """Vehicles under way, each with its own speed."""

    def __init__(self, seed: int, roads: Roads, count: int, velocity: float) -> None:
        self.roads = roads
        self._keys = stream_key(seed, "turn"), stream_key(seed, "goal")
        rows, columns = roads.east_m.shape
        numbers = np.arange(count, dtype=np.int64)
        first = Draws(seed, "first junction").integers(numbers, 0, rows * columns - 1)
        self._state = np.zeros(count, dtype=_STATE)
        self._state["speed"] = Draws(seed, "speed").uniform(numbers, _SLOWEST, _FASTEST) * velocity
        for row, column in (("row", "column"), ("next_row", "next_column")):
            self._state[row], self._state[column] = first // columns, first % columns
        self._state["goal_row"], self._state["goal_column"] = first // columns, first % columns
        # A street of no length is left at once, for the first real one.
        self.drive(numbers, np.zeros(count))

    def drive(self, who: Ints, seconds: Floats) -> None:
        """Let these vehicles drive, each for its own number of seconds."""
        _drive(who, seconds, self._state, self.roads.east_m, self.roads.north_m, *self._keys)

    def places(self, who: Ints) -> Floats:
        """Give where these vehicles are, as rows of longitude and latitude."""
        roads, some = self.roads, self._state[who]
        here = some["row"], some["column"]
        there = some["next_row"], some["next_column"]
        east = roads.east_m[there] - roads.east_m[here]
        north = roads.north_m[there] - roads.north_m[here]
        share = some["along"] / np.sqrt(east * east + north * north)
        return roads.degrees(roads.east_m[here] + share * east, roads.north_m[here] + share * north)
