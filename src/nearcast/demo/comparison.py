"""Compares the updates that two engines give for the same events."""

from __future__ import annotations

from collections import Counter

Change = tuple[str, str, str, float | None]
"""An update without its event: op, subscription, message, and score if it has one."""


class Comparison:
    """Holds the updates of each engine for an event until both are done with it, then compares.

    Updates of one event have no order among them. Everything else counts, scores to the last bit.
    """

    def __init__(self) -> None:
        self.same = 0
        """Updates that both gave."""
        self.differ = 0
        """Updates that only one of them gave."""
        self.first_difference: str | None = None
        self._ours: dict[int, Counter[Change]] = {}  # by the number of the event
        self._theirs: dict[int, Counter[Change]] = {}

    def ours(self, seq: int, change: Change) -> None:
        """Take an update that the engine of the server gave for an event."""
        self._ours.setdefault(seq, Counter())[change] += 1

    def theirs(self, seq: int, change: Change) -> None:
        """Take an update that the other engine gave for an event."""
        self._theirs.setdefault(seq, Counter())[change] += 1

    def settle(self, seq: int) -> None:
        """Compare all events up to one: neither engine gives any more updates for them."""
        for number in sorted(each for each in {*self._ours, *self._theirs} if each <= seq):
            ours, theirs = self._ours.pop(number, _NONE), self._theirs.pop(number, _NONE)
            if ours == theirs:
                self.same += ours.total()
            else:
                self.same += (ours & theirs).total()
                self._note(number, ours - theirs, "the embedded engine")
                self._note(number, theirs - ours, "Spark")

    def _note(self, seq: int, changes: Counter[Change], who: str) -> None:
        self.differ += changes.total()
        if changes and self.first_difference is None:
            op, subscription, message, score = next(iter(changes))
            scored = "" if score is None else f", score {score!r}"
            self.first_difference = (
                f"event {seq}: only {who} has {op} {message} for {subscription}{scored}"
            )


_NONE: Counter[Change] = Counter()
