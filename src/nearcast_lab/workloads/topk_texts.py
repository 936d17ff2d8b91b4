"""Top-k subscriptions to given texts: real towns, by name or as in a gazetteer, or those of a log.

Unlike words that are drawn one by one, those of people come together again and again, so the best
messages of a window are much more like a query. Messages come in a random order, each once;
subscriptions are made as for `topk`. Weights are those of all messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from nearcast.arrays.lists import picked, starts_of
from nearcast.arrays.types import Floats
from nearcast.errors import SourceError
from nearcast.events import Publish
from nearcast.events.log import events_of, open_log
from nearcast.text import DEFAULT
from nearcast_lab.workloads.corpus import Ragged, picked_terms
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.places import PlacesOptions, TownsWorkload, gazetteer
from nearcast_lab.workloads.space import WorldBox, space_named
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import MessageArrays, QueryArrays, queries_of

_FEWEST = 100


class TopkTexts:
    """Subscriptions and messages by number, as `TopkArrays` has them."""

    def __init__(
        self, seed: int, options: TopkOptions, points: Floats, texts: Ragged, counts: Ints
    ) -> None:
        """Take messages at points, with numbers of terms and how often each occurs in them."""
        self._seed, self._options = seed, options
        self._points, self._texts, self._counts = points, texts, counts
        self._order = np.random.default_rng(seed).permutation(len(points))
        self.space: WorldBox = space_named("world")
        self.west, self.south = self.space.west, self.space.south
        self.diagonal = float(np.hypot(self.space.width, self.space.height))
        self.idf: Floats = np.log1p(len(points) / (1.0 + np.bincount(texts.values)))

    @property
    def size(self) -> int:
        """How many messages there are before the first one comes again."""
        return len(self._points)

    def subscriptions(self, first: int, end: int) -> QueryArrays:
        """Make the subscriptions numbered `first` up to `end`, each to some terms of a message."""
        numbers = np.arange(first, end, dtype=np.int64)
        options = self._options
        source = Draws(self._seed, "subscription source").integers(numbers, 0, self.size - 1)
        draws = Draws(self._seed, "keyword count")
        wanted = draws.integers(numbers, options.min_keywords, options.max_keywords)
        rows, _ = self._rows(source)
        picked = picked_terms(self._seed, "keywords", numbers, rows, wanted)
        return queries_of(self._seed, options, numbers, self._points[source], picked)

    def messages(self, first: int, end: int) -> MessageArrays:
        """Make the messages numbered `first` up to `end`."""
        numbers = np.arange(first, end, dtype=np.int64)
        chosen = self._order[numbers % self.size]
        rows, counts = self._rows(chosen)
        return MessageArrays(
            self._points[chosen],
            numbers / self._options.rate,
            rows.offsets,
            rows.values.astype(np.int32),
            counts.astype(np.int32),
        )

    def _rows(self, chosen: Ints) -> tuple[Ragged, Ints]:
        offsets, at = picked(self._texts.offsets, chosen)
        return Ragged(self._texts.values[at], offsets), self._counts[at]


def topk_places(seed: int, options: TopkOptions) -> TopkTexts:
    """Take the names of towns where they are (GeoNames), 230,000 of them."""
    places = TownsWorkload(seed, PlacesOptions())
    points, texts = places.named(np.arange(places.size))
    return TopkTexts(seed, options, points, texts, np.ones(len(texts.values), np.int64))


def topk_gazetteer(seed: int, options: TopkOptions) -> TopkTexts:
    """Take towns as a gazetteer has them: a name, and the parts of the world it is in."""
    points, entries = gazetteer()
    texts, counts = _numbered([Counter(DEFAULT.tokens(entry)) for entry in entries])
    return TopkTexts(seed, options, points, texts, counts)


def topk_log(path: str | Path, seed: int, options: TopkOptions) -> TopkTexts:
    """Take the point messages of an event log that have any term."""
    points: list[tuple[float, float]] = []
    bags: list[Counter[str]] = []
    with open_log(path) as log:
        for event in events_of(log, str(path)):
            if isinstance(event, Publish) and event.message.point is not None:
                bag = Counter(DEFAULT.tokens(event.message.text))
                if bag:
                    points.append(event.message.point)
                    bags.append(bag)
    if len(bags) < _FEWEST:
        raise SourceError(
            f"{path}: {len(bags)} messages at points; expected at least {_FEWEST} to simulate with"
        )
    texts, counts = _numbered(bags)
    return TopkTexts(seed, options, np.array(points), texts, counts)


def _numbered(bags: list[Counter[str]]) -> tuple[Ragged, Ints]:
    """Number terms, the most frequent first, and equal ones in an order that is always the same."""
    seen = Counter(_each(bags))
    number = {term: n for n, term in enumerate(sorted(seen, key=lambda t: (-seen[t], t)))}
    rows = [sorted((number[term], count) for term, count in bag.items()) for bag in bags]
    values = np.array([term for row in rows for term, _ in row], np.int64)
    counts = np.array([count for row in rows for _, count in row], np.int64)
    return Ragged(values, starts_of(np.array([len(row) for row in rows]))), counts


def _each(bags: Iterable[Counter[str]]) -> Iterable[str]:
    for bag in bags:
        yield from bag
