"""Terms of texts as hashes, which all workers understand, and their numbers in a core.

A term is identified by 64 bits of hash. The terms of a text are in alphabetical order, because sums
run in that order. Numbers of terms that a core no longer uses are given again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import kernel
from nearcast.arrays.column import Column
from nearcast.arrays.lists import picked, starts_of
from nearcast.arrays.memory import Memory
from nearcast.arrays.slots import (
    Slots,
    as_secret,
    empty_slots,
    find,
    mixed,
    move_slots,
    put,
    remove,
)
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.settings import Settings
from nearcast.text.columns import Hashes
from nearcast.topk.terms import TermNumbers

_UNUSED = np.uint64(0)
_FEW = 1 << 12


class Terms(NamedTuple):
    """The terms of texts: of text i `hashes[starts[i] : starts[i + 1]]`.

    `idf` has the weight of each, or is empty if every term weighs 1.
    """

    starts: Int64s
    hashes: Hashes
    idf: Floats

    def of(self, which: Int64s | Int32s) -> Terms:
        """Those of some of the texts."""
        starts, places = picked(self.starts, which)
        return Terms(starts, self.hashes[places], self.idf[places] if len(self.idf) else self.idf)


def joined_terms(parts: list[Terms]) -> Terms:
    """Concatenate the terms of texts."""
    sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(each.starts) for each in parts)])
    return Terms(
        starts_of(sizes),
        np.concatenate([np.empty(0, np.uint64), *(each.hashes for each in parts)]),
        np.concatenate([np.empty(0), *(each.idf for each in parts)]),
    )


def squares(terms: Terms, counts: Int32s) -> Floats:
    """The length of the vector of each text, squared, summed in the order of its terms."""
    found = np.zeros(len(terms.starts) - 1)
    _square(terms.starts, counts, terms.idf, found)
    return found


@kernel
def _square(starts: Int64s, counts: Int32s, idf: Floats, found: Floats) -> None:
    for text in range(len(found)):
        total = 0.0
        for n in range(starts[text], starts[text + 1]):
            weight = counts[n] * (idf[n] if len(idf) else 1.0)
            total += weight * weight
        found[text] = total


class _Weights:
    """Stands in for a core, and records the weights of terms."""

    def __init__(self) -> None:
        self.idf = np.ones(1 << 10)

    def ensure_terms(self, count: int) -> None:
        """Make room for `count` terms."""
        if count > len(self.idf):
            larger = np.ones(2 * count)
            larger[: len(self.idf)] = self.idf
            self.idf = larger

    def weigh(self, terms: Int32s, idf: Floats) -> None:
        """Set the weights of terms."""
        self.idf[terms] = idf


def terms_of(
    texts: pa.Array, settings: Settings, idf: Callable[[str], float] | None
) -> tuple[Terms, Int32s]:
    """The terms of texts, with their weights if `idf` is given, and how often each occurs."""
    weights, secret = _Weights(), as_secret(settings.secret)
    numbers = TermNumbers(cast("Any", weights), settings.analyser, idf, secret=secret)
    bags = numbers.read(texts)
    hashes = numbers.hashes
    weighed = np.empty(0) if idf is None else weights.idf[bags.terms]
    return Terms(bags.starts, hashes[bags.terms], weighed), bags.counts


class NumberedTerms(NamedTuple):
    """Terms by their numbers."""

    starts: Int64s
    terms: Int32s
    counts: Int32s


class Numbers:
    """Maps hashes of terms to small numbers."""

    def __init__(self, memory: Memory, described: Mapping[str, int] | None = None) -> None:
        sizes = described or {"slots": 1 << 10, "count": 0, "free": 0}
        self._memory = memory
        self._slots: Slots = memory.array("term_slots", (sizes["slots"], 2), np.uint64)
        if described is None:
            self._slots[:] = empty_slots(1)
        self._hash = Column(np.uint64, 0, memory, "term_hash", sizes["count"])
        self._free = Column(np.int32, 0, memory, "term_free", sizes["free"])

    def describe(self) -> dict[str, int]:
        """Return what is needed to attach to them in their memory."""
        return {"slots": len(self._slots), "count": self.count, "free": self._free.size}

    @property
    def count(self) -> int:
        """One more than the highest number ever given."""
        return self._hash.size

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return int(self._slots.nbytes + self._hash.nbytes + self._free.nbytes)

    def take(self, hashes: Hashes) -> Int32s:
        """The numbers of terms; terms without one get a new one.

        Numbers are given in the order in which terms occur, so that frequent terms have low ones:
        lists are read from the highest number down, and the short ones should come first.
        """
        numbers = np.empty(len(hashes), np.int32)
        _look_up(self._slots, hashes, numbers)
        new = hashes[numbers < 0]
        if len(new):
            more = len(np.unique(new))
            count, free = self.count, self._free.size
            self._hash.lengthen(more)
            self._make_room(count - free + more)
            count, left = _take(self._slots, new, count, self._free.array, self._hash.array)
            self._hash.shorten(count)
            self._free.shorten(left)
            _look_up(self._slots, hashes, numbers)
        return numbers

    def _make_room(self, terms: int) -> None:
        size = len(self._slots)
        while 2 * terms > size:
            size *= 2
        if size > len(self._slots):
            old = self._slots.copy()
            self._slots = self._memory.array("term_slots", (size, 2), np.uint64)
            self._slots[:] = empty_slots(1)
            move_slots(old, self._slots)

    def known(self, terms: Terms, counts: Int32s) -> NumberedTerms:
        """The terms that have numbers, with their counts."""
        numbers = np.empty(len(terms.hashes), np.int32)
        _look_up(self._slots, terms.hashes, numbers)
        had = numbers >= 0
        return NumberedTerms(starts_of(had)[terms.starts], numbers[had], counts[had])

    def sweep(self, unused: npt.NDArray[np.bool_]) -> None:
        """Free the numbers of unused terms, if enough are taken to be worth it."""
        live = self.count - self._free.size
        if live < _FEW or 8 * live <= 3 * len(self._slots):
            return
        held = self._hash.array != _UNUSED
        gone = np.flatnonzero(unused[: self.count] & held[: len(unused)]).astype(np.int32)
        _forget(self._slots, self._hash.array, gone)
        self._free.extend(gone)


def unit(idf: Floats, count: int) -> Floats:
    """The weights of `count` terms: `idf`, or 1 for each if it is empty."""
    return idf if len(idf) else np.ones(count)


@kernel
def _take(
    slots: Slots, hashes: Hashes, count: int, free: Int32s, hash_of: Hashes
) -> tuple[int, int]:
    """Number the terms in `hashes` that `slots` lacks; return the new count and free numbers."""
    left = len(free)
    for at in range(len(hashes)):
        first = hashes[at]
        if find(slots, first, mixed(first)) >= 0:
            continue
        number = count
        if left > 0:
            left -= 1
            number = int(free[left])
        else:
            count += 1
        put(slots, first, mixed(first), number)
        hash_of[number] = first
    return count, left


@kernel
def _look_up(slots: Slots, hashes: Hashes, numbers: Int32s) -> None:
    for at in range(len(hashes)):
        numbers[at] = find(slots, hashes[at], mixed(hashes[at]))


@kernel
def _forget(slots: Slots, hash_of: Hashes, numbers: Int32s) -> None:
    for number in numbers:
        remove(slots, hash_of[number], mixed(hash_of[number]))
        hash_of[number] = _UNUSED
