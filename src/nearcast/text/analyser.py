"""The analyser, which turns a text into terms."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast
from unicodedata import normalize

from nearcast.errors import InvalidValue

ENGLISH_STOP_WORDS = frozenset(
    (  # noqa: SIM905 - a list would take one line a word
        "a an the this that these those and or but if than then so as at by for from in into of on "
        "to with is are was were be been do does did has have had it its i you he she we they"
    ).split()
)
"""Frequent English words that say little about a text; for `Analyser(stop_words=...)`."""

_RUN = re.compile(r"[^\W_]+")

# What the general rule does to each ASCII character: a letter in lower case, a digit, or a gap.
_ASCII_RULE = bytes(
    ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else ord(" ")
    for code in range(256)
)

# A stemmer keeps working state between calls and must not be shared between threads.
_of_this_thread = threading.local()


@dataclass(frozen=True, slots=True, init=False)
class Analyser:
    """Turns a text into terms: NFKC, casefold, then every maximal run of letters and digits.

    `stop_words` are dropped; they are analysed themselves, so case and form do not matter.
    `stemmer` names a PyStemmer language ("english"), by which what is left is stemmed.

    >>> Analyser().tokens("#IPad, don't")
    ['ipad', 'don', 't']
    """

    stemmer: str | None
    stop_words: frozenset[str]

    def __init__(self, stemmer: str | None = None, stop_words: Iterable[str] = ()) -> None:
        if isinstance(stop_words, str):
            raise InvalidValue("stop_words", stop_words, "a collection of words, not one string")
        if stemmer is not None:
            _load_stemmer(stemmer)
        object.__setattr__(self, "stemmer", stemmer)
        object.__setattr__(self, "stop_words", frozenset(t for w in stop_words for t in _split(w)))

    def tokens(self, text: str) -> list[str]:
        """Return the terms in the order of the text, each as often as it occurs."""
        found = _split(text)
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
    return _RUN.findall(normalize("NFKC", text).casefold())


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
