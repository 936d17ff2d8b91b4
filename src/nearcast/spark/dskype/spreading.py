"""Which finders get which subscriptions and messages, by a mechanism's spread."""

from __future__ import annotations

import numpy as np

from nearcast.index.table import Int32s, Int64s
from nearcast.partition.topk.placing import NO_THRESHOLD, Wishes, ordered, place, route_messages
from nearcast.partition.topk.spread import Spread
from nearcast.spark.dskype.columns import Messages, Refills
from nearcast.spark.dskype.numbering import unit
from nearcast.topk._layout import NOTHING

Dealt = list[Int64s]
"""By finder: which of some things it gets."""


def deal_refills(spread: Spread, refills: Refills) -> Dealt:
    """Which finders hold subscriptions, with the thresholds they have now."""
    wanted = refills.wanted
    terms = wanted.terms
    wishes = Wishes(
        wanted.keys,
        wanted.points,
        wanted.alphas,
        terms.starts,
        terms.hashes,
        unit(terms.idf, len(terms.hashes)),
        np.where(refills.thetas == NOTHING, NO_THRESHOLD, refills.thetas),
    )
    return _dealt(spread, *place(spread, ordered(spread, wishes)).holders)


def deal_messages(spread: Spread, messages: Messages) -> Dealt:
    """Which finders must see messages."""
    return _dealt(spread, *route_messages(spread, messages.terms.starts, messages.terms.hashes))


def _dealt(spread: Spread, things: Int32s, workers: Int32s) -> Dealt:
    order = np.argsort(workers, kind="stable")
    edges = np.searchsorted(workers[order], np.arange(spread.workers + 1))
    return [np.sort(things[order[a:b]]).astype(np.int64) for a, b in zip(edges, edges[1:], strict=False)]
