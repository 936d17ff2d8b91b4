"""How much the words of messages depend on their place, in figures that two workloads can share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats
from nearcast_lab.workloads.corpus import Ragged
from nearcast_lab.workloads.draws import Ints

DISTANCES = (1, 2, 4, 8, 16, 32, 64)
"""Distances of two cells, in degrees: up to 1, up to 2, and so on."""
_MESSAGES = 100  # that each cell is judged by
_FREQUENT = 0.05
_PAIRS = 1500


class Locality(NamedTuple):
    """What cells of one degree say, each by a hundred of its messages.

    - `cells`: how many cells have as many messages;
    - `frequent_in`: of the terms that one message in twenty has in some cell, the mean number of
      cells in which they are as frequent;
    - `in_common`: by distance, the share of words that two cells have in common: the sum over all
      terms of the lesser of their two shares.
    """

    cells: int
    frequent_in: float
    in_common: dict[int, float]


def locality_of(points: Floats, terms: Ragged, seed: int = 1) -> Locality:
    """Measure messages at points."""
    rng = np.random.default_rng(seed)
    place = np.floor(points[:, 1] + 90.0).astype(np.int64) * 360
    place += np.floor(points[:, 0] + 180.0).astype(np.int64)
    order = rng.permutation(len(points))
    order = order[np.argsort(place[order], kind="stable")]
    cells, first, size = np.unique(place[order], return_index=True, return_counts=True)
    enough = size >= _MESSAGES
    cells, first = cells[enough], first[enough]
    words = [_words(terms, order[start : start + _MESSAGES]) for start in first.tolist()]
    frequent: dict[int, int] = {}
    for found, counts in words:
        for term in found[counts >= _FREQUENT * _MESSAGES].tolist():
            frequent[term] = frequent.get(term, 0) + 1
    x, y = cells % 360, cells // 360
    in_common: dict[int, list[float]] = {distance: [] for distance in DISTANCES}
    for one in rng.integers(0, max(1, len(cells)), _PAIRS if len(cells) > 1 else 0).tolist():
        away = np.maximum(np.abs(x - x[one]), np.abs(y - y[one]))
        for distance in DISTANCES:
            near = np.flatnonzero((away > distance // 2) & (away <= distance))
            if len(near):
                in_common[distance].append(_common(words[one], words[int(rng.choice(near))]))
    return Locality(
        len(cells),
        sum(frequent.values()) / max(1, len(frequent)),
        {distance: float(np.mean(some)) for distance, some in in_common.items() if some},
    )


def _words(terms: Ragged, messages: Ints) -> tuple[Ints, Ints]:
    """Count the terms of some messages."""
    rows = [terms.values[terms.offsets[m] : terms.offsets[m + 1]] for m in messages.tolist()]
    found, counts = np.unique(np.concatenate(rows), return_counts=True)
    return found, counts


def _common(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> float:
    shared, here, there = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    if not len(shared):
        return 0.0
    shares = one[1][here] / one[1].sum(), other[1][there] / other[1].sum()
    return float(np.minimum(*shares).sum())
