"""What every workload has in common: its options, its vocabulary, its cities, its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast_lab.workloads.corpus import MessageClock, Ragged, distinct_terms, picked_terms
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.space import Cities, WorldBox, space_named
from nearcast_lab.workloads.words import Words
from nearcast_lab.workloads.zipf import cumulative_weights

Event = dict[str, Any]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]

START = 1_700_000_000.0


class WorkloadOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options that every workload takes.

    - `space`: a name (`world`, `us`, `uk`, `oldenburg`, `san-joaquin`) or `W,S,E,N` in degrees;
    - `cities`, `countryside`: the number of clusters, and the share of messages outside them;
    - `vocabulary`, `exponent`, `shift`: distinct terms, and the Zipf law that they follow;
    - `terms`: different terms of a message on average; from half of it to one and a half times it;
    - `corpus`: how many messages the subscriptions are sampled from;
    - `rate`: messages a second;
    - `chunk`: events made at a time. It decides memory and speed, never the log.
    """

    space: str = "world"
    cities: Count = 300
    countryside: Share = 0.1
    vocabulary: Count = 1_000_000
    exponent: Amount = 1.0
    shift: Amount = 0.0
    terms: Count = 9
    corpus: Count = 12_700_000
    rate: Positive = 100.0
    chunk: Count = 20_000


class WorkloadRequest(NamedTuple):
    """What is asked of a workload, besides its options."""

    subscriptions: int
    messages: int
    seed: int


class Workload(NamedTuple):
    """A kind of event log: how to make it, and which paper describes it."""

    name: str
    description: str
    paper: str
    options: type[WorkloadOptions]
    events: Callable[[WorkloadRequest, Any], Iterator[Event]]


class Corpus:
    """Messages by number, as the options describe them, and samples of their terms."""

    def __init__(self, seed: int, options: WorkloadOptions, space: WorldBox | None = None) -> None:
        self.seed = seed
        self.options = options
        self.space = space or space_named(options.space)
        self.cities = Cities(seed, self.space, options.cities, options.countryside)
        self.weights = cumulative_weights(options.vocabulary, options.exponent, options.shift)
        self.words = Words(options.vocabulary)
        self.clock = MessageClock(seed, START, options.rate)
        self._length = Draws(seed, "message length")
        self._source = Draws(seed, "subscription source")
        half = options.terms // 2
        self.have_terms(options.terms - half, options.terms + half)

    def have_terms(self, fewest: int, most: int) -> None:
        """Let messages have from `fewest` to `most` different terms."""
        self._shortest, self._longest = fewest, most
        if most > self.options.vocabulary:
            raise InvalidValue(
                "vocabulary",
                self.options.vocabulary,
                f"at least {most}, so that a message can have {most} terms",
            )

    def chunks(self, first: int, end: int) -> Iterator[Ints]:
        """Cut the numbers from `first` up to `end` into chunks."""
        for start in range(first, end, self.options.chunk):
            yield np.arange(start, min(start + self.options.chunk, end), dtype=np.int64)

    def terms(self, numbers: Ints) -> Ragged:
        """Give the different terms of each message."""
        lengths = self._length.integers(numbers, self._shortest, self._longest)
        return distinct_terms(self.seed, "message terms", numbers, lengths, self.weights)

    def sources(self, numbers: Ints) -> Ints:
        """Give, for each subscription, the number of the message that it is made from."""
        return self._source.integers(numbers, 0, self.options.corpus - 1)

    def keywords(self, numbers: Ints, sources: Ints, wanted: Ints) -> Ragged:
        """Pick the terms of subscriptions from the messages that they are made from."""
        return picked_terms(self.seed, "keywords", numbers, self.terms(sources), wanted)

    def publishes(self, first: int, end: int) -> Iterator[Event]:
        """Publish the messages from `first` up to `end`, each at a point."""
        for numbers in self.chunks(first, end):
            texts = self.words.phrases(*self.terms(numbers))
            points = self.cities.points(numbers)
            yield from published(numbers, texts, points, self.clock.times(numbers))


def published(numbers: Ints, texts: list[str], points: Floats, times: Floats) -> list[Event]:
    """Write point messages as events."""
    rows = zip(numbers.tolist(), texts, points.tolist(), times.tolist(), strict=True)
    return [
        {"op": "publish", "id": f"m{number + 1}", "text": text, "point": point, "at": at}
        for number, text, point, at in rows
    ]


def subscribed(numbers: Ints, queries: list[str], boxes: Floats) -> list[Event]:
    """Write subscriptions to boxes as events."""
    rows = zip(numbers.tolist(), queries, boxes.tolist(), strict=True)
    return [
        {
            "op": "subscribe",
            "id": f"s{number + 1}",
            "query": query,
            "region": {"type": "Box", "bbox": box},
        }
        for number, query, box in rows
    ]


def ordered(field: str, low: float, high: float) -> None:
    """Refuse a smallest value above the largest."""
    if low > high:
        raise InvalidValue(f"min_{field}", low, f"at most max_{field}, which is {high}")
