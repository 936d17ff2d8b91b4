"""The keys of ranges, in kernels: those that numbers of messages have, and those of queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import callable_in_kernels, inner, kernel
from nearcast.arrays.decimals import Words
from nearcast.arrays.slots import Secret, Slots, ask_for, find, hash_bytes
from nearcast.arrays.types import Bools, Bytes, Int32s, Int64s
from nearcast.engine.comparisons import read_comparison
from nearcast.text import ranges
from nearcast.text.bulk import (
    AT_LEAST,
    AT_MOST,
    BEGIN,
    BETWEEN,
    END,
    EXISTS,
    FLAG,
    LESS,
    MORE,
    NAME,
    NAME_END,
    BulkQueries,
)
from nearcast.text.ranges import CELL_MARK, CELLS, EDGE_MARKS

_ordinal = callable_in_kernels(ranges.ordinal)
_cell_at = callable_in_kernels(ranges.cell_at)
_edge_at = callable_in_kernels(ranges.edge_at)
callable_in_kernels(ranges._grid_of)
_filed_at = callable_in_kernels(ranges.filed_at)

_KINDS = CELLS  # of edges
_CELL, _FIRST_EDGE = ord(CELL_MARK), ord(EDGE_MARKS[0])  # the marks of edges follow each other
MOST_BESIDE = 24
"""Bytes that a key has beside the name, at most."""


class RangeArrays(NamedTuple):
    """What is filed where, by the number of a property's name."""

    names: Bytes
    name_starts: Int64s
    grids: Int64s  # in which some range has a cell
    grid_starts: Int64s
    edges: Int64s  # at which some range is filed, those of each kind in order
    edge_terms: Int32s  # the numbers of their keys
    edge_starts: Int64s  # three for each name


class RangeKeys(NamedTuple):
    """The keys of ranges in queries."""

    left: Bools  # queries with a bound that is not read
    used: Bools  # by conjunct: whether it is found by ranges
    data: Bytes
    spans: Int64s  # by member (n, 3): from where to where, and how far all of a kind are alike


@inner
def _hexadecimal(buffer: Bytes, at: int, number: int) -> int:
    """Write a word without leading zeros, and return where it ends."""
    word, shift = np.uint64(number), 60
    while shift > 0 and word >> np.uint64(shift) == np.uint64(0):
        shift -= 4
    while shift >= 0:
        digit = int((word >> np.uint64(shift)) & np.uint64(15))
        buffer[at] = digit + 48 if digit < 10 else digit + 87
        at += 1
        shift -= 4
    return at


@inner
def _begin(buffer: Bytes, at: int, mark: int, data: Bytes, first: int, last: int) -> int:
    """Write what a key begins with, up to the zero behind the name."""
    buffer[at], buffer[at + 1] = 0, mark
    at += 2
    for letter in range(first, last):
        buffer[at] = data[letter]
        at += 1
    buffer[at] = 0
    return at + 1


@inner
def _grid(buffer: Bytes, at: int, grid: int) -> int:
    """Write the two digits of a grid."""
    if grid < 16:
        buffer[at] = 48
        at += 1
    return _hexadecimal(buffer, at, grid)


@kernel
def room_for(asked: RangeArrays, starts: Int64s, of: Int32s) -> int:
    """Count the keys that numbers may have at most; those of message i begin at `starts[i]`."""
    room, names = 0, len(asked.name_starts) - 1
    for message in range(len(starts) - 1):
        for at in range(starts[message], starts[message + 1]):
            name = of[at]
            if name >= names:
                continue
            room += asked.grid_starts[name + 1] - asked.grid_starts[name]
            if at == starts[message] or of[at - 1] != name:
                room += asked.edge_starts[_KINDS * (name + 1)] - asked.edge_starts[_KINDS * name]
    return room


