"""The window through a step: which messages are in it after each event.

The registrar, which decides the order of events, numbers the messages of the window as they arrive
and records after each event which are in it: from `first` to before `next`. Workers count nothing
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Int32s, Int64s

_SMALL = 2048  # messages: in a smaller window, cuts are at least `_FEWEST` events apart
_FEWEST = 1024


class StepClock(NamedTuple):
    """A step as kernels read it; number 0 is the oldest message of the window before it."""

    first: Int32s  # by event
    next: Int32s
    arrives: Int32s  # by message of the step: with which event
    expires: Int32s  # by message, of those that leave: with which event
    came: int  # how many messages were in the window before the step


@dataclass(frozen=True)
class Timeline:
    """The events of a step, in order, and the window before and after each."""

    seq: Int64s
    first: Int64s
    next: Int64s
    was_first: int
    was_next: int

    def __len__(self) -> int:
        return len(self.seq)

    @property
    def end_first(self) -> int:
        """The oldest message of the window after the step."""
        return int(self.first[-1]) if len(self) else self.was_first

    @property
    def end_next(self) -> int:
        """The number of the first message after the step."""
        return int(self.next[-1]) if len(self) else self.was_next

    @cached_property
    def clock(self) -> StepClock:
        """The step for kernels."""
        first, following = self.first - self.was_first, self.next - self.was_first
        came = self.was_next - self.was_first
        messages = np.arange(came, self.end_next - self.was_first)
        leaving = np.arange(self.end_first - self.was_first)
        return StepClock(
            first.astype(np.int32),
            following.astype(np.int32),
            np.searchsorted(following, messages, "right").astype(np.int32),
            np.searchsorted(first, leaving, "right").astype(np.int32),
            came,
        )

    @cached_property
    def cuts(self) -> Int64s:
        """Events between which at least half of the window stays, unless it is small.

        Between two cuts, no message is among the k best that ranks after the k-th of those that
        stay all the while.
        """
        found, at = [0], 0
        while at < len(self):
            size = int(self.next[at] - self.first[at])
            stop = int(np.searchsorted(self.first, self.first[at] + size // 2, "right"))
            at = max(stop, at + 1 if size >= _SMALL else at + _FEWEST)
            found.append(min(at, len(self)))
        return np.array(found, np.int64)

    def events_of(self, seq: Int64s) -> Int32s:
        """Which events of the step have these sequence numbers."""
        return np.searchsorted(self.seq, seq).astype(np.int32)


def moment(first: int, following: int) -> Timeline:
    """A step of one event that does not change the window."""
    return Timeline(
        np.zeros(1, np.int64), np.array([first]), np.array([following]), first, following
    )
