"""Which prefixes and groups of terms no query asks for, known without looking them up.

A message has some ten keys of prefixes and phrases for each of its terms, and queries ask for
hardly any of them. Two filters of bits, small enough for the cache of a processor, rule out nearly
all others (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970; both bits of
a key are in one word). What a filter lets through is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, kernel
from nearcast.arrays.slots import FIRST_FACTOR, SECOND_FACTOR, Secret, hash_bytes
from nearcast.arrays.types import Bytes, Int64s
from nearcast.text.keys import phrase_key, prefix_key

FilterWords = npt.NDArray[np.uint64]

_BITS_A_KEY = 16
_PREFIX, _PHRASE = prefix_key(""), phrase_key(())
_BLANK = 32


class KeyFilters(NamedTuple):
    """The words of both filters, as many as a power of two."""

    prefixes: FilterWords
    phrases: FilterWords


@inlined
def start_prefix(secret: Secret) -> np.uint64:
    """Give the hash of a prefix without letters."""
    value: np.uint64 = secret[0]
    return value


@inlined
def longer_prefix(value: np.uint64, letter: np.uint8) -> np.uint64:
    """Give the hash of a prefix with one letter more."""
    return (value ^ np.uint64(letter)) * FIRST_FACTOR


@inlined
def longer_phrase(value: np.uint64, term: np.uint64) -> np.uint64:
    """Give the hash of terms side by side with one more, of which the first hash is given."""
    return (value + term) * SECOND_FACTOR


@inlined
def _spread(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9FB21C651E98DF25)
    return value ^ (value >> np.uint64(29))


@inlined
def _bits_of(value: np.uint64) -> np.uint64:
    one, low = np.uint64(1), np.uint64(63)
    return (one << (value & low)) | (one << ((value >> np.uint64(6)) & low))


@inlined
def may_be_there(words: FilterWords, hashed: np.uint64) -> bool:
    """Return whether a key with this hash may have been entered."""
    value = _spread(hashed)
    bits = _bits_of(value)
    word = words[(value >> np.uint64(12)) & np.uint64(len(words) - 1)]
    return bool(word & bits == bits)


@inlined
def _enter(words: FilterWords, hashed: np.uint64) -> None:
    value = _spread(hashed)
    words[(value >> np.uint64(12)) & np.uint64(len(words) - 1)] |= _bits_of(value)


@kernel
def _enter_prefixes(words: FilterWords, data: Bytes, offsets: Int64s, secret: Secret) -> None:
    """Enter the prefixes `data[offsets[i] : offsets[i + 1]]`."""
    for prefix in range(len(offsets) - 1):
        value = start_prefix(secret)
        for at in range(offsets[prefix], offsets[prefix + 1]):
            value = longer_prefix(value, data[at])
        _enter(words, value)


@kernel
def _enter_phrases(words: FilterWords, data: Bytes, offsets: Int64s, secret: Secret) -> None:
    """Enter the phrases `data[offsets[i] : offsets[i + 1]]`, a blank between two terms."""
    for phrase in range(len(offsets) - 1):
        value, begin = np.uint64(0), offsets[phrase]
        for at in range(offsets[phrase], offsets[phrase + 1] + 1):
            if at == offsets[phrase + 1] or data[at] == _BLANK:
                first, _ = hash_bytes(secret, data, begin, at, False)
                value, begin = longer_phrase(value, first), at + 1
        _enter(words, value)


class _Filter:
    """The filter of one kind of keys, those that begin with `head`."""

    def __init__(self, head: str, enter: Callable[..., None]) -> None:
        self._head, self._enter = head, enter
        self._waiting: list[str] = []
        self._count = 0
        self.words: FilterWords = np.zeros(1, np.uint64)

    def note(self, strings: Iterable[str]) -> bool:
        """Return whether there are keys of this kind among some strings."""
        some = [string for string in strings if string.startswith(self._head)]
        self._waiting += some
        return len(some) > 0

    def settle(self, everything: Iterable[str], secret: Secret) -> FilterWords:
        if not self._waiting:
            return self.words
        self._count += len(self._waiting)
        if self._count * _BITS_A_KEY > 64 * len(self.words):
            self._waiting = [string for string in everything if string.startswith(self._head)]
            self._count = len(self._waiting)
            size = self._count * _BITS_A_KEY // 64
            self.words = np.zeros(1 << size.bit_length(), np.uint64)
        skipped = len(self._head)
        encoded = [one[skipped:].encode(errors="surrogatepass") for one in self._waiting]
        self._waiting = []
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(one) for one in encoded], out=offsets[1:])
        self._enter(self.words, np.frombuffer(b"".join(encoded), np.uint8), offsets, secret)
        return self.words


class KnownKeys:
    """The filters for the keys of prefixes and phrases that have numbers, or had them."""

    def __init__(self) -> None:
        self._prefixes = _Filter(_PREFIX, _enter_prefixes)
        self._phrases = _Filter(_PHRASE, _enter_phrases)
        self._filters: KeyFilters | None = None
        self.version = 0
        """A number that grows when a prefix gets a number, or loses it."""

    def note(self, strings: Iterable[str]) -> None:
        """Take note of strings that have got a number; those that are no such keys do not count."""
        strings = [string for string in strings if string[0] == "\0"]
        if strings:
            self._filters = None
            self._phrases.note(strings)
            self.version += self._prefixes.note(strings)

    def filters(self, everything: Iterable[str], secret: Secret) -> KeyFilters:
        """The filters, with all keys that were noted; `everything` has those that are in use.

        It is the same object for as long as the arrays are.
        """
        if self._filters is None:
            prefixes = self._prefixes.settle(everything, secret)
            self._filters = KeyFilters(prefixes, self._phrases.settle(everything, secret))
        return self._filters
