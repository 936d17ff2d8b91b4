"""Disjunctive normal form: a query as alternatives, each a set of operands to have and to lack."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple, TypeAlias, TypeVar

from nearcast.text import problems
from nearcast.text.expression import (
    And,
    Condition,
    Expression,
    Not,
    Term,
    children,
    postorder,
)
from nearcast.text.operands import NO_CONTENT, Content, Everything, Operand, Phrase

MOST_CONJUNCTS = 1024
"""A query with more alternatives than this is rejected."""

# Alternatives that fall together or contradict themselves are not counted above, but making them
# takes time. A query without any never needs this many steps.
_MOST_STEPS = 1 << 20

_Member = TypeVar("_Member")
_NOBODY = -1


class Conjunct(NamedTuple):
    """One alternative: what a message must have, and what it must not have.

    Terms that must be there are in `required`, those of phrases included; `excluded` are terms
    that must not. Of the operands that are more than one term, those in `having` must hold and
    those in `lacking` must not. One that is empty, or excludes only, stands beside a `*`.
    """

    required: frozenset[str]
    excluded: frozenset[str] = frozenset()
    having: tuple[Operand, ...] = ()
    lacking: tuple[Operand, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it asks for terms, and for nothing but terms."""
        return bool(self.required) and not self.having and not self.lacking

    def matches(self, terms: AbstractSet[str], content: Content = NO_CONTENT) -> bool:
        """Whether a message with these terms and this content satisfies the conjunct."""
        return (
            self.required <= terms
            and self.excluded.isdisjoint(terms)
            and all(operand.holds(content) for operand in self.having)
            and not any(operand.holds(content) for operand in self.lacking)
        )


# Sets of operands are the bits of an int while a query is expanded: (required, excluded), mapped
# to the position of the NOT that brought in the first excluded one.
_Clauses: TypeAlias = dict[tuple[int, int], int]


def disjunctive_normal_form(expression: Expression, text: str) -> tuple[Conjunct, ...]:
    """Expand an expression into distinct conjuncts that are not contradictory.

    They come in the order in which the query names them. `text` is the query that the positions
    belong to.
    """
    numbers = _Numbers(expression)
    clauses = _Expansion(text, numbers).of(expression)
    blamed = [position for (required, _), position in clauses.items() if not required]
    if blamed:
        raise problems.nothing_to_find(text, min(blamed))
    everything = numbers.bits_of_everything
    kept = dict.fromkeys(
        (required & ~everything, excluded)
        for required, excluded in clauses
        if not excluded & everything
    )
    return tuple(numbers.conjunct(*clause) for clause in kept)


def operand_order(operand: Operand) -> tuple[str, str]:
    """Order the operands of a conjunct: by kind, then by text."""
    return type(operand).__name__, operand.to_text()


class _Numbers:
    """Numbers terms and other operands, each of which is a bit of a set: first all terms."""

    def __init__(self, expression: Expression) -> None:
        leaves = list(postorder(expression))
        operands = {node.operand for node in leaves if isinstance(node, Condition)}
        phrases = [operand.terms for operand in operands if isinstance(operand, Phrase)]
        terms = {node.term for node in leaves if isinstance(node, Term)}
        self._terms = sorted(terms.union(*phrases))
        self._operands = sorted(operands, key=operand_order)
        members: list[str | Operand] = [*self._terms, *self._operands]
        self._numbers = {member: number for number, member in enumerate(members)}
        everything = self._numbers.get(Everything())
        self.bits_of_everything = 0 if everything is None else 1 << everything

    def of(self, node: Term | Condition, negative: bool) -> list[int]:
        """What must be there, or must not, by one operand."""
        member = node.term if isinstance(node, Term) else node.operand
        found = [self._numbers[member]]
        if isinstance(member, Phrase) and not negative:
            found += [self._numbers[term] for term in member.terms]
        return found

    def conjunct(self, required: int, excluded: int) -> Conjunct:
        """Turn bits into terms and operands."""
        count = len(self._terms)
        return Conjunct(
            frozenset(_members(required, self._terms)),
            frozenset(_members(excluded, self._terms)),
            tuple(_members(required >> count, self._operands)),
            tuple(_members(excluded >> count, self._operands)),
        )


