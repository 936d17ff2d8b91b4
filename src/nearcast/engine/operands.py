"""What queries ask for beside terms, so that an index of terms can find it.

A conjunct may ask for phrases, prefixes and properties. Each message has *keys* beside its terms:
strings that no text can give, such as one for every prefix of a term that some query asks for. A
conjunct requires the keys of its operands as if they were terms, so that an index proposes few
rows; what a key does not say exactly is decided by a residual predicate.

| operand             | key                        | exact |
|---------------------|----------------------------|-------|
| `*`, or no query    | that of every message      | yes   |
| `ipad*`             | the prefix                 | yes   |
| `category:deal`     | name and folded string     | yes   |
| `price:5`           | name and number            | no    |
| `price:*`           | the name                   | yes   |
| `price:<5`          | the name                   | no    |
| `"red wine"`        | none: its terms are enough | no    |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Int32s
from nearcast.engine.matching import ArrivedMessage
from nearcast.text import Conjunct, Content, Equals, Exists, Operand, Prefix, Within, fold

EVERYONE = "\0*"
"""The key of every message."""
_TRUTHS = ("false", "true")


def is_key(term: str) -> bool:
    """Whether a required string is a key, and no term."""
    return term[0] == "\0"


class Asked(NamedTuple):
    """What an index keeps of a conjunct: terms and keys, and the number of a residual predicate."""

    required: list[str]
    excluded: list[str]
    residual: int | None


class Operands:
    """The operands of all subscriptions: which keys messages need, and residual predicates."""

    def __init__(self) -> None:
        self._lengths: Counter[int] = Counter()  # of prefixes
        self._names: Counter[str] = Counter()  # of properties, and of the objects they are in
        self._everyone = 0  # conjuncts with the key of every message
        self._residuals: dict[int, Conjunct] = {}
        self._next = 0

    def __len__(self) -> int:
        """How many residual predicates there are."""
        return len(self._residuals)

    def put(self, conjuncts: Sequence[Conjunct]) -> list[Asked]:
        """Take in the conjuncts of a subscription."""
        return [self._put(conjunct) for conjunct in conjuncts]

    def _put(self, conjunct: Conjunct) -> Asked:
        keys = [key for operand in conjunct.having for key in _keys(operand)]
        required = sorted(conjunct.required) + sorted(set(keys))
        residual = None
        if not conjunct.is_plain:
            self._count(conjunct, 1)
        if _has_residual(conjunct):
            residual, self._next = self._next, self._next + 1
            self._residuals[residual] = conjunct
        return Asked(required or [EVERYONE], sorted(conjunct.excluded), residual)

    def resume(self, conjuncts: Sequence[Conjunct], residuals: Iterable[int]) -> None:
        """Take in the conjuncts of a subscription whose predicates have numbers already."""
        for conjunct in conjuncts:
            if not conjunct.is_plain:
                self._count(conjunct, 1)
        for conjunct, number in zip(filter(_has_residual, conjuncts), residuals, strict=True):
            self._residuals[number] = conjunct
            self._next = max(self._next, number + 1)

    def drop(self, conjuncts: Sequence[Conjunct], residuals: Iterable[int]) -> None:
        """Forget the conjuncts of a subscription, and their residual predicates."""
        for conjunct in conjuncts:
            if not conjunct.is_plain:
                self._count(conjunct, -1)
        for number in residuals:
            del self._residuals[number]

    def _count(self, conjunct: Conjunct, step: int) -> None:
        self._everyone += step * (not conjunct.required and not any(map(_keys, conjunct.having)))
        for operand in conjunct.having:
            if isinstance(operand, Prefix):
                _add(self._lengths, len(operand.text), step)
            elif isinstance(operand, Equals | Within | Exists):
                parts = operand.name.split(".")
                for depth in range(1, len(parts) + 1):
                    _add(self._names, ".".join(parts[:depth]), step)

    @property
    def reads_texts(self) -> bool:
        """Whether messages have to be read whole: for prefixes, or to decide predicates."""
        return bool(self._lengths or self._residuals)

    @property
    def has_everyone(self) -> bool:
        """Whether some conjunct asks for every message."""
        return self._everyone > 0

    def terms_of(self, arrived: ArrivedMessage) -> AbstractSet[str]:
        """The terms and the keys of a message, as far as somebody asks for them."""
        found = self.of_text(arrived.terms)
        properties = arrived.message.properties
        return found.union(self._keys_in(properties)) if properties and self._names else found

    def of_text(self, terms: frozenset[str]) -> frozenset[str]:
        """The terms and the keys of a text."""
        if not (self._lengths or self._everyone):
            return terms
        keys = {EVERYONE} if self._everyone else set()
        for length in self._lengths:
            keys.update("\0^" + term[:length] for term in terms if len(term) >= length)
        return terms | keys

    def _keys_in(self, properties: Any) -> Iterator[str]:
        """The keys of properties; without recursion, as they may be nested deeply."""
        left: list[tuple[str, Any]] = [("", properties)]
        while left:
            name, value = left.pop()
            if isinstance(value, list):
                left += [(name, each) for each in value]
                continue
            if name and value is not None:
                yield f"\0?{name}"
            if isinstance(value, dict):
                start = name + "." if name else ""
                for part, inside in value.items():
                    if "." not in part and start + part in self._names:
                        left.append((start + part, inside))
            elif isinstance(value, bool):
                yield f"\0={name}\0{_TRUTHS[value]}"
            elif isinstance(value, str):
                text = fold(value)
                yield f"\0={name}\0{text}"
                if (number := _number(text)) is not None:  # "⁵" equals 5, as text
                    yield f"\0#{name}\0{number}"
            elif value is not None:
                yield f"\0#{name}\0{_number(value)}"

    def decide(
        self, contents: Sequence[Content], messages: Int32s, numbers: Int32s
    ) -> npt.NDArray[np.bool_]:
        """Which messages, by their places among the contents, satisfy which predicates."""
        pairs = zip(messages.tolist(), numbers.tolist(), strict=True)
        return np.array([self.holds(number, contents[place]) for place, number in pairs], np.bool_)

    def holds(self, number: int, content: Content) -> bool:
        """Whether a message satisfies a residual predicate."""
        conjunct = self._residuals[number]
        return all(one.holds(content) for one in conjunct.having) and not any(
            one.holds(content) for one in conjunct.lacking
        )


def _add(counts: Counter[Any], key: Any, step: int) -> None:
    counts[key] += step
    if not counts[key]:
        del counts[key]


def _keys(operand: Operand) -> list[str]:
    """The keys that every message has which satisfies an operand."""
    match operand:
        case Prefix(text):
            return ["\0^" + text]
        case Equals(name, text, None):
            return [f"\0={name}\0{fold(text)}"]
        case Equals(name, _, number):
            return [f"\0#{name}\0{_number(number)}"]
        case Within(name=name) | Exists(name=name):
            return [f"\0?{name}"]
    return []


def _has_residual(conjunct: Conjunct) -> bool:
    """Whether its keys do not say exactly what a conjunct asks for."""
    return bool(conjunct.lacking) or not all(map(_is_exact, conjunct.having))


def _is_exact(operand: Operand) -> bool:
    """Whether a message that has the key of an operand satisfies it."""
    match operand:
        case Prefix() | Exists():
            return True
        case Equals(_, text, None, flag):
            return flag is not None or fold(text) not in _TRUTHS
    return False


def _number(value: Any) -> str | None:
    """A number as a double, which is the same for all that are equal."""
    try:
        return repr(float(value) + 0.0)
    except ValueError:
        return None
    except OverflowError:
        return "inf"
