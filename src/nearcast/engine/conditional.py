"""Top-k subscriptions with conditions that the core does not know: a filter, or a region.

A core matches them like all others, by terms, place and threshold; then the condition decides, in
plain code. So only messages that could be results are looked at. When too few are known, the window
is searched, deeper and deeper, until enough satisfy the condition.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Set
from functools import partial
from math import nan

import numpy as np

from nearcast.arrays.slots import secret_words
from nearcast.arrays.types import Floats, Int64s
from nearcast.engine.matching import ArrivedMessage, BooleanSubscription
from nearcast.engine.ranked_changes import changes_of
from nearcast.engine.settings import Settings
from nearcast.events import Subscription
from nearcast.events.fields import ADD, REMOVE
from nearcast.text import idf_of
from nearcast.topk.core import TopK, TopkChanges
from nearcast.topk.kernels.layout import NOTHING
from nearcast.topk.terms import TermNumbers

Rank = tuple[float, int]  # -score and -number of a message: the best has the least
Search = Callable[[int], tuple[Int64s, Floats]]  # how many -> the best of the window, best first


class ConditionalRanking:
    """The best messages that one subscription wants, as far down as they are known.

    `search` gives the best of the window whatever the condition, `arrived` one of its messages.
    """

    def __init__(
        self,
        subscription: Subscription,
        wanted: BooleanSubscription | None,
        search: Search,
        arrived: Callable[[int], ArrivedMessage],
    ) -> None:
        top = subscription.top
        assert top is not None  # noqa: S101 - by kind
        self.subscription = subscription
        self._wanted = wanted
        self._search, self._arrived = search, arrived
        self._k, self._least = top.k, NOTHING if top.min_score is None else top.min_score
        self._ranks: list[Rank] = []
        self._last: Rank | None = None  # all up to this one are known; None if all there are
        self.reported: dict[int, float] = {}

    @property
    def theta(self) -> float:
        """The score from which on messages are to be offered."""
        return max(self._least, NOTHING if self._last is None else -self._last[0])

    @property
    def is_short(self) -> bool:
        """Whether results may be missing, because known ones have left."""
        if self._last is None or len(self._ranks) >= self._k:
            return False
        return -self._last[0] >= self._least

    def wants(self, arrived: ArrivedMessage) -> bool:
        """Whether a message satisfies the condition."""
        return self._wanted is None or self._wanted.wants(arrived)

    def add(self, number: int, score: float) -> bool:
        """Rank a message that it wants; False if it ranks below all that are to be known."""
        rank = (-score, -number)
        if self._last is not None and rank > self._last:
            return False
        insort(self._ranks, rank)
        if len(self._ranks) > 4 * self._k + 64:
            del self._ranks[2 * self._k + 32 :]
            self._last = self._ranks[-1]
        return True

    def lose(self, number: int) -> None:
        """Forget a message, if it is known."""
        self._ranks = [rank for rank in self._ranks if rank[1] != -number]

    def fill(self) -> list[int]:
        """Search the window again, and return the messages that are known now."""
        self._ranks, self._last = self._find(frozenset())
        return [-negated for _, negated in self._ranks]

    def _find(self, gone: Set[int]) -> tuple[list[Rank], Rank | None]:
        """The best of the window without some, more than k if there are, and the last looked at."""
        ranks: list[Rank] = []
        depth = looked_at = 0
        while True:
            depth = max(4 * depth, 2 * self._k + 32)
            numbers, scores = self._search(depth)
            for number, score in zip(
                numbers[looked_at:].tolist(), scores[looked_at:].tolist(), strict=True
            ):
                if number not in gone and self.wants(self._arrived(number)):
                    ranks.append((-score, -number))
            looked_at = len(numbers)
            if looked_at < depth:
                return ranks, None
            if len(ranks) > self._k or scores[-1] < self._least:
                return ranks, (-float(scores[-1]), -int(numbers[-1]))

    def best(self) -> dict[int, float]:
        """The scores of the results by the number of the message, best first."""
        return {
            -negated: -score for score, negated in self._ranks[: self._k] if -score >= self._least
        }

    def would_rank(self, arrived: ArrivedMessage, score: float, gone: Set[int]) -> bool:
        """Whether the next message, with this score, would be a result without those `gone`."""
        if score < self._least or not self.wants(arrived):
            return False
        ranks = [rank for rank in self._ranks if -rank[1] not in gone]
        if self._last is not None and -self._last[0] > score and len(ranks) < self._k:
            ranks, _ = self._find(gone)
        return sum(-rank[0] > score for rank in ranks) < self._k

    def renumber(self, old: Int64s, first: int) -> None:
        """Let messages with these numbers count from `first` on."""

        def renumbered(number: int) -> int:
            return first + int(np.searchsorted(old, number))

        self._ranks = [(score, -renumbered(-negated)) for score, negated in self._ranks]
        self.reported = {renumbered(number): score for number, score in self.reported.items()}
        if self._last is not None:
            self._last = (self._last[0], -renumbered(-self._last[1]))


class ConditionalRankings:
    """The rankings with conditions, by the number of the subscription.

    A core without messages, `_matcher`, says whose thresholds a message reaches.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rankings: dict[int, ConditionalRanking] = {}
        self._knowing: dict[int, set[int]] = {}  # subscriptions by message; some know it no longer
        self._touched: set[int] = set()
        self._matched_as: dict[int, int] = {}  # the numbers that the matcher has for them
        self._matched: dict[int, int] = {}  # and back
        self._matcher: tuple[TopK, TermNumbers] | None = None

    def __len__(self) -> int:
        return len(self._rankings)

    def __contains__(self, sub: int) -> bool:
        return sub in self._rankings

    def __getitem__(self, sub: int) -> ConditionalRanking:
        return self._rankings[sub]

    def put(self, sub: int, ranking: ConditionalRanking, terms: tuple[str, ...]) -> None:
        """Add a ranking under a number that is free; it finds its results in the window."""
        core, numbers = self._matching()
        numbers.sweep()
        matched = subscribe_to(core, numbers, ranking.subscription, terms, 1)
        self._matched_as[sub], self._matched[matched] = matched, sub
        self._rankings[sub] = ranking
        self._fill(sub)

    def reported(self, sub: int) -> TopkChanges:
        """The results of a ranking as they were last reported."""
        reported = self._rankings[sub].reported
        return changes_of((0, ADD, sub, number, score) for number, score in reported.items())

    def drop(self, sub: int) -> None:
        """Remove a ranking."""
        matched = self._matched_as.pop(sub)
        del self._matched[matched]
        self._matching()[0].unsubscribe(np.array([matched], np.int32))
        self._touched.discard(sub)
        del self._rankings[sub]

    def reached(self, arrived: ArrivedMessage) -> dict[int, float]:
        """The subscriptions that a message may be a result of, by threshold and condition."""
        core, numbers = self._matching()
        numbers.sweep()
        bags = numbers.bags([arrived.content.tokens])
        points = np.array([arrived.message.point], np.float64)
        subs, scores = core.reached(points, bags.starts, bags.terms, bags.counts)
        found = zip(map(self._matched.__getitem__, subs.tolist()), scores.tolist(), strict=True)
        return {sub: score for sub, score in found if self._rankings[sub].wants(arrived)}

    def enter(self, number: int, arrived: ArrivedMessage) -> None:
        """Rank a message that enters the window under this number."""
        for sub, score in self.reached(arrived).items():
            ranking = self._rankings[sub]
            theta = ranking.theta
            if ranking.add(number, score):
                self._knowing.setdefault(number, set()).add(sub)
                self._touched.add(sub)
            if ranking.theta != theta:
                self._matching()[0].set_theta(self._matched_as[sub], ranking.theta)

    def lose(self, numbers: Iterable[int]) -> None:
        """Forget messages that have left the window."""
        for number in numbers:
            for sub in self._knowing.pop(number, ()):
                if sub in self._rankings:
                    self._rankings[sub].lose(number)
                    self._touched.add(sub)

    def settle(self) -> None:
        """Let rankings that are short of messages search the window."""
        for sub in list(self._touched):
            if self._rankings[sub].is_short:
                self._fill(sub)

    def changes(self, event: int = 0) -> TopkChanges:
        """The changes since the last call, as those of an event."""
        self.settle()
        rows: list[tuple[int, int, int, int, float]] = []
        for sub in self._touched:
            ranking = self._rankings[sub]
            before, after = ranking.reported, ranking.best()
            rows += ((event, REMOVE, sub, *one) for one in before.items() if one[0] not in after)
            rows += ((event, ADD, sub, *one) for one in after.items() if one[0] not in before)
            ranking.reported = after
        self._touched.clear()
        return changes_of(rows)

    def renumber(self, old: Int64s, first: int) -> None:
        """Let messages with these numbers count from `first` on; others have left."""
        new = dict(zip(old.tolist(), range(first, first + len(old)), strict=True))
        self._knowing = {new[one]: subs for one, subs in self._knowing.items() if one in new}
        for ranking in self._rankings.values():
            ranking.renumber(old, first)

    @property
    def nbytes(self) -> int:
        """The memory of the matcher."""
        if self._matcher is None:
            return 0
        core, numbers = self._matcher
        return core.subscription_bytes + numbers.nbytes

    def _fill(self, sub: int) -> None:
        ranking = self._rankings[sub]
        for number in ranking.fill():
            self._knowing.setdefault(number, set()).add(sub)
        self._touched.add(sub)
        self._matching()[0].set_theta(self._matched_as[sub], ranking.theta)

    def _matching(self) -> tuple[TopK, TermNumbers]:
        if self._matcher is None:
            self._matcher = core_for(self._settings, TopK)
        return self._matcher


