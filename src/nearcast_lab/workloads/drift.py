"""Workloads that do not stay as they are, as arrays: Q3 of PS2Stream, interval by interval.

- `regions` (PS2Stream, section VI-D): a tenth of the regions changes sides between Q1 and Q2 with
  every interval, in which the population is replaced once, by and by.
- `festival`: besides, a part of all messages comes from one city from one message to the next;
  with every interval from another.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast.index import Batch
from nearcast_lab.workloads.arrays import Subscriptions, chunks, starts_of
from nearcast_lab.workloads.base import Corpus
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.sts import StsOptions, StsSubscriptions

Drift = Literal["regions", "festival"]
DRIFTS: tuple[Drift, ...] = ("regions", "festival")

_SCALE = 1e12
_FESTIVAL = 0.3  # of all messages
_FIRST_CITY, _CITY_STEP = 5, 7  # ranks: neither the largest, nor villages


class Drifting:
    """Subscriptions and messages by number; `interval` messages belong together, after the first.

    The first `calm` messages are before any drift of messages.
    """

    def __init__(
        self, drift: Drift, *, seed: int, subscriptions: int, calm: int, interval: int
    ) -> None:
        if drift not in DRIFTS:
            raise InvalidValue("drift", drift, f"one of {', '.join(DRIFTS)}")
        options = StsOptions(switch_every=max(subscriptions, 1))
        self._drift, self._calm, self._interval = drift, calm, interval
        self._corpus = Corpus(seed, options)
        self._drawn = StsSubscriptions("q3", self._corpus, options).drawn
        self._visits = Draws(seed, "festival")
        self._cities = options.cities
        weights = np.diff(self._corpus.weights, prepend=0.0) / self._corpus.weights[-1]
        self.frequency: Ints = (weights * _SCALE).astype(np.int64)

    @property
    def space(self) -> tuple[float, float, float, float]:
        """West, south, east and north of where it takes place."""
        west, south, east, north = self._corpus.space
        return west, south, east, north

    def subscriptions(self, first: int, end: int) -> Subscriptions:
        """Make the subscriptions numbered `first` up to `end`."""
        boxes, lengths, terms = [np.empty((0, 4))], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        joints = [np.empty(0, np.bool_)]
        for numbers in chunks(first, end):
            own_boxes, keywords, either = self._drawn(numbers)
            boxes.append(own_boxes)
            lengths.append(np.diff(keywords.offsets))
            terms.append(keywords.values.astype(np.int32))
            joints.append(either)
        return Subscriptions(
            np.concatenate(boxes), starts_of(lengths), np.concatenate(terms), np.concatenate(joints)
        )

    def messages(self, first: int, end: int) -> Batch:
        """Make the messages numbered `first` up to `end`, each at a point."""
        boxes, lengths, terms = [np.empty((0, 4))], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for numbers in chunks(first, end):
            rows, points = self._corpus.terms(numbers), self._points(numbers)
            boxes.append(np.column_stack((points, points)))
            lengths.append(np.diff(rows.offsets))
            terms.append(rows.values.astype(np.int32))
        return Batch(starts_of(lengths), np.concatenate(terms), np.concatenate(boxes))

    def _points(self, numbers: Ints) -> Floats:
        points = self._corpus.cities.points(numbers)
        if self._drift == "festival":
            visiting = (numbers >= self._calm) & (self._visits.uniform(numbers) < _FESTIVAL)
            visitors = numbers[visiting]
            interval = (visitors - self._calm) // self._interval
            city = (_FIRST_CITY + _CITY_STEP * interval) % self._cities
            points[visiting] = self._corpus.cities.points_in(city, visitors)
        return points