@kernel
def add_range_keys(
    asked: RangeArrays, slots: Slots, secret: Secret, seen: Int64s, mark: int, starts: Int64s,
    terms: Int32s, number_starts: Int64s, of: Int32s, bits: Int64s, buffer: Bytes, hashes: Slots,
    out_starts: Int64s, out: Int32s,
) -> None:  # fmt: skip
    """Copy the terms of messages, and add the keys of the ranges that their numbers may be in.

    The numbers of message i begin at `number_starts[i]`, those of one property side by side; `of`
    has the number of its name, and `bits` those of the double. `seen` has for each term `mark` plus
    the last message that had it. `buffer` has room for a key, `hashes` for those of all grids.
    """
    written, names = 0, len(asked.name_starts) - 1
    for message in range(len(starts) - 1):
        now = mark + message
        out_starts[message] = written
        for at in range(starts[message], starts[message + 1]):
            out[written] = terms[at]
            written += 1
        at, end = number_starts[message], number_starts[message + 1]
        while at < end:
            # The numbers of one property.
            name, stop = of[at], at + 1
            while stop < end and of[stop] == name:
                stop += 1
            if name >= names:
                at = stop
                continue
            first, last = asked.grid_starts[name], asked.grid_starts[name + 1]
            if first < last:
                size = _begin(
                    buffer, 0, _CELL, asked.names, asked.name_starts[name],
                    asked.name_starts[name + 1],
                )  # fmt: skip
                for place in range(at, stop):
                    # Their cells, all hashed first, so that the look-ups overlap.
                    where = _ordinal(bits[place])
                    for number in range(first, last):
                        grid = asked.grids[number]
                        whole = _grid(buffer, size, grid)
                        whole = _hexadecimal(buffer, whole, _cell_at(where, grid))
                        one, two = hash_bytes(secret, buffer, 0, whole, False)
                        hashes[number - first, 0], hashes[number - first, 1] = one, two
                        ask_for(slots, one)
                    for number in range(last - first):
                        term = find(slots, hashes[number, 0], hashes[number, 1])
                        if term >= 0 and seen[term] != now:
                            seen[term] = now
                            out[written] = term
                            written += 1
            for kind in range(_KINDS):
                # The edges that any of them reaches.
                edge = asked.edge_starts[_KINDS * name + kind]
                last_edge = asked.edge_starts[_KINDS * name + kind + 1]
                if edge == last_edge:
                    continue
                most = _edge_at(kind, _ordinal(bits[at]))
                for place in range(at + 1, stop):
                    most = max(most, _edge_at(kind, _ordinal(bits[place])))
                while edge < last_edge and asked.edges[edge] <= most:
                    term = asked.edge_terms[edge]
                    if seen[term] != now:
                        seen[term] = now
                        out[written] = term
                        written += 1
                    edge += 1
            at = stop
    out_starts[len(starts) - 1] = written


@kernel
def find_ranges(read: BulkQueries, used: Bools, needed: Bools) -> int:
    """Say which conjuncts are found by ranges, and which members are such a range.

    Gives how many bytes their keys may have.
    """
    one, room = np.uint64(1), 0
    for query in range(len(read.left)):
        base, stop = read.starts[query], read.starts[query + 1]
        for conjunct in range(read.conjuncts[query], read.conjuncts[query + 1]):
            some, others = False, False
            for member in range(base, stop):
                if read.required[conjunct] & (one << np.uint64(member - base)) != 0:
                    kind = read.kinds[member]
                    some |= kind >= LESS
                    others |= kind < LESS and kind != EXISTS and kind != FLAG
            used[conjunct] = some and not others
            if not used[conjunct]:
                continue
            for member in range(base, stop):
                bit = one << np.uint64(member - base)
                if read.required[conjunct] & bit != 0 and read.kinds[member] >= LESS:
                    if not needed[member]:
                        room += read.spans[member, NAME_END] - read.spans[member, NAME]
                        room += MOST_BESIDE
                    needed[member] = True
    return room


@kernel
def write_keys(
    read: BulkQueries, needed: Bools, powers: Words, lows: Words, highs: Words, low_bits: Int64s,
    high_bits: Int64s, left: Bools, data: Bytes, spans: Int64s,
) -> None:  # fmt: skip
    """Write the keys of some members, each a range.

    `lows` and `highs` have room for one bound; `low_bits` and `high_bits` are the same memory.
    """
    used = 0
    for query in range(len(read.left)):
        for member in range(read.starts[query], read.starts[query + 1]):
            if not needed[member]:
                continue
            kind = read.kinds[member]
            how = read_comparison(
                read.data, read.spans[member, BEGIN], read.spans[member, END], kind, powers, lows,
                highs, 0,
            )  # fmt: skip
            if how < 0:
                left[query] = True
                continue
            has_low = MORE <= kind <= AT_LEAST or kind == BETWEEN
            has_high = LESS <= kind <= AT_MOST or kind == BETWEEN
            low, high = _ordinal(low_bits[0]), _ordinal(high_bits[0])
            where, number = _filed_at(has_low, has_high, low, high)
            mark = _CELL if where >= CELLS else _FIRST_EDGE + where
            name, name_end = read.spans[member, NAME], read.spans[member, NAME_END]
            spans[member, 0] = used
            used = _begin(data, used, mark, read.data, name, name_end)
            if where >= CELLS:
                used = _grid(data, used, where - CELLS)
                spans[member, 2] = used
            used = _hexadecimal(data, used, number)
            spans[member, 1] = used
            if where < CELLS:
                spans[member, 2] = used
