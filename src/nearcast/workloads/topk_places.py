"""Top-k subscriptions to real places: messages are the names of towns where they are, each once.

Unlike made-up words, names have words in common with names near by and with their namesakes, so the
best messages of a window are much more like a query. Data and package are those of `places`.
"""

from __future__ import annotations

import numpy as np

from nearcast.workloads.corpus import picked_terms
from nearcast.workloads.draws import Draws, Floats
from nearcast.workloads.places import Places, PlacesOptions
from nearcast.workloads.space import Space, space_named
from nearcast.workloads.topk import TopkOptions
from nearcast.workloads.topk_arrays import Posts, Wishes


class TopkPlaces:
    """Subscriptions and messages by number, as `TopkArrays` has them; weights are those of all."""

    def __init__(self, seed: int, options: TopkOptions) -> None:
        self._seed, self._options = seed, options
        self._places = Places(seed, PlacesOptions())
        self._order = np.random.default_rng(seed).permutation(self._places.size)
        self.space: Space = space_named("world")
        self.west, self.south = self.space.west, self.space.south
        self.diagonal = float(np.hypot(self.space.width, self.space.height))
        self.idf: Floats = np.log1p(self._places.size / (1.0 + self._places.frequency))

    @property
    def size(self) -> int:
        """How many messages there are before the first one comes again."""
        return self._places.size

    def subscriptions(self, first: int, end: int) -> Wishes:
        """Make the subscriptions numbered `first` up to `end`, each to some names of a place."""
        numbers = np.arange(first, end, dtype=np.int64)
        options = self._options
        source = Draws(self._seed, "subscription place").integers(numbers, 0, self.size - 1)
        draws = Draws(self._seed, "keyword count")
        wanted = draws.integers(numbers, options.min_keywords, options.max_keywords)
        points, rows = self._places.named(source)
        picked = picked_terms(self._seed, "keywords", numbers, rows, wanted)
        alphas = Draws(self._seed, "alpha").uniform(numbers, options.min_alpha, options.max_alpha)
        ks = np.full(len(numbers), options.k, np.int32)
        return Wishes(points, alphas, ks, picked.offsets, picked.values.astype(np.int32))

    def messages(self, first: int, end: int) -> Posts:
        """Make the messages numbered `first` up to `end`."""
        numbers = np.arange(first, end, dtype=np.int64)
        points, rows = self._places.named(self._order[numbers % self.size])
        terms = rows.values.astype(np.int32)
        times = numbers / self._options.rate
        return Posts(points, times, rows.offsets, terms, np.ones(len(terms), np.int32))
