"""Queries: parsed once, matched against every message."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

from nearcast.errors import InvalidValue
from nearcast.text import problems
from nearcast.text.analyser import DEFAULT, Analyser, has_term
from nearcast.text.dnf import Conjunct, disjunctive_normal_form
from nearcast.text.expression import Expression
from nearcast.text.operands import NO_CONTENT, Content
from nearcast.text.words import is_plain, small_conjuncts

_CACHED_QUERIES = 4096
_WORTH_CACHING = 100  # characters; what is shorter is parsed in little more than a look-up takes

_PIECE = re.compile(r'[()"]|[^\s()"]+')
_DOUBTFUL = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(?<![^\s()])(?:(?P<word>and|or|not)(?![^\s()])|'
    r"(?P<name>[^\W\d][\w.-]*+)\s*+(?P<sign>[<>]=?|==?)\s*+(?P<value>[^\s()\"]++))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query in disjunctive normal form; without conjuncts it contradicts itself.

    `text` is the query as it was written.
    """

    text: str
    conjuncts: tuple[Conjunct, ...]

    def matches(self, terms: AbstractSet[str], content: Content = NO_CONTENT) -> bool:
        """Whether a message with these terms and this content satisfies the query."""
        for conjunct in self.conjuncts:  # a loop, as most of plain code's time is spent here
            if conjunct.required <= terms and conjunct.matches(terms, content):
                return True
        return False


EVERYTHING = Query("*", (Conjunct(frozenset()),))
"""The query that every message satisfies."""


def parse_query(text: str, analyser: Analyser = DEFAULT) -> Query:
    """Read a query: words, "phrases", prefixes*, properties, AND, OR, NOT, parentheses, or *.

    Operands side by side must all hold; NOT binds tightest, then AND, then OR. An operator is a
    word of its own, in capitals, set off by blanks or parentheses. An operand that has only stop
    words is passed over, but a query, and each side of an OR, must have another one.

    >>> parse_query("pizza NOT pineapple").matches({"pizza", "margherita"})
    True
    """
    _check_string(text)
    if is_plain(text):
        terms = analyser.terms(text)
        if terms:
            return Query(text, (Conjunct(terms),))
    if len(text) < _WORTH_CACHING:
        return _parse(text, analyser)
    return _parse_cached(text, analyser)


def parse_expression(text: str, analyser: Analyser = DEFAULT) -> Expression:
    """Read a query as a tree, as it was written, whatever it expands to."""
    # Imported here, so that words never wait for the parser.
    from nearcast.text.parser import parse

    _check_string(text)
    if not text or text.isspace():
        raise problems.empty_query(text)
    return parse(text, analyser)


def parse_bag(text: str, analyser: Analyser = DEFAULT) -> tuple[str, ...]:
    """Read a top-k query, a bag of words, as its distinct terms in alphabetical order."""
    _check_string(text)
    if not is_plain(text):
        for piece in _PIECE.finditer(text):
            _check_word(text, piece.group(), piece.start())
    terms = analyser.terms(text)
    if not terms:
        raise _no_term_at_all(text)
    return tuple(sorted(terms))


def hints(text: str) -> tuple[str, ...]:
    """Point out what a query may not mean.

    Operators in small letters are plain words, and comparisons without a colon only separate words.
    """
    found = []
    for match in _DOUBTFUL.finditer(text):
        word, before, after = match["word"], text[: match.start()], text[match.end() :]
        if word and after.strip() and (before.strip() or word == "not"):
            found.append(
                f"{word!r} at position {match.start()} is an ordinary word; "
                f"the operator is {word.upper()}, in capitals"
            )
        name = match["name"]
        if name:
            sign = match["sign"] if match["sign"][0] in "<>" else ""
            meant = f"{name}:{sign}{match['value']}"
            found.append(
                f"{match['sign']!r} at position {match.start('sign')} only separates two words; "
                f"what asks for a property is {meant}"
            )
    return tuple(found)


def forget_parsed() -> None:
    """Empty the cache of parsed queries, so that each measurement pays for parsing."""
    _parse_cached.cache_clear()


def _parse(text: str, analyser: Analyser) -> Query:
    conjuncts = small_conjuncts(text, analyser)
    if conjuncts is None:
        conjuncts = disjunctive_normal_form(parse_expression(text, analyser), text)
    return Query(text, conjuncts)


_parse_cached = lru_cache(maxsize=_CACHED_QUERIES)(_parse)


def _check_word(text: str, word: str, at: int) -> None:
    if word in ("(", ")", '"', "AND", "OR", "NOT"):
        raise problems.syntax_in_bag(text, at, word)
    if word[0] in "-!":
        raise problems.syntax_in_bag(text, at, word[0])
    is_property = word[0].isalpha() or not word[0].isalnum()
    for mark in "*:" if is_property else "*":
        if mark in word:
            raise problems.syntax_in_bag(text, at + word.index(mark), mark)
    if not has_term(word):
        raise problems.no_term(text, at)


def _no_term_at_all(text: str) -> Exception:
    start = len(text) - len(text.lstrip())
    return problems.empty_query(text) if start == len(text) else problems.no_term(text, start)


def _check_string(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidValue("query", text, "a string, such as 'ipad AND (discount OR sale)'")
