"""Aggregation: turns the answers of all message workers to requests into updates and refills."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.lists import starts_of
from nearcast.spark.topk.dskype import _aggregate, _seats
from nearcast.spark.topk.dskype._walk import BufferChanges
from nearcast.spark.topk.dskype.buffer_shard import longer, room_for_changes
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.messages import Refills, Replies, Requests
from nearcast.spark.topk.updates import RankedUpdates

_ROOM = 1 << 12
_LARGEST_K = 1000


class AggregatedStep(NamedTuple):
    """The updates of requests, and the fresh buffers."""

    updates: RankedUpdates
    refills: Refills


def aggregate(requests: Requests, replies: list[Replies], timeline: Timeline) -> AggregatedStep:
    """Aggregate `replies`, one of each message worker, to all requests."""
    count = len(requests.since)
    answers = _by_age(replies, count, timeline.was_first)
    kernel_requests = _aggregate.RefillRequests(
        requests.wanted.ks, requests.since, requests.until, requests.flags,
        requests.before_starts, (requests.before - timeline.was_first).astype(np.int32),
        requests.before_scores,
    )  # fmt: skip
    selection = _aggregate.RefillSelection(
        np.zeros(len(answers.numbers), np.uint8), np.empty(count)
    )
    entries = _seats.room_for(max(_ROOM, int(np.diff(answers.starts).max(initial=0))))
    carried = _aggregate.CarriedResults(np.empty(_LARGEST_K, np.int32), np.empty(_LARGEST_K))
    changes = room_for_changes(2 * len(answers.numbers) + _ROOM)
    done, written = 0, 0
    while True:
        done, written, code = _aggregate.aggregate(
            timeline.clock,
            changes,
            entries,
            kernel_requests,
            answers,
            selection,
            carried,
            done,
            written,
        )
        if code == _seats.DONE:
            break
        changes = BufferChanges(*(longer(column, written) for column in changes))
    owners = requests.wanted.owners[changes.subs[:written]]
    updates = RankedUpdates(
        timeline.seq[changes.events[:written]], owners,
        changes.numbers[:written] + np.int64(timeline.was_first), changes.scores[:written].copy(),
    )  # fmt: skip
    stays = np.flatnonzero(requests.flags & _aggregate.STAYS)
    kept = selection.kept != 0
    refills = Refills(
        requests.wanted.of(stays), selection.thetas[stays],
        starts_of(np.diff(starts_of(kept)[answers.starts])[stays]),
        answers.numbers[kept] + np.int64(timeline.was_first), answers.scores[kept],
    )  # fmt: skip
    return AggregatedStep(updates, refills)


def _by_age(replies: list[Replies], count: int, base: int) -> _aggregate.RequestAnswers:
    """All answers to each request, oldest message first, each message once."""
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
    return _aggregate.RequestAnswers(
        np.searchsorted(which, np.arange(count + 1)).astype(np.int64),
        (numbers[fresh] - base).astype(np.int32),
        scores[fresh],
    )
