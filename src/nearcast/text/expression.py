"""The tree of a query: terms and other operands, joined by AND, OR and NOT.

No function here recurses, so the depth of a tree is bounded by memory alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from nearcast.text.operands import NO_CONTENT, Content, Operand


class Expression:
    """A node of the tree; `position` is where it starts in the text and is not compared."""

    __slots__ = ()

    position: int

    def evaluate(self, terms: AbstractSet[str], content: Content = NO_CONTENT) -> bool:
        """Whether a message with these terms and this content satisfies the expression."""
        values: list[bool] = []
        for node in postorder(self):
            if isinstance(node, Term):
                values.append(node.term in terms)
            elif isinstance(node, Condition):
                values.append(node.operand.holds(content))
            elif isinstance(node, Not):
                values.append(not values.pop())
            else:
                count = len(children(node))
                operands = values[len(values) - count :]
                del values[len(values) - count :]
                values.append(all(operands) if isinstance(node, And) else any(operands))
        return values.pop()

    def to_text(self) -> str:
        """Write the expression in the query language.

        The plain analyser reads the text back as an equal expression.
        """
        written: list[str] = []
        left: list[Expression | str] = [self]
        while left:
            item = left.pop()
            if isinstance(item, str):
                written.append(item)
            elif isinstance(item, Term):
                written.append(item.term)
            elif isinstance(item, Condition):
                written.append(item.operand.to_text())
            else:
                left.extend(reversed(_pieces(item)))
        return "".join(written)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.to_text()!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self is other or _shape(self) == _shape(other)

    def __hash__(self) -> int:
        return hash(_shape(self))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Term(Expression):
    """True of a text that has the term."""

    term: str
    position: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Condition(Expression):
    """True of a message of which the operand holds."""

    operand: Operand
    position: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Expression):
    """True where the operand is false."""

    operand: Expression
    position: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class And(Expression):
    """True where all of the two or more operands are true."""

    operands: tuple[Expression, ...]
    position: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Or(Expression):
    """True where at least one of the two or more operands is true."""

    operands: tuple[Expression, ...]
    position: int = 0


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node, from left to right; none for a leaf."""
    if isinstance(node, And | Or):
        return node.operands
    return (node.operand,) if isinstance(node, Not) else ()


def postorder(expression: Expression) -> Iterator[Expression]:
    """Walk the tree from left to right, operands before the node they belong to."""
    left = [expression]
    backwards = []
    while left:
        node = left.pop()
        backwards.append(node)
        left.extend(children(node))
    return reversed(backwards)


def _shape(expression: Expression) -> tuple[tuple[type, str | Operand | int], ...]:
    """Write the tree flat: equal exactly for equal trees, and compared without recursion."""
    return tuple((type(node), _label(node)) for node in postorder(expression))


def _label(node: Expression) -> str | Operand | int:
    if isinstance(node, Term):
        return node.term
    return node.operand if isinstance(node, Condition) else len(children(node))


def _pieces(node: Expression) -> list[Expression | str]:
    pieces: list[Expression | str] = ["NOT "] if isinstance(node, Not) else []
    for number, operand in enumerate(children(node)):
        if number:
            pieces.append(" AND " if isinstance(node, And) else " OR ")
        # NOT binds tightest, then AND, then OR; a group of the node's own kind stays a group.
        bare = isinstance(operand, Term | Condition | Not) or (
            isinstance(node, Or) and isinstance(operand, And)
        )
        pieces.extend([operand] if bare else ["(", operand, ")"])
    return pieces
