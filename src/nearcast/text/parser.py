"""Parses queries into trees.

    either  = both {"OR" both}
    both    = negated {["AND"] negated}
    negated = {"NOT"} ("(" either ")" | operand)

Blanks and parentheses set words apart; an operator is a word of its own. Open parentheses are a
list, so the depth of a query is bounded by memory alone.
"""

from __future__ import annotations

import re

from nearcast.text import problems
from nearcast.text.analyser import Analyser
from nearcast.text.expression import Expression, Not, Or
from nearcast.text.reading import Blank, OperandValue, all_of, read_phrase, read_word

_TOKEN = re.compile(r'\s*+([()"]|[^\s()"]++|\Z)')
_OPERATORS = frozenset(["AND", "OR", "NOT"])


def parse(text: str, analyser: Analyser) -> Expression:
    """Read a query that is not empty as an expression."""
    level, outer = _Level(), list[_Level]()
    opened = list[int]()  # where the open parentheses are
    last, last_at = "", 0  # the token before, as long as an operand has to follow it
    waiting = True  # for an operand
    end = 0
    while True:
        token = _TOKEN.match(text, end)
        assert token is not None  # noqa: S101 - the pattern matches at every place
        found, at, end = token[1], token.start(1), token.end()
        operator = found in _OPERATORS and not text.startswith('"', end)
        if waiting and (found in (")", "") or (operator and found != "NOT")):
            raise problems.out_of_place(text, found, at, last, last_at, opened)
        if found == "(":
            opened.append(at)
            outer.append(level)
            level = _Level()
        elif found == ")":
            if not opened:
                raise problems.closed_too_often(text, at)
            opened.pop()
            value = level.either(text)
            level = outer.pop()
            level.add(value)
            waiting = False
            continue
        elif found == "":
            if opened:
                raise problems.never_closed(text, opened[0])
            break
        elif operator:
            if found == "NOT":
                level.negations.append(at)
            elif found == "OR":
                level.close_side()
        else:
            read = read_phrase(text, at, analyser) if found == '"' else None
            value, end = read or read_word(text, found, at, analyser)
            level.add(value)
            waiting = False
            continue
        waiting, last, last_at = True, found, at
    value = level.either(text)
    if isinstance(value, Blank):
        raise problems.no_term(text, value.position)
    return value


class _Level:
    """What is read so far between two parentheses."""

    __slots__ = ("negations", "operands", "sides")

    def __init__(self) -> None:
        self.sides: list[OperandValue] = []  # of OR, but for the last
        self.operands: list[OperandValue] = []  # of the last side
        self.negations: list[int] = []  # the NOTs before the next operand

    def add(self, value: OperandValue) -> None:
        """Add an operand, with the NOTs before it; two in a row cancel out."""
        while self.negations:
            position = self.negations.pop()
            if isinstance(value, Blank):
                value = Blank(position)
            else:
                value = value.operand if isinstance(value, Not) else Not(value, position)
        self.operands.append(value)

    def close_side(self) -> None:
        """Begin another side of OR."""
        some = [each for each in self.operands if isinstance(each, Expression)]
        self.sides.append(all_of(some, self.operands[0].position))
        self.operands = []

    def either(self, text: str) -> OperandValue:
        """Return all that was read."""
        self.close_side()
        if len(self.sides) == 1:
            return self.sides[0]
        some = []
        for side in self.sides:
            if isinstance(side, Blank):
                raise problems.no_term_beside_or(text, side.position)
            some.append(side)
        return Or(tuple(some), some[0].position)
