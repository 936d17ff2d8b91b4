"""How well a message answers a top-k subscription: nearness and likeness, weighed by alpha.

    score = alpha * (1 - d / D) + (1 - alpha) * cos

`d` is the planar distance in degrees, `D` the diagonal of the space, `cos` the cosine of the
tf-idf vectors, computed as the root of dot^2 / (|query|^2 * |message|^2): without a history these
are whole numbers, so messages that are equally like a query get equal scores to the last bit
(`jazz blues` and `jazz jazz blues blues`). Sums run over the terms in their sorted order, in double
precision, so that every engine which follows that order gets the same last bit too.

A subscription with a `scale` has another nearness, `max(0, 1 - d / scale)`, where `d` is the
great-circle distance in metres.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import asin, sqrt

from nearcast.events.values import Point
from nearcast.geo import EARTH_RADIUS_M, planar_distance
from nearcast.geo.predicates import haversine


@dataclass(frozen=True, slots=True)
class Bag:
    """A tf-idf vector: a weight per term, terms sorted, and the square of its length."""

    weights: dict[str, float]
    squared: float


def weighed(
    alpha: float, dot: float, query: float, message: float, distance: float, diagonal: float
) -> float:
    """Put a score together; `query` and `message` are the squares of the lengths of the vectors.

    Plain Python that is also valid numba: kernels compile this very function.
    """
    cosine = sqrt(dot * dot / (query * message))
    nearness = 1.0 - distance / diagonal
    return alpha * nearness + (1.0 - alpha) * cosine


def scaled(
    alpha: float, dot: float, query: float, message: float, metres: float, scale: float
) -> float:
    """Put a score with a scale together; the same as `weighed` in all else."""
    cosine = sqrt(dot * dot / (query * message))
    nearness = max(0.0, 1.0 - metres / scale)
    return alpha * nearness + (1.0 - alpha) * cosine


def great_circle_m(lon: float, lat: float, other_lon: float, other_lat: float) -> float:
    """The distance of two points on the sphere, in metres."""
    square = haversine(lat, other_lat, lat - other_lat, lon - other_lon)
    return 2.0 * EARTH_RADIUS_M * asin(min(1.0, sqrt(square)))


class Scorer:
    """Scores within one space, with one set of idf weights."""

    def __init__(self, diagonal: float, idf: Callable[[str], float]) -> None:
        self._diagonal = diagonal
        self._idf = idf

    def bag(self, tokens: Iterable[str]) -> Bag:
        """Weigh the tokens of a text: count times idf, per term."""
        counts = Counter(tokens)
        weights = {term: counts[term] * self._idf(term) for term in sorted(counts)}
        total = 0.0
        for weight in weights.values():
            total += weight * weight
        return Bag(weights, total)

    def score(
        self,
        alpha: float,
        query: Bag,
        here: Point,
        message: Bag,
        there: Point,
        scale: float | None = None,
    ) -> float | None:
        """Score a message for a subscription; None if they have no term in common."""
        dot = 0.0
        common = False
        for term, weight in query.weights.items():
            other = message.weights.get(term)
            if other is not None:
                dot += weight * other
                common = True
        if not common:
            return None
        if scale is not None:
            metres = great_circle_m(*here, *there)
            return scaled(alpha, dot, query.squared, message.squared, metres, scale)
        distance = planar_distance(*here, *there)
        return weighed(alpha, dot, query.squared, message.squared, distance, self._diagonal)
