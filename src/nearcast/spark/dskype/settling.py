"""Aggregation: the answers of all message workers to a request become updates and a refill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.spark.dskype import _seats, _settle
from nearcast.spark.dskype._walk import BufferChanges
from nearcast.spark.dskype.clock import Timeline
from nearcast.spark.dskype.columns import Refills, Replies, Requests, Updates, starts_of
from nearcast.spark.dskype.home import longer, room_for_changes

_ROOM = 1 << 12
_LARGEST_K = 1000


class Settlement(NamedTuple):
    """What requests came to."""

    updates: Updates
    refills: Refills


def settle(requests: Requests, replies: list[Replies], timeline: Timeline) -> Settlement:
    """Put together what the message workers answered, each to all requests."""
    count = len(requests.since)
    answered = _by_age(replies, count, timeline.was_first)
    asked = _settle.RefillRequests(
        requests.wanted.ks, requests.since, requests.until, requests.flags,
        requests.before_starts, (requests.before - timeline.was_first).astype(np.int32),
    )  # fmt: skip
    settled = _settle.Settled(np.zeros(len(answered.numbers), np.uint8), np.empty(count))
    entries = _seats.room_for(max(_ROOM, int(np.diff(answered.starts).max(initial=0))))
    carried = np.empty(_LARGEST_K, np.int32)
    changes = room_for_changes(2 * len(answered.numbers) + _ROOM)
    done, written = 0, 0
    while True:
        done, written, code = _settle.settle(
            timeline.clock, changes, entries, asked, answered, settled, carried, done, written
        )
        if code == _seats.DONE:
            break
        changes = BufferChanges(*(longer(column, written) for column in changes))
    owners = requests.wanted.owners[changes.subs[:written]]
    updates = Updates(
        timeline.seq[changes.events[:written]], owners,
        changes.numbers[:written] + np.int64(timeline.was_first), changes.scores[:written].copy(),
    )  # fmt: skip
    stays = np.flatnonzero(requests.flags & _settle.STAYS)
    kept = settled.kept != 0
    before = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    refills = Refills(
        requests.wanted.of(stays), settled.thetas[stays],
        starts_of(np.diff(before[answered.starts])[stays]),
        answered.numbers[kept] + np.int64(timeline.was_first), answered.scores[kept],
    )  # fmt: skip
    return Settlement(updates, refills)


def _by_age(replies: list[Replies], count: int, base: int) -> _settle.Answered:
    """All answers to each request by age, each message once."""
    which = np.concatenate(
        [np.empty(0, np.int64), *(np.repeat(np.arange(count), np.diff(r.starts)) for r in replies)]
    )
    numbers = np.concatenate([np.empty(0, np.int64), *(each.numbers for each in replies)])
    scores = np.concatenate([np.empty(0), *(each.scores for each in replies)])
    order = np.lexsort((numbers, which))
    which, numbers, scores = which[order], numbers[order], scores[order]
    fresh = np.ones(len(which), np.bool_)
    fresh[1:] = (which[1:] != which[:-1]) | (numbers[1:] != numbers[:-1])
    which = which[fresh]
    return _settle.Answered(
        np.searchsorted(which, np.arange(count + 1)).astype(np.int64),
        (numbers[fresh] - base).astype(np.int32),
        scores[fresh],
    )
