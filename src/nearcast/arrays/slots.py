"""Flat hash tables from a key of 97 bits to a small number, and the hashes that make such keys.

A table is an (n, 2) array of 64-bit words with n a power of two: each slot has one hash, and the
upper 33 bits of a second hash above a number of 31 bits. Both words of a slot lie in one cache
line. Keys are never kept: two that share all 97 bits would be taken for one, which at a billion
keys has odds of 1 in 10^11. Being plain arrays, tables can be saved, mapped and shared.

Strings that come from outside are hashed with a secret (`secret_words`): SipHash-1-3 with 128 bits
(Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). Nobody who does not know the
secret can choose strings that share a hash, or that crowd one part of a table. `FIXED` stands for
the plain hash, which plans made without a pipeline contain, and states from before version 6.
"""

from __future__ import annotations

from os import urandom

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner_counting, kernel, read_only
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.types import Bytes, Int32s, Int64s

Slots = npt.NDArray[np.uint64]
"""A slot whose second word is all ones is free."""

NOTHING = -1
"""What `find` gives for a key that is not there."""

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_VALUE_BITS = np.uint64(31)
_VALUE = np.uint64(0x7FFFFFFF)
_ONE = np.uint64(1)

FIRST_SEED = np.uint64(0xCBF29CE484222325)
SECOND_SEED = np.uint64(0x27D4EB2F165667C5)
FIRST_FACTOR = np.uint64(0x100000001B3)
SECOND_FACTOR = np.uint64(0xD6E8FEB86659FD93)

Secret = npt.NDArray[np.uint64]
"""Two words that only this store or process knows, or none for the plain hash."""
FIXED: Secret = read_only(np.empty(0, np.uint64))
_START = (
    np.uint64(0x736F6D6570736575),
    np.uint64(0x646F72616E646F6D ^ 0xEE),
    np.uint64(0x6C7967656E657261),
    np.uint64(0x7465646279746573),
)


def secret_words() -> Secret:
    """Draw a new secret."""
    return as_secret(urandom(16))


def as_secret(data: bytes) -> Secret:
    """Give the secret that 16 bytes hold, or FIXED if there are none."""
    return read_only(np.frombuffer(data, np.uint64)) if data else FIXED


def empty_slots(size: int) -> Slots:
    """Make a table of `size` slots, a power of two; keep at least half of them free."""
    return np.full((size, 2), _EMPTY)


@inner_counting
def mixed(value: np.uint64) -> np.uint64:
    """Spread what the low and high bits of a hash know over all of them."""
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9FB21C651E98DF25)
    return value ^ (value >> np.uint64(29))


@inner_counting
def _value_in(word: np.uint64) -> int:
    # Signed, or numba would take a choice between it and -1 for a float.
    return np.int64(word & _VALUE)  # type: ignore[return-value]  # an int to every caller


@inner_counting
def slot_of(slots: Slots, first: np.uint64, second: np.uint64) -> int:
    """Give the slot of a key, or -1."""
    mask = np.uint64(len(slots) - 1)
    at = first & mask
    while slots[at, 1] != _EMPTY:
        if slots[at, 0] == first and (slots[at, 1] ^ second) >> _VALUE_BITS == np.uint64(0):
            return np.int64(at)  # type: ignore[return-value]  # an int to every caller
        at = (at + _ONE) & mask
    return NOTHING


@inner_counting
def ask_for(slots: Slots, first: np.uint64) -> None:
    """Ask the memory for the slot of a key that is looked for soon."""
    prefetch(slots, 2 * np.int64(first & np.uint64(len(slots) - 1)))


@kernel
def put(slots: Slots, first: np.uint64, second: np.uint64, value: int) -> None:
    """Enter a key that is not there."""
    mask = np.uint64(len(slots) - 1)
    at = first & mask
    while slots[at, 1] != _EMPTY:
        at = (at + _ONE) & mask
    slots[at, 0] = first
    slots[at, 1] = (second & ~_VALUE) | np.uint64(value)


@kernel
def find(slots: Slots, first: np.uint64, second: np.uint64) -> int:
    """Give the number of a key, or NOTHING."""
    at = slot_of(slots, first, second)
    return _value_in(slots[at, 1]) if at >= 0 else NOTHING


@kernel
def change(slots: Slots, first: np.uint64, second: np.uint64, value: int) -> None:
    """Give a key that is there another number."""
    at = slot_of(slots, first, second)
    slots[at, 1] = (slots[at, 1] & ~_VALUE) | np.uint64(value)


@kernel
def remove(slots: Slots, first: np.uint64, second: np.uint64) -> int:
    """Take a key out, and give the number it had, or NOTHING."""
    found = slot_of(slots, first, second)
    if found < 0:
        return NOTHING
    value = _value_in(slots[found, 1])
    mask = np.uint64(len(slots) - 1)
    hole = np.uint64(found)
    at = (hole + _ONE) & mask
    # Entries that were pushed past the hole move back, so that no search ends there too early.
    while slots[at, 1] != _EMPTY:
        home = slots[at, 0] & mask
        if ((at - home) & mask) >= ((at - hole) & mask):
            slots[hole, 0], slots[hole, 1] = slots[at, 0], slots[at, 1]
            hole = at
        at = (at + _ONE) & mask
    slots[hole, 1] = _EMPTY
    return value


