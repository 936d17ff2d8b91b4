"""Who owns the rows of the table: subscriptions by number, as arrays and bytes.

A subscription takes some 100 bytes here: its id and its query as they are, and where its rows are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.column import Column
from nearcast.arrays.slots import (
    Secret,
    Slots,
    empty_slots,
    find,
    find_all,
    hash_bytes,
    hash_with,
    move_slots,
    put,
    put_all,
    remove,
    remove_all,
    secret_words,
)
from nearcast.arrays.strings import StringArena
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.engine.message_ids import bytes_of

BOX, CIRCLE, POLYGON, SEVERAL = range(4)
"""What a region is, in the lowest bits of its owner's traits; SEVERAL are polygons."""
KIND = 3
ANYWHERE, WORDLESS, ASKS, KEYED, SCATTERED, EXCLUDES = 4, 8, 16, 32, 64, 128
"""Traits: no region, no query, more asked for than terms, keys required, rows that do not follow
each other, and terms that must not be there."""

Traits = npt.NDArray[np.uint8]


class OwnerColumns(NamedTuple):
    """What is known of owners, by number, beside their names."""

    row: Int32s  # the first of their rows, -1 if they have none
    rows: Int32s  # how many rows they have
    traits: Traits
    radius: Floats  # of those that are circles


@kernel
def _find_one(slots: Slots, secret: Secret, data: Bytes) -> int:
    first, second = hash_bytes(secret, data, 0, len(data), False)
    return find(slots, first, second)


@kernel
def _put_one(slots: Slots, secret: Secret, data: Bytes, value: int) -> None:
    first, second = hash_bytes(secret, data, 0, len(data), False)
    put(slots, first, second, value)


@kernel
def _remove_one(slots: Slots, secret: Secret, data: Bytes) -> int:
    first, second = hash_bytes(secret, data, 0, len(data), False)
    return remove(slots, first, second)


class Owners:
    """The ids, queries and rows of subscriptions by number; the numbers of the gone are reused."""

    def __init__(self) -> None:
        self.ids, self.queries = StringArena(), StringArena()
        self._row, self._count = Column(np.int32), Column(np.int32)
        self._traits, self._radius = Column(np.uint8), Column(np.float64)
        self.free: list[int] = []
        self._slots, self._secret = empty_slots(1 << 8), secret_words()

    def __len__(self) -> int:
        """How many are in use."""
        return len(self.ids) - len(self.free)

    @property
    def nbytes(self) -> int:
        """The memory of all."""
        columns = (self._row, self._count, self._traits, self._radius)
        held = sum(column.nbytes for column in columns) + self._slots.nbytes
        return held + self.ids.nbytes + self.queries.nbytes

    @property
    def columns(self) -> OwnerColumns:
        """The arrays as they are now; ask again after every change."""
        return OwnerColumns(
            self._row.array, self._count.array, self._traits.array, self._radius.array
        )

    def live(self) -> Int32s:
        """The numbers in use."""
        return np.flatnonzero(self.ids.sizes).astype(np.int32)

    def find(self, id: str) -> int:
        """The number of an id, or -1, which is NO_OWNER."""
        data = np.frombuffer(id.encode(errors="surrogatepass"), np.uint8)
        return _find_one(self._slots, self._secret, data)

    def find_some(self, ids: list[str]) -> Int32s:
        """The numbers of ids, NO_OWNER for those that are not there."""
        return self._find_hashed(self._hashed(*bytes_of(ids)))

    def are_new(self, ids: tuple[Bytes, Int64s]) -> bool:
        """Whether ids are different from each other, and none is there."""
        hashes = self._hashed(*ids)
        firsts = np.sort(hashes[:, 0])  # equal ones are most likely equal ids
        return bool((np.diff(firsts) != 0).all() and (self._find_hashed(hashes) < 0).all())

    def reserve(self, count: int) -> None:
        """Make room for more, of which `extend` is going to add some at a time."""
        self._reserve(count)
        for column in (self._row, self._count, self._traits, self._radius):
            column.reserve(count)

    def _find_hashed(self, hashes: Slots) -> Int32s:
        numbers = np.empty(len(hashes), np.int32)
        find_all(self._slots, hashes, numbers)
        return numbers

    def _hashed(self, data: Bytes, offsets: Int64s) -> Slots:
        hashes = np.empty((len(offsets) - 1, 2), np.uint64)
        hash_with(self._secret, data, offsets, hashes)
        return hashes

    def add(self, id: str, query: str) -> int:
        """Number a subscription whose id is not in use."""
        self._reserve(1)
        if self.free:
            owner = self.free.pop()
            self.ids.replace(owner, id)
            self.queries.replace(owner, query)
        else:
            owner = self.ids.append(id)
            self.queries.append(query)
            self._row.append(-1)
            self._count.append(0)
            self._traits.append(0)
            self._radius.append(np.nan)
        _put_one(self._slots, self._secret, self.ids.encoded(owner), owner)
        return owner

    def extend(self, ids: tuple[Bytes, Int64s], queries: tuple[Bytes, Int64s]) -> Int32s:
        """Number many subscriptions, none of whose ids is in use."""
        count = len(ids[1]) - 1
        self._reserve(count)
        kept = max(0, len(self.free) - count)
        again, self.free[kept:] = self.free[kept:], ()
        more = count - len(again)
        fresh = np.arange(len(self.ids), len(self.ids) + more, dtype=np.int32)
        owners = np.concatenate([np.array(again, np.int32), fresh])
        self.ids.assign(owners, *ids)
        self.queries.assign(owners, *queries)
        for column in (self._row, self._count, self._traits, self._radius):
            column.lengthen(more)
        put_all(self._slots, self._hashed(*ids), owners)
        return owners

    def _reserve(self, more: int) -> None:
        size = len(self._slots)
        while 2 * (len(self) + more) > size:
            size *= 2
        if size > len(self._slots):
            larger = empty_slots(size)
            move_slots(self._slots, larger)
            self._slots = larger

    def remove(self, owners: Int32s) -> None:
        """Let numbers be used again."""
        if len(owners) == 1:
            _remove_one(self._slots, self._secret, self.ids.encoded(int(owners[0])))
        elif len(owners):
            _, offsets, data = self.ids.take(owners).buffers()
            where = np.frombuffer(offsets, np.int64)[: len(owners) + 1]
            remove_all(self._slots, self._hashed(np.frombuffer(data, np.uint8), where))
        self.ids.clear(owners)
        self.queries.clear(owners)
        self._row.array[owners], self._count.array[owners] = -1, 0
        self._traits.array[owners] = 0
        self.free += owners.tolist()

    def take_over(
        self, ids: tuple[Bytes, Int64s], queries: tuple[Bytes, Int64s], columns: OwnerColumns
    ) -> None:
        """Load what was saved; this must be empty."""
        self.ids, self.queries = StringArena.of(*ids), StringArena.of(*queries)
        columns_of = [Column.of(column) for column in columns]
        self._row, self._count, self._traits, self._radius = columns_of
        used = self.ids.sizes > 0
        self.free = np.flatnonzero(~used).tolist()
        self._slots = empty_slots(1 << 8)
        self._reserve(0)
        put_all(self._slots, self._hashed(*ids)[used], self.live())
