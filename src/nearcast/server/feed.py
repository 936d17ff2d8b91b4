"""What one listener gets to read: first what the log has, then what happens, nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from nearcast.engine.update_log import Entry, UpdateLog
from nearcast.server.hub import Encode, Hub

_PAGE = 500


class Feed:
    """The updates of some subscriptions after an id, as bytes, in the order of their ids.

    A listener who falls behind what its queue holds goes on from the log. Where the log no longer
    reaches back, a gap says so.
    """

    def __init__(
        self,
        hub: Hub,
        subscriptions: list[str] | None,
        after: int | None,
        encode: Encode,
        gap: Callable[[int, int], bytes],
    ) -> None:
        self.place = hub.last if after is None else after
        self._hub = hub
        self._gap = gap
        self.listener = hub.join(subscriptions, encode)
        self.listener.lost = after is not None
        self.overflows = 0
        self._spoke = monotonic()

    def close(self) -> None:
        """Listen no longer."""
        self._hub.leave(self.listener)

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self.listener.closed

    async def next(self, keep_alive_s: float) -> list[bytes] | None:
        """Wait for updates; an empty list says that nothing came for a while, None the end."""
        listener = self.listener
        while not listener.closed:
            if listener.lost:
                found = await self._catch_up()
                if found:
                    return self._spoken(found)
                continue
            queued = [data for id, data in listener.take() if id > self.place]
            if queued:
                self.place = self._hub.last
                return self._spoken(queued)
            if monotonic() - self._spoke >= keep_alive_s:
                self.place = max(self.place, self._hub.last)
                return self._spoken([])
            await listener.something()
        return None

    def _spoken(self, data: list[bytes]) -> list[bytes]:
        self._spoke = monotonic()
        return data

    async def _catch_up(self) -> list[bytes]:
        """Read a page of the log; at its end, go on with the queue."""
        hub, listener = self._hub, self.listener
        log = hub.log
        if self.place > hub.last:  # from a log that had more than this one, restored, has
            gap = self._gap(hub.last + 1, self.place)
            self.place = hub.last
            return [gap]
        listener.start_over()
        up_to = hub.last
        entries, complete, first = await asyncio.to_thread(
            read_some, log, self.place, up_to, _PAGE, listener.subscriptions
        )
        if self.place + 1 < first:
            gap = self._gap(self.place + 1, first - 1)
            self.place = first - 1
            listener.lost = True
            return [gap]
        self.place = complete
        if complete < up_to:
            listener.lost = True
        return [listener.encode(entry) for entry in entries]


def read_some(
    log: UpdateLog, after: int, up_to: int, limit: int, subscriptions: frozenset[str] | None
) -> tuple[list[Entry], int, int]:
    """Updates of some subscriptions after an id, none above `up_to`.

    Also the id up to which these are all, and the first id that the log still had afterwards.
    """
    complete = up_to
    found: list[Entry] = []
    for subscription in (None,) if subscriptions is None else subscriptions:
        some = log.read(after, limit, subscription) if after < up_to else []
        if len(some) == limit:
            complete = min(complete, some[-1][0])
        found += some
    return sorted(entry for entry in found if entry[0] <= complete), complete, log.first
