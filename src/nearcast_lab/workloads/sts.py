"""Workloads `sts-q1`, `sts-q2`, `sts-q3`: messages while subscriptions come and go.

The defaults are those of PS2Stream, section VI-A and VI-C: subscriptions of 1 to 3 keywords joined
by AND or by OR, and a square around the place of a message of the United States.

- Q1: sides of 1 to 50 km; keywords as frequent as in the messages.
- Q2: sides of 1 to 100 km; at least one keyword outside the 1 % most frequent terms.
- Q3: the space is cut into 100 equal regions, each of which follows Q1 or Q2. After every
  `switch_every` subscriptions (10 M in the paper's section VI-D), a tenth of the regions changes
  sides.

With `local` above 0 the words of a message depend on its place, and with `foreign` above 0
subscriptions of some regions ask in words of another one (`dialects`): where messages and
subscriptions have little in common, algorithm 1 of PS2Stream splits by text.

First the target population subscribes; then come 5 messages to 1 change of the population.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nearcast.arrays.types import Floats
from nearcast_lab.workloads.base import (
    Corpus,
    Count,
    Event,
    Positive,
    Share,
    Workload,
    WorkloadOptions,
    WorkloadRequest,
    subscribed,
)
from nearcast_lab.workloads.corpus import Ragged
from nearcast_lab.workloads.dialects import DialectCorpus, regions_of
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.population import changes
from nearcast_lab.workloads.space import square_boxes
from nearcast_lab.workloads.zipf import ranks_of

_GRID = 10
_MIN_KM, _Q1_KM, _Q2_KM = 1.0, 50.0, 100.0

Group = Literal["q1", "q2", "q3"]


class StsOptions(WorkloadOptions, frozen=True):
    """Options of the `sts` workloads.

    - `ratio`: messages to one insertion or deletion;
    - `max_keywords`: a subscription has 1 to this many terms;
    - `frequent`: the share of the vocabulary that counts as frequent, for Q2;
    - `local`, `foreign`: the shares of terms that depend on place, and of regions whose
      subscriptions ask in the words of another region;
    - `switch_every`, `switch_share`: Q3 changes this share of its regions every
      `switch_every` subscriptions.
    """

    space: str = "us"
    ratio: Positive = 5.0
    max_keywords: Count = 3
    frequent: Share = 0.01
    local: Share = 0.0
    foreign: Share = 0.0
    switch_every: Count = 10_000_000
    switch_share: Share = 0.1


def sts_corpus(seed: int, options: StsOptions) -> Corpus:
    """Make the messages that the options describe."""
    if options.local == 0.0:
        return Corpus(seed, options)
    return DialectCorpus(seed, options, options.local, options.foreign)


class StsSubscriptions:
    """The subscriptions of one group, by number."""

    def __init__(self, group: Group, corpus: Corpus, options: StsOptions) -> None:
        self._group = group
        self._corpus = corpus
        self._options = options
        self._frequent = int(options.frequent * options.vocabulary)
        seed = corpus.seed
        self._count = Draws(seed, "keyword count")
        self._side = Draws(seed, "side")
        self._joint = Draws(seed, "joint")
        self._tail = Draws(seed, "rare keyword")
        self._region = Draws(seed, "region group")
        self._switch = Draws(seed, "region switch")
        self._regions_of = cache(self._regions)

    def events(self, numbers: Ints) -> list[Event]:
        """Write the subscriptions as events."""
        boxes, keywords, either = self.drawn(numbers)
        phrases = self._corpus.words.phrases(*keywords)
        queries = [
            phrase.replace(" ", " OR " if or_ else " AND ")
            for phrase, or_ in zip(phrases, either.tolist(), strict=True)
        ]
        return subscribed(numbers, queries, boxes)

    def drawn(self, numbers: Ints) -> tuple[Floats, Ragged, NDArray[np.bool_]]:
        """Give the boxes, the terms, and which subscriptions join theirs by OR."""
        corpus = self._corpus
        sources = corpus.sources(numbers)
        points = corpus.cities.points(sources)
        second = self._follows_q2(numbers, points)
        wanted = self._count.integers(numbers, 1, self._options.max_keywords)
        keywords = corpus.keywords(numbers, sources, wanted)
        self._make_rare(numbers[second], keywords, second)
        reach = np.where(second, _Q2_KM, _Q1_KM) - _MIN_KM
        boxes = square_boxes(points, _MIN_KM + self._side.uniform(numbers) * reach)
        return boxes, keywords, self._joint.integers(numbers, 0, 1) == 1

    def _make_rare(self, numbers: Ints, keywords: Ragged, chosen: NDArray[np.bool_]) -> None:
        """Give each chosen row a rare last term, if all its terms are frequent."""
        weights = self._corpus.weights
        if not len(numbers) or not 0 < self._frequent < len(weights):
            return
        rarest = np.maximum.reduceat(keywords.values, keywords.offsets[:-1])[chosen]
        common = rarest < self._frequent
        below = weights[self._frequent - 1] / weights[-1]
        unit = self._tail.uniform(numbers[common], below, 1.0)
        rare = np.maximum(ranks_of(weights, unit), self._frequent)
        keywords.values[keywords.offsets[1:][chosen][common] - 1] = rare

    def _follows_q2(self, numbers: Ints, points: Floats) -> NDArray[np.bool_]:
        """Say which subscriptions follow Q2: by group, and for Q3 by region and number."""
        if self._group != "q3":
            return np.full(len(numbers), self._group == "q2")
        cell = regions_of(self._corpus.space, points, _GRID)
        second = np.empty(len(numbers), dtype=np.bool_)
        epochs = numbers // self._options.switch_every
        for epoch in np.unique(epochs).tolist():
            of_epoch = epochs == epoch
            second[of_epoch] = self._regions_of(epoch)[cell[of_epoch]]
        return second

    def _regions(self, epoch: int) -> NDArray[np.bool_]:
        """Say which regions follow Q2 after this many switches."""
        cells = np.arange(_GRID * _GRID, dtype=np.int64)
        second = self._region.uniform(cells) < 0.5
        switching = round(len(cells) * self._options.switch_share)
        for passed in range(epoch):
            drawn = self._switch.uniform(cells + passed * len(cells))
            second[np.argsort(drawn, kind="stable")[:switching]] ^= True
        return second


def _requests(
    request: WorkloadRequest,
    corpus: Corpus,
    options: StsOptions,
    write: Callable[[Ints], list[Event]],
) -> Iterator[Event]:
    """Yield the insertions and deletions, each with the time of the message before it."""
    total = int(request.messages / options.ratio)
    place = Draws(request.seed, "request place")
    done = 0
    for arrives, number in changes(request.seed, request.subscriptions, total, options.chunk):
        places = np.arange(done, done + len(number), dtype=np.int64)
        done += len(number)
        before = ((places + place.uniform(places)) * options.ratio).astype(np.int64) - 1
        times = corpus.clock.times(np.maximum(before, 0))
        times[before < 0] = corpus.clock.start
        newcomers = iter(write(number[arrives]))
        for number_, arrives_, at in zip(
            number.tolist(), arrives.tolist(), times.tolist(), strict=True
        ):
            event = next(newcomers) if arrives_ else {"op": "unsubscribe", "id": f"s{number_ + 1}"}
            event["at"] = at
            yield event


def _events(group: Group, request: WorkloadRequest, options: StsOptions) -> Iterator[Event]:
    corpus = sts_corpus(request.seed, options)
    write = StsSubscriptions(group, corpus, options).events
    first = chain.from_iterable(map(write, corpus.chunks(0, request.subscriptions)))
    stream = heapq.merge(
        corpus.publishes(0, request.messages),
        _requests(request, corpus, options, write),
        key=itemgetter("at"),
    )
    return chain(first, stream)


def _workload(group: Group, description: str) -> Workload:
    return Workload(
        name=f"sts-{group}",
        description=description,
        paper="PS2Stream (ICDE 2017), section VI-A",
        options=StsOptions,
        events=partial(_events, group),
    )


STS_Q1 = _workload("q1", "subscriptions come and go; frequent keywords, squares of 1-50 km")
STS_Q2 = _workload("q2", "subscriptions come and go; a rarer keyword each, squares of 1-100 km")
STS_Q3 = _workload("q3", "subscriptions come and go; Q1 or Q2 by region of the map")
