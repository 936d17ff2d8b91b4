"""How steep an ordinary message may be: what longer prefixes cost against what all workers cost.

The lower the limit, the shorter are prefixes, and the more messages go to all workers. Both are
taken as shares: of the copies that whole queries would have, and of the workers that there are. A
copy counts twice, because it is kept, and told every new threshold. The limit with the least sum is
chosen, of those by which some usual shares of the sampled messages are steep. Terms are thought to
be dealt out evenly.
"""

from __future__ import annotations

from math import inf

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.topk import kernels
from nearcast.partition.topk.placing import TopkQueries

SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2)
"""Of sampled messages that may be steep."""
_COPY = 2.0
_UNWEIGHED = 0.04
"""By how many of all workers a message may go to more where no threshold is known yet."""


def limit_for(share: float, steepness: Floats) -> float:
    """Give the limit above which at most such a share of messages is; infinity for no share."""
    said = steepness[steepness > 0.0]  # the others have no terms, and go nowhere
    if share <= 0.0 or not len(said):
        return inf
    return float(np.quantile(said, 1.0 - share, method="higher"))


def choose_limit(wishes: TopkQueries, starts: Int64s, steepness: Floats, ways: int) -> float:
    """Choose the limit for ordered subscriptions and messages, with terms dealt out in `ways`."""
    if not wishes.size or not len(steepness):
        return inf
    sent = _parts(np.diff(starts), ways) / ways
    if not (wishes.thetas > 0.0).any():
        most = SHARES[-1]
        share = most if most * (1.0 - sent) <= _UNWEIGHED else _UNWEIGHED / (1.0 - sent)
        return limit_for(share, steepness)
    whole = _parts(np.diff(wishes.starts), ways)
    best, least = inf, inf
    for share in SHARES:
        limit = limit_for(share, steepness)
        lengths = kernels.prefix_lengths(
            False, limit, wishes.starts, wishes.weights, wishes.alphas, wishes.thetas
        )
        steep = float((steepness > limit).mean())
        cost = _COPY * _parts(lengths, ways) / whole + steep * (1.0 - sent)
        if cost < least:
            best, least = limit, cost
    return best


def _parts(counts: Int32s | Int64s, ways: int) -> float:
    """Into how many of so many parts that many terms fall, on average."""
    return float((ways * (1.0 - (1.0 - 1.0 / ways) ** counts)).mean())
