"""How fast something may go."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Limits something to `rate` a second, with bursts of up to `burst_s` seconds' worth.

    Spending more than is left overdraws it.
    """

    def __init__(self, rate: float, clock: Callable[[], float], burst_s: float = 2.0) -> None:
        self._rate = rate
        self.most = max(1.0, rate * burst_s)
        self._left = self.most
        self._clock = clock
        self._then = clock()

    @property
    def left(self) -> float:
        """What is left now; below 0 while it is overdrawn."""
        now = self._clock()
        self._left = min(self.most, self._left + (now - self._then) * self._rate)
        self._then = now
        return self._left

    def spend(self, count: float) -> None:
        """Take out that many, whatever is left."""
        self._left = self.left - count

    def wait(self, count: float = 1.0) -> float:
        """Seconds until that many may be spent; one is enough to overdraw it."""
        return (1.0 - self._left) / self._rate if self.left < min(1.0, count) else 0.0

    def take(self, count: float = 1.0) -> float:
        """Spend that many and return 0, or nothing and return the seconds until one is left."""
        wait = self.wait(count)
        if not wait:
            self._left -= count
        return wait

    def debt(self) -> float:
        """Seconds until it is no longer overdrawn."""
        return max(0.0, -self._left / self._rate)
