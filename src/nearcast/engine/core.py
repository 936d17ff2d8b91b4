"""What does the matching behind an engine: the place where an index plugs in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.events import Event, Message, Result, Subscription, Update
from nearcast.geo import Bounds


class EventCore(Protocol):
    """Applies events in order, and knows what the state is after them."""

    plain: bool
    """Whether it has no index, and takes events one by one."""
    settings: Settings
    now: float | None
    """The time of the latest event; None before the first."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        ...

    def apply(self, event: Event) -> list[Update]:
        """Take one event and give its updates, in order; one that is refused changes nothing."""
        ...

    def advance(self, now: float) -> None:
        """Let time pass."""
        ...

    def results(self, id: str) -> list[Result]:
        """What is in a subscription's results now."""
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

    def figures(self) -> dict[str, float]:
        """Figures about what is inside, for whoever watches."""
        ...


def make_core(index: str, settings: Settings) -> EventCore:
    """Make the core that an engine with the index of this name has."""
    if index == "scan":
        return Scan(settings)
    from nearcast.engine.indexed import Indexed

    return Indexed(settings, index)