@kernel
def add_to(slots: Slots, first: np.uint64, second: np.uint64, delta: int) -> int:
    """Count a key up or down, enter it at `delta` or take it out at zero; give its new count."""
    at = slot_of(slots, first, second)
    if at < 0:
        put(slots, first, second, delta)
        return delta
    value = _value_in(slots[at, 1]) + delta
    if value <= 0:
        remove(slots, first, second)
        return 0
    slots[at, 1] = (slots[at, 1] & ~_VALUE) | np.uint64(value)
    return value


@kernel
def move_slots(old: Slots, new: Slots) -> None:
    """Enter all keys of one table into another, larger one."""
    for at in range(len(old)):
        if old[at, 1] != _EMPTY:
            put(new, old[at, 0], old[at, 1], _value_in(old[at, 1]))


@kernel
def put_all(slots: Slots, hashes: Slots, values: Int32s) -> None:
    """Enter keys that are not there, row i of `hashes` with `values[i]`."""
    for i in range(len(hashes)):
        put(slots, hashes[i, 0], hashes[i, 1], values[i])


@kernel
def find_all(slots: Slots, hashes: Slots, values: Int32s) -> None:
    """Look up keys; `values` gets their numbers, or NOTHING."""
    for i in range(len(hashes)):
        values[i] = find(slots, hashes[i, 0], hashes[i, 1])


@kernel
def remove_all(slots: Slots, hashes: Slots) -> None:
    """Take keys out."""
    for i in range(len(hashes)):
        remove(slots, hashes[i, 0], hashes[i, 1])


@kernel
def hash_strings(data: Bytes, offsets: Int64s, hashes: Slots) -> None:
    """Hash strings by their bytes, both ways; string i is `data[offsets[i] : offsets[i + 1]]`."""
    for string in range(len(offsets) - 1):
        first, second = FIRST_SEED, SECOND_SEED
        for at in range(offsets[string], offsets[string + 1]):
            first = (first ^ np.uint64(data[at])) * FIRST_FACTOR
            second = (second + np.uint64(data[at])) * SECOND_FACTOR
        hashes[string, 0], hashes[string, 1] = mixed(first), mixed(second)


@inner_counting
def _turned(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inner_counting
def _round(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a += b
    b = _turned(b, 13) ^ a
    a = _turned(a, 32)
    c += d
    d = _turned(d, 16) ^ c
    a += d
    d = _turned(d, 21) ^ a
    c += b
    b = _turned(b, 17) ^ c
    c = _turned(c, 32)
    return a, b, c, d


@inner_counting
def begin_hash(secret: Secret) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Begin a hash with a secret: go on with `add_word`, and end with `end_hash`."""
    return (
        _START[0] ^ secret[0], _START[1] ^ secret[1], _START[2] ^ secret[0], _START[3] ^ secret[1]
    )  # fmt: skip


@inner_counting
def add_word(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, word: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Go on with eight bytes, the first of them lowest."""
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    return a ^ word, b, c, d


@inner_counting
def end_hash(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, word: np.uint64, size: int
) -> tuple[np.uint64, np.uint64]:
    """End the hash of `size` bytes with those that made no whole word."""
    a, b, c, d = add_word(a, b, c, d, word | (np.uint64(size) << np.uint64(56)))
    c ^= np.uint64(0xEE)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    first = a ^ b ^ c ^ d
    b ^= np.uint64(0xDD)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return first, a ^ b ^ c ^ d


@inner_counting
def hash_bytes(
    secret: Secret, data: Bytes, begin: int, end: int, lower: bool
) -> tuple[np.uint64, np.uint64]:
    """Hash a part of some bytes with a secret; with `lower` capital letters of ASCII as small."""
    a, b, c, d = begin_hash(secret)
    word, filled = np.uint64(0), 0
    for at in range(begin, end):
        letter = data[at]
        if lower and 65 <= letter <= 90:
            letter += np.uint8(32)
        word |= np.uint64(letter) << np.uint64(8 * filled)
        filled += 1
        if filled == 8:
            a, b, c, d = add_word(a, b, c, d, word)
            word, filled = np.uint64(0), 0
    return end_hash(a, b, c, d, word, end - begin)


@kernel
def hash_with(secret: Secret, data: Bytes, offsets: Int64s, hashes: Slots) -> None:
    """Hash strings as `hash_strings` does, with a secret if there is one."""
    if len(secret) == 0:
        hash_strings(data, offsets, hashes)
        return
    for string in range(len(offsets) - 1):
        first, second = hash_bytes(secret, data, offsets[string], offsets[string + 1], False)
        hashes[string, 0], hashes[string, 1] = first, second


def term_hash(term: str) -> int:
    """The 64 bits by which a term is known where no dictionary is at hand."""
    data = np.frombuffer(term.encode(), np.uint8)
    hashes = np.empty((1, 2), np.uint64)
    hash_strings(data, np.array([0, len(data)], np.int64), hashes)
    return int(hashes[0, 0])
