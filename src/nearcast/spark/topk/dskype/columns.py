"""What stages send to each other: flat arrays in named tuples.

A term is identified by 64 bits of hash. The terms of a text are in alphabetical order, because sums
run in that order; `idf` has the weight of each, or is empty if every term weighs 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast._jit import kernel
from nearcast.arrays.slots import hash_strings
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.text.columns import Hashes, buffers


class Terms(NamedTuple):
    """The terms of texts: of text i `hashes[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    hashes: Hashes
    idf: Floats

    def of(self, which: Int64s | Int32s) -> Terms:
        """Those of some of the texts."""
        starts, places = picked(self.starts, which)
        return Terms(starts, self.hashes[places], self.idf[places] if len(self.idf) else self.idf)


class WindowMessages(NamedTuple):
    """Messages of the window, oldest first."""

    numbers: Int64s
    points: Floats
    terms: Terms
    counts: Int32s  # how often each term occurs

    def of(self, which: Int64s | Int32s) -> WindowMessages:
        """Some of them."""
        _, places = picked(self.terms.starts, which)
        return WindowMessages(
            self.numbers[which], self.points[which], self.terms.of(which), self.counts[places]
        )


class SubscriptionVersions(NamedTuple):
    """Versions of subscriptions; all versions of one have the same id, each its own owner."""

    owners: Int32s
    ids: pa.Array
    points: Floats
    alphas: Floats
    ks: Int32s
    terms: Terms

    def of(self, which: Int64s | Int32s) -> SubscriptionVersions:
        """Some of them."""
        return SubscriptionVersions(
            self.owners[which], self.ids.take(pa.array(which)), self.points[which],
            self.alphas[which], self.ks[which], self.terms.of(which),
        )  # fmt: skip

    @property
    def keys(self) -> Hashes:
        """Hashes of their ids."""
        hashes = np.empty((len(self.ids), 2), np.uint64)
        hash_strings(*buffers(self.ids), hashes)
        return hashes[:, 0].copy()


class ReachedPairs(NamedTuple):
    """Pairs of a subscription and a message that reaches its threshold, with scores."""

    owners: Int32s
    numbers: Int64s
    scores: Floats


class Requests(NamedTuple):
    """Versions to evaluate, each from event `since` to before event `until`.

    The requests of one subscription are consecutive. `before` has the numbers of the k best of each
    before `since`; with the flag `CONTINUES` they follow from the preceding request instead.
    """

    wanted: SubscriptionVersions
    since: Int32s
    until: Int32s
    flags: Bytes
    before_starts: Int64s
    before: Int64s


class Replies(NamedTuple):
    """Messages that may matter to requests: of request i `numbers[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    numbers: Int64s
    scores: Floats


class Refills(NamedTuple):
    """Fresh buffers, each with all messages of the window that reach its threshold, by age."""

    wanted: SubscriptionVersions
    thetas: Floats
    starts: Int64s
    numbers: Int64s
    scores: Floats

    def of(self, which: Int64s | Int32s) -> Refills:
        """Some of them."""
        starts, places = picked(self.starts, which)
        return Refills(
            self.wanted.of(which), self.thetas[which], starts, self.numbers[places],
            self.scores[places],
        )  # fmt: skip

    def without_messages(self, which: Int64s | Int32s) -> Refills:
        """Some of them, without messages, which finders do not need."""
        none = np.zeros(len(which) + 1, np.int64)
        return Refills(
            self.wanted.of(which), self.thetas[which], none, self.numbers[:0], self.scores[:0]
        )


class Updates(NamedTuple):
    """Changes of results; a score below 0 means that the message left them."""

    seq: Int64s
    owners: Int32s
    numbers: Int64s
    scores: Floats


def picked(starts: Int64s, which: Int64s | Int32s) -> tuple[Int64s, Int64s]:
    """Starts for a selection of lists, and the places of their entries."""
    sizes = np.diff(starts)[which]
    fresh = starts_of(sizes)
    return fresh, np.repeat(starts[:-1][which] - fresh[:-1], sizes) + np.arange(fresh[-1])


def starts_of(sizes: Int64s | Int32s) -> Int64s:
    """Where lists of these sizes start when concatenated, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def joined_terms(parts: list[Terms]) -> Terms:
    """Concatenate the terms of texts."""
    sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(each.starts) for each in parts)])
    return Terms(
        starts_of(sizes),
        np.concatenate([np.empty(0, np.uint64), *(each.hashes for each in parts)]),
        np.concatenate([np.empty(0), *(each.idf for each in parts)]),
    )


def joined_pairs(parts: list[ReachedPairs]) -> ReachedPairs:
    """Concatenate pairs."""
    return ReachedPairs(
        np.concatenate([np.empty(0, np.int32), *(each.owners for each in parts)]),
        np.concatenate([np.empty(0, np.int64), *(each.numbers for each in parts)]),
        np.concatenate([np.empty(0), *(each.scores for each in parts)]),
    )


def squares(terms: Terms, counts: Int32s) -> Floats:
    """The length of the vector of each text, squared, summed in the order of its terms."""
    found = np.zeros(len(terms.starts) - 1)
    _square(terms.starts, counts, terms.idf, found)
    return found


@kernel
def _square(starts: Int64s, counts: Int32s, idf: Floats, found: Floats) -> None:
    for text in range(len(found)):
        total = 0.0
        for n in range(starts[text], starts[text + 1]):
            weight = counts[n] * (idf[n] if len(idf) else 1.0)
            total += weight * weight
        found[text] = total
