"""Where top-k subscriptions and messages go by a spread, and which worker answers for a pair.

Functions take and give whole columns, and rest on one order of the terms of a subscription
(`ordered`): by weight, heavy first; of equal weights the rarer in sampled messages, then by hash.

A subscription is listed under the first terms of that order, its *prefix* (definition 12 of Skype):
so many that a message with none of them cannot reach its threshold, even at its own place. A pair
that reaches the threshold therefore has its first common term in the prefix; the worker of that
term holds the subscription, the message is sent there, and it alone answers.

Of what messages are like, prefixes assume one thing only, and that goes beyond the paper. A term w
adds q(w) m(w) to the cosine, and m(w) is tf(w) idf(w) / |m|. The *steepness* of a message is its
largest tf / |m|: so m(w) is at most its steepness times idf(w). Short texts are steep, and those
whose words are all common. A spread has a limit. *Ordinary* messages, up to it, go to the workers
of their terms, and prefixes are made for them: what is left out adds at most the sum of
q(w) min(1, limit idf(w)), and at most the length of that part of the query. The few *steep* ones go
to all workers, and for those the worker of a subscription's very first term answers.

Where the paper is loose, this is what is done:

- equation 18 divides by 1 - alpha. Here both sides are multiplied by it, so alpha = 1 needs no case
  of its own: texts make no difference then, and the whole query is the prefix;
- a subscription with fewer than k results has no threshold; nor has one whose buffer was never cut.
  The whole query is its prefix;
- proximity 1 is assumed of every message, as in the paper: workers are chosen before it is known;
- the k-th score of the paper is not enough for exact results: a buffer must get every message from
  its own threshold on, which is lower. Prefixes are made from that threshold;
- the paper does not say in which order terms are in a prefix. Heavy first makes it shortest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Bools, Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition.tables import Terms
from nearcast.partition.topk import kernels
from nearcast.partition.topk.spread import Spread

NO_THRESHOLD = float("-inf")
"""The threshold of a subscription that every message with a term of its own concerns."""

Pairs = tuple[Int32s, Int32s]
"""Numbers of subscriptions or messages, and the worker that each goes to."""


class TopkQueries(NamedTuple):
    """Top-k subscriptions; the terms of the i-th are `terms[starts[i] : starts[i + 1]]`, each once.

    `keys` are hashes of their ids, `weights` the idf of each term, and `thetas` what a score must
    reach to count: `NO_THRESHOLD`, or anything not above 0, where all do.
    """

    keys: Terms
    points: Floats
    alphas: Floats
    starts: Int64s
    terms: Terms
    weights: Floats
    thetas: Floats

    @property
    def size(self) -> int:
        """How many subscriptions there are."""
        return len(self.keys)


def first_queries(queries: TopkQueries, count: int) -> TopkQueries:
    """Give the first `count` of them."""
    end = int(queries.starts[count])
    return TopkQueries(
        queries.keys[:count],
        queries.points[:count],
        queries.alphas[:count],
        queries.starts[: count + 1],
        queries.terms[:end],
        queries.weights[:end],
        queries.thetas[:count],
    )


class Postings(NamedTuple):
    """Where subscriptions are listed: a row for each term that one is listed under.

    `subscriptions` are numbers within the call, `places` are places in its `terms`. `fresh` is set
    where the worker holds the subscription by none of its terms before this one: these rows name
    every holder once.
    """

    subscriptions: Int32s
    places: Int64s
    workers: Int32s
    fresh: Bools

    @property
    def holders(self) -> Pairs:
        """Which worker holds which subscription, each pair once."""
        return self.subscriptions[self.fresh], self.workers[self.fresh]


def ordered(spread: Spread, queries: TopkQueries) -> TopkQueries:
    """Give subscriptions with their terms in the order of prefixes; all else here expects that."""
    _check_lengths(queries)
    places = kernels.sort_terms(spread.arrays, queries.starts, queries.terms, queries.weights)
    return queries._replace(terms=queries.terms[places], weights=queries.weights[places])


def prefix_lengths(spread: Spread, queries: TopkQueries) -> Int32s:
    """Give how many terms each ordered subscription must be listed under, by its threshold."""
    if spread.prefix == "whole":
        return np.diff(queries.starts).astype(np.int32)
    return kernels.prefix_lengths(
        spread.prefix == "sum",
        spread.steepest,
        queries.starts,
        queries.weights,
        queries.alphas,
        queries.thetas,
    )


def place(spread: Spread, queries: TopkQueries, lengths: Int32s | None = None) -> Postings:
    """Say which workers hold each ordered subscription, under which terms.

    `lengths` are those of prefixes: by default as long as they must be.
    """
    have = prefix_lengths(spread, queries) if lengths is None else lengths
    return _posted(spread, queries, np.zeros(queries.size, np.int32), have)


def grow(spread: Spread, queries: TopkQueries, had: Int32s) -> tuple[Int32s, Postings]:
    """Say which prefixes must grow by new thresholds, and where the subscriptions are added.

    `had` are the lengths so far. A prefix that could be shorter stays as it is (lazy reallocation):
    to be under more terms than needed costs little, and moving costs more. Gives the new lengths
    and rows for the terms that were added; `fresh` are those of workers that did not hold the
    subscription yet.
    """
    have = np.maximum(had, prefix_lengths(spread, queries)).astype(np.int32)
    return have, _posted(spread, queries, had, have)


def steepness_of(starts: Int64s, counts: Int32s | Int64s, weights: Floats) -> Floats:
    """Give the steepness of messages, by how often each term occurs in them and its idf.

    0 for a message without terms.
    """
    return kernels.steepness(starts, np.asarray(counts, np.int64), weights)


def route_messages(spread: Spread, starts: Int64s, terms: Terms, steepness: Floats) -> Pairs:
    """Give the workers that must see each message, as pairs of message and worker, each once.

    Where a message is does not matter: a subscription far away may have no better one. A message
    without terms matches nothing and goes nowhere.
    """
    if spread.by_text:
        return kernels.route(spread.arrays, starts, terms, spread.is_steep(steepness))
    some = np.flatnonzero(np.diff(starts) > 0).astype(np.int32)
    everyone = np.arange(spread.workers, dtype=np.int32)
    return np.repeat(some, spread.workers), np.tile(everyone, len(some))


def answering(
    spread: Spread,
    queries: TopkQueries,
    message_starts: Int64s,
    message_terms: Terms,
    steepness: Floats,
    subscriptions: Int32s,
    messages: Int32s,
) -> Int32s:
    """Give the worker that answers for each pair of an ordered subscription and a message.

    Every worker comes to the same answer: the worker of the first term, in order, that both have,
    or of the very first if the message is steep; -1 where they have none in common. Kernels call
    `first_common` and `worker_for`.
    """
    return kernels.answering(
        spread.arrays, queries.keys, queries.points, queries.starts, queries.terms,
        message_starts, message_terms, spread.is_steep(steepness), subscriptions, messages,
    )  # fmt: skip


def _posted(spread: Spread, queries: TopkQueries, had: Int32s, have: Int32s) -> Postings:
    _check_lengths(queries)
    rows = kernels.post(
        spread.arrays, queries.keys, queries.points, queries.starts, queries.terms, had, have
    )
    return Postings(*rows)


def _check_lengths(queries: TopkQueries) -> None:
    count = queries.size
    for name, column, expected in (
        ("points", queries.points, count),
        ("alphas", queries.alphas, count),
        ("thetas", queries.thetas, count),
        ("starts", queries.starts, count + 1),
        ("weights", queries.weights, len(queries.terms)),
    ):
        if len(column) != expected:
            raise InvalidValue(name, len(column), f"{expected} of them for {count} subscriptions")
