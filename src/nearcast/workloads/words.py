"""Readable made-up words, one for each term number, all of them different.

A word is a row of syllables, each a consonant sound and a vowel ("tomi", "kelisho"). A word can be
cut into syllables in one way only, so two term numbers never share a word. Frequent terms have the
low numbers and get the short words.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import gcd

import numpy as np
from numpy.typing import NDArray

from nearcast.workloads.draws import Ints

_ONSETS = [*"bdfghjklmnprstvwz", "br", "ch", "dr", "gl", "sh", "th", "tr"]
SYLLABLES = [onset + vowel for onset in _ONSETS for vowel in "aeiou"]
_BASE = len(SYLLABLES)


@cache
def _stride(size: int) -> int:
    """Give a step without common factor with `size`: it visits every place once."""
    stride = int(size * 0.618) | 1
    while gcd(stride, size) != 1:
        stride += 2
    return stride


def word(term: int) -> str:
    """Give the word of a term: two syllables for the first terms, then three, then four."""
    syllables, size = 2, _BASE**2
    while term >= size:
        term -= size
        syllables += 1
        size *= _BASE
    # Striding keeps neighbours in frequency from being neighbours in the alphabet.
    place = (term * _stride(size) + size // 3) % size
    parts = []
    for _ in range(syllables):
        place, syllable = divmod(place, _BASE)
        parts.append(SYLLABLES[syllable])
    return "".join(parts)


class Words:
    """The words of a vocabulary, made when first used."""

    def __init__(self, size: int) -> None:
        self._words: NDArray[np.object_] = np.full(size, None, dtype=np.object_)
        self._known = np.zeros(size, dtype=np.bool_)

    def of(self, terms: Ints) -> list[str]:
        """Give the word of each term."""
        new = np.unique(terms[~self._known[terms]])
        if len(new):
            self._words[new] = [word(term) for term in new.tolist()]
            self._known[new] = True
        words: list[str] = self._words[terms].tolist()
        return words

    def phrases(self, terms: Ints, offsets: Ints) -> list[str]:
        """Join the words of each row, `terms[offsets[i]:offsets[i + 1]]`, with spaces."""
        words = self.of(terms)
        return [" ".join(words[start:end]) for start, end in pairwise(offsets.tolist())]
