"""Finders, homes and message workers in one process, led through a log step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from nearcast.arrays.lists import starts_of
from nearcast.arrays.slots import FIXED, term_hash
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import Event, Move, Publish, Subscribe, Subscription, Unsubscribe
from nearcast.spark.topk.dskype.aggregation import aggregate
from nearcast.spark.topk.dskype.buffer_shard import BufferShard
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.finder import Finder
from nearcast.spark.topk.dskype.messages import ReachedPairs, Refills, WindowMessages
from nearcast.spark.topk.dskype.part import PartStep, WindowPart
from nearcast.spark.topk.dskype.requests import Operations, take_step
from nearcast.spark.topk.dskype.terms import Terms
from nearcast.spark.topk.reading import RankedSubscriptions
from nearcast.spark.topk.updates import RankedUpdates
from nearcast.text import idf_of, parse_bag

Update = tuple[int, str, str, str, float | None]
Place = Callable[[Refills, int], list[np.ndarray]]
"""Which of some subscriptions each of so many finders gets."""
Route = Callable[[WindowMessages, int], list[np.ndarray]]
"""Which of some messages each of so many finders gets."""


@dataclass
class _Batch:
    """A step as a registrar would give it."""

    timeline: Timeline
    messages: WindowMessages
    operations: Operations


@dataclass
class _Names:
    subscriptions: dict[int, str] = field(default_factory=dict)
    messages: dict[int, str] = field(default_factory=dict)


class Decider:
    """Numbers versions and messages, and says what scan says."""

    def __init__(self, settings: Settings) -> None:
        self.scan = Scan(settings)
        self.settings = settings
        self.names = _Names()
        self._idf = None
        if settings.history is not None and settings.history.documents:
            self._idf = idf_of(settings.history)
        self._window: list[tuple[int, float]] = []
        self._next = self._seq = self._owners = 0
        self._owner_of: dict[str, int] = {}
        self._at = 0.0

    def terms(self, bags: Sequence[Counter[str]]) -> tuple[Terms, np.ndarray]:
        """Terms in the order of their letters, as hashes, and their counts."""
        words = [word for bag in bags for word in sorted(bag)]
        counts = [bag[word] for bag in bags for word in sorted(bag)]
        hashes = np.array([term_hash(word) for word in words], np.uint64)
        idf = np.array([self._idf(word) for word in words]) if self._idf else np.empty(0)
        starts = starts_of(np.array([len(bag) for bag in bags], np.int64))
        return Terms(starts, hashes, idf), np.array(counts, np.int32)

    def step(self, events: Sequence[Event]) -> tuple[_Batch, set[Update]]:
        """Decide some events; give the step, and the updates that are expected of it."""
        expected: set[Update] = set()
        was = (self._first, self._next)
        seq: list[int] = []
        first: list[int] = []
        following: list[int] = []
        messages: list[tuple[int, tuple[float, float], Counter[str]]] = []
        begun: list[tuple[int, int, int, Subscription]] = []
        ended: list[tuple[int, int]] = []
        for event in events:
            self._seq += 7
            try:
                updates = self.scan.apply(event)
            except NearcastError:
                continue
            expected |= {
                (self._seq, u.op, u.subscription, u.message, u.score)
                for u in updates
                if u.subscription in self.scan.rankings
            }
            self._at = self.scan.now or 0.0
            self._slide(0)
            place = len(seq)
            match event:
                case Publish(message) if message.point is not None:
                    tokens = self.settings.analyser.tokens(message.text)
                    messages.append((self._next, message.point, Counter(tokens)))
                    self.names.messages[self._next] = message.id
                    self._window.append((self._next, self._at))
                    self._next += 1
                    self._slide(0)
                case Subscribe() | Move():
                    id = event.id if isinstance(event, Move) else event.subscription.id
                    old = self._owner_of.get(id, -1)
                    if old >= 0:
                        ended.append((old, place))
                    found = self.scan.subscription(id)
                    assert found is not None
                    begun.append((self._owners, place, old, found))
                    self.names.subscriptions[self._owners] = id
                    self._owner_of[id] = self._owners
                    self._owners += 1
                case Unsubscribe(id) if id in self._owner_of:
                    ended.append((self._owner_of.pop(id), place))
                case _:
                    pass
            seq.append(self._seq)
            first.append(self._first)
            following.append(self._next)
        timeline = Timeline(_ints(seq), _ints(first), _ints(following), *was)
        return _Batch(timeline, self._messages(messages), self._operations(begun, ended)), expected

    @property
    def _first(self) -> int:
        return self._window[0][0] if self._window else self._next

    def _slide(self, coming: int) -> None:
        window = self.settings.window
        while self._window and (
            (window.count is not None and len(self._window) + coming > window.count)
            or (window.seconds is not None and self._window[0][1] <= self._at - window.seconds)
        ):
            del self._window[0]

    def _messages(
        self, found: list[tuple[int, tuple[float, float], Counter[str]]]
    ) -> WindowMessages:
        terms, counts = self.terms([bag for _, _, bag in found])
        points = np.array([point for _, point, _ in found], np.float64).reshape(-1, 2)
        return WindowMessages(_ints([number for number, _, _ in found]), points, terms, counts)

    def _operations(
        self, begun: list[tuple[int, int, int, Subscription]], ended: list[tuple[int, int]]
    ) -> Operations:
        subscriptions = [each for _, _, _, each in begun]
        queries = [parse_bag(each.query or "", self.settings.analyser) for each in subscriptions]
        terms, _ = self.terms([Counter(query) for query in queries])
        tops = [each.top for each in subscriptions]
        wanted = RankedSubscriptions(
            np.array([owner for owner, _, _, _ in begun], np.int32),
            pa.array([each.id for each in subscriptions], pa.string()),
            np.array([each.point for each in subscriptions], np.float64).reshape(-1, 2),
            np.array([top.alpha for top in tops if top], np.float64),
            np.array([top.k for top in tops if top], np.int32),
            terms,
        )
        return Operations(
            wanted,
            np.array([place for _, place, _, _ in begun], np.int32),
            np.array([was for _, _, was, _ in begun], np.int32),
            np.array([owner for owner, _ in ended], np.int32),
            np.array([place for _, place in ended], np.int32),
        )


class Workers:
    """So many of each kind."""

    def __init__(
        self, settings: Settings, finders: int, homes: int, parts: int, place: Place, route: Route
    ) -> None:
        self.names = _Names()
        box = settings.space
        space = (box.west, box.south, settings.diagonal)
        self.finders = [Finder(space=space) for _ in range(finders)]
        self.homes = [BufferShard() for _ in range(homes)]
        self.parts = [WindowPart(space=space) for _ in range(parts)]
        for number, part in enumerate(self.parts):
            part.assign(number, parts, 0)
        self._place, self._route = place, route
        self._refills: list[Refills] = []
        self._raised: list[tuple[np.ndarray, np.ndarray]] = []
        self._gone = np.empty(0, np.int32)
        self.asked = 0

    def step(self, batch: _Batch, names: _Names) -> list[Update]:
        """Take a step."""
        timeline, operations = batch.timeline, batch.operations
        self._apply()
        pairs: list[ReachedPairs] = []
        for finder, which in zip(
            self.finders, self._route(batch.messages, len(self.finders)), strict=True
        ):
            pairs.append(finder.find(batch.messages.of(which)))
        for part in self.parts:
            part.apply(PartStep(batch.messages, timeline.was_first))
        updates: list[RankedUpdates] = []
        for number, home in enumerate(self.homes):
            mine = _of_home(operations, number, len(self.homes))
            taken, requests = take_step(home, timeline, _joined(pairs), mine)
            home.forget(mine.ended)
            updates.append(taken.updates)
            self._raised.append((taken.raised, taken.thetas))
            self.asked += len(requests.since)
            replies = [part.answer(requests, timeline) for part in self.parts]
            settled = aggregate(requests, replies, timeline)
            updates.append(settled.updates)
            self._refills.append(settled.refills)
        self._gone = operations.ended
        return net(updates, names)

    def _apply(self) -> None:
        """What the step before left to be done: it begins this one."""
        for finder in self.finders:
            finder.forget(self._gone)
            for owners, thetas in self._raised:
                finder.lift(owners, thetas)
        for home, refills in zip(self.homes, self._refills, strict=False):
            home.fill(refills)
            for finder, which in zip(
                self.finders, self._place(refills, len(self.finders)), strict=True
            ):
                finder.forget(refills.wanted.owners)
                finder.take(refills.of(which))
        self._refills, self._raised = [], []


def net(updates: list[RankedUpdates], names: _Names) -> list[Update]:
    """Updates with names; what came and went within an event by one name is none."""
    found: dict[tuple[int, str, str], Update | None] = {}
    numbered: dict[tuple[int, str, str], tuple[int, int]] = {}
    for part in updates:
        for seq, owner, number, score in zip(*(column.tolist() for column in part), strict=True):
            key = (seq, names.subscriptions[owner], names.messages[number])
            op, told = ("add", score) if score >= 0 else ("remove", None)
            if key in found:
                before = found[key]
                assert before is not None, key
                assert before[1] != op, key
                # One message that leaves and enters has another score; two of one name are none.
                same = numbered[key] == (owner, number)
                found[key] = (key[0], "change", *key[1:], told) if same else None
            else:
                found[key] = (key[0], op, *key[1:], told)
                numbered[key] = owner, number
    return [update for update in found.values() if update is not None]


def by_key(refills: Refills, count: int) -> list[np.ndarray]:
    """By a hash of the id."""
    keys = refills.wanted.keys(FIXED) % np.uint64(count)
    return [np.flatnonzero(keys == np.uint64(number)) for number in range(count)]


def everywhere(messages: WindowMessages, count: int) -> list[np.ndarray]:
    """Every message to everybody."""
    return [np.arange(len(messages.numbers))] * count


def by_terms(refills: Refills, count: int) -> list[np.ndarray]:
    """To everybody who has one of the terms, by a hash of those."""
    return _holders(refills.wanted.terms, count)


def to_terms(messages: WindowMessages, count: int) -> list[np.ndarray]:
    """Messages to everybody who has one of their terms."""
    return _holders(messages.terms, count)


def _holders(terms: Terms, count: int) -> list[np.ndarray]:
    text = np.repeat(np.arange(len(terms.starts) - 1), np.diff(terms.starts))
    worker = (terms.hashes >> np.uint64(7)) % np.uint64(count)
    return [np.unique(text[worker == np.uint64(number)]) for number in range(count)]


def _of_home(operations: Operations, number: int, homes: int) -> Operations:
    mine = np.flatnonzero(operations.begun.keys(FIXED) % np.uint64(homes) == np.uint64(number))
    return operations._replace(
        begun=operations.begun.of(mine),
        begun_events=operations.begun_events[mine],
        was=operations.was[mine],
    )


def _joined(pairs: list[ReachedPairs]) -> ReachedPairs:
    return ReachedPairs(*(np.concatenate(columns) for columns in zip(*pairs, strict=True)))


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)
