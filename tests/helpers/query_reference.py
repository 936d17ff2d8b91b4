"""The query language as a grammar for a parser library: what our own parser is compared with."""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput

from nearcast.text import (
    DEFAULT,
    Analyser,
    And,
    Condition,
    Equals,
    Everything,
    Exists,
    Expression,
    Not,
    Operand,
    Or,
    Phrase,
    Prefix,
    Term,
    Within,
)

_NAME = r"[^\W\d][\w-]*(?:\.[\w-]+)*"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_QUOTED = r'"(?:\\.|[^"\\])*"'
_END = r"(?![^\s()])"  # of a word: a blank, a parenthesis, or the end of the text
_CLOSED = r"(?![^\s)])"  # of what was closed: a blank, ")", or the end of the text

_GRAMMAR = rf"""
    ?either : both (_OR both)*
    ?both   : negated (_AND? negated)*
    ?negated: NOT negated        -> negation
            | "(" either ")"
            | operand

    ?operand: EVERYTHING         -> everything
            | PHRASE             -> phrase
            | QUOTED             -> quoted
            | RANGE              -> range
            | COMPARED           -> compared
            | EXISTS             -> exists
            | EQUAL              -> equal
            | PREFIX             -> prefix
            | WORD               -> word

    _AND.9: /AND{_END}/
    _OR.9 : /OR{_END}/
    NOT.9 : /NOT{_END}/
    EVERYTHING.8: /\*{_END}/
    PHRASE.8  : /{_QUOTED}{_CLOSED}/s
    QUOTED.7  : /{_NAME}:{_QUOTED}{_CLOSED}/s
    RANGE.7   : /{_NAME}:\[\s*{_NUMBER}\s+TO\s+{_NUMBER}\s*\]{_CLOSED}/
    COMPARED.7: /{_NAME}:[<>]=?{_NUMBER}{_END}/
    EXISTS.7  : /{_NAME}:\*{_END}/
    EQUAL.6   : /{_NAME}:[^\s()"*<>=[{{][^\s()"*]*{_END}/
    PREFIX.5  : /[^\s()"*:!-][^\s()"*]*\*{_END}/
    WORD.4    : /(?:\d[^\s()"*]*|[^\s()"*:!-][^\s()"*:]*){_END}/

    %ignore /\s+/
"""


class Rejected(Exception):  # noqa: N818 - an answer, not an accident
    """The text is no query."""


class _Nothing:
    """An operand of stop words only."""


_Value = Expression | _Nothing


class _Builder(Transformer[Token, _Value]):
    def __init__(self, analyser: Analyser) -> None:
        super().__init__()
        self._analyser = analyser

    def negation(self, found: list[_Value]) -> _Value:
        operand = found[1]
        if isinstance(operand, _Nothing):
            return operand
        return operand.operand if isinstance(operand, Not) else Not(operand)

    def both(self, found: list[_Value]) -> _Value:
        return _all_of([each for each in found if isinstance(each, Expression)])

    def either(self, found: list[_Value]) -> _Value:
        sides = [each for each in found if isinstance(each, Expression)]
        if len(sides) < len(found):
            raise Rejected
        return Or(tuple(sides))

    def everything(self, _found: list[Token]) -> _Value:
        return Condition(Everything())

    def phrase(self, found: list[Token]) -> _Value:
        inside = _unquoted(found[0])
        terms = self._analyser.tokens(inside)
        if not DEFAULT.tokens(inside):
            raise Rejected
        return _one_or_phrase(terms) if terms else _Nothing()

    def quoted(self, found: list[Token]) -> _Value:
        name, _, value = found[0].partition(":")
        return Condition(Equals(name, _folded(_unquoted(value))))

    def range(self, found: list[Token]) -> _Value:
        name, _, value = found[0].partition(":")
        low, _, high = value[1:-1].partition("TO")
        return Condition(Within(name, _bound(low.strip()), _bound(high.strip())))

    def compared(self, found: list[Token]) -> _Value:
        name, _, value = found[0].partition(":")
        closed = value[1] == "="
        bound = _bound(value[2:] if closed else value[1:])
        less = Within(name, None, bound, True, closed)
        return Condition(less if value[0] == "<" else Within(name, bound, None, closed, True))

    def exists(self, found: list[Token]) -> _Value:
        return Condition(Exists(found[0].partition(":")[0]))

    def equal(self, found: list[Token]) -> _Value:
        name, _, value = found[0].partition(":")
        flag = {"true": True, "false": False}.get(value.lower())
        return Condition(_equals(name, value, flag))

    def prefix(self, found: list[Token]) -> _Value:
        stem = found[0][:-1]
        terms = self._analyser.tokens(stem)
        if len(terms) != 1 or DEFAULT.tokens(stem) != [_folded(stem)] or len(terms[0]) < 2:
            raise Rejected
        return Condition(Prefix(terms[0]))

    def word(self, found: list[Token]) -> _Value:
        if not DEFAULT.tokens(found[0]):
            raise Rejected
        return _all_of([_one_or_phrase(terms) for terms in self._analyser.phrases(found[0])])


def reference_expression(text: str, analyser: Analyser = DEFAULT) -> Expression:
    """Read a query by the grammar; raise `Rejected` if it is none."""
    try:
        value = _parser(analyser).parse(text)
    except UnexpectedInput:
        raise Rejected from None
    if not isinstance(value, Expression):
        raise Rejected
    return value


def _all_of(operands: list[Expression]) -> _Value:
    if not operands:
        return _Nothing()
    return operands[0] if len(operands) == 1 else And(tuple(operands))


def _one_or_phrase(terms: list[str]) -> Expression:
    return Term(terms[0]) if len(terms) == 1 else Condition(Phrase(tuple(terms)))


def _unquoted(quoted: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", quoted[1:-1])


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _value(text: str) -> int | float | None:
    if not re.fullmatch(_NUMBER, text) or math.isinf(float(text)):
        return None
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)


def _bound(text: str) -> int | float:
    value = _value(text)
    if value is None:
        raise Rejected
    return value


def _equals(name: str, value: str, flag: bool | None) -> Operand:
    return Equals(name, _folded(value), _value(value), flag)


@lru_cache(maxsize=16)
def _parser(analyser: Analyser) -> Lark:
    # The basic lexer, because the contextual one would read an operator out of place as a word.
    return Lark(
        _GRAMMAR, start="either", parser="lalr", lexer="basic", transformer=_Builder(analyser)
    )
