"""Queries: parsed once, matched against the terms of every message."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

from nearcast.errors import InvalidValue
from nearcast.text import problems
from nearcast.text.analyser import DEFAULT, Analyser
from nearcast.text.dnf import Conjunct, disjunctive_normal_form
from nearcast.text.expression import Expression

_CACHED_QUERIES = 4096

# A parenthesis, or an operator as a word of its own: what a query of plain words is free of.
_SYNTAX = re.compile(r"[()]|(?<![^\s()])(?:AND|OR|NOT)(?![^\s()])")


@dataclass(frozen=True, slots=True)
class Query:
    """A query in disjunctive normal form; without conjuncts it contradicts itself.

    `text` is the query as it was written.
    """

    text: str
    conjuncts: tuple[Conjunct, ...]

    def matches(self, terms: AbstractSet[str]) -> bool:
        """Whether a text with these terms satisfies the query."""
        return any(conjunct.matches(terms) for conjunct in self.conjuncts)


def parse_query(text: str, analyser: Analyser = DEFAULT) -> Query:
    """Read a query: words, AND, OR, NOT in capitals, parentheses.

    Words side by side must all be there; NOT binds tightest, then AND, then OR. An operator is a
    word of its own, set off by blanks or parentheses. An operand of which the analyser leaves
    nothing is passed over, but a query, and each side of an OR, must have a term.

    >>> parse_query("pizza NOT pineapple").matches({"pizza", "margherita"})
    True
    """
    _check_string(text)
    if _has_syntax(text):
        return _parse_cached(text, analyser)
    terms = analyser.terms(text)
    if not terms:
        raise problems.no_term_at_all(text)
    return Query(text, (Conjunct(terms),))


def parse_expression(text: str, analyser: Analyser = DEFAULT) -> Expression:
    """Read a query as a tree, as it was written, whatever it expands to."""
    # Imported here, so that plain words never wait for the parser library.
    from nearcast.text.grammar import parse

    _check_string(text)
    if not text or text.isspace():
        raise problems.no_term_at_all(text)
    return parse(text, analyser)


def parse_bag(text: str, analyser: Analyser = DEFAULT) -> tuple[str, ...]:
    """Read a top-k query, a bag of words, as its distinct terms in alphabetical order."""
    _check_string(text)
    syntax = _SYNTAX.search(text)
    if syntax:
        raise problems.syntax_in_bag(text, syntax.start(), syntax.group())
    terms = analyser.terms(text)
    if not terms:
        raise problems.no_term_at_all(text)
    return tuple(sorted(terms))


def forget_parsed() -> None:
    """Empty the cache of parsed queries, so that each measurement pays for parsing."""
    _parse_cached.cache_clear()


@lru_cache(maxsize=_CACHED_QUERIES)
def _parse_cached(text: str, analyser: Analyser) -> Query:
    return Query(text, disjunctive_normal_form(parse_expression(text, analyser), text))


def _has_syntax(text: str) -> bool:
    # The substrings are far quicker to look for than the pattern, and rarely there.
    return (
        "(" in text or ")" in text or "AND" in text or "OR" in text or "NOT" in text
    ) and _SYNTAX.search(text) is not None


def _check_string(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidValue("query", text, "a string, such as 'ipad AND (discount OR sale)'")
