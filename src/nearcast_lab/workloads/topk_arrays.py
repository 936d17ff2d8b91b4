"""The workload `topk` as arrays of term numbers, made by the million for benchmarks.

The same draws as in the event logs, without events and text in between. Term 0 is the most frequent
one. Weights are those of a history of a million messages, as many as are expected of each term.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.arrays.types import Floats
from nearcast_lab.workloads.corpus import Ragged
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.topk import TopkOptions, corpus_of, keywords_of, repeated

_HISTORY = 1_000_000.0


class QueryArrays(NamedTuple):
    """Top-k subscriptions; the terms of the i-th are `terms[starts[i] : starts[i + 1]]`."""

    points: Floats
    alphas: Floats
    ks: NDArray[np.int32]
    starts: Ints
    terms: NDArray[np.int32]


class MessageArrays(NamedTuple):
    """Messages; `counts` says how often each of their terms occurs."""

    points: Floats
    at: Floats
    starts: Ints
    terms: NDArray[np.int32]
    counts: NDArray[np.int32]


def queries_of(
    seed: int, options: TopkOptions, numbers: Ints, points: Floats, keywords: Ragged
) -> QueryArrays:
    """Make subscriptions with these numbers at places, to these terms."""
    return QueryArrays(
        points,
        Draws(seed, "alpha").uniform(numbers, options.min_alpha, options.max_alpha),
        np.full(len(numbers), options.k, np.int32),
        keywords.offsets,
        keywords.values.astype(np.int32),
    )


class TopkArrays:
    """Subscriptions and messages of the workload by number."""

    def __init__(self, seed: int, options: TopkOptions) -> None:
        self._seed, self._options = seed, options
        self._corpus = corpus_of(seed, options)
        self.space = space = self._corpus.space
        self.west, self.south = space.west, space.south
        self.diagonal = float(np.hypot(space.width, space.height))
        self.rate = options.rate
        self.idf: Floats = np.log1p(_HISTORY / (1.0 + _HISTORY * self._corpus.chances()))

    def subscriptions(self, first: int, end: int) -> QueryArrays:
        """Make the subscriptions numbered `first` up to `end`."""
        seed, options, corpus = self._seed, self._options, self._corpus
        numbers = np.arange(first, end, dtype=np.int64)
        sources = corpus.sources(numbers)
        keywords = keywords_of(corpus, options, numbers, sources)
        return queries_of(seed, options, numbers, corpus.cities.points(sources), keywords)

    def texts(self, first: int, end: int) -> list[str]:
        """Spell the messages numbered `first` up to `end`."""
        return self._corpus.words.phrases(*self._rows(np.arange(first, end, dtype=np.int64)))

    def queries(self, subscriptions: QueryArrays) -> list[str]:
        """Spell the queries of subscriptions."""
        return self._corpus.words.phrases(
            subscriptions.terms.astype(np.int64), subscriptions.starts
        )

    def _rows(self, numbers: Ints) -> Ragged:
        rows = self._corpus.terms(numbers)
        return repeated(self._seed, numbers, rows, self._options.repeat)

    def messages(self, first: int, end: int) -> MessageArrays:
        """Make the messages numbered `first` up to `end`."""
        corpus, numbers = self._corpus, np.arange(first, end, dtype=np.int64)
        rows = self._rows(numbers)
        fresh = np.ones(len(rows.values), np.bool_)
        fresh[1:] = rows.values[1:] != rows.values[:-1]
        fresh[rows.offsets[:-1]] = True
        places = np.flatnonzero(fresh)
        counts = np.diff(places, append=len(fresh)).astype(np.int32)
        starts = np.searchsorted(places, rows.offsets)
        terms = rows.values[places].astype(np.int32)
        points = corpus.cities.points(numbers)
        return MessageArrays(points, corpus.clock.times(numbers), starts, terms, counts)
