"""Comparisons with numbers in many queries at once, as columns.

A predicate of few comparisons is read by a kernel from what `nearcast.text.bulk` finds in its
query. Whatever else it asks for, or however else its numbers are written, it is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import inner, kernel
from nearcast.arrays.decimals import POWERS, Words, read_decimal
from nearcast.arrays.strings import strings_at
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.text import Analyser
from nearcast.text.bulk import (
    AT_LEAST,
    AT_MOST,
    BEGIN,
    BETWEEN,
    END,
    INEXACT,
    LESS,
    MORE,
    NAME,
    NAME_END,
    NUMBER,
    TERM,
    BulkQueries,
    read_queries,
)

COMPARISONS = 2
"""How many there are of a predicate at most."""
LOW_CLOSED, HIGH_CLOSED, NEGATED = 1, 2, 4
LEFT = -2
_DIGITS = 15  # of a whole number that is surely a double

Counts = npt.NDArray[np.int8]


class Comparisons(NamedTuple):
    """The comparisons of predicate i, from `COMPARISONS * i` on; LEFT if it was not read."""

    counts: Counts
    names: Int32s
    lows: Floats
    highs: Floats
    hows: Bytes


@inner
def _bound(data: Bytes, at: int, stop: int, powers: Words, out: Words, place: int) -> int:
    """Read a number; return where it ends, or -1 if no double is surely the same."""
    end = read_decimal(powers, data, at, stop, out, place)
    if end - at <= _DIGITS:
        return int(end)
    for letter in range(at, end):
        if data[letter] == 46:
            return int(end)
    return -1


@inner
def _after_blanks(data: Bytes, at: int) -> int:
    while 28 <= data[at] <= 32 or 9 <= data[at] <= 13:
        at += 1
    return at


@inner
def read_comparison(
    data: Bytes, begin: int, end: int, kind: int, powers: Words, lows: Words, highs: Words, at: int
) -> int:
    """Write the bounds of one comparison; return which of them are closed, or -1."""
    if kind == NUMBER:
        if _bound(data, begin, end, powers, lows, at) != end:
            return -1
        highs[at] = lows[at]
        return LOW_CLOSED | HIGH_CLOSED
    if LESS <= kind <= AT_MOST:
        first = begin + (2 if kind == AT_MOST else 1)
        if _bound(data, first, end, powers, highs, at) != end:
            return -1
        return LOW_CLOSED | (HIGH_CLOSED if kind == AT_MOST else 0)
    if MORE <= kind <= AT_LEAST:
        first = begin + (2 if kind == AT_LEAST else 1)
        if _bound(data, first, end, powers, lows, at) != end:
            return -1
        return HIGH_CLOSED | (LOW_CLOSED if kind == AT_LEAST else 0)
    if kind != BETWEEN:
        return -1
    # In brackets, with TO between the numbers.
    first = _bound(data, _after_blanks(data, begin + 1), end, powers, lows, at)
    if first < 0:
        return -1
    second = _after_blanks(data, _after_blanks(data, first) + 2)
    if _bound(data, second, end, powers, highs, at) < 0:
        return -1
    return LOW_CLOSED | HIGH_CLOSED


@kernel
def _read_all(
    read: BulkQueries, places: Int32s, powers: Words, counts: Counts, members: Int64s, lows: Words,
    highs: Words, hows: Bytes,
) -> None:  # fmt: skip
    """Read the predicate of conjunct `places[i]` of query i, for each of them.

    `members` gets the member of each comparison.
    """
    one = np.uint64(1)
    for query in range(len(places)):
        counts[query] = LEFT
        conjunct = read.conjuncts[query] + places[query]
        if read.left[query] or conjunct >= read.conjuncts[query + 1]:
            continue
        has, lacks = read.required[conjunct], read.excluded[conjunct]
        base, count, good = read.starts[query], 0, True
        for member in range(base, read.starts[query + 1]):
            kind, bit = read.kinds[member], one << np.uint64(member - base)
            lacking = lacks & bit != 0 and kind != TERM
            if not lacking and (has & bit == 0 or (INEXACT >> kind) & 1 == 0):
                continue
            if count == COMPARISONS:
                good = False
                break
            at = COMPARISONS * query + count
            how = read_comparison(
                read.data, read.spans[member, BEGIN], read.spans[member, END], kind, powers, lows,
                highs, at,
            )  # fmt: skip
            if how < 0:
                good = False
                break
            hows[at] = how | (NEGATED if lacking else 0)
            members[at] = member
            count += 1
        if good:
            counts[query] = count


def read_comparisons(
    queries: pa.LargeStringArray,
    places: Int32s,
    analyser: Analyser,
    number_of: Callable[[str], int],
) -> Comparisons:
    """Read the predicates of conjunct `places[i]` of query i; `number_of` numbers names."""
    room = COMPARISONS * len(places)
    read = read_queries(queries, analyser)
    counts, members = np.empty(len(places), np.int8), np.full(room, -1, np.int64)
    lows, highs = np.full(room, -np.inf), np.full(room, np.inf)
    hows, names = np.zeros(room, np.uint8), np.zeros(room, np.int32)
    _read_all(
        read, places, POWERS, counts, members, lows.view(np.uint64), highs.view(np.uint64), hows
    )
    used = np.flatnonzero(members >= 0)
    if len(used):
        spans = read.spans[members[used]]
        coded = strings_at(read.data, spans[:, NAME], spans[:, NAME_END]).dictionary_encode()
        numbers = np.array([number_of(name) for name in coded.dictionary.to_pylist()], np.int32)
        names[used] = numbers[coded.indices.to_numpy()]
    return Comparisons(counts, names, lows, highs, hows)
