"""Workloads `tweets` and `small`: subscriptions sampled from clustered short messages.

The defaults are those of AP-Tree (ICDE 2015), section V-A and table II: messages of 9 keywords on
average; a subscription takes 1 to 5 random terms and the place of a random message, and a
rectangle of 0.01 % to 1 % of the space. With `boolean`, the terms are joined as in AP-Tree
(VLDB J.), section 5.1.1: two clauses, with a conjunction or a disjunction within and between.

Departures: the messages are made up, so the vocabulary has 1 M terms where the paper's tweets have
1.7 M, and the terms of a message are independent of one another and of the place.

`small` is the same with tiny regions: their sides are 0.05 % to 0.5 % of the space's, where the
paper's regions have 1 % to 10 %. That is what a person calls nearby, and what favours indexes that
cut space finely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, pairwise

import numpy as np

from nearcast.arrays.types import Floats
from nearcast_lab.workloads.base import (
    Corpus,
    Count,
    Event,
    Share,
    Workload,
    WorkloadOptions,
    WorkloadRequest,
    ordered,
    subscribed,
)
from nearcast_lab.workloads.corpus import Ragged
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.space import boxes_around

_EITHER = ("AND", "OR")


class KeywordOptions(WorkloadOptions, frozen=True):
    """Options of workloads whose subscriptions take terms of a message.

    - `max_keywords`: a subscription has 1 to this many terms;
    - `boolean`: join the terms by AND and OR in two clauses, instead of asking for all of them.
    """

    max_keywords: Count = 5
    boolean: bool = False


class TweetsOptions(KeywordOptions, frozen=True):
    """Options of `tweets`: the region's area as a share of the space, drawn uniformly."""

    min_area: Share = 0.0001
    max_area: Share = 0.01


class SmallOptions(KeywordOptions, frozen=True):
    """Options of `small`: the region's side as a share of the space's side, drawn uniformly."""

    min_side: Share = 0.0005
    max_side: Share = 0.005


def _tweets(request: WorkloadRequest, options: TweetsOptions) -> Iterator[Event]:
    ordered("area", options.min_area, options.max_area)
    areas = Draws(request.seed, "area")
    return _log(
        request,
        options,
        lambda numbers: np.sqrt(areas.uniform(numbers, options.min_area, options.max_area)),
    )


def _small(request: WorkloadRequest, options: SmallOptions) -> Iterator[Event]:
    ordered("side", options.min_side, options.max_side)
    sides = Draws(request.seed, "side")
    return _log(
        request, options, lambda numbers: sides.uniform(numbers, options.min_side, options.max_side)
    )


def _log(
    request: WorkloadRequest, options: KeywordOptions, sides: Callable[[Ints], Floats]
) -> Iterator[Event]:
    """Subscriptions with these sides, as shares of the space's, and then messages."""
    corpus = Corpus(request.seed, options)

    def subscriptions(numbers: Ints) -> list[Event]:
        return _subscriptions(corpus, options, numbers, sides(numbers))

    chunks = corpus.chunks(0, request.subscriptions)
    return chain(
        chain.from_iterable(map(subscriptions, chunks)), corpus.publishes(0, request.messages)
    )


def _subscriptions(
    corpus: Corpus, options: KeywordOptions, numbers: Ints, shares: Floats
) -> list[Event]:
    """Subscribe around messages, to boxes with these shares of the space's width and height."""
    sources = corpus.sources(numbers)
    wanted = Draws(corpus.seed, "keyword count").integers(numbers, 1, options.max_keywords)
    keywords = corpus.keywords(numbers, sources, wanted)
    if options.boolean:
        queries = _boolean_queries(corpus, numbers, keywords)
    else:
        queries = corpus.words.phrases(*keywords)
    space = corpus.space
    points = corpus.cities.points(sources)
    boxes = boxes_around(points, shares * space.width, shares * space.height)
    return subscribed(numbers, queries, boxes)


def _boolean_queries(corpus: Corpus, numbers: Ints, keywords: Ragged) -> list[str]:
    """Cut each row of terms in two clauses, and choose AND or OR within and between them."""
    cut = Draws(corpus.seed, "boolean cut").uniform(numbers)
    operators = Draws(corpus.seed, "boolean operators").integers(numbers, 0, 7)
    words = corpus.words.of(keywords.values)
    queries = []
    rows = zip(pairwise(keywords.offsets.tolist()), cut.tolist(), operators.tolist(), strict=True)
    for (start, end), share, bits in rows:
        row = words[start:end]
        if len(row) == 1:
            queries.append(row[0])
            continue
        middle = 1 + int(share * (len(row) - 1))
        clauses = [
            f"({f' {_EITHER[operator]} '.join(clause)})" if len(clause) > 1 else clause[0]
            for clause, operator in ((row[:middle], bits & 1), (row[middle:], bits >> 1 & 1))
        ]
        queries.append(f" {_EITHER[bits >> 2]} ".join(clauses))
    return queries


TWEETS = Workload(
    name="tweets",
    description="short messages around cities; subscriptions of 1-5 terms and boxes of "
    "0.01-1 % of the space",
    paper="AP-Tree (ICDE 2015), section V-A; boolean queries: AP-Tree (VLDB J.), section 5.1.1",
    options=TweetsOptions,
    events=_tweets,
)

SMALL = Workload(
    name="small",
    description="as tweets, with tiny boxes: sides of 0.05-0.5 % of the space's",
    paper="AP-Tree (ICDE 2015), section V-A, with smaller regions",
    options=SmallOptions,
    events=_small,
)
