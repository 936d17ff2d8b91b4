"""An engine that begins on plain code, and when it goes over to an index.

Few subscriptions are served by plain code in less time than kernels take to load, and nothing has
to be compiled first. Who pays for every look, and could pay once for an index, does best to change
when the looks have cost as much as the index: whatever comes, that is at most twice the least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast import _kernel_builder
from nearcast._kernel_files import at_hand
from nearcast.engine.matching import ScannedMessages, ScannedSubscriptions
from nearcast.engine.rankings import PlainRankings
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.events import Event, Publish, Update

if TYPE_CHECKING:
    from nearcast.engine.indexed import Indexed

PART = "engine"
LOOKS = 1_000_000
"""So many looks of a message at a subscription take about as long as loading kernels."""
SUBSCRIPTIONS = 20_000
"""So many are better kept in an index, even if they are never asked: each takes less memory."""
ROWS = 1_000
"""A table of so many rows goes to an index at once; a smaller one is read row by row."""
_MESSAGES = 50_000  # of a file: as many are read back faster as columns


class CountingScan(Scan):
    """The reference, with a count of how often a message and a subscription were compared."""

    def __init__(self, settings: Settings) -> None:
        self.everyone, self.remembered = ScannedSubscriptions(), ScannedMessages()
        self.rankings_of_all = PlainRankings(settings)
        super().__init__(settings, self.everyone, self.rankings_of_all, self.remembered)
        self.looks = 0

    @property
    def arrivals(self) -> int:
        """How many messages came so far."""
        return self._arrivals

    def figures(self) -> dict[str, float]:
        """There is no index; what was compared is counted all the same."""
        return {"bytes": 0.0, "candidates": float(self.looks)}

    def apply(self, event: Event) -> list[Update]:
        """Take one event, and count what it looked at."""
        updates = super().apply(event)
        self.looks += len(self.rankings_of_all)
        if isinstance(event, Publish):
            self.looks += len(self)
        else:
            self.looks += len(self.remembered) + len(self.rankings_of_all.window)
        return updates


def begins_plain(subscriptions: int, messages: int) -> bool:
    """Whether an engine with so much in its file does best to begin on plain code."""
    if messages > _MESSAGES or subscriptions > SUBSCRIPTIONS:
        return False
    return subscriptions <= SUBSCRIPTIONS // 10 or not at_hand(PART)


def is_due(core: CountingScan) -> bool:
    """Whether it is time to go over, and kernels are at hand; if not, they are being built."""
    large = core.looks >= LOOKS or len(core) >= SUBSCRIPTIONS
    return large and _kernel_builder.prepared(PART)


def go_over(plain: CountingScan) -> Indexed:
    """Make an engine with an index that is in the same state."""
    from nearcast.engine.indexed import Indexed

    indexed = Indexed(plain.settings, "auto")
    indexed.take_over(plain)
    return indexed
