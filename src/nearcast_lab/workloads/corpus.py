"""The messages of a workload, each to be had by its number: its place, its terms, its time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats
from nearcast_lab.workloads.draws import STEP, Draws, Ints, as_unit, mixed, stream_key

_MANY_TRIES = 64
_GUIDES = 1 << 15


class Ragged(NamedTuple):
    """Rows of different lengths: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Ints
    offsets: Ints


@kernel
def _draw_rows(
    key: Any, numbers: Any, offsets: Any, cumulative: Any, guides: Any, seen: Any, out: Any
) -> None:
    size = len(cumulative)
    total = cumulative[size - 1]
    for row in range(len(numbers)):
        state = mixed(np.uint64(numbers[row]) * STEP + key)
        for slot in range(offsets[row], offsets[row + 1]):
            tries = 0
            while True:
                state += STEP
                unit = as_unit(mixed(state))
                # A binary search, between the ranks that the first bits of the number leave open.
                guide = int(unit * _GUIDES)
                term, above = guides[guide], guides[guide + 1]
                while term < above:
                    middle = (term + above) >> 1
                    if cumulative[middle] <= unit * total:
                        term = middle + 1
                    else:
                        above = middle
                term = min(term, size - 1)
                if seen[term] != row:
                    break
                tries += 1
                if tries == _MANY_TRIES:
                    # A row that already holds all frequent terms takes the next free one.
                    while seen[term] == row:
                        term = (term + 1) % size
                    break
            seen[term] = row
            out[slot] = term


def distinct_terms(seed: int, name: str, numbers: Ints, lengths: Ints, weights: Floats) -> Ragged:
    """Draw a row of `lengths[i]` different terms for each number, by cumulative weights.

    A row depends on seed, name and number alone. No length may exceed the number of weights.
    """
    offsets = starts_of(lengths)
    values = np.empty(offsets[-1], dtype=np.int64)
    seen = np.full(len(weights), -1, dtype=np.int32)
    edges = np.arange(_GUIDES + 1) / _GUIDES * weights[-1]
    guides = np.searchsorted(weights, edges, side="right")
    _draw_rows(stream_key(seed, name), numbers, offsets, weights, guides, seen, values)
    return Ragged(values, offsets)


@kernel
def _pick_rows(
    key: Any, numbers: Any, values: Any, offsets: Any, picked_offsets: Any, out: Any
) -> None:
    for row in range(len(numbers)):
        state = mixed(np.uint64(numbers[row]) * STEP + key)
        first, end = offsets[row], offsets[row + 1]
        for slot in range(picked_offsets[row], picked_offsets[row + 1]):
            state += STEP
            other = first + np.int64(as_unit(mixed(state)) * (end - first))
            out[slot] = values[other]
            values[other] = values[first]
            first += 1


def picked_terms(seed: int, name: str, numbers: Ints, rows: Ragged, wanted: Ints) -> Ragged:
    """Pick `wanted[i]` terms of row i at random, or all of them if it has fewer."""
    offsets = starts_of(np.minimum(wanted, np.diff(rows.offsets)))
    values = np.empty(offsets[-1], dtype=np.int64)
    key = stream_key(seed, name)
    _pick_rows(key, numbers, rows.values.copy(), rows.offsets, offsets, values)
    return Ragged(values, offsets)


class MessageClock:
    """Message n happens at a random moment of the n-th step of `1 / rate` seconds."""

    def __init__(self, seed: int, start: float, rate: float) -> None:
        self.start = start
        self._rate = rate
        self._moment = Draws(seed, "moment")

    def times(self, numbers: Ints) -> Floats:
        """Give the time of each message, in seconds, to the millisecond."""
        return np.round(self.start + (numbers + self._moment.uniform(numbers)) / self._rate, 3)
