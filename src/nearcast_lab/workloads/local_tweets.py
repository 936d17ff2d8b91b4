"""Workload `local-tweets`: messages around cities whose words depend on where they are.

Each word of a message is one of three kinds. A *local name* belongs to the cell that the message is
in, on one of several grids: names of small cells are known in one town, those of large ones in a
country. A *topic* word belongs to the topic of the message, and cells prefer different topics. The
others are drawn by Zipf's law, the same everywhere, as all words of `tweets` are. A local name or
topic word is any word of the vocabulary: frequent in its cells and rare elsewhere.

The shares of names and the sides of grids are fitted to 687,000 place names of GeoNames, by the
words that two cells of one degree have in common (`locality_of`, a hundred messages a cell):

| | frequent in | 1 degree | 2 | 4 | 8 | 16 | 32 | 64 |
|---|---|---|---|---|---|---|---|---|
| place names | 2.7 cells | 0.35 | 0.27 | 0.21 | 0.14 | 0.09 | 0.02 | 0.02 |
| `local-tweets` | 3.0 cells | 0.36 | 0.27 | 0.20 | 0.16 | 0.09 | 0.07 | 0.06 |
| `tweets` | 55 cells | 0.29 | 0.29 | 0.29 | 0.29 | 0.29 | 0.29 | 0.29 |

"Frequent in" is the number of cells in which one message in twenty has a term, of the terms that
are as frequent in some cell. The made-up ones are 300,000 messages around 3,000 cities. There is
no such figure of real tweets here: their words depend less on place than names do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats
from nearcast_lab.workloads.arrays import ArrayOptions, CityArrays
from nearcast_lab.workloads.base import Corpus, Count, Share, WorkloadOptions
from nearcast_lab.workloads.corpus import Ragged
from nearcast_lab.workloads.draws import STEP, Ints, as_unit, mixed, stream_key
from nearcast_lab.workloads.zipf import cumulative_weights

SIDES = (3.0, 10.0, 36.0)
"""Sides of the grids of names, in degrees of the world; in a smaller space they shrink with it."""
_DECAY = (0.55, 0.30, 0.15)  # the shares of local names that belong to each grid
_TOPIC_SIDE = 10.0
_MANY_TRIES = 64
_SAMPLE = 200_000  # messages that frequencies are counted in
_WORDS = (
    "space", "cities", "countryside", "vocabulary", "exponent", "shift", "local", "topical",
    "names", "topics", "topic_words",
)  # fmt: skip
"""Options that say which words there are, and where."""


class LocalTweetsOptions(ArrayOptions, frozen=True):
    """Options of `local-tweets` besides those of `tweets`.

    - `local`, `topical`: the shares of words that are local names, and topic words;
    - `names`: the local names of a cell;
    - `topics`, `topic_words`: how many topics there are, and the words of each.
    """

    local: Share = 0.65
    topical: Share = 0.1
    names: Count = 150
    topics: Count = 300
    topic_words: Count = 300


@kernel
def _found(cumulative: Floats, unit: float) -> int:
    """Turn a number of [0, 1) into a rank."""
    wanted = unit * cumulative[-1]
    low, high = 0, len(cumulative) - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _cell(point: Floats, side: float) -> int:
    """Number the cells of a grid over the world."""
    column, line = int(point[0] / side), int(point[1] / side)
    return (int(side) << 40) + (line << 20) + column


@kernel
def _draw(
    key: Any, numbers: Ints, offsets: Ints, points: Floats, shares: Floats, sides: Floats,
    words: Floats, names: Floats, topics: Floats, topic_words: Floats, seen: Any, out: Ints,
) -> None:  # fmt: skip
    """Draw the terms of messages.

    `points` are degrees from the lower left corner of the space, as if it were the world. `shares`
    sums up the shares of topic words and of the names of each grid; what is left is drawn
    from all `words`. `names`, `topics` and `topic_words` are cumulative weights, too.
    """
    size = np.uint64(len(words))
    for row in range(len(numbers)):
        state = mixed(np.uint64(numbers[row]) * STEP + key)
        # The topic of the message: cells have them in different orders.
        state += STEP
        preferred = np.uint64(_found(topics, as_unit(mixed(state))))
        where = mixed(np.uint64(_cell(points[row], sides[len(sides) - 1])) * STEP + key)
        topic = (where + preferred * np.uint64(7919)) % np.uint64(len(topics))
        for slot in range(offsets[row], offsets[row + 1]):
            tries = 0
            while True:
                state += STEP
                kind = as_unit(mixed(state))
                state += STEP
                unit = as_unit(mixed(state))
                if kind >= shares[-1]:
                    term = _found(words, unit)
                elif kind < shares[0]:
                    base = mixed(topic + np.uint64(1) + key)
                    rank = np.uint64(_found(topic_words, unit))
                    term = int(np.int64(mixed(base + rank * STEP) % size))
                else:
                    grid = 0
                    while kind >= shares[grid + 1]:
                        grid += 1
                    base = mixed(np.uint64(_cell(points[row], sides[grid])) * STEP + ~key)
                    rank = np.uint64(_found(names, unit))
                    term = int(np.int64(mixed(base + rank * STEP) % size))
                if seen[term] != row:
                    break
                tries += 1
                if tries == _MANY_TRIES:
                    while seen[term] == row:
                        term = (term + 1) % len(words)
                    break
            seen[term] = row
            out[slot] = term


class LocalCorpus(Corpus):
    """Messages by number, whose terms depend on their place."""

    def __init__(self, seed: int, options: WorkloadOptions, local: LocalTweetsOptions) -> None:
        super().__init__(seed, options)
        shares = [local.topical, *(local.local * share for share in _DECAY)]
        self._shares = np.minimum(np.cumsum(shares), 1.0)
        self._names = cumulative_weights(local.names)
        self._topics = cumulative_weights(local.topics)
        self._topic_words = cumulative_weights(local.topic_words)
        self.labels: Ints | None = None
        """By term: another number for it."""

    def terms(self, numbers: Ints) -> Ragged:
        """Give the different terms of each message."""
        lengths = self._length.integers(numbers, self._shortest, self._longest)
        offsets = starts_of(lengths)
        out = np.empty(offsets[-1], np.int64)
        seen = np.full(len(self.weights), -1, np.int32)
        space, points = self.space, self.cities.points(numbers)
        points = (points - (space.west, space.south)) / (space.width, space.height) * (360.0, 180.0)
        _draw(
            stream_key(self.seed, "local terms"), numbers, offsets, points,
            self._shares, np.array([*SIDES, _TOPIC_SIDE]), self.weights, self._names, self._topics,
            self._topic_words, seen, out,
        )  # fmt: skip
        return Ragged(out if self.labels is None else self.labels[out], offsets)


@lru_cache(maxsize=4)
def _counted(seed: int, options: LocalTweetsOptions) -> tuple[Ints, Ints]:
    """Number terms by how frequent they are in a sample of messages; give that, in order, too."""
    corpus = LocalCorpus(seed, options, options)
    sample = corpus.terms(np.arange(_SAMPLE, dtype=np.int64) + (1 << 40))
    counted = np.bincount(sample.values, minlength=options.vocabulary)
    order = np.argsort(-counted, kind="stable")
    labels = np.empty(options.vocabulary, np.int64)
    labels[order] = np.arange(options.vocabulary)
    return labels, counted[order].astype(np.int64) * 1000 + 1


class LocalArrays(CityArrays):
    """`CityArrays` with words that depend on places; frequencies are counted in a sample."""

    _messages: LocalCorpus
    _sources: LocalCorpus

    def __init__(self, seed: int, options: LocalTweetsOptions) -> None:
        self._local = options
        super().__init__(seed, options)
        # Messages of other lengths or sizes have the same words, under the same numbers.
        told = LocalTweetsOptions(**{name: getattr(options, name) for name in _WORDS})
        labels, self.frequency = _counted(seed, told)
        self._messages.labels = self._sources.labels = labels

    def _corpus(self, options: WorkloadOptions) -> LocalCorpus:
        return LocalCorpus(self._seed, options, self._local)
