"""The interface of the cores that match events for an engine, with or without an index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nearcast.engine.attributes import Attributes
from nearcast.engine.matching import ActiveMessageSet
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.events import Event, Message, Result, Subscription, Update
from nearcast.geo import Bounds


class EventCore(Protocol):
    """Applies events in order, and holds the state after them."""

    plain: bool
    """Whether it has no index, and takes events one by one."""
    settings: Settings
    now: float | None
    """The time of the latest event; None before the first."""
    attributes: Attributes
    """What subscriptions have that no index looks at."""
    ended: list[str]
    """The subscriptions that ended with the time of the latest event."""
    withdrew: bool
    """Whether the latest event retracted or replaced a message."""

    @property
    def oldest(self) -> str | None:
        """The id of the oldest message in the window; None if it is empty."""
        ...

    def __len__(self) -> int:
        """How many subscriptions there are."""
        ...

    def apply(self, event: Event) -> list[Update]:
        """Apply one event and return its updates in order; a refused one changes nothing."""
        ...

    def advance(self, now: float) -> None:
        """Advance the time."""
        ...

    def resume(self, subscription: Subscription, end: float | None) -> None:
        """Add a subscription that was there before, and ends when it would have."""
        ...

    def bring_back(self, message: Message, in_window: bool) -> None:
        """Add a message that was published before and has not ended, without updates."""
        ...

    def results(self, id: str) -> list[Result]:
        """The current results of a subscription."""
        ...

    def subscription(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        ...

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions, as they are now."""
        ...

    def ids(self) -> Iterable[str]:
        """The ids of all subscriptions."""
        ...

    def ids_around(self, bounds: tuple[Bounds, ...], most: int) -> list[str] | None:
        """The ids of all that may meet one of some plain boxes; None if they are more than that."""
        ...

    def message(self, id: str) -> Message | None:
        """Look up a message that is active or in the window."""
        ...

    @property
    def active(self) -> ActiveMessageSet:
        """The active messages."""
        ...

    def match(self, message: Message) -> list[Result]:
        """The subscriptions that a message would reach now, with their scores; nothing changes."""
        ...

    def figures(self) -> dict[str, float]:
        """Figures about the state, for monitoring."""
        ...


def make_core(index: str, settings: Settings, ranking: str = "auto") -> EventCore:
    """Create the core for the index and the ranking of these names."""
    if index == "scan":
        return Scan(settings)
    from nearcast.engine.indexed import Indexed

    return Indexed(settings, index, ranking)
