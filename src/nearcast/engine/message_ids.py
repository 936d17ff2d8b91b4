"""The ids and texts of the messages of a window, as consecutive bytes, oldest first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import kernel
from nearcast.arrays.memory import Memory
from nearcast.arrays.slots import (
    Secret,
    Slots,
    empty_slots,
    find,
    hash_with,
    put,
    remove,
    secret_words,
)
from nearcast.arrays.strings import strings_at
from nearcast.arrays.types import Bytes, Int64s
from nearcast.text.columns import buffers

_MASK = (1 << 31) - 1

Truths = npt.NDArray[np.bool_]


@kernel
def _put_all(slots: Slots, hashes: Slots, number: int, taken_out: Truths) -> None:
    for n in range(len(hashes)):
        if not taken_out[n]:
            put(slots, hashes[n, 0], hashes[n, 1], (number + n) & _MASK)


@kernel
def _remove_all(slots: Slots, hashes: Slots, taken_out: Truths) -> None:
    for n in range(len(hashes)):
        if not taken_out[n]:
            remove(slots, hashes[n, 0], hashes[n, 1])


@kernel
def _has_any(slots: Slots, hashes: Slots) -> bool:
    found = False
    for n in range(len(hashes)):
        found |= find(slots, hashes[n, 0], hashes[n, 1]) >= 0
    return found


class NumberedStrings:
    """Strings by consecutive numbers; the oldest are dropped first."""

    def __init__(
        self,
        first: int,
        memory: Memory | None = None,
        prefix: str = "",
        described: Mapping[str, int] | None = None,
    ) -> None:
        """Start empty at number `first`, or with the strings that are in the memory.

        `prefix` names its arrays there.
        """
        self._memory, self._prefix = memory or Memory(), prefix
        sizes = described or {"first": first, "low": 0, "count": 0, "bytes": 1 << 10, "starts": 128}
        self.first = sizes["first"]
        self._low = sizes["low"]  # the place of the oldest in `_starts`
        self._count = sizes["count"]
        self._data: Bytes = self._array("data", sizes["bytes"], np.uint8)
        self._starts: Int64s = self._array("starts", sizes["starts"], np.int64)
        if described is None:
            self._starts[0] = 0  # where each starts, and the last ends

    def _array(self, name: str, size: int, dtype: type) -> np.ndarray:
        return self._memory.array(f"{self._prefix}_{name}", size, dtype)

    def describe(self) -> dict[str, int]:
        """Return the sizes that are needed to open the strings in their memory again."""
        sizes = {"bytes": len(self._data), "starts": len(self._starts)}
        return sizes | {"first": self.first, "low": self._low, "count": self._count}

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """The memory of all strings, in bytes."""
        return self._data.nbytes + self._starts.nbytes

    def extend(self, data: Bytes, offsets: Int64s) -> None:
        """Append strings."""
        size, count = int(offsets[-1] - offsets[0]), len(offsets) - 1
        self._make_room(count, size)
        end = self._low + self._count
        used = self._starts[end]
        self._data[used : used + size] = data[offsets[0] : offsets[-1]]
        self._starts[end : end + count + 1] = used + offsets - offsets[0]
        self._count += count

    def drop_before(self, number: int) -> None:
        """Drop the strings before this number."""
        count = number - self.first
        if count > 0:
            self._low += count
            self._count -= count
            self.first = number

    def spans(self, numbers: Int64s) -> tuple[Bytes, Int64s, Int64s]:
        """All bytes, and where the strings with these numbers start and stop."""
        places = numbers - self.first + self._low
        return self._data, self._starts[places], self._starts[places + 1]

    def take(self, numbers: Int64s) -> pa.LargeStringArray:
        """The strings with these numbers."""
        return strings_at(*self.spans(numbers))

    def keep(self, numbers: Int64s, first: int) -> None:
        """Keep the strings with these numbers only, and let them count from `first` on."""
        kept = self.take(numbers)
        self._low = self._count = self._starts[0] = 0
        self.first = first
        self.extend(*buffers(kept))

    def hashes(self, count: int, secret: Secret) -> Slots:
        """The hashes of the `count` oldest strings."""
        offsets = self._starts[self._low : self._low + count + 1]
        return _hashed(self._data, offsets, secret)

    def _make_room(self, count: int, size: int) -> None:
        low, end = self._low, self._low + self._count
        begin, used = int(self._starts[low]), int(self._starts[end])
        if end + count + 1 > len(self._starts) or used + size > len(self._data):
            alive, live_bytes = self._count + count + 1, used - begin + size
            starts, data = self._starts[low : end + 1] - begin, self._data[begin:used]
            if self._memory.keeps:
                data = data.copy()  # which is where the others are to be
            self._starts = self._array("starts", max(128, alive * 3 // 2), np.int64)
            self._data = self._array("data", max(1024, live_bytes * 3 // 2), np.uint8)
            self._starts[: self._count + 1], self._data[: used - begin] = starts, data
            self._low = 0


class MessageIds:
    """The ids of messages by number, and their numbers by id."""

    def __init__(self, first: int) -> None:
        self.texts = NumberedStrings(first)
        self._slots = empty_slots(1 << 8)
        self._secret = secret_words()
        self._taken_out: set[int] = set()  # numbers of messages that no id leads to

    @property
    def nbytes(self) -> int:
        """The memory of all strings, in bytes."""
        return self.texts.nbytes + self._slots.nbytes

    def number(self, id: str) -> int | None:
        """The number of the message with an id, if it is there."""
        hashes = _hashed(*bytes_of([id]), self._secret)
        found = find(self._slots, hashes[0, 0], hashes[0, 1])
        return None if found < 0 else self.texts.first + ((found - self.texts.first) & _MASK)

    def has_any(self, ids: list[str]) -> bool:
        """Whether one of these ids is there."""
        return bool(len(self.texts)) and _has_any(
            self._slots, _hashed(*bytes_of(ids), self._secret)
        )

    def extend(self, ids: list[str]) -> None:
        """Append ids, none of which is in use."""
        data, offsets = bytes_of(ids)
        size, count = len(self._slots), len(self.texts)
        while 2 * (count + len(ids)) > size:
            size *= 2
        if size > len(self._slots):
            self._fill(size)
        self.texts.extend(data, offsets)
        hashes = _hashed(data, offsets, self._secret)
        _put_all(self._slots, hashes, self.texts.first + count, np.zeros(len(ids), np.bool_))

    def _fill(self, size: int) -> None:
        """Enter all ids into a table of this size."""
        self._slots, count = empty_slots(size), len(self.texts)
        hashes = self.texts.hashes(count, self._secret)
        _put_all(self._slots, hashes, self.texts.first, self._are_taken_out(count))

    def _are_taken_out(self, count: int) -> Truths:
        """Which of the `count` oldest were taken out."""
        taken_out, first = np.zeros(count, np.bool_), self.texts.first
        if self._taken_out:
            taken_out[:] = [number in self._taken_out for number in range(first, first + count)]
        return taken_out

    def is_taken_out(self, number: int) -> bool:
        """Whether a message was taken out."""
        return number in self._taken_out

    def take_out(self, number: int) -> None:
        """Let the id of a message be unused; its text is still there under its number."""
        if number not in self._taken_out:
            data, starts, stops = self.texts.spans(np.array([number]))
            offsets = np.array([starts[0], stops[0]])
            _remove_all(self._slots, _hashed(data, offsets, self._secret), np.zeros(1, np.bool_))
            self._taken_out.add(number)

    def keep(self, numbers: Int64s, first: int) -> None:
        """Keep the ids of these messages only, and let them count from `first` on."""
        self.texts.keep(numbers, first)
        self._taken_out.clear()
        self._fill(len(self._slots))

    def drop_before(self, number: int) -> None:
        """Drop the ids of messages before this one."""
        count = number - self.texts.first
        if count > 0:
            hashes = self.texts.hashes(count, self._secret)
            _remove_all(self._slots, hashes, self._are_taken_out(count))
            self._taken_out.difference_update(range(self.texts.first, number))
            self.texts.drop_before(number)


def bytes_of(strings: list[str]) -> tuple[Bytes, Int64s]:
    """The bytes of strings, and where each starts and ends; half a surrogate pair has three."""
    try:
        return buffers(pa.array(strings, pa.large_string()))
    except UnicodeEncodeError:
        encoded = [string.encode(errors="surrogatepass") for string in strings]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(one) for one in encoded], out=offsets[1:])
        return np.frombuffer(b"".join(encoded), np.uint8), offsets


def _hashed(data: Bytes, offsets: Int64s, secret: Secret) -> Slots:
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    hash_with(secret, data, offsets, hashes)
    return hashes
