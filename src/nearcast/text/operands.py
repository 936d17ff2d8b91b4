"""Operands of a query that are more than one term: phrases, prefixes and properties."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearcast.text.normal_form import nfkc


class Content:
    """What operands look at: the tokens of a text in their order, and the properties."""

    __slots__ = ("_line", "_values", "properties", "tokens")

    def __init__(self, tokens: Sequence[str], properties: Mapping[str, Any] | None) -> None:
        self.tokens = tokens
        self.properties = properties
        self._line: str | None = None
        self._values: dict[str, PropertyValues] | None = None

    @property
    def line(self) -> str:
        """The tokens with a blank before and after each; no token has a blank in it."""
        if self._line is None:
            self._line = f" {' '.join(self.tokens)} "
        return self._line

    def values(self, name: str) -> PropertyValues:
        """The values of a property, gathered once for all operands that ask for it."""
        if self._values is None:
            self._values = {}
        if name not in self._values:
            self._values[name] = PropertyValues(self.properties, name)
        return self._values[name]


class PropertyValues:
    """What a property is: a value, or those of an array, which may be thousands.

    `texts` are its strings (see `fold`), `numbers` its numbers in their order, `flags` its truth
    values; `is_there` if there is anything but null.
    """

    __slots__ = ("flags", "is_there", "numbers", "texts")

    def __init__(self, properties: Mapping[str, Any] | None, name: str) -> None:
        self.is_there = False
        self.texts, self.flags = set[str](), set[bool]()
        numbers = set[int | float]()
        for value in _values(properties, name):
            self.is_there |= value is not None
            if isinstance(value, str):
                self.texts.add(fold(value))
            elif isinstance(value, bool):
                self.flags.add(value)
            elif isinstance(value, int | float):
                numbers.add(value)
        # Python compares whole numbers with doubles by their exact values.
        self.numbers = sorted(numbers)

    def has_between(
        self,
        low: int | float | None,
        high: int | float | None,
        low_closed: bool = True,
        high_closed: bool = True,
    ) -> bool:
        """Whether a number is between two bounds; None is no bound."""
        place = 0
        if low is not None:
            place = (bisect_left if low_closed else bisect_right)(self.numbers, low)
        if place == len(self.numbers):
            return False
        least = self.numbers[place]
        return high is None or (least <= high if high_closed else least < high)


NO_CONTENT = Content((), None)
"""No tokens and no properties."""


class Operand:
    """True or false of a content; frozen, and equal where its fields are."""

    __slots__ = ()

    def holds(self, content: Content) -> bool:
        """Whether it is true of a content."""
        raise NotImplementedError

    def to_text(self) -> str:
        """Write it in the query language."""
        raise NotImplementedError

    def in_words(self) -> str:
        """Say in English what it asks for."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Phrase(Operand):
    """These two or more terms side by side, in this order."""

    terms: tuple[str, ...]

    def holds(self, content: Content) -> bool:
        """Whether the tokens have the terms side by side."""
        return f" {' '.join(self.terms)} " in content.line

    def to_text(self) -> str:
        """Write the terms in quotes."""
        return f'"{" ".join(self.terms)}"'

    def in_words(self) -> str:
        """Say that the terms are side by side."""
        return f"{self.to_text()}, side by side"


@dataclass(frozen=True, slots=True)
class Prefix(Operand):
    """Any term that begins with a text."""

    text: str

    def holds(self, content: Content) -> bool:
        """Whether a token begins with the text."""
        return f" {self.text}" in content.line

    def to_text(self) -> str:
        """Write the text with a star."""
        return f"{self.text}*"

    def in_words(self) -> str:
        """Say what a term begins with."""
        return f"a word that begins with {self.text}"


@dataclass(frozen=True, slots=True)
class Everything(Operand):
    """Every message."""

    def holds(self, content: Content) -> bool:  # noqa: ARG002 - same signature as its base
        """Return True."""
        return True

    def to_text(self) -> str:
        """Write a star."""
        return "*"

    def in_words(self) -> str:
        """Say that it is every message."""
        return "every message"


@dataclass(frozen=True, slots=True)
class Exists(Operand):
    """A property that is there and not null."""

    name: str

    def holds(self, content: Content) -> bool:
        """Whether there is a value other than null."""
        return content.values(self.name).is_there

    def to_text(self) -> str:
        """Write the name with a star."""
        return f"{self.name}:*"

    def in_words(self) -> str:
        """Say that the property is there."""
        return f"{self.name} is there"


@dataclass(frozen=True, slots=True)
class Equals(Operand):
    """A property that equals a string, or what the string reads as: a number, true or false.

    `text` is folded (see `fold`). `number` and `flag` are None where the operand is none.
    """

    name: str
    text: str
    number: int | float | None = None
    flag: bool | None = None

    def holds(self, content: Content) -> bool:
        """Whether a value is a string, a number or a truth value like this."""
        found = content.values(self.name)
        return (
            self.text in found.texts
            or (self.number is not None and found.has_between(self.number, self.number))
            or self.flag in found.flags
        )

    def to_text(self) -> str:
        """Write name and value, in quotes where it is a string alone."""
        if self.number is not None or self.flag is not None:
            return f"{self.name}:{self.text}"
        return f"{self.name}:{_quoted(self.text)}"

    def in_words(self) -> str:
        """Say what the property is."""
        if self.number is not None or self.flag is not None:
            return f"{self.name} is {self.text}"
        return f"{self.name} is {_quoted(self.text)}"


@dataclass(frozen=True, slots=True)
class Within(Operand):
    """A property that is a number between two bounds; None is no bound."""

    name: str
    low: int | float | None
    high: int | float | None
    low_closed: bool = True
    high_closed: bool = True

    def holds(self, content: Content) -> bool:
        """Whether a value is a number within the bounds."""
        bounds = self.low, self.high, self.low_closed, self.high_closed
        return content.values(self.name).has_between(*bounds)

    def to_text(self) -> str:
        """Write name and bounds."""
        if self.low is None:
            return f"{self.name}:<{'=' * self.high_closed}{self.high!r}"
        if self.high is None:
            return f"{self.name}:>{'=' * self.low_closed}{self.low!r}"
        return f"{self.name}:[{self.low!r} TO {self.high!r}]"

    def in_words(self) -> str:
        """Say between what the property is."""
        if self.low is None:
            return f"{self.name} is {'at most' if self.high_closed else 'less than'} {self.high}"
        if self.high is None:
            return f"{self.name} is {'at least' if self.low_closed else 'more than'} {self.low}"
        return f"{self.name} is from {self.low} to {self.high}"


def fold(text: str) -> str:
    """Give a string the form in which strings are compared: NFKC, then casefold."""
    return text.lower() if text.isascii() else nfkc(text).casefold()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _values(properties: Mapping[str, Any] | None, name: str) -> Iterator[object]:
    """Walk to the values at a path; of an array to those of all elements, at every level."""
    parts = name.split(".")
    left: list[tuple[object, int]] = [(properties, 0)]
    while left:
        value, depth = left.pop()
        if isinstance(value, list | tuple):
            left.extend((element, depth) for element in value)
        elif depth == len(parts):
            yield value
        elif isinstance(value, dict | Mapping) and parts[depth] in value:
            left.append((value[parts[depth]], depth + 1))
