"""Lists of different lengths in one array: list i is `values[starts[i] : starts[i + 1]]`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nearcast.arrays.types import Int32s, Int64s


def starts_of(sizes: Iterable[int]) -> Int64s:
    """Where lists of these sizes start when concatenated, and where the last one ends."""
    counted = sizes if isinstance(sizes, np.ndarray) else np.array([*sizes], np.int64)
    starts = np.zeros(len(counted) + 1, np.int64)
    np.cumsum(counted, out=starts[1:])
    return starts


def picked(starts: Int64s, which: Int64s | Int32s) -> tuple[Int64s, Int64s]:
    """Starts for a selection of lists, and the places of their values."""
    sizes = np.diff(starts)[which]
    fresh = starts_of(sizes)
    return fresh, np.repeat(starts[:-1][which] - fresh[:-1], sizes) + np.arange(fresh[-1])
