"""Which requests a home makes of a step: for those that are parked, and those that begin.

The versions of one subscription in a step make a chain: a move ends one and begins the next, whose
results before it are those of the other. Where the first of them still sat in its home, its results
are known there; otherwise aggregation finds them one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int32s
from nearcast.spark.dskype._settle import CONTINUES, SILENT, STAYS
from nearcast.spark.dskype.clock import Timeline
from nearcast.spark.dskype.columns import (
    ReachedPairs,
    Requests,
    SubscriptionVersions,
    joined_terms,
    picked,
)
from nearcast.spark.dskype.home import Home, Leaving, Taken


class Operations(NamedTuple):
    """What begins and ends in a step: versions, with which events."""

    begun: SubscriptionVersions
    begun_events: Int32s
    was: Int32s  # by version that begins: the one that ends with the same event, or -1
    ended: Int32s
    ended_events: Int32s


def lead(
    home: Home, timeline: Timeline, pairs: ReachedPairs, operations: Operations
) -> tuple[Taken, Requests]:
    """Lead a home through a step; give what it came to, and what must be evaluated.

    It is to forget what has ended after that.
    """
    taken = home.step(timeline, pairs, operations.ended, operations.ended_events)
    requests = _requests(home, taken.leaving, operations, len(timeline))
    return taken, requests


def _requests(home: Home, leaving: Leaving, operations: Operations, events: int) -> Requests:
    begun, was = operations.begun, operations.was
    ends = dict(zip(operations.ended.tolist(), operations.ended_events.tolist(), strict=True))
    left = leaving.owners.tolist()
    last = np.array([ends.get(owner, events) for owner in left], np.int32)
    parked = np.flatnonzero(leaving.events < last)
    until = [ends.get(owner, events) for owner in begun.owners.tolist()]
    # Whose results before are known: those that sat in their seats until the event.
    sat = {owner: place for place, owner in enumerate(left) if leaving.events[place] == last[place]}
    source = np.array([sat.get(owner, -1) for owner in was.tolist()], np.int64)
    roots: dict[int, int] = {}
    for owner, before in zip(begun.owners.tolist(), was.tolist(), strict=True):
        roots[owner] = owner if before < 0 else roots.get(before, before)
    owners = leaving.owners[parked]
    root = np.concatenate([owners, np.array([*roots.values()], np.int32)])
    since = np.concatenate([leaving.events[parked], operations.begun_events])
    order = np.lexsort((since, root))
    all_until = np.concatenate([last[parked], np.array(until, np.int32)])[order]
    flags = np.zeros(len(order), np.uint8)
    flags[len(parked) :][(was >= 0) & (source < 0)] = CONTINUES
    flags = flags[order] | np.where(all_until == events, STAYS, 0).astype(np.uint8)
    # A list of nobody stands behind all others, for those that had nothing before.
    starts = np.append(leaving.starts, leaving.starts[-1])
    lists = np.concatenate([parked, np.where(source < 0, len(left), source)])[order]
    before_starts, places = picked(starts, lists)
    return Requests(
        _joined(home.wanted(owners), begun).of(order),
        since[order],
        all_until,
        flags,
        before_starts,
        leaving.numbers[places],
    )


def silently(wanted: SubscriptionVersions) -> Requests:
    """Requests for buffers alone, at the one event of a moment."""
    count = len(wanted.owners)
    return Requests(
        wanted,
        np.zeros(count, np.int32),
        np.ones(count, np.int32),
        np.full(count, SILENT | STAYS, np.uint8),
        np.zeros(count + 1, np.int64),
        np.empty(0, np.int64),
    )


def _joined(one: SubscriptionVersions, other: SubscriptionVersions) -> SubscriptionVersions:
    return SubscriptionVersions(
        np.concatenate([one.owners, other.owners]),
        pa.concat_arrays([one.ids.cast(pa.large_string()), other.ids.cast(pa.large_string())]),
        np.concatenate([one.points, other.points]),
        np.concatenate([one.alphas, other.alphas]),
        np.concatenate([one.ks, other.ks]),
        joined_terms([one.terms, other.terms]),
    )
