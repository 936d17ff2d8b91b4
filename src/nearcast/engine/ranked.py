"""The top-k side of the embedded engine: ids and texts around the core of `nearcast.topk`.

Without top-k subscriptions the window is only stored, which costs very little. With the first
one its messages enter the core, and stay there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from nearcast._jit import announced_compilation
from nearcast.arrays.slots import secret_words
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.engine.matching import ArrivedMessage, Results
from nearcast.engine.message_ids import MessageIds, NumberedStrings, bytes_of
from nearcast.engine.ordered import in_order
from nearcast.engine.settings import Settings
from nearcast.engine.window import Columns, SlidingWindow
from nearcast.events import Message, Subscription, Top, Update
from nearcast.events.fields import ADD, REMOVE
from nearcast.text import idf_of
from nearcast.text.columns import buffers
from nearcast.topk.core import TopK, TopkChanges, warm_up
from nearcast.topk.terms import Bags, TermNumbers


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
        self._pending: list[TopkChanges] = []
        self._ttl: OrderedDict[int, float] = OrderedDict()  # of messages that have one, by number
        self._order: tuple[pa.StringArray, Int32s] | None = None
        self._core: TopK | None = None

    @property
    def is_active(self) -> bool:
        """Whether the window is in the core, so that messages are ranked and not only stored."""
        return self._core is not None

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
        point, alpha, k = self._core.subscription(number)
        return Subscription(id, self._queries[number], point=point, top=Top(k, alpha))

    def put(self, subscription: Subscription, terms: tuple[str, ...]) -> None:
        """Add a subscription, or replace the one with its id."""
        core, id = self._active(), subscription.id
        self._terms.sweep()
        known = self._numbers.get(id)
        if known is not None:
            self._pending.append(_turned(core.members(np.array([known], np.int32))))
            core.unsubscribe(np.array([known], np.int32))
        top, point = subscription.top, subscription.point
        assert top is not None and point is not None  # noqa: S101, PT018 - by kind
        bags = self._terms.bags([terms])
        numbers = core.subscribe(
            np.array([point], np.float64), np.array([top.alpha]), np.array([top.k], np.int32),
            bags.starts, bags.terms,
        )  # fmt: skip
        self._name([id], [subscription.query], numbers)
        self._pending.append(core.members(numbers))

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
        assert self._core is not None  # noqa: S101 - a subscription was added
        self._core.unsubscribe(np.array([number], np.int32))
        self._ids[number] = self._queries[number] = ""
        self._order = None
        self._pending = [_without(changes, number) for changes in self._pending]

    def enter(self, arrived: ArrivedMessage) -> None:
        """Add a message to the window; the oldest may have to leave it."""
        if self._core is None:
            self._waiting.append(arrived)
            self._waiting.slide(arrived.at)
            return
        message = arrived.message
        self._terms.sweep()
        bags = self._terms.bags([arrived.tokens])
        data, offsets = bytes_of([message.text])
        if message.ttl:
            self._ttl[self._core.next] = message.ttl
        points = np.array([message.point], np.float64)
        self._publish([message.id], data, offsets, points, np.array([arrived.at]), bags)

    def enter_columns(self, columns: Columns) -> TopkChanges | None:
        """Add messages of a table with unused ids; None if there is no top-k subscription."""
        if self._core is None:
            room = self._settings.window.count or 0
            columns.row = max(
                0, len(columns.ids) - room
            )  # earlier ones would leave the window at once
            self._waiting.extend(columns)
            self._waiting.forget(len(self._waiting) - room)
            return None
        self._terms.sweep()
        bags = self._terms.read(columns.texts)
        at = np.array(columns.at, np.float64)
        if columns.ttl is not None:
            active = np.flatnonzero(columns.ttl)
            numbers = (self._core.next + active).tolist()
            self._ttl.update(zip(numbers, columns.ttl[active].tolist(), strict=True))
        self._publish(columns.ids, *buffers(columns.texts), columns.points, at, bags)
        return self._pending.pop()

    def advance(self, now: float) -> None:
        """Advance the time, and with it the window."""
        if self._core is None:
            self._waiting.slide(now)
        elif self._settings.window.seconds is not None:
            self._pending.append(self._core.advance(now))

    def uses(self, id: str, now: float) -> bool:
        """Whether a message of the window has this id at that time."""
        if self._core is None:
            return self._waiting.uses(id, now)
        number, seconds = self._message_ids.number(id), self._settings.window.seconds
        if number is None or seconds is None:
            return number is not None
        return self._core.message(number)[1] > now - seconds

    @property
    def next(self) -> int:
        """The number that the next message of the window gets."""
        return self._waiting.next if self._core is None else self._core.next

    def latest(self, id: str) -> tuple[int, float] | None:
        """The number and the time of the message of the window with an id, if it is there."""
        if self._core is None:
            return self._waiting.latest(id)
        number = self._message_ids.number(id)
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
        return self._message_ids.has_any(ids)

    def message(self, id: str) -> Message | None:
        """Look up a message of the window, with its time."""
        if self._core is None:
            arrived = self._waiting.find(id)
            return None if arrived is None else replace(arrived.message, at=arrived.at)
        number = self._message_ids.number(id)
        if number is None:
            return None
        point, at = self._core.message(number)
        data, starts, stops = self._texts.spans(np.array([number]))
        text = bytes(data[starts[0] : stops[0]]).decode(errors="surrogatepass")
        return Message(id, text, point, at=at, ttl=self._ttl.get(number, 0.0))

    def best(self, id: str) -> Results:
        """The results of a known subscription, best first."""
        assert self._core is not None  # noqa: S101 - a subscription was added
        members = self._core.members(np.array([self._numbers[id]], np.int32))
        ids = self.message_names(members.messages).to_pylist()
        return dict(zip(ids, members.scores.tolist(), strict=True))

    def changes(self) -> list[Update]:
        """The net changes since the last call."""
        if not self._pending:
            self.forget_expired()
            return []
        net: dict[tuple[int, str], float | None] = {}
        for changes in self._pending:
            rows = zip(
                changes.ops.tolist(), changes.subscriptions.tolist(),
                self.message_names(changes.messages).to_pylist(), changes.scores.tolist(),
                strict=True,
            )  # fmt: skip
            for op, subscription, name, score in rows:
                # By id, not number: the event that ends a message may use its id again.
                pair = (subscription, name)
                if pair in net:
                    del net[pair]  # added and removed, or removed and added: no net change
                else:
                    net[pair] = score if op == ADD else None
        self._pending.clear()
        self.forget_expired()
        return [
            Update("remove" if score is None else "add", self._ids[subscription], name, score)
            for (subscription, name), score in net.items()
        ]

    def forget_changes(self) -> None:
        """Discard the changes so far, as if they had been reported."""
        self._pending.clear()
        self.forget_expired()

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions."""
        return (found for id in self._numbers if (found := self.find(id)) is not None)

    def message_names(self, numbers: Int64s) -> pa.LargeStringArray:
        """The ids of messages that are in the window or have just left it."""
        return self._message_ids.texts.take(numbers)

    def message_spans(self, numbers: Int64s) -> tuple[Bytes, Int64s, Int64s]:
        """The bytes of all message ids, and where those of these messages start and stop."""
        return self._message_ids.texts.spans(numbers)

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
        """Drop the ids and texts of messages that have left the window."""
        if self._core is None or self._core.first == self._texts.first:
            return
        first = self._core.first
        while self._ttl and next(iter(self._ttl)) < first:
            self._ttl.popitem(last=False)
        self._message_ids.drop_before(first)
        self._texts.drop_before(first)

    @property
    def nbytes(self) -> tuple[int, int]:
        """The memory of subscriptions and of messages, without Python's own objects."""
        if self._core is None:
            return 0, 0
        texts = self._message_ids.nbytes + self._texts.nbytes + self._terms.nbytes
        return self._core.subscription_bytes, self._core.message_bytes + texts

    def _active(self) -> TopK:
        """The core; on first use the stored window enters it."""
        if self._core is None:
            settings = self._settings
            core = self.make(
                settings.window, settings.space.west, settings.space.south, settings.diagonal
            )
            history = settings.history
            idf = idf_of(history) if history is not None and history.documents else None
            self._terms = TermNumbers(core, settings.analyser, idf, secret=secret_words())
            self._message_ids, self._texts = MessageIds(0), NumberedStrings(0)
            self._core = core
            with announced_compilation():
                warm_up(self.make)
                for part in self._waiting.parts():
                    if isinstance(part, ArrivedMessage):
                        self.enter(part)
                    else:
                        self._enter_rest(part)
                self.forget_changes()
            self._waiting = SlidingWindow(settings.window)
        return self._core

    def _enter_rest(self, columns: Columns) -> None:
        row = columns.row
        rest = columns.ids[row:], columns.texts.slice(row), columns.points[row:], columns.at[row:]
        ttl = None if columns.ttl is None else columns.ttl[row:]
        self.enter_columns(Columns(*rest, columns.analyser, ttl))

    def _name(self, ids: list[str], queries: list[str], numbers: Int32s) -> None:
        self._order = None
        missing = int(numbers.max(initial=-1)) + 1 - len(self._ids)
        self._ids += [""] * missing
        self._queries += [""] * missing
        for id, query, number in zip(ids, queries, numbers.tolist(), strict=True):
            self._ids[number], self._queries[number] = id, query
            self._numbers[id] = number

    def _publish(
        self, ids: list[str], data: np.ndarray, offsets: np.ndarray, points: Floats, at: Floats,
        bags: Bags,
    ) -> None:  # fmt: skip
        assert self._core is not None  # noqa: S101 - every caller has made it
        self._message_ids.extend(ids)
        self._texts.extend(data, offsets)
        self._pending.append(self._core.publish(points, at, bags.starts, bags.terms, bags.counts))


def _turned(changes: TopkChanges) -> TopkChanges:
    """The same messages, leaving."""
    return changes._replace(ops=np.full_like(changes.ops, REMOVE))


def _without(changes: TopkChanges, subscription: int) -> TopkChanges:
    kept = changes.subscriptions != subscription
    return TopkChanges(*(column[kept] for column in changes))
