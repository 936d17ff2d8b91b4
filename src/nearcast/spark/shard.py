"""A shard: the subscriptions of one worker, in the index of the core package.

A batch is applied at once and yet every message sees exactly the subscriptions before it: each
version of a subscription carries the sequence numbers between which it counts, those that end in a
batch stay until the next one begins, and what the index finds is compared with them.

All arrays lie in a `Memory`; in files, one process applies a batch and all processes of a node
match on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import kernel
from nearcast._slots import Slots, empty_slots, find, mixed, move_slots, put
from nearcast.geo import region_from_json
from nearcast.index import Batch, Table
from nearcast.index.memory import Memory
from nearcast.index.rarest_term.index import RarestTerm
from nearcast.index.table import SHARED, Column, Floats, Int32s, Int64s
from nearcast.model.log import decode_json
from nearcast.spark.operations import END, OTHER, PLAIN, of_kind
from nearcast.text.columns import HashedTexts, Hashes, buffers

FOREVER = 2**62
_NO_ROW = -1
_PIECE = 1 << 14
_COUNTED = 4  # every so many-th message is counted for the frequencies of terms

_COLUMNS: dict[str, tuple[type, int]] = {
    "span": (np.int64, 2),  # by owner: the sequence numbers of its beginning and its end
    "first_row": (np.int32, 0),  # by owner
    "id_start": (np.int64, 0),  # by owner: where its id stands among the names
    "id_size": (np.uint8, 0),
    "next_row": (np.int32, 0),  # by row: the next one of the same owner
    "ordinal": (np.uint16, 0),  # by row: which one of its owner's it is
    "row_key": (np.uint64, 0),  # by row: the term by which the plan places it
    "names": (np.uint8, 0),
    "ending": (np.int32, 0),  # owners that ended in the batch applied last
}


class Messages(NamedTuple):
    """Messages as a shard matches them; one across the antimeridian has two places here."""

    texts: HashedTexts
    boxes: Floats
    number: Int32s  # of the message that each place belongs to, ascending
    seq: Int64s  # by number


class Found(NamedTuple):
    """Which place of which message met which row, each (message, owner) pair once."""

    places: Int32s
    rows: Int32s
    owners: Int32s
    candidates: int


class Shard:
    """Holds subscriptions and matches messages against them."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self.table = Table(self.memory)
        self.index = RarestTerm(self.table)
        self.index.build()
        for name, (dtype, width) in _COLUMNS.items():
            setattr(self, f"_{name}", Column(dtype, width, self.memory, name))
        self._terms = 0
        self._dead_names = 0
        self._slots: Slots = self._new_slots(1 << 10)

    _span: Column
    _first_row: Column
    _id_start: Column
    _id_size: Column
    _next_row: Column
    _ordinal: Column
    _row_key: Column
    _names: Column
    _ending: Column

    def __len__(self) -> int:
        return self.table.live

    def _new_slots(self, size: int) -> Slots:
        slots: Slots = self.memory.array("term_slots", (size, 2), np.uint64)
        slots[:] = empty_slots(1)
        return slots

    def describe(self) -> dict[str, Any]:
        """Say what `attach` needs to find the shard again in its memory."""
        return {
            "table": self.table.describe(),
            "index": self.index.describe(),
            "sizes": {name: getattr(self, f"_{name}").size for name in _COLUMNS},
            "terms": self._terms,
            "slots": len(self._slots),
            "dead_names": self._dead_names,
        }

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, Any]) -> Self:
        """Find a shard again in memory that is kept in files."""
        shard = cls.__new__(cls)
        shard.memory = memory
        shard.table = Table.attach(memory, described["table"])
        shard.index = RarestTerm.attach(shard.table, described["index"])
        for name, size in described["sizes"].items():
            dtype, width = _COLUMNS[name]
            setattr(shard, f"_{name}", Column(dtype, width, memory, name, size))
        shard._terms, shard._dead_names = described["terms"], described["dead_names"]
        shard._slots = memory.array("term_slots", (described["slots"], 2), np.uint64)
        return shard

    def apply(self, operations: pa.Table) -> None:
        """Take in a batch; what ended in the batch before it goes now."""
        self._withdraw()
        self._begin_plain(of_kind(operations, PLAIN))
        self._begin_others(of_kind(operations, OTHER))
        ends = of_kind(operations, END)
        owners = ends["owner"].to_numpy()
        self._span.array[owners, 1] = ends["seq"].to_numpy()
        self._ending.replace(owners)

    def _withdraw(self) -> None:
        owners = self._ending.array.copy()
        if not len(owners):
            return
        rows = np.empty(self.table.live, np.int32)
        count = _rows_of(owners, self._first_row.array, self._next_row.array, rows)
        rows = rows[:count].copy()
        reusable = self.index.delete(rows)
        self.table.remove(rows)
        self.table.release(reusable)
        self._first_row.array[owners] = _NO_ROW
        self._dead_names += int(self._id_size.array[owners].sum())
        self._id_size.array[owners] = 0
        self._ending.replace(owners[:0])
        if self._dead_names > max(1 << 16, self._names.size // 2):
            self._tidy_names()

    def _tidy_names(self) -> None:
        names = np.empty(self._names.size, np.uint8)
        used = _copy_names(self._names.array, self._id_start.array, self._id_size.array, names)
        self._names.replace(names[:used])
        self._dead_names = 0

    def _enter(self, operations: pa.Table) -> Int32s:
        """Make room for owners, and take down their names and when they begin."""
        owners: Int32s = operations["owner"].to_numpy()
        more = int(owners.max()) + 1 - self._span.size
        if more > 0:
            for name in ("span", "first_row", "id_start", "id_size"):
                getattr(self, f"_{name}").lengthen(more)
            self._id_size.array[-more:] = 0
            self._first_row.array[-more:] = _NO_ROW
        self._span.array[owners, 0] = operations["seq"].to_numpy()
        self._span.array[owners, 1] = FOREVER
        data, ends = buffers(operations["id"].combine_chunks())
        base = self._names.extend(data[ends[0] : ends[-1]])
        self._id_start.array[owners] = base + ends[:-1] - ends[0]
        self._id_size.array[owners] = np.diff(ends)
        return owners

    def _begin_plain(self, operations: pa.Table) -> None:
        if not len(operations):
            return
        owners = self._enter(operations)
        boxes = operations["box"].combine_chunks().flatten().to_numpy().reshape(-1, 4)
        lists = operations["terms"].combine_chunks()
        starts = np.asarray(lists.offsets.to_numpy(), np.int64)
        terms = self._numbers_of(lists.values.to_numpy()[starts[0] : starts[-1]])
        fresh = self.table.live == 0
        rows = self.table.add_boxes(owners, boxes, starts - starts[0], terms)
        self._follow_rows()
        self._first_row.array[owners] = rows
        self._next_row.array[rows] = _NO_ROW
        self._ordinal.array[rows] = 0
        self._row_key.array[rows] = operations["key"].to_numpy()
        if fresh:
            self.index.build()
        else:
            self.index.insert(rows)

    def _begin_others(self, operations: pa.Table) -> None:
        if not len(operations):
            return
        owners = self._enter(operations).tolist()
        columns = [operations[name].to_pylist() for name in ("region", "required", "excluded")]
        added = []
        for owner, text, required, excluded, keys in zip(
            owners, *columns, operations["keys"].to_pylist(), strict=True
        ):
            region = region_from_json(decode_json(text.encode(), "region"))
            conjuncts = [
                (self._numbers_of(_hashes(has)).tolist(), self._numbers_of(_hashes(lacks)).tolist())
                for has, lacks in zip(required, excluded, strict=True)
            ]
            rows = self.table.add(owner, conjuncts, region) if conjuncts else np.empty(0, np.int32)
            self._follow_rows()
            if len(rows):
                each = len(rows) // len(keys)
                self._first_row.array[owner] = rows[0]
                self._next_row.array[rows[:-1]] = rows[1:]
                self._next_row.array[rows[-1]] = _NO_ROW
                self._ordinal.array[rows] = np.arange(len(rows))
                self._row_key.array[rows] = np.repeat(_hashes(keys), each)
                added.append(rows)
        if added:
            self.index.insert(np.concatenate(added))

    def _follow_rows(self) -> None:
        more = len(self.table) - self._next_row.size
        if more > 0:
            for column in (self._next_row, self._ordinal, self._row_key):
                column.lengthen(more)

    def _numbers_of(self, hashes: Hashes) -> Int32s:
        """The numbers of terms, new ones where there are none yet."""
        numbers = np.empty(len(hashes), np.int32)
        # In pieces, as most terms are known and room is made for each as if it were new.
        for start in range(0, len(hashes), _PIECE):
            some = hashes[start : start + _PIECE]
            self._make_room(self._terms + len(some))
            self._terms = _intern(self._slots, some, self._terms, numbers[start : start + _PIECE])
        self.table.ensure_terms(self._terms)
        return numbers

    def _make_room(self, terms: int) -> None:
        size = len(self._slots)
        while 2 * terms > size:
            size *= 2
        if size > len(self._slots):
            old = self._slots.copy()
            self._slots = self._new_slots(size)
            move_slots(old, self._slots)

    def match(self, messages: Messages) -> Found:
        """Find who wants which message, by what each of them sees."""
        starts = np.zeros(len(messages.texts.starts), np.int64)
        terms = np.empty(len(messages.texts.hashes), np.int32)
        count = _known(self._slots, *messages.texts, starts, terms)
        batch = Batch(starts, terms[:count], messages.boxes)
        _count_terms(batch.starts, batch.terms, _COUNTED, self.table.frequency)
        pairs = self.index.candidates(batch)
        rows = self.table.rows
        owners = rows.owner[pairs.rows]
        seen = _seen(self._span.array, owners, messages.seq, messages.number, pairs.messages)
        places, found, owners = pairs.messages[seen], pairs.rows[seen], owners[seen]
        if self.table.shared or len(messages.boxes) > len(messages.seq):
            several = (rows.flags[found] & SHARED) != 0
            if several.any() or len(messages.boxes) > len(messages.seq):
                first = self._first_of_each(messages.number[places], places, found, owners)
                places, found, owners = places[first], found[first], owners[first]
        return Found(places, found, owners, pairs.candidates)

    def _first_of_each(
        self, numbers: Int32s, places: Int32s, rows: Int32s, owners: Int32s
    ) -> npt.NDArray[np.int64]:
        """Of all the ways in which a message met an owner, the first: the same in every shard."""
        order = np.lexsort((self._ordinal.array[rows], places, owners, numbers))
        number, owner = numbers[order], owners[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (number[1:] != number[:-1]) | (owner[1:] != owner[:-1])
        return order[fresh]

    def names_of(self, owners: Int32s) -> pa.StringArray:
        """The ids of owners."""
        ends = np.zeros(len(owners) + 1, np.int64)
        sizes = self._id_size.array[owners]
        np.cumsum(sizes, out=ends[1:])
        data = np.empty(int(ends[-1]), np.uint8)
        _gather(self._names.array, self._id_start.array, owners, ends, data)
        if ends[-1] < 2**31:
            offsets = pa.py_buffer(ends.astype(np.int32))
            return pa.StringArray.from_buffers(len(owners), offsets, pa.py_buffer(data))
        return pa.LargeStringArray.from_buffers(len(owners), pa.py_buffer(ends), pa.py_buffer(data))

    @property
    def keys(self) -> Hashes:
        """By row, the term by which the plan places it."""
        keys: Hashes = self._row_key.array
        return keys

    def stats(self) -> dict[str, float]:
        """Figures about the shard."""
        index = self.index.stats()
        own = sum(getattr(self, f"_{name}").nbytes for name in _COLUMNS)
        total = index["bytes"] + self.table.nbytes + own + self._slots.nbytes
        return {"rows": self.table.live, "terms": self._terms, "bytes": total}


def _hashes(values: list[int]) -> Hashes:
    return np.array(values, np.uint64)


@kernel
def _rows_of(owners: Int32s, first_row: Int32s, next_row: Int32s, rows: Int32s) -> int:
    count = 0
    for owner in owners:
        row = first_row[owner]
        while row >= 0:
            rows[count] = row
            count += 1
            row = next_row[row]
    return count


@kernel
def _copy_names(
    names: npt.NDArray[np.uint8],
    start: Int64s,
    size: npt.NDArray[np.uint8],
    out: npt.NDArray[np.uint8],
) -> int:
    used = 0
    for owner in range(len(start)):
        length = int(size[owner])
        if length:
            out[used : used + length] = names[start[owner] : start[owner] + length]
            start[owner] = used
            used += length
    return used


@kernel
def _gather(
    names: npt.NDArray[np.uint8],
    start: Int64s,
    owners: Int32s,
    ends: Int64s,
    out: npt.NDArray[np.uint8],
) -> None:
    for number in range(len(owners)):
        at = start[owners[number]] - ends[number]
        for place in range(ends[number], ends[number + 1]):
            out[place] = names[at + place]


@kernel
def _intern(slots: Slots, hashes: Hashes, count: int, numbers: Int32s) -> int:
    for at in range(len(hashes)):
        first = hashes[at]
        second = mixed(first)
        number = find(slots, first, second)
        if number < 0:
            number = count
            put(slots, first, second, number)
            count += 1
        numbers[at] = number
    return count


@kernel
def _known(slots: Slots, starts: Int64s, hashes: Hashes, out_starts: Int64s, terms: Int32s) -> int:
    """Look terms up; those without a number are left out."""
    count = 0
    for text in range(len(starts) - 1):
        out_starts[text] = count
        for at in range(starts[text], starts[text + 1]):
            number = find(slots, hashes[at], mixed(hashes[at]))
            if number >= 0:
                terms[count] = number
                count += 1
    out_starts[len(starts) - 1] = count
    return count


@kernel
def _count_terms(starts: Int64s, terms: Int32s, step: int, frequency: Int64s) -> None:
    # Processes that count into the same array may overlook each other: these are only hints.
    for text in range(0, len(starts) - 1, step):
        for at in range(starts[text], starts[text + 1]):
            frequency[terms[at]] += step


@kernel
def _seen(
    span: Int64s, owners: Int32s, seq: Int64s, number: Int32s, places: Int32s
) -> npt.NDArray[np.bool_]:
    seen = np.empty(len(owners), np.bool_)
    for at in range(len(owners)):
        when = seq[number[places[at]]]
        seen[at] = span[owners[at], 0] < when and when < span[owners[at], 1]
    return seen
