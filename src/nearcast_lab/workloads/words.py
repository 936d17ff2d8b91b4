"""One word for each term number, all of them different, the most familiar ones first.

The first terms are the words of `words.txt`: everyday English without stop words, roughly by how
often a message about a city would have them. Further terms are two short words of the list in one
("snowcafe"), and after these more than two.

A word is put together from its end: another word is preceded by one of the *heads*, short words
that no other word of the list begins with. So there is one way only to take a word apart, and two
term numbers never share a word.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast_lab.workloads.draws import Ints

_SHORT = 5

Texts = NDArray[np.object_]


class _Parts(NamedTuple):
    """What words are made of: the whole list, what may come first, and what may follow that."""

    known: Texts
    heads: Texts
    tails: Texts
    stride: int


@cache
def _parts() -> _Parts:
    known = files("nearcast_lab.workloads").joinpath("words.txt").read_text("ascii").split()
    short = [word for word in known if len(word) <= _SHORT]
    # In alphabetical order a word is followed by those that begin with it, if there are any.
    begun = {word for word, after in pairwise(sorted(known)) if after.startswith(word)}
    heads = [word for word in short if word not in begun]
    return _Parts(_texts(known), _texts(heads), _texts(short), _stride(len(heads) * len(short)))


def _texts(words: list[str]) -> Texts:
    return np.array(words, dtype=np.object_)


def _stride(size: int) -> int:
    """Give a step without common factor with `size`: it visits every place once."""
    stride = int(size * 0.618) | 1
    while gcd(stride, size) != 1:
        stride += 2
    return stride


def words_of(terms: Ints) -> Texts:
    """Give the word of each term."""
    known, heads, tails, stride = _parts()
    words = np.empty(len(terms), dtype=np.object_)
    pairs, beyond = len(heads) * len(tails), terms - len(known)
    listed, paired = beyond < 0, (beyond >= 0) & (beyond < pairs)
    words[listed] = known[terms[listed]]
    # Striding keeps terms that are next to each other in frequency from sharing a part.
    head, tail = np.divmod(beyond[paired] * stride % pairs, len(tails))
    words[paired] = heads[head] + tails[tail]
    longer = ~(listed | paired)
    if longer.any():
        rest, head = np.divmod(beyond[longer] - pairs, len(heads))
        words[longer] = heads[head] + words_of(rest + len(known))
    return words


def word(term: int) -> str:
    """Give the word of a term."""
    text: str = words_of(np.array([term]))[0]
    return text


class Words:
    """The words of a vocabulary, made when first used."""

    def __init__(self, size: int) -> None:
        self._words: Texts = np.full(size, None, dtype=np.object_)
        self._known = np.zeros(size, dtype=np.bool_)

    def of(self, terms: Ints) -> list[str]:
        """Give the word of each term."""
        new = np.unique(terms[~self._known[terms]])
        if len(new):
            self._words[new] = words_of(new)
            self._known[new] = True
        words: list[str] = self._words[terms].tolist()
        return words

    def phrases(self, terms: Ints, offsets: Ints) -> list[str]:
        """Join the words of each row, `terms[offsets[i]:offsets[i + 1]]`, with spaces."""
        words = self.of(terms)
        return [" ".join(words[start:end]) for start, end in pairwise(offsets.tolist())]
