"""Ranks that follow Zipf's law, drawn by inverting their cumulative weights."""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats
from nearcast_lab.workloads.draws import Ints


def cumulative_weights(size: int, exponent: float = 1.0, shift: float = 0.0) -> Floats:
    """Sum up the weights 1 / (rank + shift) ** exponent of the ranks 1 to `size`.

    With a shift above 0 (Zipf-Mandelbrot) the first ranks are less dominant, as in texts without
    their stop words.
    """
    ranks = np.arange(1, size + 1, dtype=np.float64) + shift
    if exponent != 1.0:
        # Single precision hides the last bits, in which the power functions of machines differ.
        ranks = np.power(ranks, exponent).astype(np.float32).astype(np.float64)
    return np.cumsum(1.0 / ranks)


def ranks_of(cumulative: Floats, unit: Floats) -> Ints:
    """Turn numbers of [0, 1) into 0-based ranks, the most frequent first."""
    ranks: Ints = np.searchsorted(cumulative, unit * cumulative[-1], side="right")
    ranks[ranks == len(cumulative)] -= 1  # a number next to 1 may be rounded up to the total
    return ranks
