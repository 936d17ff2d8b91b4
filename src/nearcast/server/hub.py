"""Distribution of updates to listeners, each encoded once.

A listener has a queue of limited size. If it overflows, the listener goes on from the log;
other listeners are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from time import perf_counter
from typing import Protocol

from nearcast.engine.update_log import Entry, UpdateLog
from nearcast.server.backend import CommittedBatch
from nearcast.server.wire import Encode


class UpdateListener:
    """A queue of updates of some subscriptions, or of all.

    `lost` is set when the queue was dropped: the updates it missed are in the log.
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
        """Queue an update, or drop the queue if it is full."""
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
        """Remove and return all queued updates."""
        queue, self.queue, self.size = self.queue, [], 0
        self._awake.clear()
        return queue

    def start_over(self) -> None:
        """Clear the queue and accept updates again; the log has the missed ones."""
        self.take()
        self.lost = False

    def wake(self) -> None:
        """Wake the task that waits, so that it can send a keep-alive."""
        self._awake.set()

    def close(self) -> None:
        """End the listener."""
        self.closed = True
        self._awake.set()

    async def wait(self) -> None:
        """Wait for an update, a wake-up or the end."""
        await self._awake.wait()
        self._awake.clear()


class ListenerObserver(Protocol):
    """Records how listeners keep up."""

    def may_be_behind(self) -> bool:
        """Whether the log may be a copy that does not have yet what was heard elsewhere."""
        ...

    def lagged(self, seconds: float) -> None:
        """Record the time from the commit of an update to its delivery."""
        ...

    def overflowed(self) -> None:
        """Record a listener that did not keep up."""
        ...


class Hub:
    """The listeners of one tenant, found by subscription."""

    def __init__(self, log: UpdateLog, most_bytes: int, observer: ListenerObserver) -> None:
        self.log = log
        self.observer = observer
        self.last = log.last  # every update up to this id has been offered
        self.copied = log.last  # up to this id they came from the other server of a pair
        self._most_bytes = most_bytes
        self._all: dict[UpdateListener, None] = {}
        self._everything: dict[UpdateListener, None] = {}
        self._by_subscription: dict[str, dict[UpdateListener, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def listeners(self) -> list[UpdateListener]:
        """All listeners."""
        return list(self._all)

    def join(self, subscriptions: Iterable[str] | None, encode: Encode) -> UpdateListener:
        """Add a listener for updates that are committed from now on."""
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
        """Change the subscriptions of a listener."""
        self._drop(listener)
        listener.subscriptions = None if subscriptions is None else frozenset(subscriptions)
        self._index(listener)

    def leave(self, listener: UpdateListener) -> None:
        """Remove a listener."""
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
        """Offer the updates of a batch to the listeners of their subscriptions."""
        if self._all and batch.last > self.last:
            self._offer(batch.entries())
        self.last = max(self.last, batch.last)
        if self.observer.may_be_behind():
            self.copied = self.last

    def _offer(self, entries: Iterable[Entry]) -> None:
        everything, by_subscription = self._everything, self._by_subscription
        for entry in entries:
            wanting = by_subscription.get(entry.subscription)
            if wanting or everything:
                made: dict[Encode, bytes] = {}
                for listener in (*(wanting or ()), *everything):
                    encode = listener.encode
                    if encode not in made:
                        made[encode] = encode(entry)
                    listener.offer(entry.id, made[encode])

    def delivered(self, entries: list[Entry]) -> None:
        """Offer updates that arrived after the batch of their events."""
        self._offer(entries)
        self.last = max(self.last, entries[-1].id)

    def queued(self) -> int:
        """Bytes queued for all listeners."""
        return sum(listener.size for listener in self._all)

    def tick(self, turn: int, turns: int) -> None:
        """Wake one in `turns` listeners, so that idle connections send a keep-alive.

        Waking a thousand at once would block the event loop for tens of milliseconds.
        """
        for listener in islice(self._all, turn % turns, None, turns):
            listener.wake()
