"""Words that depend on place: each region of a grid has a dialect of its own.

A share of the vocabulary is local: which of these terms is the most frequent one, the second and so
on is another in every region. All other terms are as frequent everywhere. A message speaks the
dialect of its place. In *foreign* regions subscriptions ask in the dialect of another region, so
that messages and subscriptions have little in common there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearcast.arrays.types import Floats
from nearcast_lab.workloads.base import Corpus, WorkloadOptions
from nearcast_lab.workloads.corpus import Ragged, picked_terms
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.space import WorldBox

_GRID = 3
"""Dialects are spoken in the cells of a grid of as many columns and rows."""


def regions_of(space: WorldBox, points: Floats, grid: int) -> Ints:
    """The cell of each point, in a grid of as many columns and rows."""
    column = (points[:, 0] - space.west) / space.width * grid
    row = (points[:, 1] - space.south) / space.height * grid
    cell = np.minimum(row.astype(np.int64), grid - 1) * grid
    cell += np.minimum(column.astype(np.int64), grid - 1)
    return cell


class DialectCorpus(Corpus):
    """Messages whose terms depend on their place."""

    def __init__(self, seed: int, options: WorkloadOptions, local: float, foreign: float) -> None:
        super().__init__(seed, options)
        terms = np.arange(options.vocabulary, dtype=np.int64)
        self._own = np.flatnonzero(Draws(seed, "local term").uniform(terms) < local)
        self._place: Ints = np.full(options.vocabulary, -1, dtype=np.int64)
        self._place[self._own] = np.arange(len(self._own))
        regions = np.arange(_GRID * _GRID, dtype=np.int64)
        self._shift = Draws(seed, "dialect").integers(regions, 0, max(len(self._own) - 1, 0))
        self.foreign: NDArray[np.bool_] = Draws(seed, "foreign region").uniform(regions) < foreign

    def terms(self, numbers: Ints) -> Ragged:
        """Give the different terms of each message, in the dialect of its place."""
        return self._spoken(super().terms(numbers), self._regions(numbers))

    def keywords(self, numbers: Ints, sources: Ints, wanted: Ints) -> Ragged:
        """Pick the terms of subscriptions, in the dialect they ask in."""
        plain = picked_terms(self.seed, "keywords", numbers, super().terms(sources), wanted)
        regions = self._regions(sources)
        asked = np.where(self.foreign[regions], (regions + 1) % (_GRID * _GRID), regions)
        return self._spoken(plain, asked)

    def _regions(self, numbers: Ints) -> Ints:
        return regions_of(self.space, self.cities.points(numbers), _GRID)

    def _spoken(self, rows: Ragged, regions: Ints) -> Ragged:
        place = self._place[rows.values]
        shift = np.repeat(self._shift[regions], np.diff(rows.offsets))
        values = rows.values.copy()
        mine = place >= 0
        values[mine] = self._own[(place[mine] + shift[mine]) % max(len(self._own), 1)]
        return Ragged(values, rows.offsets)