class _Expansion:
    """One expansion: pushes NOT down to the operands and multiplies out, both as it walks."""

    def __init__(self, text: str, numbers: _Numbers) -> None:
        self._text = text
        self._numbers = numbers
        self._steps = 0

    def of(self, expression: Expression) -> _Clauses:
        groups = [_Group(conjoin=True, position=0, pending=[(expression, False, _NOBODY)])]
        while True:
            group = groups[-1]
            if not group.pending:
                groups.pop()
                clauses = self._product(group) if group.conjoin else group.united
                if not groups:
                    return clauses
                self._add(groups[-1], clauses, group.position)
                continue
            node, negative, blame = group.pending.pop()
            if isinstance(node, Term | Condition):
                some = self._numbers.of(node, negative)
                if group.conjoin:
                    group.join(some, negative, blame)
                else:
                    literal = (0, _bits(some)) if negative else (_bits(some), 0)
                    self._add(group, {literal: blame if negative else _NOBODY}, node.position)
            elif isinstance(node, Not):
                group.pending.append((node.operand, not negative, node.position))
            else:
                inner = [(child, negative, blame) for child in reversed(children(node))]
                conjoin = isinstance(node, And) is not negative
                if conjoin is group.conjoin:
                    group.pending.extend(inner)
                else:
                    groups.append(_Group(conjoin, node.position, inner))

    def _add(self, group: _Group, clauses: _Clauses, position: int) -> None:
        if group.conjoin:
            group.factors.append((clauses, position))
            return
        for clause, blame in clauses.items():
            group.united.setdefault(clause, blame)
        self._check(group.united, position)

    def _product(self, group: _Group) -> _Clauses:
        product = group.literals()
        # Single clauses never multiply: taken together first, they keep the products small.
        for clauses, position in sorted(group.factors, key=lambda each: len(each[0]) > 1):
            product = self._times(product, clauses, position)
        return product

    def _times(self, left: _Clauses, right: _Clauses, position: int) -> _Clauses:
        product: _Clauses = {}
        for (required, excluded), blame in left.items():
            for (also_required, also_excluded), other_blame in right.items():
                clause = (required | also_required, excluded | also_excluded)
                if not clause[0] & clause[1]:
                    product.setdefault(clause, other_blame if blame == _NOBODY else blame)
            # Joining single clauses is no multiplication, however many words a query has.
            self._steps += len(right) if len(right) > 1 else 0
            self._check(product, position)
        return product

    def _check(self, clauses: _Clauses, position: int) -> None:
        if len(clauses) > MOST_CONJUNCTS or self._steps > _MOST_STEPS:
            raise problems.too_many_conjuncts(self._text, position, MOST_CONJUNCTS)


@dataclass(slots=True)
class _Group:
    """The operands of one AND or OR (and of its like directly inside it), as far as known."""

    conjoin: bool
    position: int
    pending: list[tuple[Expression, bool, int]]
    united: _Clauses = field(default_factory=dict)  # of OR
    required: list[int] = field(default_factory=list)  # of AND: single operands, by number
    excluded: list[int] = field(default_factory=list)
    blame: int = _NOBODY
    factors: list[tuple[_Clauses, int]] = field(default_factory=list)  # what else AND joins

    def join(self, numbers: list[int], negative: bool, blame: int) -> None:
        """Add an operand of AND."""
        (self.excluded if negative else self.required).extend(numbers)
        if negative and self.blame == _NOBODY:
            self.blame = blame

    def literals(self) -> _Clauses:
        """The single operands of AND as one clause; none if they contradict each other."""
        required, excluded = _bits(self.required), _bits(self.excluded)
        return {} if required & excluded else {(required, excluded): self.blame}


def _bits(numbers: list[int]) -> int:
    """Make a set of numbers, in time that grows with their count and the largest."""
    held = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        held[number // 8] |= 1 << number % 8
    return int.from_bytes(held, "little")


def _members(bits: int, members: list[_Member]) -> Iterator[_Member]:
    return compress(members, map(int, reversed(f"{bits:b}")))
