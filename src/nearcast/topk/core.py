"""Top-k over a sliding window, on numbers: the fast exact core behind the embedded engine.

Terms, subscriptions and messages are numbers here. The idea, in the order of the files in
`kernels`: messages are in a ring with a circle for each term (`window`), subscriptions in a list
for each term whose postings carry their thresholds (`postings`), so that a message reads its few
lists end to end and looks at hardly any subscription (`match`). A subscription keeps a buffer of
messages above its threshold and waits for the expiry of its oldest member only (`buffers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.topk.kernels import events, removal
from nearcast.topk.kernels.arrays import (
    longer,
    new_state,
    sizes_of,
    state_in,
    with_larger_ring,
    with_longer,
    with_more_message_terms,
    with_subscriptions,
    with_terms,
)
from nearcast.topk.kernels.layout import (
    BEGIN,
    BUFFER_END,
    CHANGES,
    COUNTERS,
    DONE,
    END,
    EVENT_START,
    FIRST,
    FOUND,
    HOLES,
    K_AND_CLASS,
    LENGTH,
    LIST,
    LIST_END,
    MESSAGE,
    MESSAGE_MASK,
    MORE_BUFFERS,
    MORE_CHANGES,
    MORE_END,
    MORE_LISTS,
    MORE_MORE,
    MORE_POSTINGS,
    MORE_RING,
    MORE_TERMS,
    NEEDED,
    NEXT,
    PEAKS,
    POSTING_END,
    SIZE,
    SUB,
    TAKEN_OUT,
    THETA,
    TopkScratch,
)
from nearcast.topk.window import Window

_LAST_NUMBER = (1 << 31) - (1 << 24)
_MOST_AT_ONCE = 1 << 23  # messages, so that no kernel runs out of numbers

_GROWING = {
    MORE_LISTS: "list_i",
    MORE_MORE: "more",
    MORE_POSTINGS: "post_i",
    MORE_BUFFERS: "buffer_f",
}
"""What a kernel that stopped wants to be longer."""


class TopkChanges(NamedTuple):
    """Who gained or lost which message: columns of one length, grouped by event."""

    events: Int32s
    ops: Int32s  # ADD for a message that entered, REMOVE for one that left
    subscriptions: Int32s
    messages: Int64s
    scores: Floats


class TopK:
    """Keeps the k best messages of the window for every subscription, and says what changes.

    With `lazy` no changes are reported: results are right when they are read, and what expires
    costs next to nothing. That is for measuring what reporting costs.
    """

    takes_scales = True

    def __init__(
        self,
        window: Window,
        west: float,
        south: float,
        diagonal: float,
        *,
        lazy: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self._memory = memory or Memory()
        self._state = new_state(self._memory, window, (west, south, diagonal), lazy)
        self._work = _work(16, 16, 1 << 12)
        self._base = 0  # of the numbers that the kernels use
        self._free = Column(np.int32, 0, self._memory, "free_subs")
        self._subs = 0

    def describe(self) -> dict[str, Any]:
        """Say what `attach` needs to find the core again in its memory."""
        counts = {"base": self._base, "subs": self._subs, "free": self._free.size}
        return counts | {"sizes": sizes_of(self._state)}

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, Any]) -> Self:
        """Find a core again in memory that is kept in files."""
        core = cls.__new__(cls)
        core._memory = memory
        core._state = state_in(memory, described["sizes"])
        core._work = _work(16, len(core._state.sub_f) // SUB, 1 << 12)
        core._base, core._subs = described["base"], described["subs"]
        core._free = Column(np.int32, 0, memory, "free_subs", described["free"])
        return core

    @property
    def first(self) -> int:
        """The number of the oldest message of the window."""
        return self._base + int(self._state.scalars[FIRST])

    @property
    def next(self) -> int:
        """The number that the next message gets."""
        return self._base + int(self._state.scalars[NEXT])

    @property
    def holes(self) -> int:
        """How many messages were taken out of the window since its oldest message came."""
        return int(self._state.scalars[HOLES])

    @property
    def counters(self) -> dict[str, int]:
        """What was done so far."""
        return dict(zip(COUNTERS, self._state.scalars[16:].tolist(), strict=False))

    @property
    def message_bytes(self) -> int:
        """The memory that messages take: rows of the ring, their terms, and circles in use."""
        state, scalars = self._state, self._state.scalars
        rows = min(scalars[NEXT], scalars[MESSAGE_MASK] + 1)
        ring = rows * MESSAGE * 12 + state.message_terms.nbytes
        return int(ring + 4 * scalars[LIST_END] + 16 * _in_use(state.lists))

    @property
    def subscription_bytes(self) -> int:
        """The memory that subscriptions take: records, postings and buffers."""
        state, scalars = self._state, self._state.scalars
        own = self._subs * 2 * SUB * 8 + 4 * scalars[MORE_END]
        arenas = 4 * scalars[POSTING_END] + 8 * scalars[BUFFER_END]
        return int(own + arenas + 16 * _in_use(state.posts))

    @property
    def unused_terms(self) -> np.ndarray:
        """Of each term, whether no message of the window and no subscription has it."""
        unused: np.ndarray = (self._state.lists[SIZE::LIST] < 0) & (
            self._state.posts[SIZE::LIST] < 0
        )
        return unused

    def ensure_terms(self, count: int) -> None:
        """Make room for `count` terms; they weigh 1 until `weigh` says otherwise."""
        had = len(self._state.idf)
        if count > had:
            self._state = with_terms(self._memory, self._state, max(count, had * 5 // 4))

    def weigh(self, terms: Int32s, idf: Floats) -> None:
        """Say what terms weigh, before any message or subscription has them."""
        self._state.idf[terms] = idf

    def subscribe(
        self,
        points: Floats,
        alphas: Floats,
        ks: Int32s,
        starts: Int64s,
        terms: Int32s,
        scales: Floats | None = None,
    ) -> Int32s:
        """Enter subscriptions, and give their numbers.

        The terms of the i-th, `terms[starts[i] : starts[i + 1]]`, are in the order of their
        letters, each once, and there is room for them. `scales` are in metres, NaN for none.
        """
        subs = self._take_numbers(len(points))
        if scales is not None:
            alphas = self._with_scales(subs, alphas, scales)
        done = 0
        while done < len(subs):
            done, code = events.subscribe(
                self._state, self._work, subs, points, alphas, ks, starts, terms, done, len(subs)
            )
            self._grow(code)
        return subs

    def _with_scales(self, subs: Int32s, alphas: Floats, scales: Floats) -> Floats:
        """Note scales, NaN for none, and mark the alphas of those that have one."""
        self._state.scales[subs] = scales
        marked: Floats = np.where(np.isnan(scales), alphas, np.copysign(alphas, -1.0))
        return marked

    def _take_numbers(self, count: int) -> Int32s:
        """Numbers for `count` subscriptions, those that are free first."""
        kept = max(0, self._free.size - count)
        fresh = count - (self._free.size - kept)
        numbers = np.arange(self._subs, self._subs + fresh, dtype=np.int32)
        subs: Int32s = np.concatenate((self._free.array[kept:], numbers))
        self._free.shorten(kept)
        self._subs += fresh
        self._ensure_subscriptions(self._subs)
        return subs

    def unsubscribe(self, subs: Int32s) -> None:
        """Forget subscriptions; others may get their numbers."""
        events.unsubscribe(self._state, subs)
        self._free.extend(subs)

    def publish(
        self, points: Floats, at: Floats, starts: Int64s, terms: Int32s, counts: Int32s
    ) -> TopkChanges:
        """Publish messages in order; `events` of the answer are their places in the call.

        The terms of the i-th are in the order of their letters, each with its count.
        """
        if len(points) > _MOST_AT_ONCE:
            parts = []
            for first in range(0, len(points), _MOST_AT_ONCE):
                some, with_end = slice(first, first + _MOST_AT_ONCE), first + _MOST_AT_ONCE + 1
                part = self.publish(points[some], at[some], starts[first:with_end], terms, counts)
                parts.append(part._replace(events=part.events + np.int32(first)))
            return TopkChanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        if self._state.scalars[NEXT] + len(points) > _LAST_NUMBER:
            self._rebase()
        self._ensure_longest(int(np.diff(starts).max(initial=0)))
        self._start()
        done, code = 0, DONE
        while done < len(points):
            done, code = self._publish_some(points, at, starts, terms, counts, done)
            self._grow(code)
        return self._changes()

    def _publish_some(
        self, points: Floats, at: Floats, starts: Int64s, terms: Int32s, counts: Int32s, done: int
    ) -> tuple[int, int]:
        return events.publish(
            self._state, self._work, points, at, starts, terms, counts, done, len(points)
        )

    def _advance_some(self, now: float) -> int:
        return events.advance(self._state, self._work, now)

    def _read_some(self, subs: Int32s, done: int) -> int:
        return events.read_members(self._state, self._work, subs, done)

    def advance(self, now: float) -> TopkChanges:
        """Let time pass, as one event."""
        self._start()
        while (code := self._advance_some(now)) != DONE:
            self._grow(code)
        return self._changes()

    def take_out(self, numbers: Int64s) -> TopkChanges:
        """Take messages out of the window, as one event; those that are not there do not matter."""
        own = (numbers - self._base).astype(np.int32)
        rows = MESSAGE * (own & int(self._state.scalars[MESSAGE_MASK]))
        self._ensure_longest(int(self._state.message_i[rows + LENGTH].max(initial=0)))
        self._start()
        done, code = self._take_out_some(own, 0)
        while code != DONE:
            self._grow(code)
            done, code = self._take_out_some(own, done)
        return self._changes()

    def close_holes(self) -> Int64s:
        """Give the messages of the window numbers without gaps up to the last; return the old ones.

        Only while all changes have been read.
        """
        first, end = self._state.scalars[FIRST], self._state.scalars[NEXT]
        numbers = np.arange(first, end)
        rows = MESSAGE * (numbers & self._state.scalars[MESSAGE_MASK])
        lives = self._state.message_i[rows + LENGTH] != TAKEN_OUT
        self._renumber((end - lives.sum() + np.cumsum(lives) - 1).astype(np.int32))
        old: Int64s = numbers[lives] + self._base
        return old

    def _renumber(self, renumbered: Int32s) -> None:
        removal.close_holes(self._state, renumbered)

    def _take_out_some(self, numbers: Int32s, done: int) -> tuple[int, int]:
        return removal.take_out(self._state, self._work, numbers, done)

    def search(
        self, point: Floats, alpha: Floats, scale: Floats, terms: Int32s, wanted: int
    ) -> tuple[Int64s, Floats]:
        """The `wanted` best messages of the window for one query, best first, and their scores.

        `point`, `alpha` and `scale` are columns of one row, as for `subscribe`.
        """
        room = wanted + wanted // 2 + 2
        scores, numbers = np.empty(room), np.empty(room, np.int32)
        subs = self._take_numbers(1)
        alpha, starts = self._with_scales(subs, alpha, scale), np.array([0, len(terms)])
        found, code = 0, MORE_MORE
        while code != DONE:
            found, code = removal.search(
                self._state, self._work, int(subs[0]), point, alpha, starts, terms, wanted, scores,
                numbers,
            )  # fmt: skip
            self._grow(code)
        self._free.extend(subs)
        order = np.lexsort((-numbers[:found], -scores[:found]))
        return numbers[order].astype(np.int64) + self._base, scores[order]

    def set_theta(self, sub: int, theta: float) -> None:
        """Set the threshold of a subscription whose results are kept elsewhere."""
        removal.set_thetas(self._state, np.array([sub]), np.array([theta]))

    def subscription(self, sub: int) -> tuple[tuple[float, float], float, int]:
        """The point, alpha and k of a subscription."""
        x, y, alpha = self._state.sub_f[sub * SUB : sub * SUB + 3].tolist()
        return (x, y), abs(alpha), int(self._state.seat_i[2 * SUB * sub + K_AND_CLASS]) >> 4

    def message(self, number: int) -> tuple[tuple[float, float], float]:
        """The point and the time of a message of the window."""
        row = MESSAGE * ((number - self._base) & int(self._state.scalars[MESSAGE_MASK]))
        x, y, _, at = self._state.message_f[row : row + MESSAGE].tolist()
        return (x, y), at

    def places(self, numbers: Int64s) -> tuple[Floats, Floats]:
        """The points and the times of messages of the window."""
        rows = MESSAGE * ((numbers - self._base) & int(self._state.scalars[MESSAGE_MASK]))
        found = self._state.message_f[rows[:, None] + np.arange(MESSAGE)]
        return found[:, :2], found[:, 3]

    def members(self, subs: Int32s) -> TopkChanges:
        """The results of subscriptions, best first; `events` are their places in the call."""
        self._start()
        done = 0
        while (done := self._read_some(subs, done)) < len(subs):
            self._grow(MORE_CHANGES)
        return self._changes()

    def probe(
        self, points: Floats, starts: Int64s, terms: Int32s, counts: Int32s
    ) -> tuple[int, int]:
        """How many subscriptions messages would affect, and a checksum of them."""
        self._ensure_longest(int(np.diff(starts).max(initial=0)))
        found = np.zeros(2, np.int64)
        events.probe(self._state, self._work, points, starts, terms, counts, found)
        return int(found[0]), int(found[1])

    def reached(
        self, points: Floats, starts: Int64s, terms: Int32s, counts: Int32s
    ) -> tuple[Int32s, Floats]:
        """The subscriptions whose thresholds one message would reach, and its scores."""
        found, _ = self.probe(points, starts, terms, counts)
        return self._work.affected[:found].copy(), self._work.scores[:found].copy()

    def reserve(self) -> int:
        """A number that no subscription gets until it is released."""
        return int(self._take_numbers(1)[0])

    def release(self, number: int) -> None:
        """Let other subscriptions have a reserved number."""
        self._free.extend(np.array([number], np.int32))

    @property
    def thetas(self) -> Floats:
        """The thresholds of all subscriptions by number."""
        return self._state.sub_f[THETA::SUB][: self._subs].copy()

    @property
    def buffered(self) -> float:
        """How many messages a subscription buffers on average, some of them expired unnoticed."""
        seats = self._state.seat_i.reshape(-1, 2 * SUB)[: self._subs]
        return float((seats[:, END] - seats[:, BEGIN]).mean()) if self._subs else 0.0

    def _start(self) -> None:
        self._state.scalars[CHANGES] = self._state.scalars[EVENT_START] = 0

    def _changes(self) -> TopkChanges:
        count = int(self._state.scalars[CHANGES])
        rows = self._work.changes[: 4 * count].reshape(-1, 4).T.copy()
        numbers = rows[3].astype(np.int64) + self._base
        return TopkChanges(
            rows[0], rows[1], rows[2], numbers, self._work.change_scores[:count].copy()
        )

    def _grow(self, code: int) -> None:
        """Give a kernel what it asked for."""
        state, needed = self._state, int(self._state.scalars[NEEDED])
        if code == MORE_CHANGES:
            room = 2 * len(self._work.change_scores) + 4096
            self._work = self._work._replace(
                changes=longer(self._work.changes, 4 * room),
                change_scores=longer(self._work.change_scores, room),
            )
        elif code == MORE_RING:
            self._state = with_larger_ring(self._memory, state)
        elif code == MORE_TERMS:
            room = max(needed, len(state.message_terms) * 5 // 4)
            self._state = with_more_message_terms(self._memory, state, room)
        elif code in _GROWING:
            name = _GROWING[code]
            self._state = with_longer(self._memory, state, name, _more_than(needed))

    def _ensure_subscriptions(self, count: int) -> None:
        had = len(self._state.sub_f) // SUB
        if count > had:
            room = max(count, had * 3 // 2)
            self._state = with_subscriptions(self._memory, self._state, room)
            self._work = self._work._replace(
                affected=np.empty(room + 1, np.int32), scores=np.empty(room + 1)
            )

    def _ensure_longest(self, length: int) -> None:
        if length > len(self._work.terms):
            wider = _work(2 * length, len(self._work.scores) - 1, len(self._work.change_scores))
            self._work = wider

    def _rebase(self) -> None:
        """Count from a later message on: kernels have 31 bits for a number."""
        scalars = self._state.scalars
        size = int(scalars[MESSAGE_MASK]) + 1
        shift = int(scalars[FIRST]) // size * size
        self._count_from(shift)
        self._base += shift

    def _count_from(self, shift: int) -> None:
        events.rebase(self._state, shift)


def warm_up(make: Callable[..., TopK] = TopK) -> None:
    """Compile every kernel, or read it from the disk, before anybody waits for an event."""
    core = make(Window(1), 0.0, 0.0, 1.0)
    core.ensure_terms(1)
    points, ones = np.zeros((1, 2)), np.ones(1, np.int32)
    starts, terms = np.array([0, 1], np.int64), np.zeros(1, np.int32)
    subs = core.subscribe(points, np.ones(1), ones, starts, terms)
    core.publish(points, np.zeros(1), starts, terms, ones)
    core.advance(0.0)
    core.members(subs)
    core.take_out(np.zeros(1, np.int64))
    core.close_holes()
    core.unsubscribe(subs)


def _in_use(lists: Int32s) -> int:
    return int((lists[SIZE::LIST] >= 0).sum())


def _more_than(needed: int) -> int:
    """How much to make room for when so much is needed: memory that is not used costs none."""
    return 2 * needed + 1024


def _work(longest: int, subscriptions: int, changes: int) -> TopkScratch:
    table = 16
    while table < 2 * longest:
        table *= 2
    best = 2 * 2816
    return TopkScratch(
        np.empty(longest, np.int32),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest + 1),
        np.empty(longest, np.float32),
        np.empty(longest, np.float32),
        np.empty(table, np.int32),
        np.empty(table),
        np.empty(table),
        np.empty(PEAKS, np.float32),
        np.empty(2 * FOUND, np.int32),
        np.empty(subscriptions + 1, np.int32),
        np.empty(subscriptions + 1),
        np.empty(best),
        np.empty(best, np.int32),
        np.empty(4 * changes, np.int32),
        np.empty(changes),
    )
