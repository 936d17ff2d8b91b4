"""Reads the operands of a query: words, phrases, prefixes and properties."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isinf
from typing import TypeAlias
from unicodedata import category

from nearcast.text import problems
from nearcast.text.analyser import DEFAULT, Analyser, has_term
from nearcast.text.expression import And, Condition, Expression, Term
from nearcast.text.operands import (
    Equals,
    Everything,
    Exists,
    Operand,
    Phrase,
    Prefix,
    Within,
    fold,
)

_JSON_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_NUMBER = re.compile(_JSON_NUMBER)
_RANGE = re.compile(rf"\[\s*+({_JSON_NUMBER})\s++TO\s++({_JSON_NUMBER})\s*+\]")
_COMPARISON = re.compile(r"([<>])(=?)(.*)", re.DOTALL)
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_WORD = re.compile(r'[^\s()"]++')
_ESCAPED = re.compile(r'\\(["\\])')
_SHORTEST_PREFIX = 2
_MOST_DIGITS = 4300  # of a whole number; JSON with longer ones cannot be read either


@dataclass(frozen=True, slots=True)
class Blank:
    """An operand of stop words only: it is passed over."""

    position: int


OperandValue: TypeAlias = Expression | Blank


def all_of(operands: list[Expression], position: int) -> OperandValue:
    """Join operands of which there may be one or none."""
    if not operands:
        return Blank(position)
    return operands[0] if len(operands) == 1 else And(tuple(operands), position)


def read_phrase(text: str, at: int, analyser: Analyser) -> tuple[OperandValue, int]:
    """Read the phrase in quotes at `at`; return it and where it ends."""
    inside, end = _quoted(text, at)
    terms = analyser.tokens(inside)
    if not terms:
        if not has_term(inside):
            raise problems.empty_phrase(text, at)
        return Blank(at), end
    return _joined(terms, at), end


def read_word(text: str, word: str, at: int, analyser: Analyser) -> tuple[OperandValue, int]:
    """Read the operand that begins with a word at `at`; return it and where it ends.

    The word goes up to a blank, a parenthesis or a quote.
    """
    first, end = word[0], at + len(word)
    if first in "-!":
        raise problems.leading_sign(text, at, first)
    if ":" in word and (first.isalpha() or not first.isalnum()):
        operand, end = _property(text, word, at)
        return Condition(operand, at), end
    if text.startswith('"', end):
        raise problems.quote_in_word(text, end)
    if word == "*":
        return Condition(Everything(), at), end
    if "*" in word:
        return Condition(_prefix(text, word, at, analyser), at), end
    found = [_joined(terms, at) for terms in analyser.phrases(word)]
    if not found and not has_term(word):
        raise problems.no_term(text, at)
    return all_of(found, at), end


def read_operand(piece: str, analyser: Analyser) -> list[str | Operand]:
    """Read one operand that is the whole text: its terms, or what else it is; none otherwise."""
    word = _WORD.match(piece)
    if word:
        value, end = read_word(piece, word[0], 0, analyser)
    else:
        value, end = read_phrase(piece, 0, analyser)
    if end != len(piece) or isinstance(value, Blank):
        return []
    leaves = value.operands if isinstance(value, And) else (value,)
    return [
        leaf.operand if isinstance(leaf, Condition) else leaf.term
        for leaf in leaves
        if isinstance(leaf, Condition | Term)
    ]


def number(text: str) -> int | float | None:
    """Read a number as JSON writes it; None if it is none, or larger than any can be."""
    if _NUMBER.fullmatch(text) is None:
        return None
    if "." in text or "e" in text or "E" in text:
        value = float(text)
        return None if isinf(value) else value
    return int(text) if len(text) <= _MOST_DIGITS else None


def _joined(terms: list[str], at: int) -> Expression:
    return Term(terms[0], at) if len(terms) == 1 else Condition(Phrase(tuple(terms)), at)


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Read a string in quotes; return what it stands for and where it ends."""
    found = _QUOTED.match(text, at)
    if found is None:
        raise problems.open_quote(text, at)
    _check_closed(text, found.end())
    return _ESCAPED.sub(r"\1", found[1]), found.end()


def _check_closed(text: str, end: int) -> None:
    after = text[end : end + 1]
    if after not in ("", ")") and not after.isspace():
        raise problems.sticks(text, end, text[end - 1])


def _prefix(text: str, word: str, at: int, analyser: Analyser) -> Prefix:
    stem = word[:-1]
    star = word.index("*")
    if star < len(stem):
        raise problems.star_inside(text, at + star)
    terms = analyser.tokens(stem)
    # One term, and nothing beside it.
    if len(terms) != 1 or DEFAULT.tokens(stem) != [fold(stem)]:
        raise problems.no_prefix(text, at)
    if len(terms[0]) < _SHORTEST_PREFIX:
        raise problems.short_prefix(text, at, _SHORTEST_PREFIX)
    return Prefix(terms[0])


def _property(text: str, word: str, at: int) -> tuple[Operand, int]:
    name, _, value = word.partition(":")
    begin, end = at + len(name) + 1, at + len(word)
    if not _is_name(name):
        raise problems.no_property(text, at)
    if value.startswith("["):
        found = _RANGE.match(text, begin)
        bounds = [number(found[1]), number(found[2])] if found else [None]
        if found is None or None in bounds:
            raise problems.no_range(text, begin)
        _check_closed(text, found.end())
        return Within(name, bounds[0], bounds[1]), found.end()
    if text.startswith('"', end):
        if value:
            raise problems.quote_in_word(text, end)
        inside, end = _quoted(text, end)
        return Equals(name, fold(inside)), end
    if value == "*":
        return Exists(name), end
    return _comparison(text, name, value, begin), end


def _comparison(text: str, name: str, value: str, begin: int) -> Operand:
    found = _COMPARISON.fullmatch(value)
    if found:
        bound, closed = number(found[3]), found[2] == "="
        if bound is None:
            raise problems.no_number(text, begin + found.start(3))
        if found[1] == "<":
            return Within(name, None, bound, True, closed)
        return Within(name, bound, None, closed, True)
    if not value or value[0] in "={" or "*" in value:
        raise problems.no_value(text, begin)
    flag = {"true": True, "false": False}.get(value.lower())
    return Equals(name, fold(value), number(value), flag)


def _is_name(name: str) -> bool:
    return (name[:1].isalpha() or name[:1] == "_") and all(
        part and all(c.isalnum() or c in "_-" or category(c)[0] == "M" for c in part)
        for part in name.split(".")
    )
