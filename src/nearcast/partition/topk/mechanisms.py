"""The distribution mechanisms of DSkype (Skype, VLDB J., sections 7.3 and 8.2).

| name            | a subscription is held by                 | a message goes to              |
|-----------------|-------------------------------------------|--------------------------------|
| `hashing`       | one worker, by its id                     | all                            |
| `location`      | one worker, by its place                  | all                            |
| `keyword`       | the workers of its terms                  | the workers of its terms       |
| `prefix`        | the workers of its prefix                 | the workers of its terms       |
| `spatial-first` | the workers of its prefix, in its place   | those of its terms, everywhere |
| `keyword-first` | the workers of its place, for its prefix  | all workers of its terms       |

With the last three, messages that are steep (`placing`) go to all; and the terms of a subscription
share workers where they can (`term_affinity`), which goes beyond the paper too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import NamedTuple, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.geo import WORLD, Box
from nearcast.partition.sample import SampleMessages, frequent_terms
from nearcast.partition.tables import Terms
from nearcast.partition.text_map import TermUnits, TextMap
from nearcast.partition.topk import kernels
from nearcast.partition.topk.kd import kd_tree
from nearcast.partition.topk.placing import TopkQueries, ordered, prefix_lengths
from nearcast.partition.topk.spread import Prefix, Spread, only, single_leaf
from nearcast.partition.topk.term_affinity import deal_by_affinity, units_for
from nearcast.partition.topk.words import BUCKETS, UnitLists, deal, units_of

Levels: TypeAlias = tuple[int, int]

SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2)
"""Shares of the sampled messages that may be steep."""
_COPY = 2.0
_UNWEIGHED = 0.04
"""Share of all workers that a message may go to in addition, while no threshold is known."""


class TopkSample(NamedTuple):
    """What a spread is made from: subscriptions with their thresholds, and messages."""

    queries: TopkQueries
    points: Floats
    starts: Int64s
    terms: Terms
    steepness: Floats  # of the messages

    @property
    def order(self) -> tuple[Terms, Int64s]:
        """Frequent terms of the messages, sorted, and in how many of them each occurs."""
        boxes = np.hstack([self.points, self.points])
        return frequent_terms(SampleMessages(boxes, self.starts, self.terms))


Mechanism: TypeAlias = Callable[[TopkSample, int, Box], Spread]
"""Makes a spread from a sample, a number of workers, and a space."""


def hashing(sample: TopkSample, workers: int, space: Box = WORLD) -> Spread:
    """Deal subscriptions out by a hash of their ids (equation 14), through buckets.

    A bucket can be given to another worker when one has too much to do.
    """
    del space
    buckets = workers * -(-BUCKETS // workers)
    dealt = np.arange(buckets, dtype=np.int32) % np.int32(workers)
    groups = TextMap(np.empty(0, np.uint64), np.empty(0, np.int32), dealt)
    return Spread(
        "hashing", workers, groups, by_id=True, levels=(workers, 1), **_order_of(sample.order)
    )


def location(sample: TopkSample, workers: int, space: Box = WORLD) -> Spread:
    """Cut space into a part for each worker (algorithm 3)."""
    return Spread(
        "location",
        workers,
        only(0),
        [kd_tree(sample.queries.points, sample.points, workers, space)],
        [only(worker) for worker in range(workers)],
        levels=(workers, 1),
        **_order_of(sample.order),
    )


def keyword(sample: TopkSample, workers: int, space: Box = WORLD) -> Spread:
    """Cut the vocabulary into a part for each worker (algorithm 4)."""
    return _by_text(sample, (1, workers), space, "keyword", "whole")


def prefix(sample: TopkSample, workers: int, space: Box = WORLD) -> Spread:
    """Deal the vocabulary out by prefixes, with terms of one subscription together."""
    return _by_text(sample, (1, workers), space, "prefix", "length", together=True)


def prefix_any(sample: TopkSample, workers: int, space: Box = WORLD) -> Spread:
    """Cut the vocabulary as `keyword` does, by prefixes for any message, however steep."""
    return _by_text(sample, (1, workers), space, "prefix-any", "length", inf)


def prefix_sum(sample: TopkSample, workers: int, space: Box = WORLD) -> Spread:
    """Do as `prefix_any` does, with prefixes by sums of weights (equation 3): longer ones."""
    return _by_text(sample, (1, workers), space, "prefix-sum", "sum")


def spatial_first(
    sample: TopkSample, workers: int, space: Box = WORLD, levels: Levels | None = None
) -> Spread:
    """Cut space into l1 parts, and the vocabulary of each of them into l2 (section 8.2)."""
    levels = _levels(workers, levels)
    return _by_text(sample, levels, space, "spatial-first", "length", together=True)


def keyword_first(
    sample: TopkSample, workers: int, space: Box = WORLD, levels: Levels | None = None
) -> Spread:
    """Cut the vocabulary into l1 parts, and space for each of them into l2 (section 8.2)."""
    l1, l2 = _levels(workers, levels)
    plan = _PrefixSample(sample, "length", l1)
    dealt = plan.dealt(l1, together=True)
    trees = []
    for group in range(l1):
        mine = _any_in(dealt.subscriptions, dealt.parts, group)
        seen = _any_in(dealt.messages, dealt.parts, group)
        trees.append(kd_tree(plan.points[mine], sample.points[seen], l2, space))
    return Spread(
        "keyword-first",
        workers,
        dealt.units.mapped(dealt.parts),
        trees,
        [only(worker) for worker in range(workers)],
        prefix="length",
        steepest=plan.steepest,
        levels=(l1, l2),
        **_order_of(plan.order),
    )


MECHANISMS: dict[str, Mechanism] = {
    "hashing": hashing,
    "location": location,
    "keyword": keyword,
    "prefix": prefix,
    "spatial-first": spatial_first,
    "keyword-first": keyword_first,
}


def mechanism_named(name: str) -> Mechanism:
    """Find a mechanism by its name."""
    try:
        return MECHANISMS[name]
    except KeyError:
        raise InvalidValue("mechanism", name, f"one of {', '.join(MECHANISMS)}") from None


class _DealtVocabulary(NamedTuple):
    """A vocabulary that was dealt out, and what of it subscriptions and messages have."""

    units: TermUnits
    parts: Int32s
    subscriptions: UnitLists
    messages: UnitLists


class _PrefixSample:
    """A sample with subscriptions under their prefixes only."""

    def __init__(
        self, sample: TopkSample, prefix: Prefix, ways: int, steepest: float | None = None
    ) -> None:
        self._sample = sample
        self.order = sample.order
        # Only the order and the kind of prefix matter here: who gets what is still to be found.
        blank = Spread("", 1, only(0), prefix=prefix, **_order_of(self.order))
        queries = ordered(blank, sample.queries)
        if steepest is None and prefix == "length":
            steepest = choose_limit(queries, sample.starts, sample.steepness, ways)
        self.steepest = inf if steepest is None else steepest
        blank = replace(blank, steepest=self.steepest)
        self.points = queries.points
        self._starts, places = _runs(queries.starts[:-1], prefix_lengths(blank, queries))
        self._terms = queries.terms[places]

    def dealt(self, ways: int, rows: Int64s | None = None, *, together: bool) -> _DealtVocabulary:
        """Deal the vocabulary out in `ways` parts, by some subscriptions or all of them.

        Terms of one subscription go `together` where they can, or by their frequency alone.
        """
        starts, terms = self._starts, self._terms
        if rows is not None:
            starts, places = _runs(starts[rows], np.diff(starts)[rows])
            terms = terms[places]
        units = units_for(self.order, terms) if together else units_of(*self.order)
        subscriptions = UnitLists(starts, units.of(terms))
        messages = UnitLists(self._sample.starts, units.of(self._sample.terms))
        way = deal_by_affinity if together else deal
        parts = way(units.size, subscriptions, messages, ways)
        return _DealtVocabulary(units, parts, subscriptions, messages)


def _by_text(
    sample: TopkSample,
    levels: Levels,
    space: Box,
    name: str,
    prefix: Prefix,
    steepest: float | None = None,
    together: bool = False,
) -> Spread:
    """Cut space into l1 parts, and text in each of them into l2.

    How steep ordinary messages may be is chosen unless it is given.
    """
    l1, l2 = levels
    plan = _PrefixSample(sample, prefix, l2, steepest)
    tree = kd_tree(plan.points, sample.points, l1, space) if l1 > 1 else single_leaf()
    leaf = tree.leaves_of(plan.points)
    maps = []
    for part in range(l1):
        dealt = plan.dealt(l2, np.flatnonzero(leaf == part), together=together)
        maps.append(dealt.units.mapped(dealt.parts + np.int32(part * l2)))
    return Spread(
        name,
        l1 * l2,
        only(0),
        [tree],
        maps,
        prefix=prefix,
        steepest=plan.steepest,
        levels=levels,
        **_order_of(plan.order),
    )


class _Order(TypedDict):
    order_terms: Terms
    order_counts: Int64s


def _order_of(order: tuple[Terms, Int64s]) -> _Order:
    return _Order(order_terms=order[0], order_counts=order[1])


def _levels(workers: int, levels: Levels | None) -> Levels:
    """Check the number of parts of two levels; by default the largest l1 that is at most l2."""
    if levels is None:
        l1 = max(n for n in range(1, int(workers**0.5) + 1) if workers % n == 0)
        return l1, workers // l1
    if min(levels) < 1 or levels[0] * levels[1] != workers:
        raise InvalidValue("levels", levels, f"two numbers whose product is {workers}")
    return levels


def _runs(first: Int64s, lengths: npt.NDArray[np.integer]) -> tuple[Int64s, Int64s]:
    """Give where runs of these lengths start when put in a row, and what they are made of."""
    starts = starts_of(lengths)
    return starts, np.arange(starts[-1]) + np.repeat(first - starts[:-1], lengths)


def _any_in(lists: UnitLists, parts: Int32s, part: int) -> Int64s:
    """Which lists have any unit of a part."""
    rows = np.repeat(np.arange(len(lists.starts) - 1), np.diff(lists.starts))
    return np.unique(rows[parts[lists.units] == part])


def limit_for(share: float, steepness: Floats) -> float:
    """Give the limit above which at most this share of messages is; infinity for no share."""
    some = steepness[steepness > 0.0]  # the others have no terms, and go nowhere
    if share <= 0.0 or not len(some):
        return inf
    return float(np.quantile(some, 1.0 - share, method="higher"))


def choose_limit(queries: TopkQueries, starts: Int64s, steepness: Floats, ways: int) -> float:
    """Choose up to which steepness prefixes take messages into account, with `ways` workers.

    The lower the limit, the shorter are prefixes, and the more messages go to all workers. Both
    costs are taken as shares: of the copies that whole queries would have, and of the workers that
    there are. A copy counts twice, because it is kept, and gets every new threshold. Candidates for
    the limit are those by which some usual shares of the sampled messages are steep; the one with
    the least sum is chosen. Subscriptions are ordered; terms are thought to be dealt out evenly.
    """
    if not queries.size or not len(steepness):
        return inf
    sent = _parts(np.diff(starts), ways) / ways
    if not (queries.thetas > 0.0).any():
        most = SHARES[-1]
        share = most if most * (1.0 - sent) <= _UNWEIGHED else _UNWEIGHED / (1.0 - sent)
        return limit_for(share, steepness)
    whole = _parts(np.diff(queries.starts), ways)
    best, least = inf, inf
    for share in SHARES:
        limit = limit_for(share, steepness)
        lengths = kernels.prefix_lengths(
            False, limit, queries.starts, queries.weights, queries.alphas, queries.thetas
        )
        steep = float((steepness > limit).mean())
        cost = _COPY * _parts(lengths, ways) / whole + steep * (1.0 - sent)
        if cost < least:
            best, least = limit, cost
    return best


def _parts(counts: Int32s | Int64s, ways: int) -> float:
    """Give how many of `ways` parts `counts` terms fall into, on average."""
    return float((ways * (1.0 - (1.0 - 1.0 / ways) ** counts)).mean())
