"""Re-evaluation requests of a buffer shard: for versions that are parked, and those that begin.

The versions of one subscription in a step form a chain: a move ends one and begins the next, which
starts with the results of the one before. If the first still had its seat until then, its results
are known in the shard; otherwise aggregation finds them, one version after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.lists import picked
from nearcast.arrays.types import Int32s
from nearcast.spark.topk.dskype._aggregate import CONTINUES, SILENT, STAYS
from nearcast.spark.topk.dskype.buffer_shard import BufferShard, BufferStepResult, ReleasedVersions
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.messages import ReachedPairs, Requests, Wanted
from nearcast.spark.topk.dskype.terms import joined_terms
from nearcast.spark.topk.reading import RankedSubscriptions


class Operations(NamedTuple):
    """Versions that begin and end in a step, and with which events."""

    begun: Wanted
    begun_events: Int32s
    was: Int32s  # by version that begins: the one that ends with the same event, or -1
    ended: Int32s
    ended_events: Int32s


def take_step(
    shard: BufferShard, timeline: Timeline, pairs: ReachedPairs, operations: Operations
) -> tuple[BufferStepResult, Requests]:
    """Take a shard through a step; return what changed, and what must be evaluated.

    The caller lets the shard forget the ended versions afterwards.
    """
    taken = shard.step(timeline, pairs, operations.ended, operations.ended_events)
    requests = _requests(shard, taken.released, operations, len(timeline))
    return taken, requests


def _requests(
    shard: BufferShard, released: ReleasedVersions, operations: Operations, events: int
) -> Requests:
    begun, was = operations.begun, operations.was
    ends = dict(zip(operations.ended.tolist(), operations.ended_events.tolist(), strict=True))
    owners_released = released.owners.tolist()
    last = np.array([ends.get(owner, events) for owner in owners_released], np.int32)
    parked = np.flatnonzero(released.events < last)
    until = [ends.get(owner, events) for owner in begun.owners.tolist()]
    # The results before are known of versions that had their seats until they ended.
    seated = {
        owner: place
        for place, owner in enumerate(owners_released)
        if released.events[place] == last[place]
    }
    source = np.array([seated.get(owner, -1) for owner in was.tolist()], np.int64)
    roots: dict[int, int] = {}
    for owner, before in zip(begun.owners.tolist(), was.tolist(), strict=True):
        roots[owner] = owner if before < 0 else roots.get(before, before)
    owners = released.owners[parked]
    root = np.concatenate([owners, np.array([*roots.values()], np.int32)])
    since = np.concatenate([released.events[parked], operations.begun_events])
    order = np.lexsort((since, root))
    all_until = np.concatenate([last[parked], np.array(until, np.int32)])[order]
    flags = np.zeros(len(order), np.uint8)
    flags[len(parked) :][(was >= 0) & (source < 0)] = CONTINUES
    flags = flags[order] | np.where(all_until == events, STAYS, 0).astype(np.uint8)
    # An empty list follows all others, for versions that had no results before.
    starts = np.append(released.starts, released.starts[-1])
    lists = np.concatenate([parked, np.where(source < 0, len(owners_released), source)])[order]
    before_starts, places = picked(starts, lists)
    # A version that was parked scores as before: only one that begins can change a score.
    scores = released.scores[places]
    scores[np.repeat((order < len(parked)), np.diff(before_starts))] = np.nan
    return Requests(
        _joined(shard.wanted(owners), begun).of(order),
        since[order],
        all_until,
        flags,
        before_starts,
        released.numbers[places],
        scores,
    )


def buffer_requests(wanted: Wanted) -> Requests:
    """Silent requests that only rebuild buffers, at the one event of a moment."""
    count = len(wanted.owners)
    return Requests(
        wanted,
        np.zeros(count, np.int32),
        np.ones(count, np.int32),
        np.full(count, SILENT | STAYS, np.uint8),
        np.zeros(count + 1, np.int64),
        np.empty(0, np.int64),
        np.empty(0),
    )


def _joined(one: Wanted, other: Wanted) -> Wanted:
    return RankedSubscriptions(
        np.concatenate([one.owners, other.owners]),
        pa.concat_arrays([one.ids.cast(pa.large_string()), other.ids.cast(pa.large_string())]),
        np.concatenate([one.points, other.points]),
        np.concatenate([one.alphas, other.alphas]),
        np.concatenate([one.ks, other.ks]),
        joined_terms([one.terms, other.terms]),
    )
