"""The subscriptions of an engine in the order of their ids, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sortedcontainers import SortedSet

from nearcast.engine.changes import EngineChanges
from nearcast.events import Subscription
from nearcast.geo import Box

if TYPE_CHECKING:
    from nearcast.engine.core import EventCore

_DENSE = 16  # if one in this many subscriptions is near the box, a walk through all is faster


class Directory:
    """Keeps the ids in order; they are sorted on first use."""

    def __init__(self, core: EventCore) -> None:
        self._core = core
        self._ids: SortedSet | None = None

    def follow(self, changes: EngineChanges) -> None:
        """Update the ids after subscriptions were added and removed."""
        if self._ids is None:
            return
        if changes.boxes:
            self._ids = None  # many at once: sorted again on the next use
            return
        for id, subscription in changes.subscriptions.items():
            if subscription is None:
                self._ids.discard(id)
            else:
                self._ids.add(id)

    def page(self, after: str | None, limit: int, bbox: Box | None) -> list[Subscription]:
        """The first `limit` subscriptions after an id, of those that meet a box or of all."""
        found = (
            subscription
            for id in self._walk(after, bbox)
            if (subscription := self._core.subscription(id)) is not None
            and (bbox is None or _meets(subscription, bbox))
        )
        return list(islice(found, max(0, limit)))

    def _walk(self, after: str | None, bbox: Box | None) -> Iterator[str]:
        """Ids after one, in order; with a box at least those of all that meet it."""
        most = len(self._core) // _DENSE
        near = None if bbox is None else self._core.ids_around(bbox.bounds(), most)
        if near is not None:
            return iter(sorted(id for id in near if after is None or id > after))
        if self._ids is None:
            self._ids = SortedSet(self._core.ids())
        walk: Iterator[str] = self._ids.irange(after, None, (False, False))
        return walk


def _meets(subscription: Subscription, bbox: Box) -> bool:
    if subscription.region is not None:
        return subscription.region.meets(bbox)
    return subscription.point is not None and bbox.contains(*subscription.point)
