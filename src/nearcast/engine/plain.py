"""An engine that begins on plain code, and the rule by which it goes over to an index.

Plain code serves a few subscriptions in less time than kernels take to load, and needs no
compilation. It goes over when its comparisons have cost as much as building the index would (the
ski-rental rule), so the total cost is at most twice the optimum.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nearcast import _kernel_builder
from nearcast._kernel_files import at_hand
from nearcast.engine.explaining import PLACE, PROPERTY, found_by
from nearcast.engine.matching import BooleanSubscription, ScannedMessages, ScannedSubscriptions
from nearcast.engine.rankings import PlainRankings
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.events import Event, Publish, Update

if TYPE_CHECKING:
    from nearcast.engine.indexed import Indexed

PART = "engine"
COMPARISONS = 1_000_000
"""This many comparisons of a message with a subscription take as long as loading kernels."""
SUBSCRIPTIONS = 20_000
"""From this many subscriptions on, an index needs less memory, even without messages."""
ROWS = 1_000
"""A table of this many rows needs an index at once; a smaller one is read row by row."""
_MESSAGES = 50_000  # from this many on, the messages of a file are loaded faster as columns


class CountedSubscriptions(ScannedSubscriptions):
    """Boolean subscriptions without an index, and by what an index would find them."""

    def __init__(self) -> None:
        super().__init__()
        self.found_by: Counter[str] = Counter()
        """The number of alternatives of all queries, by `explaining.found_by`."""

    def put(self, interest: BooleanSubscription) -> None:
        """Add a subscription, or replace the one with its id."""
        self._count(self.find(interest.subscription.id), -1)
        super().put(interest)
        self._count(interest, 1)

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        self._count(self.find(id), -1)
        super().drop(id)

    def _count(self, interest: BooleanSubscription | None, step: int) -> None:
        for alternative in interest.query.conjuncts if interest else ():
            self.found_by[found_by(alternative)] += step


class CountingScan(Scan):
    """The reference engine, with a count of its comparisons of messages and subscriptions."""

    def __init__(self, settings: Settings) -> None:
        self.scanned_subscriptions, self.scanned_messages = (
            CountedSubscriptions(),
            ScannedMessages(),
        )
        self.rankings_of_all = PlainRankings(settings)
        super().__init__(
            settings, self.scanned_subscriptions, self.rankings_of_all, self.scanned_messages
        )
        self.comparisons = 0

    @property
    def arrivals(self) -> int:
        """The number of messages so far."""
        return self._arrivals

    def figures(self) -> dict[str, float]:
        """The number of comparisons so far, and of alternatives that no term narrows down."""
        broad = self.scanned_subscriptions.found_by
        return {
            "bytes": 0.0,
            "candidates": float(self.comparisons),
            "found_by_place": float(broad[PLACE]),
            "found_by_property": float(broad[PROPERTY]),
        }

    def apply(self, event: Event) -> list[Update]:
        """Apply one event, and count its comparisons."""
        updates = super().apply(event)
        self.comparisons += len(self.rankings_of_all)
        if isinstance(event, Publish):
            self.comparisons += len(self)
        else:
            self.comparisons += len(self.scanned_messages) + len(self.rankings_of_all.window)
        return updates


def begins_plain(subscriptions: int, messages: int) -> bool:
    """Whether an engine with this much in its file should begin on plain code."""
    if messages > _MESSAGES or subscriptions > SUBSCRIPTIONS:
        return False
    return subscriptions <= SUBSCRIPTIONS // 10 or not at_hand(PART)


def is_due(core: CountingScan) -> bool:
    """Whether to go over now: it is time, and the kernels are there (else they are being built)."""
    large = core.comparisons >= COMPARISONS or len(core) >= SUBSCRIPTIONS
    return large and _kernel_builder.prepared(PART)


def go_over(plain: CountingScan) -> Indexed:
    """Build a core with an index in the same state."""
    from nearcast.engine.indexed import Indexed

    indexed = Indexed(plain.settings, "auto")
    indexed.take_over(plain)
    return indexed
