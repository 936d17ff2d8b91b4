"""The keys of the prefixes that terms have, noted when a message has a term for the first time.

A frequent term has several prefixes that queries ask for. To look them up takes longer than all
else about the term, and they are always the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Int32s, Int64s

_KEYS_A_TERM = 2  # for which there is room; terms that come when it is full are not noted


class PrefixMemo(NamedTuple):
    """What is noted, as kernels read and write it."""

    first: Int32s  # by term: the place of its entry in `keys`, or -1
    keys: Int32s  # an entry is how many keys there are, and their numbers
    used: Int64s  # one number: how much of `keys` is used


class PrefixMemory:
    """Keeps a memo for as long as the same prefixes are asked for and have the same numbers."""

    def __init__(self) -> None:
        self._version, self._lengths = -1, np.empty(0, np.int64)
        self._memo = _empty(0)

    def memo(self, version: int, lengths: Int64s, terms: int) -> PrefixMemo:
        """The memo for terms below `terms`; an empty one if `version` or `lengths` are others."""
        known = len(self._memo.first)
        same = lengths is self._lengths or np.array_equal(lengths, self._lengths)
        if version != self._version or not same or (len(lengths) and known != terms):
            self._memo = _empty(terms if len(lengths) else 0)
        self._version, self._lengths = version, lengths
        return self._memo

    def forget(self, terms: Int32s) -> None:
        """Forget what is noted of terms whose numbers are used again.

        There may be more terms by now than when the memo was made; nothing is noted of those.
        """
        first = self._memo.first
        first[terms[terms < len(first)]] = -1


def _empty(terms: int) -> PrefixMemo:
    first = np.full(terms, -1, np.int32)
    return PrefixMemo(first, np.empty(_KEYS_A_TERM * terms, np.int32), np.zeros(1, np.int64))
