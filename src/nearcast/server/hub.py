"""Updates from the log to those who listen, each encoded once.

A listener has a queue of limited size. One that does not keep up loses its queue, not its place:
it goes on from the log, and nobody else notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from time import perf_counter
from typing import Protocol

from nearcast.engine.update_log import Entry, UpdateLog
from nearcast.server.backend import CommittedBatch

Encode = Callable[[Entry], bytes]


class UpdateListener:
    """Somebody who wants the updates of some subscriptions, or of all.

    `lost` is set when its queue was thrown away: what it missed is in the log.
    """

    def __init__(
        self, subscriptions: Iterable[str] | None, encode: Encode, most_bytes: int
    ) -> None:
        self.encode = encode
        self.subscriptions = None if subscriptions is None else frozenset(subscriptions)
        self.queue: list[tuple[int, bytes]] = []
        self.lost = False
        self.closed = False
        self.since = 0.0  # when the oldest update of the queue was queued
        self._most = most_bytes
        self.size = 0
        self._awake = asyncio.Event()

    def offer(self, id: int, data: bytes) -> None:
        """Queue an update, or give up the queue if there is no room."""
        if self.lost:
            return
        self.size += len(data)
        if self.size > self._most:
            self.lost = True
            self.queue.clear()
        else:
            if not self.queue:
                self.since = perf_counter()
            self.queue.append((id, data))
        self._awake.set()

    def take(self) -> list[tuple[int, bytes]]:
        """Everything queued."""
        queue, self.queue, self.size = self.queue, [], 0
        self._awake.clear()
        return queue

    def start_over(self) -> None:
        """Queue again from here on: the log has the rest."""
        self.take()
        self.lost = False

    def wake(self) -> None:
        """Let it look around."""
        self._awake.set()

    def close(self) -> None:
        """It will get nothing more."""
        self.closed = True
        self._awake.set()

    async def something(self) -> None:
        """Wait until there is something to do."""
        await self._awake.wait()
        self._awake.clear()


class ListenerObserver(Protocol):
    """Hears how listeners keep up."""

    def lagged(self, seconds: float) -> None:
        """An update was handed over so long after it was committed."""
        ...

    def overflowed(self) -> None:
        """A listener did not keep up."""
        ...


class Hub:
    """The listeners of one tenant, found by subscription."""

    def __init__(self, log: UpdateLog, most_bytes: int, observer: ListenerObserver) -> None:
        self.log = log
        self.observer = observer
        self.last = log.last  # every update up to this id has been offered
        self._most_bytes = most_bytes
        self._all: dict[UpdateListener, None] = {}
        self._everything: dict[UpdateListener, None] = {}
        self._by_subscription: dict[str, dict[UpdateListener, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def listeners(self) -> list[UpdateListener]:
        """All of them."""
        return list(self._all)

    def join(self, subscriptions: Iterable[str] | None, encode: Encode) -> UpdateListener:
        """Add a listener, who hears of what is committed from now on."""
        listener = UpdateListener(subscriptions, encode, self._most_bytes)
        self._all[listener] = None
        self._index(listener)
        return listener

    def _index(self, listener: UpdateListener) -> None:
        if listener.subscriptions is None:
            self._everything[listener] = None
            return
        for id in listener.subscriptions:
            self._by_subscription.setdefault(id, {})[listener] = None

    def change(self, listener: UpdateListener, subscriptions: Iterable[str] | None) -> None:
        """Let a listener hear of other subscriptions."""
        self._drop(listener)
        listener.subscriptions = None if subscriptions is None else frozenset(subscriptions)
        self._index(listener)

    def leave(self, listener: UpdateListener) -> None:
        """Forget a listener."""
        if self._all.pop(listener, 0) is None:
            self._drop(listener)
            listener.close()

    def _drop(self, listener: UpdateListener) -> None:
        if listener.subscriptions is None:
            self._everything.pop(listener, None)
            return
        for id in listener.subscriptions:
            others = self._by_subscription.get(id)
            if others is not None:
                others.pop(listener, None)
                if not others:
                    del self._by_subscription[id]

    def committed(self, batch: CommittedBatch) -> None:
        """Offer the updates of a batch to those who want them."""
        if self._all and batch.last > self.last:
            self._offer(batch.entries())
        self.last = max(self.last, batch.last)

    def _offer(self, entries: Iterable[Entry]) -> None:
        everything, by_subscription = self._everything, self._by_subscription
        for entry in entries:
            wanting = by_subscription.get(entry[4])
            if wanting or everything:
                made: dict[Encode, bytes] = {}
                for listener in (*(wanting or ()), *everything):
                    encode = listener.encode
                    if encode not in made:
                        made[encode] = encode(entry)
                    listener.offer(entry[0], made[encode])

    def delivered(self, entries: list[Entry]) -> None:
        """Offer updates that came later than their events."""
        self._offer(entries)
        self.last = max(self.last, entries[-1].id)

    def queued(self) -> int:
        """How many bytes wait for listeners."""
        return sum(listener.size for listener in self._all)

    def tick(self, turn: int, turns: int) -> None:
        """Wake one of every `turns` listeners, so that those who heard nothing say they are there.

        To wake a thousand at once would hold up everybody for tens of milliseconds.
        """
        for listener in islice(self._all, turn % turns, None, turns):
            listener.wake()
