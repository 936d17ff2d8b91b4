"""Workload `small`: as `tweets`, with tiny regions.

The messages and terms are those of AP-Tree (ICDE 2015), section V-A. The sides of a region are
0.05 % to 0.5 % of the space's, where the paper's regions have 1 % to 10 %: what a person calls
nearby, and what favours indexes that cut space finely.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from nearcast_lab.workloads.base import Corpus, Event, Share, Workload, WorkloadRequest, ordered
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.tweets import KeywordOptions, subscriptions_around


class SmallOptions(KeywordOptions, frozen=True):
    """Options of `small`: the region's side as a share of the space's side, drawn uniformly."""

    min_side: Share = 0.0005
    max_side: Share = 0.005


def _events(request: WorkloadRequest, options: SmallOptions) -> Iterator[Event]:
    ordered("side", options.min_side, options.max_side)
    corpus = Corpus(request.seed, options)
    sides = Draws(request.seed, "side")

    def subscriptions(numbers: Ints) -> list[Event]:
        shares = sides.uniform(numbers, options.min_side, options.max_side)
        return subscriptions_around(corpus, options, numbers, shares)

    chunks = corpus.chunks(0, request.subscriptions)
    return chain(
        chain.from_iterable(map(subscriptions, chunks)), corpus.publishes(0, request.messages)
    )


SMALL = Workload(
    name="small",
    description="as tweets, with tiny boxes: sides of 0.05-0.5 % of the space's",
    paper="AP-Tree (ICDE 2015), section V-A, with smaller regions",
    options=SmallOptions,
    events=_events,
)
