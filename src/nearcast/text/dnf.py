"""Disjunctive normal form: a query as alternatives, each a set of terms to have and to lack."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeAlias

from nearcast.text import problems
from nearcast.text.expression import And, Expression, Not, Term, children, postorder

MOST_CONJUNCTS = 1024
"""A query with more alternatives than this is rejected."""

# Alternatives that fall together or contradict themselves are not counted above, but making them
# takes time. A query without any never needs this many steps.
_MOST_STEPS = 1 << 20

_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One alternative: a text matches with all `required` terms and none of the `excluded`."""

    required: frozenset[str]
    excluded: frozenset[str] = frozenset()

    def matches(self, terms: AbstractSet[str]) -> bool:
        """Whether a text with these terms satisfies the conjunct."""
        return self.required <= terms and self.excluded.isdisjoint(terms)


# Sets of terms are the bits of an int while a query is expanded: (required, excluded), mapped to
# the position of the NOT that brought in the first excluded term.
_Clauses: TypeAlias = dict[tuple[int, int], int]


def disjunctive_normal_form(expression: Expression, text: str) -> tuple[Conjunct, ...]:
    """Expand an expression into distinct conjuncts that are not contradictory, in a fixed order.

    The order and the conjuncts depend on the meaning of the operands alone, not on how they were
    ordered. `text` is the query that the positions belong to.
    """
    terms = sorted({node.term for node in postorder(expression) if isinstance(node, Term)})
    clauses = _Expansion(text, {term: number for number, term in enumerate(terms)}).of(expression)
    blamed = [position for (required, _), position in clauses.items() if not required]
    if blamed:
        raise problems.nothing_to_find(text, min(blamed))
    return tuple(
        Conjunct(_terms(required, terms), _terms(excluded, terms))
        for required, excluded in sorted(clauses)
    )


class _Expansion:
    """One expansion: pushes NOT down to the terms and multiplies out, both as it walks."""

    def __init__(self, text: str, numbers: dict[str, int]) -> None:
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
            if isinstance(node, Term):
                bit = 1 << self._numbers[node.term]
                literal = (0, bit) if negative else (bit, 0)
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
            # Single clauses never multiply: taken together first, they keep the products small.
            if len(clauses) == 1:
                group.common = self._times(group.common, clauses, position)
            else:
                group.factors.append((clauses, position))
            return
        for clause, blame in clauses.items():
            group.united.setdefault(clause, blame)
        self._check(group.united, position)

    def _product(self, group: _Group) -> _Clauses:
        product = group.common
        for clauses, position in group.factors:
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
    united: _Clauses = field(default_factory=dict)
    common: _Clauses = field(default_factory=lambda: {(0, 0): _NOBODY})
    factors: list[tuple[_Clauses, int]] = field(default_factory=list)


def _terms(bits: int, terms: list[str]) -> frozenset[str]:
    return frozenset(compress(terms, map(int, reversed(f"{bits:b}"))))
