"""Who comes and who goes, so that the number of subscriptions stays around its target.

PS2Stream, section VI-A: between the insertion of a subscription and its deletion, a Gaussian
number of others is inserted, with mean mu (the target) and deviation 0.2 mu.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.arrays.types import Floats
from nearcast_lab.workloads.draws import BELL_REACH, Draws, Ints

_DEVIATION = 0.2


class PopulationChanges(NamedTuple):
    """Consecutive changes of the population: `number` arrives, or else leaves."""

    arrives: NDArray[np.bool_]
    number: Ints


def _lifetimes(seed: int, target: int, numbers: Ints) -> Floats:
    """Give the insertions that each subscription lives for."""
    return target * (1.0 + _DEVIATION * Draws(seed, "lifetime").bell(numbers))


def _remaining(seed: int, target: int) -> Floats:
    """Give what is left of their lives to the members of a population that is in balance.

    Who is met at a random moment is more likely to be long-lived, and at a random point of life.
    """
    remaining = np.empty(target)
    open_ = np.arange(target, dtype=np.int64)
    longest = target * (1.0 + _DEVIATION * BELL_REACH)
    attempt = 0
    while len(open_):
        lives = target * (1.0 + _DEVIATION * Draws(seed, f"first life {attempt}").bell(open_))
        keep = Draws(seed, f"first keep {attempt}").uniform(open_) * longest < lives
        kept = open_[keep]
        remaining[kept] = lives[keep] * Draws(seed, "first point of life").uniform(kept)
        open_ = open_[~keep]
        attempt += 1
    return remaining


def changes(seed: int, target: int, total: int, chunk: int) -> Iterator[PopulationChanges]:
    """Yield `total` changes of a population that starts with the numbers 0 up to `target`.

    The clock ticks once an insertion: number `target + k` arrives at time k, and what leaves
    between k and k + 1 follows it. Newcomers are numbered in order.
    """
    ends = _remaining(seed, target)
    alive = np.arange(target, dtype=np.int64)
    clock = done = 0
    while done < total:
        ticks = np.arange(clock, clock + chunk, dtype=np.int64)
        clock += chunk
        born = target + ticks
        ends = np.concatenate((ends, ticks + _lifetimes(seed, target, born)))
        alive = np.concatenate((alive, born))
        due = ends < clock
        times = np.concatenate((ticks.astype(np.float64), ends[due]))
        number = np.concatenate((born, alive[due]))
        leaves = np.arange(len(times)) >= chunk
        order = np.lexsort((number, leaves, times))[: total - done]
        yield PopulationChanges(~leaves[order], number[order])
        done += len(order)
        ends, alive = ends[~due], alive[~due]
