"""The top-k side of the embedded engine: ids and texts around the core of `nearcast.topk`.

Without top-k subscriptions the window is only stored, which costs very little. With the first
one its messages enter the core, and stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np
import pyarrow as pa

from nearcast._jit import announced_compilation
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.engine.conditional import (
    ConditionalRanking,
    ConditionalRankings,
    core_for,
    place_of,
    subscribe_to,
)
from nearcast.engine.leaving import LeavingMessages
from nearcast.engine.matching import ArrivedMessage, BooleanSubscription, Ranking, Results
from nearcast.engine.message_ids import bytes_of
from nearcast.engine.numbered import NumberedMessages
from nearcast.engine.ordered import in_order
from nearcast.engine.ranked_changes import NetUpdates, at_event, chosen, netted, turned, without
from nearcast.engine.settings import Settings
from nearcast.engine.window import Columns, SlidingWindow
from nearcast.events import Message, Subscription, Top, Update
from nearcast.text import parse_bag
from nearcast.text.columns import buffers
from nearcast.topk.core import TopK, TopkChanges, warm_up
from nearcast.topk.terms import Bags

_MANY_GONE = 64  # messages that are matched to find out who may lose one of them


def ranking_core(ranking: str) -> type[TopK]:
    """The core for a ranking of this name."""
    if ranking == "auto":
        return TopK
    from nearcast.topk.skype import Skype

    return Skype


class FastRankings:
    """Numbers top-k subscriptions, and finds their changes with the core."""

    def __init__(self, settings: Settings, make: type[TopK] | partial[TopK] = TopK) -> None:
        self._settings = settings
        self.make = make  # creates the core; other cores can be compared with ours
        self._waiting = SlidingWindow(settings.window)
        self._numbers: dict[str, int] = {}
        self._ids: list[str] = []  # by number; empty for an unused one
        self._queries: list[str] = []
        self._special: dict[int, Subscription] = {}  # those that have more than the core knows
        self._least = np.empty(0)  # by number: what a result scores at least
        self._conditional = ConditionalRankings(settings)
        self._pending: list[TopkChanges] = []
        self._order: tuple[pa.StringArray, Int32s] | None = None
        self._core: TopK | None = None

    @property
    def is_active(self) -> bool:
        """Whether the window is in the core, so that messages are ranked and not only stored."""
        return self._core is not None

    @property
    def plain_window(self) -> bool:
        """Whether messages leave the window at its old end only, and have left it nowhere else."""
        if self._core is None:
            return self._waiting.is_plain
        return not self._messages.some_end and not self._core.holes

    @property
    def conditional(self) -> int:
        """How many subscriptions have conditions that plain code decides."""
        return len(self._conditional)

    def __contains__(self, id: str) -> bool:
        return id in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def find(self, id: str) -> Subscription | None:
        """Rebuild a subscription."""
        number = self._numbers.get(id)
        if number is None or self._core is None:
            return None
        if number in self._special:
            return self._special[number]
        point, alpha, k = self._core.subscription(number)
        return Subscription(id, self._queries[number], point=point, top=Top(k, alpha))

    def put(
        self,
        subscription: Subscription,
        terms: tuple[str, ...],
        wanted: BooleanSubscription | None = None,
    ) -> None:
        """Add a subscription, or replace the one with its id."""
        core, id, top = self._active(), subscription.id, subscription.top
        assert top is not None  # noqa: S101 - by kind
        self._terms.sweep()
        if id in self._numbers:
            self._pending.append(turned(self._results(self._numbers[id])))
            self._remove(self._numbers[id])
        conditional = wanted is not None or (top.scale is not None and not core.takes_scales)
        if conditional:
            number = core.reserve()
            search = partial(self._search, subscription, terms)
            ranking = ConditionalRanking(subscription, wanted, search, self._messages.arrived)
            self._conditional.put(number, ranking, terms)
        else:
            number = subscribe_to(core, self._terms, subscription, terms, top.k)
        self._name([id], [subscription.query or ""], np.array([number], np.int32))
        if conditional or top.scale is not None or top.min_score is not None:
            self._special[number] = subscription
            self._least[number] = -inf if top.min_score is None else top.min_score
        if not conditional:
            self._pending.append(self._results(number))

    def _remove(self, number: int) -> None:
        """Remove a subscription; the next one gets its number."""
        assert self._core is not None  # noqa: S101 - a subscription was added
        if number in self._conditional:
            self._conditional.drop(number)
            self._core.release(number)
        else:
            self._core.unsubscribe(np.array([number], np.int32))
        if self._special.pop(number, None) is not None:
            self._least[number] = -inf

    def _results(self, number: int) -> TopkChanges:
        """The results of a subscription as changes; if it is conditional, as they were reported."""
        if number in self._conditional:
            return self._conditional.reported(number)
        assert self._core is not None  # noqa: S101 - a subscription was added
        return self._reported(self._core.members(np.array([number], np.int32)))

    def _reported(self, changes: TopkChanges) -> TopkChanges:
        """Leave out messages that score less than their subscriptions ask for."""
        if not self._special:
            return changes
        return chosen(changes, changes.scores >= self._least[changes.subscriptions])

    def _search(
        self, subscription: Subscription, terms: tuple[str, ...], most: int
    ) -> tuple[Int64s, Floats]:
        """The best of the window for a subscription, whatever its filter and its region."""
        assert self._core is not None  # noqa: S101 - a subscription was added
        bag = self._terms.bags([terms])
        return self._core.search(*place_of(subscription), bag.terms, most)

    def put_columns(
        self, ids: list[str], queries: pa.StringArray, points: Floats, alphas: Floats, ks: Int32s
    ) -> TopkChanges | None:
        """Add many new subscriptions of plain words, and return their first results.

        If a query has no terms, it returns None and changes nothing.
        """
        core = self._active()
        self._terms.sweep()
        bags = self._terms.read(queries)
        if (np.diff(bags.starts) == 0).any():
            return None
        numbers = core.subscribe(points, alphas, ks, bags.starts, bags.terms)
        self._name(ids, queries.to_pylist(), numbers)
        return core.members(numbers)

    def drop(self, id: str) -> None:
        """Remove a known subscription; it gets no more updates."""
        number = self._numbers.pop(id)
        self._remove(number)
        self._ids[number] = self._queries[number] = ""
        self._order = None
        self._pending = [without(changes, number) for changes in self._pending]

    def enter(self, arrived: ArrivedMessage) -> None:
        """Add a message to the window; the oldest may have to leave it."""
        message = arrived.message
        if self._core is None:
            self._waiting.append(arrived)
            self._waiting.slide(arrived.at)
            return
        if message.ttl and arrived.end <= arrived.at:
            return  # it has ended
        self._terms.sweep()
        number, bags = self._core.next, self._terms.bags([arrived.content.tokens])
        points, at = np.array([message.point], np.float64), np.array([arrived.at])
        ttl = np.array([message.ttl]) if message.ttl else None
        self._messages.append([message.id], bytes_of([message.text]), at, ttl)
        self._messages.carried.put(number, message)
        self._pending.append(self._publish(points, at, bags))
        if self._conditional:
            self._conditional.enter(number, arrived)

    def enter_columns(self, columns: Columns) -> TopkChanges | None:
        """Add messages of a table with unused ids; None if there is no top-k subscription."""
        if self._core is None:
            self._waiting.enter(columns, self._settings.window.count or 0)
            return None
        if columns.ttl is None and not self._messages.some_end and not self._conditional:
            return self._enter_rows(columns)
        # One stretch after the other, of messages before the last of which none ends.
        parts: list[TopkChanges] = []
        at, ends, row = columns.at, columns.ends(), 0
        while row < len(at):
            if due := self._messages.due(at[row]):
                parts.append(at_event(row, self._take_out(due)))
            stop = self._stretch(at, ends, row)
            if ends[row] > at[row]:
                parts.append(at_event(row, self._enter_rows(columns.part(row, stop))))
            elif self._settings.window.seconds is not None:  # it has ended, but time has passed
                parts.append(at_event(row, self._slide(at[row])))
            if self._conditional:
                parts.append(self._conditional.changes(row))
            row = stop
        return netted(parts)

    def replace_columns(self, columns: Columns) -> None:
        """Add messages of a table, some of which replace others; only while it is not active."""
        self._waiting.enter_again(columns, self._settings.window.count or 0)

    def _stretch(self, at: list[float], ends: list[float], row: int) -> int:
        """The row behind those that can be added together with this one."""
        stop = row + 1
        if self._conditional or ends[row] <= at[row]:
            return stop
        limit = min(self._messages.next_end(), ends[row])
        while stop < len(at) and at[stop] < min(limit, ends[stop]):
            limit = min(limit, ends[stop])
            stop += 1
        return stop

    def _enter_rows(self, columns: Columns) -> TopkChanges:
        """Add messages; none of them ends before the last has come."""
        assert self._core is not None  # noqa: S101 - every caller has made it
        self._terms.sweep()
        bags, at = self._terms.read(columns.texts), np.array(columns.at, np.float64)
        texts, number = buffers(columns.texts), self._core.next
        self._messages.append(columns.ids, texts, at, columns.ttl, columns.carried)
        changes = self._publish(columns.points, at, bags)
        if self._conditional:
            self._conditional.enter(number, columns.arrived(0))
        return changes

    def take_out(self, id: str) -> bool:
        """Remove the message with this id from the window; False if there is none."""
        if self._core is None:
            return self._waiting.take_out(id)
        number = self._messages.ids.number(id)
        if number is None:
            return False
        if number < self._core.first:  # it has left with this event, which may use its id again
            self._messages.ids.take_out(number)
            return False
        self._pending.append(self._take_out([number]))
        return True

    def _take_out(self, numbers: list[int]) -> TopkChanges:
        """Remove messages from the window; some may have left it."""
        assert self._core is not None  # noqa: S101 - every caller has made it
        changes = self._reported(self._core.take_out(np.array(numbers, np.int64)))
        self._messages.take_out(numbers)
        self._conditional.lose(numbers)
        return changes

    def advance(self, now: float) -> None:
        """Advance the time: messages end, and the window moves on."""
        if self._core is None:
            self._waiting.slide(now)
            return
        if self._messages.some_end and (due := self._messages.due(now)):
            self._pending.append(self._take_out(due))
        if self._settings.window.seconds is not None:
            self._pending.append(self._slide(now))

    def _slide(self, now: float) -> TopkChanges:
        """Move a window of time on."""
        return self._moved_on(partial(self._active().advance, now))

    def uses(self, id: str, now: float) -> bool:
        """Whether a message of the window has this id at that time."""
        if self._core is None:
            return self._waiting.uses(id, now)
        number, seconds = self._messages.number(id), self._settings.window.seconds
        if number is None or self._messages.end_of(number) <= now:
            return False
        return seconds is None or self._core.message(number)[1] > now - seconds

    @property
    def next(self) -> int:
        """The number that the next message of the window gets."""
        return self._waiting.next if self._core is None else self._core.next

    def latest(self, id: str) -> tuple[int, float] | None:
        """The number and the time of the message of the window with an id, if it is there."""
        if self._core is None:
            return self._waiting.latest(id)
        number = self._messages.number(id)
        return None if number is None else (number, self._core.message(number)[1])

    @property
    def oldest(self) -> str | None:
        """The id of the oldest message of the window; None if it is empty."""
        if self._core is None:
            return self._waiting.oldest
        first = self._core.first
        if first == self._core.next:
            return None
        id: str = self.message_names(np.array([first]))[0].as_py()
        return id

    def has_any(self, ids: list[str]) -> bool:
        """Whether a message of the window has one of these ids."""
        if self._core is None:
            return self._waiting.has_any(ids)
        return self._messages.ids.has_any(ids)

    def message(self, id: str) -> Message | None:
        """Look up a message of the window, with its time."""
        if self._core is None:
            arrived = self._waiting.find(id)
            return None if arrived is None else replace(arrived.message, at=arrived.at)
        number = self._messages.number(id)
        return None if number is None else self._messages.message(number)

    def leaving_soon(self, more: int, now: float) -> LeavingMessages | None:
        """What may leave the window until `more` messages have come, the last at `now`."""
        if self._core is None or not self._numbers:
            return None
        return self._messages.leaving_soon(more, now, self._settings.window)

    def best(self, id: str) -> Results:
        """The results of a known subscription, best first."""
        number = self._numbers[id]
        if number in self._conditional:
            self._conditional.settle()
            found = self._conditional[number].best()
            numbers, scores = np.array(list(found), np.int64), list(found.values())
        else:
            members = self._results(number)
            numbers, scores = members.messages, members.scores.tolist()
        return dict(zip(self.message_names(numbers).to_pylist(), scores, strict=True))

    def changes(self, replaced: str | None = None, rescored: str | None = None) -> list[Update]:
        """The net changes since the last call."""
        if self._core is None:
            return []
        if self._conditional:
            self._pending.append(self._conditional.changes())
        net = NetUpdates()
        for changes in self._pending:
            if len(changes.ops):
                subscriptions = [self._ids[one] for one in changes.subscriptions.tolist()]
                messages = self.message_names(changes.messages).to_pylist()
                net.add(changes.ops.tolist(), subscriptions, messages, changes.scores.tolist())
        self._pending.clear()
        self.forget_expired()
        return net.updates(replaced, rescored)

    def forget_changes(self) -> None:
        """Discard the changes so far, as if they had been reported."""
        if self._conditional:
            self._conditional.changes()
        self._pending.clear()
        self.forget_expired()

    def would_rank(self, arrived: ArrivedMessage) -> dict[str, float]:
        """Who would have a message among the best if it were published now, with its scores."""
        if self._core is None or (arrived.message.ttl and arrived.end <= arrived.at):
            return {}
        scorer, found = self._settings.scorer(), {}
        gone = self._messages.leaving(arrived, self._settings.window)
        for sub in self._may_rank(arrived, gone):
            id, terms = self._ids[sub], parse_bag(self._queries[sub], self._settings.analyser)
            subscription = self.find(id)
            assert subscription is not None and subscription.top is not None  # noqa: S101, PT018
            place = Ranking(subscription, scorer.bag(terms), scorer).place(arrived)
            if place is None:
                continue
            score, k = -place[0], subscription.top.k
            if sub in self._conditional:
                ranks = self._conditional[sub].would_rank(arrived, score, gone)
            else:
                others = zip(*self._search(subscription, terms, k + len(gone)), strict=True)
                ranks = sum(s > score and n not in gone for n, s in others) < k
            if ranks:
                found[id] = score
        return found

    def _may_rank(self, arrived: ArrivedMessage, gone: set[int]) -> set[int]:
        """Those whose thresholds a message reaches, or that may lose one of those `gone`."""
        assert self._core is not None  # noqa: S101 - the caller has made sure
        if len(gone) > _MANY_GONE:
            return set(self._numbers.values())
        found: set[int] = set()
        for one in (arrived, *map(self._messages.arrived, gone)):
            bags = self._terms.bags([one.content.tokens])
            point = np.array([one.message.point], np.float64)
            subs, _ = self._core.reached(point, bags.starts, bags.terms, bags.counts)
            found.update(subs.tolist(), self._conditional.reached(one))
        return found

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions."""
        return (found for id in self._numbers if (found := self.find(id)) is not None)

    def message_names(self, numbers: Int64s) -> pa.LargeStringArray:
        """The ids of messages that are in the window or have just left it."""
        return self._messages.ids.texts.take(numbers)

    def message_spans(self, numbers: Int64s) -> tuple[Bytes, Int64s, Int64s]:
        """The bytes of all message ids, and where those of these messages start and stop."""
        return self._messages.ids.texts.spans(numbers)

    def names_in_order(self, subscriptions: Int32s) -> tuple[pa.StringArray, Int32s]:
        """Ids in alphabetical order, of these subscriptions at least, and their ranks there.

        The order of all ids is computed when that pays, and kept until the ids change.
        """
        if self._order is None and len(subscriptions) * 16 < len(self._ids):
            some = np.unique(subscriptions)
            return in_order([self._ids[one] for one in some.tolist()], some, len(self._ids))
        if self._order is None:
            everyone = np.arange(len(self._ids), dtype=np.int32)
            self._order = in_order(self._ids, everyone, len(self._ids))
        return self._order

    def forget_expired(self) -> None:
        """Drop what is kept of messages that have left the window."""
        if self._core is None:
            return
        self._messages.forget_expired()
        if self._messages.has_many_holes:
            self._conditional.renumber(self._messages.close_holes(), self._core.first)

    @property
    def nbytes(self) -> tuple[int, int]:
        """The memory of subscriptions and of messages, without Python's own objects."""
        if self._core is None:
            return 0, 0
        texts = self._messages.nbytes + self._terms.nbytes
        subscriptions = self._core.subscription_bytes + self._conditional.nbytes
        return subscriptions, self._core.message_bytes + texts

    def _active(self) -> TopK:
        """The core; on first use the stored window enters it."""
        if self._core is None:
            core, self._terms = core_for(self._settings, self.make)
            self._messages = NumberedMessages(core, self._settings.analyser)
            self._core = core
            with announced_compilation():
                warm_up(self.make)
                for part in self._waiting.parts():
                    if isinstance(part, ArrivedMessage):
                        self.enter(part)
                    else:
                        self.enter_columns(part)
                self.forget_changes()
            self._waiting = SlidingWindow(self._settings.window)
        return self._core

    def _name(self, ids: list[str], queries: list[str], numbers: Int32s) -> None:
        self._order = None
        missing = int(numbers.max(initial=-1)) + 1 - len(self._ids)
        self._ids += [""] * missing
        self._queries += [""] * missing
        if len(self._ids) > len(self._least):
            more = np.full(len(self._ids) * 3 // 2 + 16, -inf)
            more[: len(self._least)] = self._least
            self._least = more
        for id, query, number in zip(ids, queries, numbers.tolist(), strict=True):
            self._ids[number], self._queries[number] = id, query
            self._numbers[id] = number

    def _publish(self, points: Floats, at: Floats, bags: Bags) -> TopkChanges:
        publish = self._active().publish
        return self._moved_on(partial(publish, points, at, bags.starts, bags.terms, bags.counts))

    def _moved_on(self, change: Callable[[], TopkChanges]) -> TopkChanges:
        """Make a change to the core by which messages may leave the window at its old end."""
        first = self._active().first
        changes = change()
        if self._conditional:
            self._conditional.lose(range(first, self._active().first))
        return self._reported(changes)
