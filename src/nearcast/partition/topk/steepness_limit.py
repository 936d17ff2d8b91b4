"""The limit of steepness: up to which steepness prefixes take messages into account.

The lower the limit, the shorter are prefixes, and the more messages go to all workers. Both costs
are taken as shares: of the copies that whole queries would have, and of the workers that there are.
A copy counts twice, because it is kept, and gets every new threshold. Candidates for the limit are
those by which some usual shares of the sampled messages are steep; the one with the least sum is
chosen. Terms are thought to be dealt out evenly.
"""

from __future__ import annotations

from math import inf

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.topk import kernels
from nearcast.partition.topk.placing import TopkQueries

SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2)
"""Shares of the sampled messages that may be steep."""
_COPY = 2.0
_UNWEIGHED = 0.04
"""Share of all workers that a message may go to in addition, while no threshold is known."""


def limit_for(share: float, steepness: Floats) -> float:
    """Give the limit above which at most this share of messages is; infinity for no share."""
    some = steepness[steepness > 0.0]  # the others have no terms, and go nowhere
    if share <= 0.0 or not len(some):
        return inf
    return float(np.quantile(some, 1.0 - share, method="higher"))


def choose_limit(queries: TopkQueries, starts: Int64s, steepness: Floats, ways: int) -> float:
    """Choose the limit for ordered subscriptions and messages, with terms dealt out in `ways`."""
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
