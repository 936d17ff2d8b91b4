"""Queries of words alone, and of words with AND, OR, NOT and parentheses: straight to conjuncts.

What is here only saves time. It leaves everything else, and all that is wrong, to the parser.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from nearcast.text.analyser import DEFAULT, Analyser
from nearcast.text.dnf import Conjunct

_MOST_CLAUSES = 64

# Each word has a letter or digit, and nothing that might be syntax. For ASCII texts.
_PLAIN = re.compile(
    r"""\s*+(?:
        (?![-!]|(?:AND|OR|NOT)(?:\s|\Z))        # neither a sign before a word nor an operator
        [^\s()"*:A-Za-z0-9]*+[A-Za-z0-9][^\s()"*:]*+
        (?:\s++|\Z)
    )++""",
    re.VERBOSE,
)
_pieces = re.compile(r"[()]|[^\s()]+").findall
_SYNTAX = frozenset(["AND", "OR", "NOT", "(", ")"])

_Clause: TypeAlias = tuple[frozenset[str], frozenset[str]]  # terms to have, and terms to lack


def is_plain(text: str) -> bool:
    """Whether a query is surely a list of ASCII words, each with a term before stop words."""
    return text.isascii() and _PLAIN.fullmatch(text) is not None


def conjuncts_of_words(text: str, analyser: Analyser) -> tuple[Conjunct, ...] | None:
    """Expand a query of words; None if it is not one, is wrong, or has many alternatives."""
    outer: list[tuple[list[_Clause], list[str], list[str], list[list[_Clause]]]] = []
    sides: list[_Clause] = []
    required: list[str] = []
    excluded: list[str] = []
    factors: list[list[_Clause]] = []
    default = analyser is DEFAULT
    waiting, negative = True, False
    for piece in _pieces(text):
        if piece not in _SYNTAX:
            if default and piece.isalnum() and piece.isascii():
                (excluded if negative else required).append(piece.lower())
            else:
                terms = _terms(piece, analyser)
                if not terms or (negative and len(terms) > 1):
                    return None
                (excluded if negative else required).extend(terms)
            waiting = negative = False
        elif piece == "NOT":
            negative = not negative
            waiting = True
        elif piece == "(":
            if negative:
                return None
            outer.append((sides, required, excluded, factors))
            sides, required, excluded, factors = [], [], [], []
            waiting = True
        elif waiting:
            return None
        elif piece == "AND":
            waiting = True
        elif piece == "OR":
            sides += _product(required, excluded, factors)
            required, excluded, factors = [], [], []
            waiting = True
        else:
            if not outer:
                return None
            sides += _product(required, excluded, factors)
            if len(sides) > _MOST_CLAUSES:
                return None
            inner = sides
            sides, required, excluded, factors = outer.pop()
            factors.append(inner)
    if waiting or outer:
        return None
    sides += _product(required, excluded, factors)
    if len(sides) > 1:
        if len(sides) > _MOST_CLAUSES:
            return None
        sides = sorted(set(sides), key=_order)
    for clause in sides:
        if not clause[0]:
            return None
    return tuple([Conjunct(*clause) for clause in sides])


def _terms(piece: str, analyser: Analyser) -> list[str] | None:
    """The terms of a word; None if it may be more than a word."""
    if piece[0] in "-!" or '"' in piece or "*" in piece or ":" in piece:
        return None
    phrases = analyser.phrases(piece)
    if any(len(phrase) > 1 for phrase in phrases):
        return None
    return [phrase[0] for phrase in phrases]


def _product(
    required: list[str], excluded: list[str], factors: list[list[_Clause]]
) -> list[_Clause]:
    """Multiply out one side of OR, without what contradicts itself."""
    first = frozenset(required), frozenset(excluded)
    product = [first] if first[0].isdisjoint(first[1]) else []
    for factor in factors:
        product = [
            (has, lacks)
            for also_has, also_lacks in factor
            for already_has, already_lacks in product
            if (has := already_has | also_has).isdisjoint(lacks := already_lacks | also_lacks)
        ]
    return product


def _order(clause: _Clause) -> tuple[list[str], list[str]]:
    """Sort as the bits of sorted terms would: by the last term first."""
    return sorted(clause[0], reverse=True), sorted(clause[1], reverse=True)
