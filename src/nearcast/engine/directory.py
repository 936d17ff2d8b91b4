"""The subscriptions of an engine in the order of their ids, a page at a time."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sortedcontainers import SortedSet

from nearcast.engine.changes import EngineChanges
from nearcast.events import Subscription
from nearcast.geo import Box

if TYPE_CHECKING:
    from nearcast.engine.core import EventCore

_SORTED_AT_ONCE = 10_000
_DENSE = 16  # if one in this many subscriptions is near the box, a walk through all is faster


class PagePart(NamedTuple):
    """A part of a page: what was found, the id to go on after, and whether nothing follows."""

    found: list[Subscription]
    after: str | None
    is_last: bool


class Directory:
    """Keeps the ids in order; they are sorted on first use, some at a time."""

    def __init__(self, core: EventCore) -> None:
        self._core = core
        self._ids: SortedSet | None = None
        self._unsorted: list[str] = []

    def follow(self, changes: EngineChanges) -> None:
        """Update the ids after subscriptions were added and removed."""
        if self._ids is None:
            return
        if changes.boxes or changes.added:
            self._ids, self._unsorted = None, []  # many at once: sorted again on the next use
            return
        for id, subscription in changes.subscriptions.items():
            if subscription is None:
                self._ids.discard(id)
            else:
                self._ids.add(id)

    def part(self, after: str | None, limit: int, bbox: Box | None, most: int) -> PagePart:
        """Look at up to `most` subscriptions after an id, for up to `limit` that meet a box.

        While the ids are being sorted it finds nothing, and goes on after the same id.
        """
        ids = self._near(after, bbox, most + 1)
        if ids is None:
            if not self._is_sorted():
                return PagePart([], after, False)
            assert self._ids is not None  # noqa: S101 - they are sorted
            ids = list(islice(self._ids.irange(after, None, (False, False)), most + 1))
        found: list[Subscription] = []
        for id in ids[:most]:
            if len(found) >= limit:
                return PagePart(found, after, False)
            after = id
            subscription = self._core.subscription(id)
            if subscription is not None and (bbox is None or _meets(subscription, bbox)):
                found.append(subscription)
        return PagePart(found, after, len(ids) <= most)

    def _near(self, after: str | None, bbox: Box | None, most: int) -> list[str] | None:
        """The first ids after one of all that may meet a box; None if these are many."""
        if bbox is None:
            return None
        near = self._core.ids_around(bbox.bounds(), len(self._core) // _DENSE)
        if near is None:
            return None
        return nsmallest(most, (id for id in near if after is None or id > after))

    def _is_sorted(self) -> bool:
        """Sort some more ids; return whether all are.

        An id that is removed before its turn stays behind; there is no subscription with it.
        """
        if self._ids is None:
            self._ids, self._unsorted = SortedSet(), list(self._core.ids())
        self._ids.update(self._unsorted[-_SORTED_AT_ONCE:])
        del self._unsorted[-_SORTED_AT_ONCE:]
        return not self._unsorted


def _meets(subscription: Subscription, bbox: Box) -> bool:
    if subscription.region is not None:
        return subscription.region.meets(bbox)
    return subscription.point is None or bbox.contains(*subscription.point)
