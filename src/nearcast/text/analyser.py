"""The analyser, which turns a text into terms."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby, pairwise
from typing import Any, cast
from unicodedata import category

from nearcast.errors import InvalidValue
from nearcast.text.normal_form import nfkc

ENGLISH_STOP_WORDS = frozenset(
    (  # noqa: SIM905 - a list would take one line a word
        "a an the this that these those and or but if than then so as at by for from in into of on "
        "to with is are was were be been do does did has have had it its i you he she we they"
    ).split()
)
"""Frequent English words that say little about a text; for `Analyser(stop_words=...)`."""

# Han, Hiragana, Katakana and Hangul, as far as NFKC leaves them.
_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3021-\u3029\u3038-\u303c\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\U00016fe3\U0001aff0-\U0001b167"
    "\U00020000-\U0003ffff"
)

# What the general rule does to each ASCII character: a letter in lower case, a digit, or a gap.
_ASCII_RULE = bytes(
    ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else ord(" ")
    for code in range(256)
)

_GAP = re.compile(r"[\x00-/:-@\[-`{-\x7f]")
_PIECE = 1 << 14

# A stemmer keeps working state between calls and must not be shared between threads.
_of_this_thread = threading.local()


@dataclass(frozen=True, slots=True, init=False)
class Analyser:
    """Turns a text into terms: NFKC, casefold, then every maximal run of letters and digits.

    Combining marks that follow a letter or digit belong to its run.
    `stop_words` are dropped; they are analysed themselves, so case and form do not matter.
    `stemmer` names a PyStemmer language ("english"), by which what is left is stemmed.
    With `cjk`, a run of Han, Hiragana, Katakana or Hangul is cut into overlapping pairs.

    >>> Analyser().tokens("#IPad, don't")
    ['ipad', 'don', 't']
    """

    stemmer: str | None
    stop_words: frozenset[str]
    cjk: bool

    def __init__(
        self, stemmer: str | None = None, stop_words: Iterable[str] = (), cjk: bool = False
    ) -> None:
        if isinstance(stop_words, str):
            raise InvalidValue("stop_words", stop_words, "a collection of words, not one string")
        if stemmer is not None:
            _load_stemmer(stemmer)
        object.__setattr__(self, "stemmer", stemmer)
        object.__setattr__(self, "cjk", cjk)
        object.__setattr__(self, "stop_words", frozenset())
        object.__setattr__(
            self,
            "stop_words",
            frozenset(chain.from_iterable(chain.from_iterable(map(self._runs, stop_words)))),
        )

    def tokens(self, text: str) -> list[str]:
        """Return the terms in the order of the text, each as often as it occurs."""
        if self.cjk and not text.isascii():
            return list(chain.from_iterable(self.phrases(text)))
        return self._kept(_split(text))

    def phrases(self, text: str) -> list[list[str]]:
        """Return the terms as those that belong together: pairs of one run, any other alone."""
        return [kept for run in self._runs(text) if (kept := self._kept(run))]

    def _runs(self, text: str) -> list[list[str]]:
        if self.cjk and not text.isascii():
            return [some for run in _split(text) for some in _pairs(run)]
        return [[term] for term in _split(text)]

    def _kept(self, found: list[str]) -> list[str]:
        if self.stop_words:
            found = [token for token in found if token not in self.stop_words]
        if self.stemmer is not None:
            # A stem may be empty in some languages; an empty term would match nothing.
            found = [stem for stem in _stemmer(self.stemmer)(found) if stem]
        return found

    def terms(self, text: str) -> frozenset[str]:
        """Return the set of terms of the text."""
        return frozenset(self.tokens(text))


def _split(text: str) -> list[str]:
    # On ASCII, NFKC changes nothing and casefold is lower case: one pass over the bytes does all.
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_RULE).decode("ascii").split()
    return _split_any(text)


def _split_any(text: str) -> list[str]:
    # With "_" out of the way, what is left of \w are letters and digits.
    folded = nfkc(text).casefold().replace("_", " ")
    find = _run().findall
    if len(folded) <= _PIECE:
        return find(folded)
    # A long text is cut at gaps: no other thread runs while a pattern is looked for.
    found: list[str] = []
    start = 0
    while (gap := _GAP.search(folded, start + _PIECE)) is not None:
        found += find(folded, start, gap.start())
        start = gap.start()
    return found + find(folded, start)


def has_term(text: str) -> bool:
    """Whether a text has a letter or a digit."""
    return bool(_split(text))


@cache
def _run() -> re.Pattern[str]:
    """A term: letters and digits, with the marks that follow them."""
    # What is below all marks is ruled out first: most terms end with a blank.
    return re.compile(rf"\w++(?:(?![\x00-\u02ff])[{_marks()}]++\w*+)*+")


@cache
def _marks() -> str:
    """All combining marks, as ranges of a character class; made with the first text beyond ASCII.

    There are none elsewhere in Unicode.
    """
    codes = [*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)]
    marks = [code for code in codes if category(chr(code))[0] == "M"]
    runs = [list(run) for _, run in groupby(enumerate(marks), lambda each: each[1] - each[0])]
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


@cache
def _cjk_character() -> re.Pattern[str]:
    """A character of Han, Hiragana, Katakana or Hangul, with the marks that follow it."""
    return re.compile(f"[{_CJK}][{_marks()}]*+")


@cache
def _cjk_stretch() -> re.Pattern[str]:
    """As many of these characters as there are, or of all others."""
    return re.compile(f"(?:{_cjk_character().pattern})++|[^{_CJK}]++")


def _pairs(run: str) -> list[list[str]]:
    """Cut the Han, Hiragana, Katakana and Hangul of a run into pairs, a list for each stretch."""
    found = []
    for stretch in _cjk_stretch().findall(run):
        characters = _cjk_character().findall(stretch)
        found.append([a + b for a, b in pairwise(characters)] or characters or [stretch])
    return found


def _stemmer(language: str) -> Callable[[list[str]], list[str]]:
    found = getattr(_of_this_thread, language, None)
    if found is None:
        found = _load_stemmer(language)
        setattr(_of_this_thread, language, found)
    return cast("Callable[[list[str]], list[str]]", found)


def _load_stemmer(language: str) -> Callable[[list[str]], list[str]]:
    try:
        import Stemmer
    except ImportError as error:
        raise InvalidValue(
            "stemmer",
            language,
            "PyStemmer beside this package: run pip install 'nearcast[stemming]'",
        ) from error
    known: list[str] = Stemmer.algorithms()
    if language not in known:
        raise InvalidValue("stemmer", language, f"None or one of {', '.join(known)}")
    stemmer: Any = Stemmer.Stemmer(language)
    return cast("Callable[[list[str]], list[str]]", stemmer.stemWords)


DEFAULT = Analyser()
"""The analyser without stemming and without stop words."""
