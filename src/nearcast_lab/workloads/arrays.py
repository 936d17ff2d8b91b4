"""Populations and messages as arrays of term ids and boxes, made by the million for benchmarks.

The same draws as in the event logs (`tweets` and its relatives), without events and text in
between. Term 0 is the most frequent one. Each kind is a set of values for the same options, so
that any of them can be varied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats
from nearcast.index import Batch
from nearcast_lab.workloads.base import Corpus, Count, Share, WorkloadOptions, ordered
from nearcast_lab.workloads.corpus import Ragged
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.space import boxes_around

_CHUNK = 200_000
_SCALE = 1e12


class Subscriptions(NamedTuple):
    """Conjunctions within boxes: the terms of the i-th are `terms[starts[i] : starts[i + 1]]`.

    Some workloads have subscriptions that ask for `either` of their terms.
    """

    boxes: Floats
    starts: Ints
    terms: NDArray[np.int32]
    either: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.boxes)


class ArrayWorkload(Protocol):
    """What a benchmark asks of a workload."""

    frequency: Ints
    """How often each term is expected in messages, in any unit."""

    def subscriptions(self, first: int, end: int) -> Subscriptions:
        """Make the subscriptions numbered `first` up to `end`."""
        ...

    def messages(self, first: int, end: int) -> Batch:
        """Make the messages numbered `first` up to `end`."""
        ...


class RegionOptions(WorkloadOptions, frozen=True):
    """How large the regions of subscriptions are, as shares of the space's area.

    `drawn` says what is drawn uniformly: the area, the side, or the logarithm of the area.
    """

    min_area: Share = 0.0001
    max_area: Share = 0.01
    drawn: Literal["area", "side", "log"] = "area"
    min_keywords: Count = 1
    max_keywords: Count = 5


class ArrayOptions(RegionOptions, frozen=True):
    """Options of all kinds with made-up text.

    - `source_terms`: the terms of the messages that subscriptions are made from;
    - `terms`: those of the messages that are matched, from half of it to one and a half times it;
    - `min_terms`, `max_terms`: those of the messages that are matched, instead, unless 0;
    - `message_area`: 0 for messages at points, or the share of the space that their boxes have.
    """

    source_terms: Count = 9
    min_terms: int = 0
    max_terms: int = 0
    message_area: Share = 0.0


class CityArrays:
    """Messages around cities, and subscriptions to terms of such messages and their places."""

    def __init__(self, seed: int, options: ArrayOptions) -> None:
        check_regions(options)
        self._seed, self._options = seed, options
        self._messages = self._corpus(options)
        if options.max_terms:
            ordered("terms", options.min_terms, options.max_terms)
            self._messages.have_terms(max(1, options.min_terms), options.max_terms)
        source = {name: getattr(options, name) for name in WorkloadOptions.__struct_fields__}
        self._sources = self._corpus(WorkloadOptions(**source | {"terms": options.source_terms}))
        self.frequency: Ints = frequencies(self._messages.weights)

    def _corpus(self, options: WorkloadOptions) -> Corpus:
        return Corpus(self._seed, options)

    def subscriptions(self, first: int, end: int) -> Subscriptions:
        """Make the subscriptions numbered `first` up to `end`."""
        options, corpus = self._options, self._sources

        def some(numbers: Ints) -> tuple[Floats, Ragged]:
            sources = corpus.sources(numbers)
            wanted = keyword_counts(self._seed, options, numbers)
            keywords = corpus.keywords(numbers, sources, wanted)
            sides = region_sides(self._seed, options, numbers)
            space, points = corpus.space, corpus.cities.points(sources)
            return boxes_around(points, sides * space.width, sides * space.height), keywords

        return Subscriptions(*joined(map(some, chunks(first, end))))

    def messages(self, first: int, end: int) -> Batch:
        """Make the messages numbered `first` up to `end`."""
        return messages_of(self._messages, first, end, area=self._options.message_area)


def frequencies(weights: Floats) -> Ints:
    """How often each term is expected, by the cumulative weights of all terms."""
    expected: Ints = (np.diff(weights, prepend=0.0) / weights[-1] * _SCALE).astype(np.int64)
    return expected


def joined(parts: Iterable[tuple[Floats, Ragged]]) -> tuple[Floats, Ints, NDArray[np.int32]]:
    """Join what was made in chunks: boxes, where each row of terms starts, and the terms."""
    boxes, lengths, terms = [np.empty((0, 4))], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for some, rows in parts:
        boxes.append(some)
        lengths.append(np.diff(rows.offsets))
        terms.append(rows.values.astype(np.int32))
    return np.concatenate(boxes), starts_of(np.concatenate(lengths)), np.concatenate(terms)


def messages_of(
    corpus: Corpus,
    first: int,
    end: int,
    places: Callable[[Ints], Floats] | None = None,
    area: float = 0.0,
) -> Batch:
    """Make messages of a corpus, at points, or over boxes that have a share of the space."""
    space, places = corpus.space, places or corpus.cities.points

    def some(numbers: Ints) -> tuple[Floats, Ragged]:
        side = np.full(len(numbers), np.sqrt(area))
        boxes = boxes_around(places(numbers), side * space.width, side * space.height)
        return boxes, corpus.terms(numbers)

    boxes, starts, terms = joined(map(some, chunks(first, end)))
    return Batch(starts, terms, boxes)


def chunks(first: int, end: int) -> Iterator[Ints]:
    """Cut the numbers from `first` up to `end` into chunks."""
    for start in range(first, end, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, end), dtype=np.int64)


def check_regions(options: RegionOptions) -> None:
    """Refuse a smallest value above the largest."""
    ordered("area", options.min_area, options.max_area)
    ordered("keywords", options.min_keywords, options.max_keywords)


def keyword_counts(seed: int, options: RegionOptions, numbers: Ints) -> Ints:
    """Draw how many terms each subscription has."""
    draws = Draws(seed, "keyword count")
    return draws.integers(numbers, options.min_keywords, options.max_keywords)


def region_sides(seed: int, options: RegionOptions, numbers: Ints) -> Floats:
    """Draw the side of each region, as a share of the space's."""
    low, high = options.min_area, options.max_area
    if options.drawn == "area":
        return np.sqrt(Draws(seed, "area").uniform(numbers, low, high))
    if options.drawn == "side":
        return Draws(seed, "side").uniform(numbers, float(np.sqrt(low)), float(np.sqrt(high)))
    low, high = float(np.log(max(low, 1e-12))), float(np.log(max(high, 1e-12)))
    return np.sqrt(np.exp(Draws(seed, "area").uniform(numbers, low, high)))


KINDS: dict[str, dict[str, Any]] = {
    "tweets": {},
    "small": {"min_area": 0.0005**2, "max_area": 0.005**2, "drawn": "side"},
    "tiny": {"min_area": 0.00001, "max_area": 0.00001},
    "mixed": {"min_area": 0.0000001, "max_area": 0.01, "drawn": "log"},
    "one-term": {"max_keywords": 1},
    "five-terms": {"min_keywords": 5, "max_keywords": 5},
    "shifted": {"shift": 100.0},
    "long": {"terms": 1000},
    "range": {"message_area": 0.01},
}
"""The kinds with made-up text, and how they differ from `tweets`."""
