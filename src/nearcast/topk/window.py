"""Which messages a top-k subscription chooses from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

from nearcast.errors import InvalidValue

DEFAULT_COUNT = 100_000


@dataclass(frozen=True, slots=True)
class Window:
    """The last `count` messages, or those of the last `seconds`: `at > now - seconds`.

    Only point messages enter it: a range message takes no part in top-k.
    """

    count: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.seconds is not None:
            raise InvalidValue("window", self, "a count or a number of seconds, not both")
        if self.seconds is not None:
            number = isinstance(self.seconds, Real) and not isinstance(self.seconds, bool)
            if not (number and self.seconds > 0 and math.isfinite(self.seconds)):
                raise InvalidValue("window seconds", self.seconds, "a finite number above 0")
        elif self.count is None:
            object.__setattr__(self, "count", DEFAULT_COUNT)
        elif isinstance(self.count, bool) or not isinstance(self.count, Integral) or self.count < 1:
            raise InvalidValue("window count", self.count, "a whole number of at least 1")
