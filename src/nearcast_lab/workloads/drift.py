"""Workloads that do not stay as they are, as arrays: Q3 of PS2Stream, interval by interval.

- `regions` (PS2Stream, section VI-D): a tenth of the regions changes sides between Q1 and Q2 with
  every interval, in which the population is replaced once, by and by.
- `festival`: besides, a part of all messages comes from one city from one message to the next;
  with every interval from another.
"""

from __future__ import annotations

from typing import Literal

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.sts import StsOptions
from nearcast_lab.workloads.sts_arrays import StsArrays

Drift = Literal["regions", "festival"]
DRIFTS: tuple[Drift, ...] = ("regions", "festival")

_FESTIVAL = 0.3  # of all messages
_FIRST_CITY, _CITY_STEP = 5, 7  # ranks: neither the largest, nor villages


class Drifting(StsArrays):
    """Subscriptions and messages by number; `interval` messages belong together, after the first.

    The first `calm` messages are before any drift of messages.
    """

    def __init__(
        self, drift: Drift, *, seed: int, subscriptions: int, calm: int, interval: int
    ) -> None:
        if drift not in DRIFTS:
            raise InvalidValue("drift", drift, f"one of {', '.join(DRIFTS)}")
        super().__init__("q3", seed, StsOptions(switch_every=max(subscriptions, 1)))
        self._drift, self._calm, self._interval = drift, calm, interval
        self._visits = Draws(seed, "festival")

    def _places(self, numbers: Ints) -> Floats:
        points = super()._places(numbers)
        if self._drift == "festival":
            visiting = (numbers >= self._calm) & (self._visits.uniform(numbers) < _FESTIVAL)
            visitors = numbers[visiting]
            interval = (visitors - self._calm) // self._interval
            city = (_FIRST_CITY + _CITY_STEP * interval) % self.options.cities
            points[visiting] = self._corpus.cities.points_in(city, visitors)
        return points
