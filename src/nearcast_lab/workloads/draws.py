"""Random numbers addressed by position, so that any part of a log can be made on its own.

A stream is a key made from the seed and a name; the n-th number of a stream is a hash of key and n
(the finaliser of SplitMix64). Nothing is consumed in order: how a log is cut into chunks cannot
change it, and a subscription can look at any message without the messages before it.

Only integer arithmetic, addition, multiplication and square roots are used between the seed and the
log. They give the same bits on every machine, which logarithms and cosines do not.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcast._jit import inner, inner_counting
from nearcast.arrays.types import Floats

Ints = NDArray[np.int64]

STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_UNIT = 2.0**-53

_BELL_MEAN = 2.0 * 65535.0
_BELL_DEVIATION = float(np.sqrt(4.0 * (65536.0**2 - 1.0) / 12.0))
BELL_REACH = _BELL_MEAN / _BELL_DEVIATION
"""No value of `Draws.bell` lies further from 0 than this (about 3.46)."""


def _mixed(z: Any) -> Any:
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


mixed = inner(_mixed)
"""Hash one 64-bit number, inside a kernel."""


@inner_counting
def as_unit(bits: Any) -> Any:
    """Turn 64 random bits into a number of [0, 1), inside a kernel."""
    return np.float64(bits >> _S11) * _UNIT


def stream_key(seed: int, name: str) -> np.uint64:
    """Give the key of the stream `name` of a log with this seed."""
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


class Draws:
    """One named stream of random numbers; `at` says which of them are wanted."""

    def __init__(self, seed: int, name: str) -> None:
        self.key = stream_key(seed, name)

    def bits(self, at: Ints) -> NDArray[np.uint64]:
        """Give 64 random bits for each position."""
        bits: NDArray[np.uint64] = _mixed(at.astype(np.uint64) * STEP + self.key)
        return bits

    def uniform(self, at: Ints, low: float = 0.0, high: float = 1.0) -> Floats:
        """Give a number of [low, high) for each position."""
        unit: Floats = (self.bits(at) >> _S11).astype(np.float64) * _UNIT
        return low + unit * (high - low)

    def integers(self, at: Ints, low: int, high: int) -> Ints:
        """Give a whole number from `low` to `high`, both included, for each position."""
        return low + (self.uniform(at) * float(high - low + 1)).astype(np.int64)

    def bell(self, at: Ints) -> Floats:
        """Give a bell-shaped number of mean 0 and deviation 1 for each position.

        The sum of four uniform 16-bit numbers: close to a Gaussian, with its tails cut off at
        `BELL_REACH`, and exact.
        """
        bits = self.bits(at)
        total = np.zeros(len(bits), dtype=np.uint64)
        for shift in (0, 16, 32, 48):
            total += (bits >> np.uint64(shift)) & np.uint64(0xFFFF)
        return (total.astype(np.float64) - _BELL_MEAN) / _BELL_DEVIATION
