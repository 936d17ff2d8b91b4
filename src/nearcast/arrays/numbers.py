"""Numbers seen another way: 32 bits made 64 before sums can overflow, floats as integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from nearcast._jit import inlined

wide = cast("Callable[[Any], int]", np.int64)
"""Gives a number 64 bits, so that sums do not overflow and numbers have one type in a kernel."""


@inlined
def unsigned(number: int) -> Any:
    """The same number, not below 0, without a sign.

    An index that may be negative counts from the end, and a loop over such ones gathers its values
    one by one: many times slower than eight or sixteen in a row.
    """
    return np.uint64(number)


@inlined
def as_integer(number: float) -> int:
    """The bits of a number; of two numbers from 0 up the larger has the larger ones."""
    return np.float64(number).view(np.int64)  # type: ignore[return-value]  # an int to every caller


@inlined
def as_float(bits: int) -> float:
    """The number that has these bits."""
    return np.int64(bits).view(np.float64)
