"""The updates for one listener: first those of the log, then new ones, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, perf_counter

from nearcast.engine.update_log import Entry, UpdateLog
from nearcast.server.hub import Hub
from nearcast.server.wire import Encode

_PAGE = 500
_FEW = 8  # up to this many subscriptions are looked up one by one; for more, all updates are read
Piece = tuple[int, bytes]
"""An update, encoded, and its id."""


class UpdateFeed:
    """The updates of some subscriptions after an id, encoded, in the order of their ids.

    A listener whose queue overflows goes on from the log. A gap stands for updates that the log
    no longer has, or that a server did not have when it was promoted. A standby that is behind the
    listener has nothing for it until it has caught up.
    """

    def __init__(
        self,
        hub: Hub,
        subscriptions: list[str] | None,
        after: int | None,
        encode: Encode,
        gap: Callable[[int, int, int], bytes],
    ) -> None:
        self.place = hub.last if after is None else after
        self._hub = hub
        self._gap = gap
        self.listener = hub.join(subscriptions, encode)
        self.listener.lost = after is not None
        self._live = after is None  # whether it has been up to date
        self._ahead = False  # of a log that may only be behind
        self._last_sent = monotonic()

    def close(self) -> None:
        """Stop listening."""
        self._hub.leave(self.listener)

    def change(self, subscriptions: list[str] | None) -> None:
        """Listen to other subscriptions from now on."""
        self._hub.change(self.listener, subscriptions)

    async def next(self, keep_alive_s: float) -> list[Piece] | None:
        """Wait for updates: an empty list after `keep_alive_s` without any, None at the end."""
        listener = self.listener
        while not listener.closed:
            if self._ahead and not self._hub.observer.may_be_behind():
                self._ahead = False
                if self.place > self._hub.copied:
                    listener.lost, self._live = True, False
                    return self._sent([self._missing(self._hub.copied)])
            if listener.lost:
                found = await self._catch_up()
                if found:
                    return self._sent(found)
                continue
            since = listener.since
            queued = [piece for piece in listener.take() if piece[0] > self.place]
            if queued:
                self.place = self._hub.last
                self._hub.observer.lagged(perf_counter() - since)
                return self._sent(queued)
            if monotonic() - self._last_sent >= keep_alive_s:
                self.place = max(self.place, self._hub.last)
                return self._sent([])
            await listener.wait()
        return None

    def _sent(self, data: list[Piece]) -> list[Piece]:
        self._last_sent = monotonic()
        return data

    async def _catch_up(self) -> list[Piece]:
        """Read a page of the log; at its end, go on with the queue."""
        hub, listener = self._hub, self.listener
        log = hub.log
        if self.place > hub.last:
            # The other server of the pair delivered it; here it is unconfirmed, or not yet copied.
            self._ahead = self.place > log.last and hub.observer.may_be_behind()
            if self._ahead or self.place <= log.last:
                listener.start_over()
                self._live = True
                return []
            return [self._missing(hub.last)]  # as after a restore of fewer updates
        if self._live:
            hub.observer.overflowed()
        self._live = False
        listener.start_over()
        up_to = hub.last
        entries, complete, first = await asyncio.to_thread(
            read_some, log, self.place, up_to, _PAGE, listener.subscriptions
        )
        if self.place + 1 < first:
            gap = self._gap(self.place + 1, first - 1, first - 1)
            self.place = first - 1
            listener.lost = True
            return [(self.place, gap)]
        self.place = complete
        if complete < up_to:
            listener.lost = True
        else:
            self._live = True
        return [(entry.id, listener.encode(entry)) for entry in entries]

    def _missing(self, last: int) -> Piece:
        """The gap after the last id that there is, from which the listener goes on."""
        gap = self._gap(last + 1, self.place, last)
        self.place = last
        return last, gap


def read_some(
    log: UpdateLog, after: int, up_to: int, limit: int, subscriptions: frozenset[str] | None
) -> tuple[list[Entry], int, int]:
    """Read updates of some subscriptions after an id, up to `up_to`.

    Returns them with their bodies, the id up to which they are complete, and the first id that
    the log still had afterwards.
    """
    if after >= up_to:
        return [], after if after <= log.last else up_to, log.first
    if subscriptions is None or len(subscriptions) > _FEW:
        some = log.read(after, limit, None)
        complete = some[-1].id if len(some) == limit else up_to
        found = [
            each for each in some if subscriptions is None or each.subscription in subscriptions
        ]
    else:
        complete, found = up_to, []
        for subscription in subscriptions:
            some = log.read(after, limit, subscription)
            if len(some) == limit:
                complete = min(complete, some[-1].id)
            found += some
    complete = min(complete, up_to)
    some = sorted(entry for entry in found if entry.id <= complete)
    return log.complete(some), complete, log.first
