"""A finder: matches messages with its subscriptions, at their thresholds before the step.

It is the matching half of a subscription bolt of DSkype; a buffer shard is the other half, and
decides which results change. A finder does not change while a step is matched. What reaches a
threshold is found with its exact score.
"""

from __future__ import annotations

import numpy as np

from nearcast.arrays.column import Column
from nearcast.arrays.types import Floats, Int32s
from nearcast.spark.topk.dskype import _find
from nearcast.spark.topk.dskype.core_holder import CoreHolder
from nearcast.spark.topk.dskype.messages import ReachedPairs, Refills, WindowMessages
from nearcast.spark.topk.dskype.terms import squares
from nearcast.spark.topk.reading import NO_OWNER, reach


class Finder(CoreHolder):
    """Subscriptions in the lists of their terms, with thresholds."""

    columns = {"sub_of": (np.int32, 0), "owner_of": (np.int32, 0)}  # noqa: RUF012 - never changed

    _sub_of: Column  # by owner
    _owner_of: Column  # by number in the core

    def __len__(self) -> int:
        return int((self._owner_of.array >= 0).sum())

    def forget(self, owners: Int32s) -> None:
        """Remove those of these subscriptions that are here."""
        owners = owners[owners < self._sub_of.size]
        subs = self._sub_of.array[owners]
        owners, subs = owners[subs >= 0], subs[subs >= 0]
        _find.withdraw_all(self.core.state, subs)
        self.core.free(subs)
        self._sub_of.array[owners] = NO_OWNER
        self._owner_of.array[subs] = NO_OWNER

    def take(self, refills: Refills) -> None:
        """Index subscriptions, none of which is here, with their thresholds."""
        wanted = refills.wanted
        if not len(wanted.owners):
            return
        self.numbers.sweep(self.core.unused_terms)
        terms = self.number(wanted.terms)
        subs = self.core.take_numbers(len(wanted.owners))
        reach(self._sub_of, wanted.owners)
        reach(self._owner_of, subs)
        self._sub_of.array[wanted.owners] = subs
        self._owner_of.array[subs] = wanted.owners
        self.core.until_done(
            lambda done: _find.post_all(
                self.core.state, subs, wanted.points, wanted.alphas, refills.thetas,
                wanted.terms.starts, terms, done,
            )
        )  # fmt: skip

    def lift(self, owners: Int32s, thetas: Floats) -> None:
        """Raise the thresholds of those that are here."""
        here = owners < self._sub_of.size
        owners, thetas = owners[here], thetas[here]
        subs = self._sub_of.array[owners]
        _find.raise_all(self.core.state, subs[subs >= 0], thetas[subs >= 0])

    def find(self, messages: WindowMessages) -> ReachedPairs:
        """Find the subscriptions whose thresholds messages reach, with exact scores."""
        known = self.numbers.known(messages.terms, messages.counts)
        incoming = _find.IncomingMessages(
            messages.points, squares(messages.terms, messages.counts), known.starts, known.terms,
            known.counts,
        )  # fmt: skip
        self.core.ensure_longest(int(np.diff(known.starts).max(initial=0)))
        room, done, written = 4 * len(messages.numbers) + 1024, 0, 0
        found = _room_for_matches(room)
        while True:
            done, written = _find.find(
                self.core.state, self.core.work, incoming, found, done, written
            )
            if done == len(messages.numbers):
                break
            room = 2 * room + self.core.subscriptions
            larger = _room_for_matches(room)
            larger.subs[:written] = found.subs[:written]
            larger.messages[:written] = found.messages[:written]
            larger.scores[:written] = found.scores[:written]
            found = larger
        return ReachedPairs(
            self._owner_of.array[found.subs[:written]],
            messages.numbers[found.messages[:written]],
            found.scores[:written],
        )


def _room_for_matches(room: int) -> _find.FoundMatches:
    return _find.FoundMatches(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room))
