"""How long things take here: the costs of `load`, measured on the index that workers use.

Populations of several sizes are made up and matched. What a message and a candidate cost follows
from their times by least squares; a message has its terms, hashes of 64 bits, found in a table
first, as a worker has to do it. An operation is an insertion or a deletion, of table and index.
Of repeated measurements the shortest counts: others may be using the machine.
"""

from __future__ import annotations

from time import thread_time_ns

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.index import Batch, Table
from nearcast.index.rarest_term import RarestTerm
from nearcast.partition.load import WorkCosts
from nearcast.partition.sample import hashed
from nearcast.partition.tables import Terms, count_of, count_table

_SHARES = (0.01, 0.05, 0.2, 0.6, 1.0)
_TERMS = 9
_VOCABULARY = 50_000
_SLICE = 2_000
_ROUNDS = 7
_LEAST_CHECK_NS, _LEAST_MESSAGE_NS = 0.1, 1.0


def calibrate(rows: int = 200_000, messages: int = 20_000, seed: int = 0) -> WorkCosts:
    """Measure the costs on this machine, in CPU time of one core; takes some seconds."""
    if rows < 100 or messages < 100:
        raise InvalidValue("rows and messages", (rows, messages), "at least 100 of each")
    draw = np.random.default_rng(seed)
    made = _CalibrationData(draw, rows, messages)
    _timed(made, min(rows, 1000))  # everything is compiled by this
    _operations(made, min(rows, 1000))
    counts, times = [], []
    for share in _SHARES:
        looked, taken = _timed(made, max(int(rows * share), 10))
        counts.append((float(messages), float(looked)))
        times.append(taken)
    # Relative errors, or the largest population alone would decide.
    weight = 1.0 / np.array(times)
    fitted = np.linalg.lstsq(np.array(counts) * weight[:, None], np.ones(len(times)), rcond=None)[0]
    return WorkCosts(
        check_ns=max(float(fitted[1]), _LEAST_CHECK_NS),
        message_ns=max(float(fitted[0]), _LEAST_MESSAGE_NS),
        operation_ns=_operations(made, rows),
    )


class _CalibrationData:
    """Points in a few towns, boxes around such points, terms by Zipf's law."""

    def __init__(self, draw: np.random.Generator, rows: int, messages: int) -> None:
        towns = draw.random((40, 2)) * (60.0, 30.0)
        weights = 1.0 / np.arange(1, _VOCABULARY + 1)
        self._chances = np.cumsum(weights) / weights.sum()
        self.frequency = (weights * 1e9).astype(np.int64)

        def places(count: int) -> Floats:
            town = (draw.random(count) ** 2 * len(towns)).astype(np.int64)
            return np.asarray(towns[town] + draw.normal(0.0, 0.3, (count, 2)))

        def terms(count: int) -> Int32s:
            return np.searchsorted(self._chances, draw.random(count)).astype(np.int32)

        middle, half = places(rows), draw.uniform(0.005, 0.25, (rows, 1))
        self.boxes: Floats = np.hstack((middle - half, middle + half))
        lengths = draw.integers(1, 4, rows)
        self.starts: Int64s = starts_of(lengths)
        self.terms = terms(int(self.starts[-1]))
        points = places(messages)
        self.message_boxes: Floats = np.hstack((points, points))
        self.message_starts: Int64s = np.arange(messages + 1, dtype=np.int64) * _TERMS
        drawn = np.sort(terms(messages * _TERMS).reshape(messages, _TERMS), axis=1)
        # Each term once: a repeated one becomes a rare one that no row has.
        drawn[:, 1:][drawn[:, 1:] == drawn[:, :-1]] = _VOCABULARY
        self.message_terms: Terms = hashed(drawn.reshape(-1))

    def index(self, rows: int) -> RarestTerm:
        """Make an index of the first rows."""
        table = Table()
        table.ensure_terms(_VOCABULARY)
        table.frequency[:_VOCABULARY] = self.frequency
        self.add(table, 0, rows)
        index = RarestTerm(table)
        index.build()
        return index

    def add(self, table: Table, first: int, end: int) -> Int32s:
        """Add some rows to a table."""
        starts = self.starts[first : end + 1]
        return table.add_boxes(
            np.arange(first, end, dtype=np.int32),
            self.boxes[first:end],
            starts - starts[0],
            self.terms[starts[0] : starts[-1]],
        )


def _timed(made: _CalibrationData, rows: int) -> tuple[int, float]:
    """Match all messages: candidates, and nanoseconds of CPU."""
    index = made.index(rows)
    known = np.unique(made.terms[: made.starts[rows]])
    keys, values = count_table(hashed(known), known.astype(np.int64) + 1)
    taken, looked = [], 0
    for _ in range(_ROUNDS):
        looked, started = 0, thread_time_ns()
        for first in range(0, len(made.message_boxes), _SLICE):
            end = min(first + _SLICE, len(made.message_boxes))
            batch = find_terms(keys, values, made.message_starts, made.message_terms, first, end)
            found = index.candidates(Batch(batch[0], batch[1], made.message_boxes[first:end]))
            looked += found.candidates
        taken.append(thread_time_ns() - started)
    return looked, float(max(min(taken), 1))


@kernel
def find_terms(
    keys: Terms, values: Int64s, starts: Int64s, terms: Terms, first: int, end: int
) -> tuple[Int64s, Int32s]:
    """Find the terms of messages; those that no row has are left out."""
    named = np.empty(starts[end] - starts[first], np.int32)
    new_starts = np.empty(end - first + 1, np.int64)
    filled = 0
    for at in range(first, end):
        new_starts[at - first] = filled
        for place in range(starts[at], starts[at + 1]):
            term = count_of(keys, values, terms[place])
            if term > 0:
                named[filled] = term - 1
                filled += 1
    new_starts[end - first] = filled
    return new_starts, named[:filled]


def _operations(made: _CalibrationData, rows: int) -> float:
    """Let new rows come and old ones go: nanoseconds of CPU for each of the two."""
    some = max(rows // (4 * _ROUNDS), 1)
    standing = max(rows - _ROUNDS * some, 1)
    index = made.index(standing)
    leaving = np.random.default_rng(1).permutation(standing).astype(np.int32)
    taken = []
    for at in range(min(_ROUNDS, rows - standing)):
        first = standing + at * some
        gone = leaving[at * some : (at + 1) * some]
        started = thread_time_ns()
        index.insert(made.add(index.table, first, first + some))
        released = index.delete(gone)
        index.table.remove(gone)
        index.table.release(released)
        taken.append((thread_time_ns() - started) / (some + max(len(gone), 1)))
    return max(min(taken), 1.0)
