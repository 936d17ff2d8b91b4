"""NFKC of texts that may be made to be slow: in time that grows with the length, and in pieces.

`unicodedata.normalize` sorts marks that follow each other by insertion: 65,536 of them in the wrong
order take seconds, and a text of U+FDFA becomes 18 times as long in one call. No other thread runs
meanwhile. So marks are sorted beforehand, and long texts are cut where that changes nothing.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby
from unicodedata import combining, decomposition, normalize

_PIECE = 1024
_MANY = 32  # marks in a row that are sorted beforehand


def nfkc(text: str) -> str:
    """Return `normalize("NFKC", text)`."""
    if len(text) < _MANY or text.isascii():
        return normalize("NFKC", text)
    if not _following().isdisjoint(text[:: _MANY // 2]):  # a run of _MANY has one of these
        text = _crowds().sub(_in_order, text)
    if len(text) <= _PIECE:
        return normalize("NFKC", text)
    pieces, start, begins = [], 0, _beginning()
    while (cut := begins.search(text, start + _PIECE)) is not None:
        pieces.append(normalize("NFKC", text[start : cut.start()]))
        start = cut.start()
    pieces.append(normalize("NFKC", text[start:]))
    return "".join(pieces)


def _in_order(crowd: re.Match[str]) -> str:
    """Take marks apart and sort them as NFKC does, those of a class in the order they came."""
    marks = "".join([normalize("NFKD", mark) for mark in crowd[0]])
    ordered: list[str] = []
    for begins, some in groupby(marks, lambda mark: combining(mark) == 0):
        group = list(some)
        ordered += group if begins else sorted(group, key=combining)
    return "".join(ordered)


@cache
def _following() -> frozenset[str]:
    """The characters that may change with what is before them.

    These are marks, and letters that are written together with the one before: the vowels and
    final consonants of Hangul, and the second half of whatever is composed of two. Of characters
    beyond the first 65,536 only these are known; patterns take all of them for such, because a
    pattern with few ranges up there is ten times as fast.
    """
    marks: set[str] = set()
    parted: list[str] = []
    seconds = {*map(chr, range(0x1161, 0x1176)), *map(chr, range(0x11A8, 0x11C3))}
    for letter in map(chr, range(0xC0, 0x20000)):
        if combining(letter):
            marks.add(letter)
        if parts := decomposition(letter):
            parted.append(letter)
            _, _, second = parts.partition(" ")
            if second and not parts.startswith("<"):
                seconds.add(chr(int(second, 16)))
    following = marks | seconds
    return frozenset(
        following.union(each for each in parted if normalize("NFKD", each)[0] in following)
    )


@cache
def _class() -> str:
    known = "".join(letter for letter in _following() if letter < "\U00010000")
    return f"{known}\U00010000-\U0001ffff"


@cache
def _beginning() -> re.Pattern[str]:
    """A character that nothing before it changes."""
    return re.compile(f"[^{_class()}]")


@cache
def _crowds() -> re.Pattern[str]:
    """Many characters in a row that may change with what is before them."""
    return re.compile(f"[{_class()}]{{{_MANY},}}+")
