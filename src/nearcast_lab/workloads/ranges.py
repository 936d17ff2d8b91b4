"""Workload `range`: short and long messages, at points and over boxes.

The defaults are those of LFilter (CIKM 2015), section 6: short messages of 6 to 20 and long ones of
100 to 1000 terms, half of them at a point and half over a box; subscriptions of 1 to 5 frequent
terms and a box of random width and height around the place of a message.

Departures: the paper does not size its boxes. A message's has 1 % of the space's area (`area`; 10 %
is the other size of interest); a subscription's sides are 0.1 % to 10 % of the space's, drawn
independently. Its terms come from the `frequent` share of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import sqrt

import numpy as np

from nearcast.errors import InvalidValue
from nearcast_lab.workloads.base import (
    Corpus,
    Count,
    Event,
    Share,
    Workload,
    WorkloadOptions,
    WorkloadRequest,
    ordered,
    published,
    subscribed,
)
from nearcast_lab.workloads.corpus import distinct_terms
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.space import boxes_around


class RangeOptions(WorkloadOptions, frozen=True):
    """Options of `range`; `terms` is not used.

    - `long_share`, `range_share`: the shares of long messages, and of messages over a box;
    - `area`: the area of a message's box, as a share of the space's;
    - `min_side`, `max_side`: the sides of a subscription's box, as shares of the space's;
    - `frequent`: the share of the vocabulary that subscriptions choose from.
    """

    long_share: Share = 0.5
    range_share: Share = 0.5
    area: Share = 0.01
    min_short: Count = 6
    max_short: Count = 20
    min_long: Count = 100
    max_long: Count = 1000
    max_keywords: Count = 5
    frequent: Share = 0.1
    min_side: Share = 0.001
    max_side: Share = 0.1


def _subscriptions(corpus: Corpus, options: RangeOptions, numbers: Ints) -> list[Event]:
    seed, space = corpus.seed, corpus.space
    frequent = max(int(options.frequent * options.vocabulary), options.max_keywords)
    lengths = Draws(seed, "keyword count").integers(numbers, 1, options.max_keywords)
    rows = distinct_terms(seed, "frequent terms", numbers, lengths, corpus.weights[:frequent])
    points = corpus.cities.points(corpus.sources(numbers))
    width = Draws(seed, "width").uniform(numbers, options.min_side, options.max_side)
    height = Draws(seed, "height").uniform(numbers, options.min_side, options.max_side)
    boxes = boxes_around(points, width * space.width, height * space.height)
    return subscribed(numbers, corpus.words.phrases(*rows), boxes)


def _publishes(corpus: Corpus, options: RangeOptions, numbers: Ints) -> list[Event]:
    seed, space = corpus.seed, corpus.space
    short = Draws(seed, "short length").integers(numbers, options.min_short, options.max_short)
    long = Draws(seed, "long length").integers(numbers, options.min_long, options.max_long)
    is_long = Draws(seed, "long").uniform(numbers) < options.long_share
    lengths = np.where(is_long, long, short)
    rows = distinct_terms(seed, "message terms", numbers, lengths, corpus.weights)
    texts = corpus.words.phrases(*rows)
    points = corpus.cities.points(numbers)
    events = published(numbers, texts, points, corpus.clock.times(numbers))
    wide = np.flatnonzero(Draws(seed, "wide").uniform(numbers) < options.range_share)
    side = np.full(len(wide), sqrt(options.area))
    boxes = boxes_around(points[wide], side * space.width, side * space.height)
    for place, box in zip(wide.tolist(), boxes.tolist(), strict=True):
        event = events[place]
        del event["point"]
        event["region"] = {"type": "Box", "bbox": box}
    return events


def _events(request: WorkloadRequest, options: RangeOptions) -> Iterator[Event]:
    ordered("side", options.min_side, options.max_side)
    ordered("short", options.min_short, options.max_short)
    ordered("long", options.min_long, options.max_long)
    most = max(options.max_short, options.max_long, options.max_keywords)
    if most > options.vocabulary:
        raise InvalidValue("vocabulary", options.vocabulary, f"at least {most}, the most terms")
    corpus = Corpus(request.seed, options)
    return chain.from_iterable(
        chain(
            (
                _subscriptions(corpus, options, numbers)
                for numbers in corpus.chunks(0, request.subscriptions)
            ),
            (
                _publishes(corpus, options, numbers)
                for chunk in corpus.chunks(0, request.messages)
                # Long messages would make a chunk of usual length too large to hold.
                for numbers in np.array_split(chunk, max(1, len(chunk) // 1000))
            ),
        )
    )


RANGE = Workload(
    name="range",
    description="short and long messages at points and over boxes of 1 % of the space",
    paper="LFilter (CIKM 2015), section 6",
    options=RangeOptions,
    events=_events,
)
