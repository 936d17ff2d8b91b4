"""Which finders get which subscriptions and messages, by a mechanism's spread."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.geo import Box
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
from nearcast.spark.dskype.columns import Refills, SubscriptionVersions, WindowMessages, starts_of
from nearcast.spark.dskype.numbering import unit
from nearcast.topk.kernels.layout import NOTHING

Dealt = list[Int64s]
"""By finder: which of some things it gets."""


def deal_refills(spread: Spread, refills: Refills) -> Dealt:
    """Which finders hold subscriptions, with the thresholds they have now."""
    wishes = ordered(spread, _wishes(refills.wanted, refills.thetas))
    return _dealt(spread, *place(spread, wishes).holders)


def _wishes(wanted: SubscriptionVersions, thetas: Floats) -> TopkQueries:
    terms = wanted.terms
    return TopkQueries(
        wanted.keys,
        wanted.points,
        wanted.alphas,
        terms.starts,
        terms.hashes,
        unit(terms.idf, len(terms.hashes)),
        np.where(thetas == NOTHING, NO_THRESHOLD, thetas),
    )


def spread_for(
    mechanism: str, workers: int, space: Box, wanted: SubscriptionVersions, messages: WindowMessages
) -> Spread:
    """Make a spread from subscriptions, whose thresholds are not known, and messages."""
    wishes = _wishes(wanted, np.full(len(wanted.owners), NOTHING))
    terms = messages.terms
    sample = TopkSample(wishes, messages.points, terms.starts, terms.hashes, _steepness(messages))
    return mechanism_named(mechanism)(sample, workers, space)


def deal_messages(spread: Spread, messages: WindowMessages) -> Dealt:
    """Which finders must see messages."""
    terms = messages.terms
    return _dealt(spread, *route_messages(spread, terms.starts, terms.hashes, _steepness(messages)))


def _steepness(messages: WindowMessages) -> Floats:
    terms = messages.terms
    return steepness_of(terms.starts, messages.counts, unit(terms.idf, len(terms.hashes)))


def _dealt(spread: Spread, things: Int32s, workers: Int32s) -> Dealt:
    order = np.argsort(workers, kind="stable")
    edges = np.searchsorted(workers[order], np.arange(spread.workers + 1))
    return [
        np.sort(things[order[start:stop]]).astype(np.int64)
        for start, stop in pairwise(edges.tolist())
    ]


def flat(dealt: Dealt) -> tuple[Int64s, Int64s]:
    """What each finder gets, in a row, and where that of each starts."""
    starts = starts_of(np.array([len(each) for each in dealt], np.int64))
    return starts, np.concatenate([np.empty(0, np.int64), *dealt])
