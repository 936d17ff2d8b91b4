"""Small queries, straight to their conjuncts: no tree, no bits.

What is here only saves time. It leaves long queries, NOT before parentheses, and all that is wrong
to the parser.
"""

from __future__ import annotations

import re
from typing import TypeAlias, cast

from nearcast.errors import QueryError
from nearcast.text.analyser import DEFAULT, Analyser
from nearcast.text.dnf import Conjunct, operand_order
from nearcast.text.operands import Everything, Operand, Phrase

_LONGEST = 400  # characters
_MOST_CLAUSES = 64
_EVERYTHING = frozenset([Everything()])

# Each word has a letter or digit, and nothing that might be syntax. For ASCII texts.
_PLAIN = re.compile(
    r"""\s*+(?:
        (?![-!]|(?:AND|OR|NOT)(?:\s|\Z))        # neither a sign before a word nor an operator
        [^\s()"*:A-Za-z0-9]*+[A-Za-z0-9][^\s()"*:]*+
        (?:\s++|\Z)
    )++""",
    re.VERBOSE,
)
_pieces = re.compile(
    r"""[()]
    |[^\s()"\[]++(?![^\s()])                                # most words
    |[^\s()"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"(?=[\s)]|\Z)      # a phrase, or a property with quotes
    |[^\s()"\[]++\[[^\]"()]*+\](?=[\s)]|\Z)                  # a range
    |[^\s()"]++
    |" """,
    re.VERBOSE | re.DOTALL,
).findall
_SYNTAX = frozenset(["AND", "OR", "NOT", "(", ")"])

_Member: TypeAlias = str | Operand  # a term, or another operand
_Members: TypeAlias = frozenset[_Member]
_Clause: TypeAlias = tuple[_Members, _Members]  # what to have, and what to lack
_Terms: TypeAlias = tuple[frozenset[str], frozenset[str]]  # the same, where all are terms


def is_plain(text: str) -> bool:
    """Whether a query is surely a list of ASCII words, each with a term before stop words."""
    return text.isascii() and _PLAIN.fullmatch(text) is not None


def small_conjuncts(text: str, analyser: Analyser) -> tuple[Conjunct, ...] | None:
    """Expand a small query; None if it is not one, or is wrong."""
    if len(text) > _LONGEST:
        return None
    outer: list[tuple[list[_Clause], list[_Member], list[_Member], list[list[_Clause]]]] = []
    sides: list[_Clause] = []  # of OR, expanded
    required: list[_Member] = []
    excluded: list[_Member] = []
    factors: list[list[_Clause]] = []  # what was in parentheses
    plain, terms_only = analyser is DEFAULT, True
    waiting, negative = True, False
    for piece in _pieces(text):
        if piece not in _SYNTAX:
            if plain and piece.isalnum() and piece.isascii():
                (excluded if negative else required).append(piece.lower())
            else:
                members = _members(piece, analyser, negative)
                if not members:
                    return None
                (excluded if negative else required).extend(members)
                terms_only = terms_only and all(isinstance(each, str) for each in members)
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
        else:
            sides += _product(required, excluded, factors)
            if len(sides) > _MOST_CLAUSES:
                return None
            if piece == "OR":
                required, excluded, factors = [], [], []
                waiting = True
            elif outer:
                inner = sides
                sides, required, excluded, factors = outer.pop()
                factors.append(inner)
            else:
                return None
    if waiting or outer:
        return None
    sides += _product(required, excluded, factors)
    if len(sides) > _MOST_CLAUSES:
        return None
    for has, _ in sides:
        if not has:
            return None  # nothing but excluded terms
    if terms_only:
        distinct = cast("dict[_Terms, None]", dict.fromkeys(sides))
        return tuple([Conjunct(has, lacks) for has, lacks in distinct])
    return _conjuncts_of_members(sides)


def _members(piece: str, analyser: Analyser, negative: bool) -> list[_Member]:
    """The terms or the operand that a piece means; none if it is left to the parser."""
    found: list[_Member]
    if not ('"' in piece or "*" in piece or ":" in piece or piece[0] in "-!"):
        phrases = analyser.phrases(piece)
        found = [each[0] if len(each) == 1 else Phrase(tuple(each)) for each in phrases]
    else:
        # Imported here, so that words never wait for it.
        from nearcast.text.reading import read_operand

        try:
            found = read_operand(piece, analyser)
        except QueryError:
            return []
    if negative:
        return found if len(found) == 1 else []
    return found + [term for each in found if isinstance(each, Phrase) for term in each.terms]


def _product(
    required: list[_Member], excluded: list[_Member], factors: list[list[_Clause]]
) -> list[_Clause]:
    """Multiply out one side of OR, without what contradicts itself, up to a few too many."""
    has, lacks = frozenset(required), frozenset(excluded)
    product = [(has, lacks)] if not lacks or has.isdisjoint(lacks) else []
    for factor in factors:
        if len(product) > _MOST_CLAUSES:
            break
        product = [
            (has, lacks)
            for already_has, already_lacks in product
            for also_has, also_lacks in factor
            if (has := already_has | also_has).isdisjoint(lacks := already_lacks | also_lacks)
        ]
    return product


def _conjuncts_of_members(clauses: list[_Clause]) -> tuple[Conjunct, ...]:
    """Separate terms from other operands; every message is what is left without `*`."""
    distinct = dict.fromkeys(
        (has - _EVERYTHING, lacks) for has, lacks in clauses if lacks.isdisjoint(_EVERYTHING)
    )
    made = []
    for has, lacks in distinct:
        required, having = _apart(has)
        excluded, lacking = _apart(lacks)
        made.append(Conjunct(required, excluded, having, lacking))
    return tuple(made)


def _apart(members: _Members) -> tuple[frozenset[str], tuple[Operand, ...]]:
    terms, operands = list[str](), list[Operand]()
    for each in members:
        if isinstance(each, str):
            terms.append(each)
        else:
            operands.append(each)
    if len(operands) > 1:
        operands.sort(key=operand_order)
    return frozenset(terms), tuple(operands)
