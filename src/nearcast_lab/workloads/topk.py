"""Workload `topk`: subscriptions to the best few, and messages that repeat terms.

The defaults are those of Skype (VLDB J.), section 8.1.1: a subscription takes the place and 1 to 5
keywords of a random message; k is 20 and alpha uniform between 0 and 1; messages have 9 different
keywords on average (table 3). The paper starts with a full window: `warm` messages, of those asked
for, are published before the first subscription.

Departure: the paper says nothing of term counts. Here every term of a message is said once more
with probability `repeat`, and a third time with its square.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from nearcast.arrays.lists import starts_of
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
)
from nearcast_lab.workloads.corpus import Ragged, distinct_terms
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.echoes import EchoingCorpus


class TopkOptions(WorkloadOptions, frozen=True):
    """Options of `topk`; `warm` messages come before the first subscription.

    With `echo` above 0 that share of the words of messages comes from `phrases` phrases.

    Keywords are those of the `message` that a subscription is made from, or drawn by the `zipf` law
    of the vocabulary, as for figure 19.
    """

    k: Annotated[int, Meta(ge=1, le=1000)] = 20
    min_alpha: Share = 0.0
    max_alpha: Share = 1.0
    min_keywords: Count = 1
    max_keywords: Count = 5
    keywords: Literal["message", "zipf"] = "message"
    repeat: Share = 0.2
    echo: Share = 0.0
    phrases: Count = 20_000
    warm: Annotated[int, Meta(ge=0)] = 0


def corpus_of(seed: int, options: TopkOptions) -> EchoingCorpus:
    """Make the messages that the options describe."""
    return EchoingCorpus(seed, options, options.echo, options.phrases)


def repeated(seed: int, numbers: Ints, rows: Ragged, repeat: float) -> Ragged:
    """Say some terms of each row two or three times, the repetitions side by side."""
    lengths = np.diff(rows.offsets)
    slots = np.arange(len(rows.values)) - np.repeat(rows.offsets[:-1], lengths)
    unit = Draws(seed, "repeat").uniform((np.repeat(numbers, lengths) << 20) + slots)
    times = 1 + (unit < repeat).astype(np.int64) + (unit < repeat * repeat)
    return Ragged(np.repeat(rows.values, times), starts_of(times)[rows.offsets])


def keywords_of(corpus: Corpus, options: TopkOptions, numbers: Ints, sources: Ints) -> Ragged:
    """Choose the keywords of subscriptions that are made from these messages."""
    ordered("keywords", options.min_keywords, options.max_keywords)
    draws = Draws(corpus.seed, "keyword count")
    wanted = draws.integers(numbers, options.min_keywords, options.max_keywords)
    if options.keywords == "message":
        return corpus.keywords(numbers, sources, wanted)
    wanted = np.minimum(wanted, options.vocabulary)
    return distinct_terms(corpus.seed, "zipf keywords", numbers, wanted, corpus.weights)


def _subscriptions(corpus: Corpus, options: TopkOptions, numbers: Ints) -> list[Event]:
    seed = corpus.seed
    sources = corpus.sources(numbers)
    queries = corpus.words.phrases(*keywords_of(corpus, options, numbers, sources))
    points = corpus.cities.points(sources).tolist()
    alphas = Draws(seed, "alpha").uniform(numbers, options.min_alpha, options.max_alpha)
    return [
        {
            "op": "subscribe",
            "id": f"s{number + 1}",
            "query": query,
            "point": point,
            "top": {"k": options.k, "alpha": alpha},
        }
        for number, query, point, alpha in zip(
            numbers.tolist(), queries, points, np.round(alphas, 4).tolist(), strict=True
        )
    ]


def _publishes(corpus: Corpus, options: TopkOptions, numbers: Ints) -> list[Event]:
    terms = repeated(corpus.seed, numbers, corpus.terms(numbers), options.repeat)
    texts = corpus.words.phrases(*terms)
    return published(numbers, texts, corpus.cities.points(numbers), corpus.clock.times(numbers))


def _events(request: WorkloadRequest, options: TopkOptions) -> Iterator[Event]:
    ordered("alpha", options.min_alpha, options.max_alpha)
    corpus = corpus_of(request.seed, options)
    warm = min(options.warm, request.messages)
    parts = (
        (_publishes(corpus, options, numbers) for numbers in corpus.chunks(0, warm)),
        (
            _subscriptions(corpus, options, numbers)
            for numbers in corpus.chunks(0, request.subscriptions)
        ),
        (_publishes(corpus, options, numbers) for numbers in corpus.chunks(warm, request.messages)),
    )
    return chain.from_iterable(chain(*parts))


TOPK = Workload(
    name="topk",
    description="subscriptions to the 20 best messages by place and text, alpha between 0 and 1",
    paper="Skype (VLDB J.), section 8.1.1",
    options=TopkOptions,
    events=_events,
)