def core_for(settings: Settings, make: type[TopK] | partial[TopK]) -> tuple[TopK, TermNumbers]:
    """An empty core, and the numbers that it has for terms."""
    space, history = settings.space, settings.history
    core = make(settings.window, space.west, space.south, settings.diagonal)
    idf = idf_of(history) if history is not None and history.documents else None
    return core, TermNumbers(core, settings.analyser, idf, secret=secret_words())


def subscribe_to(
    core: TopK, numbers: TermNumbers, subscription: Subscription, terms: tuple[str, ...], k: int
) -> int:
    """Enter one subscription into a core, and return its number there."""
    bags = numbers.bags([terms])
    point, alpha, scale = place_of(subscription)
    ks = np.array([k], np.int32)
    if np.isnan(scale[0]):
        return int(core.subscribe(point, alpha, ks, bags.starts, bags.terms)[0])
    return int(core.subscribe(point, alpha, ks, bags.starts, bags.terms, scale)[0])


def place_of(subscription: Subscription) -> tuple[Floats, Floats, Floats]:
    """The point, alpha and scale (NaN for none) of a subscription, as columns of one row."""
    point, top = subscription.point, subscription.top
    assert point is not None and top is not None  # noqa: S101, PT018 - by kind
    scale = nan if top.scale is None else top.scale
    return np.array([point], np.float64), np.array([top.alpha]), np.array([scale])
