"""Which ranges are asked for by themselves, and the keys that messages have for them.

See `nearcast.text.ranges`. In messages only those grids are looked at that have a cell of some
range, and those edges at which a range is filed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nearcast.arrays.decimals import POWERS
from nearcast.arrays.strings import strings_at
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.conditions import MessageNumbers
from nearcast.engine.range_kernels import (
    MOST_BESIDE,
    RangeArrays,
    RangeKeys,
    add_range_keys,
    find_ranges,
    room_for,
    write_keys,
)
from nearcast.engine.terms import TermIds, TermLookup, TextBatch
from nearcast.text.bulk import BulkQueries
from nearcast.text.ranges import CELLS, double_of, edge_key, kind_of, read_kind

_MOST_GRIDS = 128
_NO_TERMS: Int32s = np.empty(0, np.int32)
_NO_STARTS: Int64s = np.zeros(2, np.int64)


class RangeDirectory:
    """The grids and edges in use, by property; how often is counted."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        """How many alternatives have a key of each kind; see `kind_of`."""
        self._filed: dict[str, tuple[list[int], ...]] = {}  # edges of three kinds, and grids
        self._arrays: RangeArrays | None = None
        self._longest = 0
        self.count_more(counts or {})

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, name: str) -> bool:
        return name in self._filed

    def count(self, keys: Iterable[str], step: int) -> None:
        """Count keys of one alternative more, or less."""
        for key in keys:
            self._count(kind_of(key), step)

    def count_more(self, counts: Mapping[str, int]) -> None:
        """Count keys of many alternatives, by their kinds."""
        for kind, times in counts.items():
            self._count(kind, times)

    def _count(self, kind: str, step: int) -> None:
        before = self.counts[kind]
        self.counts[kind] += step
        if before and before + step:
            return
        name, where, number = read_kind(kind)
        self._arrays = None
        if before:
            del self.counts[kind]
            some = self._filed[name][where]
            del some[bisect_left(some, number)]
            if not any(self._filed[name]):
                del self._filed[name]
        else:
            insort(self._filed.setdefault(name, ([], [], [], []))[where], number)

    def _settled(self, names: Mapping[str, int], ids: TermIds) -> RangeArrays:
        """The arrays that kernels need; `names` has all names of properties in their order."""
        if self._arrays is not None:
            return self._arrays
        nothing: tuple[list[int], ...] = ([], [], [], [])
        filed = [self._filed.get(name, nothing) for name in names]
        grids = [each[CELLS] for each in filed]
        edges = [some for each in filed for some in each[:CELLS]]
        keys = [
            edge_key(name, kind, edge)
            for name, each in zip(names, filed, strict=True)
            for kind, some in enumerate(each[:CELLS])
            for edge in some
        ]
        terms = ids.numbers_of(keys)
        assert (terms >= 0).all()  # noqa: S101 - what is counted, rows require
        encoded = [name.encode(errors="surrogatepass") for name in names]
        self._longest = max(map(len, encoded), default=0)
        self._arrays = RangeArrays(
            np.frombuffer(b"".join(encoded), np.uint8), _starts(encoded), _joined(grids),
            _starts(grids), _joined(edges), terms, _starts(edges),
        )  # fmt: skip
        return self._arrays

    def added_to(
        self,
        batch: TextBatch,
        numbers: MessageNumbers,
        mark: int,
        names: Mapping[str, int],
        ids: TermIds,
        lookup: TermLookup,
    ) -> TextBatch:
        """The terms of messages with the keys of their numbers; `mark` is that of their terms.

        `names` has the numbers of the names of properties.
        """
        asked = self._settled(names, ids)
        room = room_for(asked, numbers.starts, numbers.names)
        starts, terms = np.empty_like(batch.starts), np.empty(len(batch.terms) + room, np.int32)
        add_range_keys(
            asked, lookup.slots, lookup.secret, lookup.seen, mark, batch.starts, batch.terms,
            numbers.starts, numbers.names, numbers.values.view(np.int64),
            np.empty(self._longest + MOST_BESIDE, np.uint8), np.empty((_MOST_GRIDS, 2), np.uint64),
            starts, terms,
        )  # fmt: skip
        return TextBatch(starts, terms[: starts[-1]])

    def terms_of(
        self,
        numbers: Mapping[str, Sequence[int | float]],
        names: Mapping[str, int],
        ids: TermIds,
        lookup: TermLookup,
    ) -> Int32s:
        """The keys, by number, of one message with some numbers by the name of their property."""
        values = np.array([double_of(one) for some in numbers.values() for one in some])
        of = np.repeat([names[name] for name in numbers], [len(some) for some in numbers.values()])
        starts = np.array([0, len(values)], np.int64)
        found = MessageNumbers(starts, of.astype(np.int32), values, np.ones(1, np.bool_))
        nothing = TextBatch(_NO_STARTS, _NO_TERMS)
        return self.added_to(nothing, found, ids.next_mark(1), names, ids, lookup).terms


def _starts(some: Sequence[Sequence[int] | bytes]) -> Int64s:
    starts = np.zeros(len(some) + 1, np.int64)
    np.cumsum([len(each) for each in some], out=starts[1:])
    return starts


def _joined(some: Sequence[Sequence[int]]) -> Int64s:
    return np.array([one for each in some for one in each], np.int64)


def read_ranges(read: BulkQueries) -> RangeKeys:
    """Find the alternatives of many queries that ranges narrow down, and the keys of these."""
    used, needed = np.zeros(len(read.required), np.bool_), np.zeros(len(read.kinds), np.bool_)
    left, spans = np.zeros(len(read.left), np.bool_), np.zeros((len(read.kinds), 3), np.int64)
    data = np.empty(find_ranges(read, used, needed), np.uint8)
    if len(data):
        low, high = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
        bits = low.view(np.int64), high.view(np.int64)
        write_keys(read, needed, POWERS, low, high, *bits, left, data, spans)
    return RangeKeys(left, used, data, spans)


def counted_kinds(keys: RangeKeys, times: Int64s) -> dict[str, int]:
    """How often alternatives have a key of each kind; `times` says it of each member."""
    some = np.flatnonzero(times)
    if not len(some):
        return {}
    kinds = strings_at(keys.data, keys.spans[some, 0], keys.spans[some, 2]).dictionary_encode()
    counted = np.bincount(kinds.indices.to_numpy(), times[some])
    return dict(zip(kinds.dictionary.to_pylist(), counted.astype(int).tolist(), strict=True))
