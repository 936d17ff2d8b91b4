"""Which finders get which subscriptions and messages, according to a distribution mechanism."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nearcast.arrays.lists import starts_of
from nearcast.arrays.slots import Secret, as_secret
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.settings import Settings
from nearcast.partition.topk.mechanisms import TopkSample, mechanism_named
from nearcast.partition.topk.placing import (
    NO_THRESHOLD,
    TopkQueries,
    ordered,
    place,
    route_messages,
    steepness_of,
)
from nearcast.partition.topk.spread import Spread
from nearcast.spark.topk.dskype.messages import Refills, Wanted, WindowMessages
from nearcast.spark.topk.dskype.terms import unit
from nearcast.topk.kernels.layout import NOTHING

ByFinder = list[Int64s]
"""By finder: the places of the items that it gets."""


def assign_refills(spread: Spread, refills: Refills, secret: Secret) -> ByFinder:
    """Which finders hold which subscriptions, given their current thresholds."""
    queries = ordered(spread, _queries(refills.wanted, refills.thetas, secret))
    return _by_finder(spread, *place(spread, queries).holders)


def _queries(wanted: Wanted, thetas: Floats, secret: Secret) -> TopkQueries:
    terms = wanted.terms
    return TopkQueries(
        wanted.keys(secret),
        wanted.points,
        wanted.alphas,
        terms.starts,
        terms.hashes,
        unit(terms.idf, len(terms.hashes)),
        np.where(thetas == NOTHING, NO_THRESHOLD, thetas),
    )


def spread_for(
    mechanism: str, workers: int, settings: Settings, wanted: Wanted, messages: WindowMessages
) -> Spread:
    """Make a spread from subscriptions, whose thresholds are not known, and messages."""
    unknown = np.full(len(wanted.owners), NOTHING)
    queries = _queries(wanted, unknown, as_secret(settings.secret))
    terms = messages.terms
    sample = TopkSample(queries, messages.points, terms.starts, terms.hashes, _steepness(messages))
    return mechanism_named(mechanism)(sample, workers, settings.space)


def assign_messages(spread: Spread, messages: WindowMessages) -> ByFinder:
    """Which finders must match which messages."""
    terms = messages.terms
    return _by_finder(
        spread, *route_messages(spread, terms.starts, terms.hashes, _steepness(messages))
    )


def _steepness(messages: WindowMessages) -> Floats:
    terms = messages.terms
    return steepness_of(terms.starts, messages.counts, unit(terms.idf, len(terms.hashes)))


def _by_finder(spread: Spread, things: Int32s, workers: Int32s) -> ByFinder:
    order = np.argsort(workers, kind="stable")
    edges = np.searchsorted(workers[order], np.arange(spread.workers + 1))
    return [
        np.sort(things[order[start:stop]]).astype(np.int64)
        for start, stop in pairwise(edges.tolist())
    ]


def flat(dealt: ByFinder) -> tuple[Int64s, Int64s]:
    """Where the places of each finder start, and all places, concatenated."""
    starts = starts_of(np.array([len(each) for each in dealt], np.int64))
    return starts, np.concatenate([np.empty(0, np.int64), *dealt])
