"""The stream of the live map: published messages, updates and changed subscriptions.

Events are not stored. A listener that cannot keep up gets a sample of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from time import monotonic
from typing import Any

from nearcast.engine.update_log import Entry
from nearcast.events import Event, Message, Move, Publish, Retract, Subscribe, Unsubscribe
from nearcast.geo import Box, region_to_json
from nearcast.pacing import TokenBucket
from nearcast.server.backend import CommittedBatch
from nearcast.server.shapes import meets, subscription_to_json
from nearcast.server.wire import sse_event

_REPORT_S = 1.0


class LiveListener:
    """A connection that shows a box of the map."""

    def __init__(
        self,
        box: Box | None,
        subscriptions: Iterable[str],
        per_second: float,
        clock: Callable[[], float],
    ) -> None:
        self.box = box
        self.subscriptions = frozenset(subscriptions)
        self._most_queued = 4 * per_second
        self._bucket = TokenBucket(per_second, clock, burst_s=1.0)
        self.left_out = 0
        self.closed = False
        self.queue: list[bytes] = []
        self.awake = asyncio.Event()

    def room(self, *, own: bool = False) -> bool:
        """Whether one more event may be queued within the rate limit.

        An event of the listener's `own` subscriptions is only limited by the size of the queue,
        which is bounded in case the client does not read.
        """
        fits = len(self.queue) <= self._most_queued
        if fits and (own or self._bucket.take() == 0.0):
            return True
        self.left_out += 1
        return False

    def offer(self, data: bytes) -> None:
        """Queue an event."""
        self.queue.append(data)
        self.awake.set()

    def close(self) -> None:
        """End the listener."""
        self.closed = True
        self.awake.set()


class LiveMap:
    """The live listeners of one tenant."""

    def __init__(self, per_second: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._listeners: dict[LiveListener, None] = {}

    def __len__(self) -> int:
        return len(self._listeners)

    def join(self, box: Box | None, subscriptions: Iterable[str] = ()) -> LiveListener:
        """Add a listener for a box, or for the whole world.

        Updates of `subscriptions` are sent wherever they happen, and are never sampled.
        """
        listener = LiveListener(box, subscriptions, self._per_second, self._clock)
        self._listeners[listener] = None
        return listener

    def leave(self, listener: LiveListener) -> None:
        """Remove a listener."""
        self._listeners.pop(listener, None)

    def close(self) -> None:
        """End all listeners."""
        for listener in self._listeners:
            listener.close()

    def committed(self, batch: CommittedBatch) -> None:
        """Offer a batch to the listeners whose box it concerns."""
        if not self._listeners:
            return
        for event, outcome, at in zip(batch.events, batch.outcomes, batch.times, strict=True):
            if outcome.error is None:
                self._show(event, at, [update_to_json(update, at) for update in outcome.updates])

    def delivered(self, entries: list[Entry], messages: dict[str, Message]) -> None:
        """Offer updates that arrived after the batch of their messages."""
        if not self._listeners:
            return
        for entry in entries:
            message = messages.get(entry.message)
            place = {} if message is None else place_of(message)
            for listener in self._listeners:
                own = entry.subscription in listener.subscriptions
                there = message is None or listener.box is None or meets(message, listener.box)
                if (own or there) and listener.room(own=own):
                    listener.offer(sse_event("update", update_to_json(entry, entry.at) | place))

    def _show(self, event: Event, at: float, updates: list[dict[str, Any]]) -> None:
        shown: bytes | None = None
        place = place_of(event.message) if isinstance(event, Publish) else {}
        for listener in self._listeners:
            own = listener.subscriptions
            theirs = [each for each in updates if each["subscription"] in own] if own else []
            if theirs and not listener.room(own=True):
                continue
            here = _concerns(event, listener.box) and listener.room()
            if not here and not theirs:
                continue
            shown = shown or _event(event, at, len(updates))
            if shown:
                listener.offer(shown)
            for update in theirs:
                listener.offer(sse_event("update", update | place))
            if here:
                for update in updates:
                    if update["subscription"] not in own and listener.room():
                        listener.offer(sse_event("update", update | place))


def _concerns(event: Event, box: Box | None) -> bool:
    if box is None:
        return True
    match event:
        case Publish(message):
            return meets(message, box)
        case Subscribe(subscription):
            return meets(subscription, box)
        case Move(_, region, point):
            return region.meets(box) if region else point is not None and box.contains(*point)
        case _:
            return True


def _event(event: Event, at: float, matches: int) -> bytes:
    match event:
        case Publish(message):
            fields = {"id": message.id, **place_of(message), "at": at, "matches": matches}
            if message.ttl:
                fields["ttl"] = message.ttl
            return sse_event("message", fields)
        case Subscribe(subscription):
            return sse_event("subscription", subscription_to_json(subscription))
        case Move(id, region, point):
            where: dict[str, Any] = {} if point is None else {"point": point}
            if region is not None:
                where["region"] = region_to_json(region)
            return sse_event("subscription", {"id": id, **where})
        case Unsubscribe(id):
            return sse_event("unsubscribed", {"id": id})
        case Retract(id):
            return sse_event("retracted", {"id": id})
    return b""


def place_of(message: Message) -> dict[str, Any]:
    """The text and the place of a message, and what it carries, as JSON."""
    place: dict[str, Any] = {"text": message.text}
    if message.region is not None:
        place["region"] = region_to_json(message.region)
    else:
        place["point"] = message.point
    return place | message.carried


def update_to_json(update: Any, at: float) -> dict[str, Any]:
    """An update as JSON; its time distinguishes it from a repeated one."""
    fields = {"op": update.op, "subscription": update.subscription, "message": update.message}
    fields["at"] = at
    return fields if update.score is None else fields | {"score": update.score}


async def live_events(
    live: LiveMap, listener: LiveListener, keep_alive_s: float
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a listener and, each second, the number that were left out."""
    yield b": live\n\n"
    try:
        last_report = last_sent = monotonic()
        while not listener.closed:
            try:
                async with asyncio.timeout(_REPORT_S):
                    await listener.awake.wait()
            except TimeoutError:
                pass
            listener.awake.clear()
            pieces, listener.queue = listener.queue, []
            now = monotonic()
            if listener.left_out and now - last_report >= _REPORT_S:
                pieces.append(sse_event("sampled", {"left_out": listener.left_out}))
                listener.left_out, last_report = 0, now
            if pieces or now - last_sent >= keep_alive_s:
                last_sent = now
                yield b"".join(pieces) or b": keep-alive\n\n"
    finally:
        live.leave(listener)
