"""The grammar of the query language.

This module brings in the parser library: import it when there is something to parse.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedToken

from nearcast.text import problems
from nearcast.text.analyser import Analyser
from nearcast.text.expression import And, Expression, Not, Or, Term

# Words are runs without blanks and parentheses; an operator is a word of its own.
_GRAMMAR = r"""
    ?either : both (_OR both)*
    ?both   : negated (_AND? negated)*
    ?negated: NOT negated        -> negation
            | "(" either ")"
            | WORD               -> word

    _AND.2: /AND(?![^\s()])/
    _OR.2 : /OR(?![^\s()])/
    NOT.2 : /NOT(?![^\s()])/
    WORD.1: /[^\s()]+/

    %ignore /\s+/
"""


@dataclass(frozen=True, slots=True)
class _Blank:
    """An operand that the analyser leaves nothing of: it is passed over."""

    position: int


class _BlankSide(Exception):  # noqa: N818 - a signal within this module, never seen outside
    """A side of OR without any term."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


_Value: TypeAlias = Expression | _Blank


class _Builder(Transformer[Token, _Value]):
    """Builds the tree from the leaves up while the text is parsed."""

    def __init__(self, analyser: Analyser) -> None:
        super().__init__()
        self._analyser = analyser

    def word(self, found: list[Token]) -> _Value:
        """Read one operand: all of the terms that it splits into."""
        position = cast("int", found[0].start_pos)
        return _all_of([Term(t, position) for t in self._analyser.tokens(found[0])], position)

    def negation(self, found: list[Token | _Value]) -> _Value:
        """Read NOT and its operand; two in a row cancel out."""
        position = cast("int", cast("Token", found[0]).start_pos)
        operand = cast("_Value", found[1])
        if isinstance(operand, _Blank):
            return _Blank(position)
        return operand.operand if isinstance(operand, Not) else Not(operand, position)

    def both(self, found: list[_Value]) -> _Value:
        """Read operands joined by AND, said or implied."""
        return _all_of([v for v in found if isinstance(v, Expression)], found[0].position)

    def either(self, found: list[_Value]) -> _Value:
        """Read operands joined by OR."""
        for value in found:
            if isinstance(value, _Blank):
                raise _BlankSide(value.position)
        return Or(tuple(cast("list[Expression]", found)), found[0].position)


def parse(text: str, analyser: Analyser) -> Expression:
    """Read a query that is not empty as an expression."""
    try:
        value = cast("_Value", _parser(analyser).parse(text))
    except UnexpectedToken as error:
        ended = error.token.type == "$END"
        position = len(text) if ended else cast("int", error.token.start_pos)
        found = "" if ended else str(error.token)
        raise problems.out_of_place(text, found, position) from None
    except _BlankSide as side:
        raise problems.no_term_beside_or(text, side.position) from None
    if isinstance(value, _Blank):
        raise problems.no_term(text, value.position)
    return value


def _all_of(operands: list[Expression] | list[Term], position: int) -> _Value:
    if not operands:
        return _Blank(position)
    return operands[0] if len(operands) == 1 else And(tuple(operands), position)


@lru_cache(maxsize=16)
def _parser(analyser: Analyser) -> Lark:
    # The basic lexer, because the contextual one would read an operator out of place as a word.
    return Lark(
        _GRAMMAR, start="either", parser="lalr", lexer="basic", transformer=_Builder(analyser)
    )
