"""What a map shows: messages as they are published, updates, subscriptions that change.

Nothing here is kept, and a listener who cannot take it all gets a sample.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from time import monotonic
from typing import Any

from nearcast.engine.update_log import Entry
from nearcast.events import Event, Message, Move, Publish, Subscribe, Unsubscribe
from nearcast.geo import Box, region_to_json
from nearcast.server.backend import CommittedBatch
from nearcast.server.shapes import meets, subscription_to_json
from nearcast.server.wire import sse_event

_TELL_S = 1.0


class LiveListener:
    """Somebody who looks at a part of the map."""

    def __init__(
        self,
        box: Box | None,
        subscriptions: Iterable[str],
        per_second: float,
        clock: Callable[[], float],
    ) -> None:
        self.box = box
        self.subscriptions = frozenset(subscriptions)
        self._rate = per_second
        self._clock = clock
        self._room = per_second
        self._then = clock()
        self.left_out = 0
        self.closed = False
        self.queue: list[bytes] = []
        self.awake = asyncio.Event()

    def room(self, *, own: bool = False) -> bool:
        """Whether one more event fits into this second; what is one's own only has to fit at all.

        A listener who reads nothing gets nothing more, so that its queue does not grow.
        """
        if own and len(self.queue) <= 4 * self._rate:
            return True
        now = self._clock()
        self._room = min(self._rate, self._room + (now - self._then) * self._rate)
        self._then = now
        if self._room < 1.0 or len(self.queue) > 4 * self._rate:
            self.left_out += 1
            return False
        self._room -= 1.0
        return True

    def offer(self, data: bytes) -> None:
        """Queue an event."""
        self.queue.append(data)
        self.awake.set()


class LiveMap:
    """Those who look at the map of one tenant."""

    def __init__(self, per_second: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._listeners: dict[LiveListener, None] = {}

    def __len__(self) -> int:
        return len(self._listeners)

    def join(self, box: Box | None, subscriptions: Iterable[str] = ()) -> LiveListener:
        """Add somebody who looks at a box, or at everything.

        Updates of `subscriptions` are shown wherever they happen, and are no part of a sample.
        """
        listener = LiveListener(box, subscriptions, self._per_second, self._clock)
        self._listeners[listener] = None
        return listener

    def leave(self, listener: LiveListener) -> None:
        """Forget a listener."""
        self._listeners.pop(listener, None)

    def close(self) -> None:
        """Send everybody home."""
        for listener in self._listeners:
            listener.closed = True
            listener.awake.set()

    def committed(self, batch: CommittedBatch) -> None:
        """Show a batch to everyone whose part of the map it concerns."""
        if not self._listeners:
            return
        for event, outcome, at in zip(batch.events, batch.outcomes, batch.times, strict=True):
            if outcome.error is None:
                self._show(event, at, [update_to_json(update, at) for update in outcome.updates])

    def delivered(self, entries: list[Entry], messages: dict[str, Message]) -> None:
        """Show updates that came later than their messages."""
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
            return sse_event("message", fields)
        case Subscribe(subscription):
            return sse_event("subscription", subscription_to_json(subscription))
        case Move(id, region, point):
            where = {"point": point} if region is None else {"region": region_to_json(region)}
            return sse_event("subscription", {"id": id, **where})
        case Unsubscribe(id):
            return sse_event("unsubscribed", {"id": id})
    return b""


def place_of(message: Message) -> dict[str, Any]:
    """What a message says, and where."""
    if message.region is not None:
        return {"text": message.text, "region": region_to_json(message.region)}
    return {"text": message.text, "point": message.point}


def update_to_json(update: Any, at: float) -> dict[str, Any]:
    """An update as the map gets it; by its time one that comes again is told from the first."""
    fields = {"op": update.op, "subscription": update.subscription, "message": update.message}
    fields["at"] = at
    return fields if update.score is None else fields | {"score": update.score}


async def live_events(
    live: LiveMap, listener: LiveListener, keep_alive_s: float
) -> AsyncGenerator[bytes, None]:
    """Everything a listener gets to see; every second what it did not."""
    yield b": live\n\n"
    try:
        told = spoke = monotonic()
        while not listener.closed:
            try:
                async with asyncio.timeout(_TELL_S):
                    await listener.awake.wait()
            except TimeoutError:
                pass
            listener.awake.clear()
            pieces, listener.queue = listener.queue, []
            now = monotonic()
            if listener.left_out and now - told >= _TELL_S:
                pieces.append(sse_event("sampled", {"left_out": listener.left_out}))
                listener.left_out, told = 0, now
            if pieces or now - spoke >= keep_alive_s:
                spoke = now
                yield b"".join(pieces) or b": keep-alive\n\n"
    finally:
        live.leave(listener)
