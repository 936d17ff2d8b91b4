"""What queries ask for beside terms, so that an index of terms can find it.

A conjunct may ask for phrases, prefixes and properties. Each message has *keys* beside its terms:
strings that no text can give, such as one for every prefix of a term that some query asks for. A
conjunct requires the keys of its operands as if they were terms, and excludes those of operands
that must not hold, so that an index proposes few rows; what a key does not say exactly is decided
by a residual predicate (`nearcast.engine.conditions`).

| operand             | key                        | exact |
|---------------------|----------------------------|-------|
| `*`, or no query    | that of every message      | yes   |
| `ipad*`             | the prefix                 | yes   |
| `category:deal`     | name and folded string     | yes   |
| `price:5`           | name and number            | no    |
| `price:*`           | the name                   | yes   |
| `price:<5`          | the name                   | no    |
| `"red wine"`        | the terms side by side     | up to four terms |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.slots import Slots, empty_slots, put
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.conditions import Conditions, Residual
from nearcast.engine.matching import ArrivedMessage
from nearcast.text import Conjunct, Content, Equals, Exists, Operand, Phrase, Prefix, Within, fold

if TYPE_CHECKING:
    from nearcast.engine.terms import TermIds

EVERYONE = "\0*"
"""The key of every message."""
_TRUTHS = ("false", "true")
_LONGEST = 4  # terms of a phrase that are one key


def is_key(term: str) -> bool:
    """Whether a required string is a key, and no term."""
    return term[0] == "\0"


class Asked(NamedTuple):
    """What an index keeps of a conjunct: terms and keys, and the number of a residual predicate."""

    required: list[str]
    excluded: list[str]
    residual: int | None


class AskedKeys(NamedTuple):
    """What somebody asks for: lengths of prefixes and of phrases, and properties by name."""

    prefixes: Int64s
    phrases: Int64s
    known: bool  # whether all terms of these phrases have numbers
    names: Slots  # numbers by the hash of a name
    everyone: int  # the number of the key of every message, or -1


class Operands:
    """The operands of all subscriptions: which keys messages need, and residual predicates."""

    def __init__(self) -> None:
        self._prefixes: Counter[int] = Counter()  # lengths
        self._phrases: Counter[int] = Counter()  # lengths
        self._unwanted = 0  # phrases that must not be there, whose terms need no numbers
        self._names: Counter[str] = Counter()  # of properties, and of the objects they are in
        self._numbers: dict[str, int] = {}  # of these names, and of earlier ones
        self._everyone = 0  # conjuncts with the key of every message
        self._broad = 0  # conjuncts whose keys are names of properties alone
        self.conditions = Conditions()
        self._slots: Slots | None = None  # the numbers by the hashes of names

    def __len__(self) -> int:
        """How many residual predicates there are."""
        return len(self.conditions)

    def put(self, conjuncts: Sequence[Conjunct]) -> list[Asked]:
        """Take in the conjuncts of a subscription."""
        return [self._put(conjunct) for conjunct in conjuncts]

    def _put(self, conjunct: Conjunct) -> Asked:
        if conjunct.is_plain:
            return Asked(sorted(conjunct.required), sorted(conjunct.excluded), None)
        self._count(conjunct, 1)
        keys = {key for operand in conjunct.having for key in _keys(operand)}
        lacking = {key for one in conjunct.lacking if _is_exact(one) for key in _keys(one)}
        required = sorted(conjunct.required) + sorted(keys)
        excluded = sorted(conjunct.excluded) + sorted(lacking)
        residual, number = _residual(conjunct), None
        if residual is not None:
            number = self.conditions.add(residual, self._number_of)
        return Asked(required or [EVERYONE], excluded, number)

    def resume(self, conjuncts: Sequence[Conjunct], residuals: Iterable[int]) -> None:
        """Take in the conjuncts of a subscription whose predicates have numbers already."""
        for conjunct in conjuncts:
            if not conjunct.is_plain:
                self._count(conjunct, 1)
        asking = [one for one in map(_residual, conjuncts) if one is not None]
        for residual, number in zip(asking, residuals, strict=True):
            self.conditions.put(number, residual, self._number_of)

    def drop(self, conjuncts: Sequence[Conjunct], residuals: Iterable[int]) -> None:
        """Forget the conjuncts of a subscription, and their residual predicates."""
        for conjunct in conjuncts:
            if not conjunct.is_plain:
                self._count(conjunct, -1)
        for number in residuals:
            self.conditions.drop(number)

    def _count(self, conjunct: Conjunct, step: int) -> None:
        self._everyone += step * (not conjunct.required and not any(map(_keys, conjunct.having)))
        alone = not conjunct.required and bool(conjunct.having)
        self._broad += step * (
            alone and all(isinstance(o, Within | Exists) for o in conjunct.having)
        )
        for operand in (*conjunct.having, *conjunct.lacking):
            if isinstance(operand, Prefix):
                _add(self._prefixes, len(operand.text), step)
            elif isinstance(operand, Phrase):
                _add(self._phrases, min(len(operand.terms), _LONGEST), step)
                self._unwanted += step * (operand in conjunct.lacking)
            elif isinstance(operand, Equals | Within | Exists):
                parts = operand.name.split(".")
                for depth in range(1, len(parts) + 1):
                    _add(self._names, ".".join(parts[:depth]), step)
                self._number_of(operand.name)

    def _number_of(self, name: str) -> int:
        """The number of a property's name."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            self._slots = None
        return number

    @property
    def is_plain(self) -> bool:
        """Whether messages need no keys, as nobody asks for more than terms."""
        asked = self._prefixes or self._phrases or self._names or self._everyone
        return not asked and not len(self.conditions)

    def figures(self) -> dict[str, float]:
        """How many conjuncts are looked at for every message near them, or with some property."""
        return {"found_by_place": float(self._everyone), "found_by_property": float(self._broad)}

    def asked_keys(self, ids: TermIds) -> AskedKeys:
        """What a kernel looks for in messages."""
        if self._slots is None:
            self._slots = empty_slots(1 << (2 * len(self._numbers) + 1).bit_length())
            hashes = ids.hashed(list(self._numbers))
            for (first, second), number in zip(hashes, self._numbers.values(), strict=True):
                put(self._slots, first, second, number)
        everyone = ids.known([EVERYONE] if self._everyone else [])
        return AskedKeys(
            np.array(sorted(self._prefixes), np.int64),
            np.array(sorted(self._phrases), np.int64),
            not self._unwanted,
            self._slots,
            int(everyone[0]) if len(everyone) else -1,
        )

    def terms_of(self, arrived: ArrivedMessage) -> AbstractSet[str]:
        """The terms and the keys of a message, as far as somebody asks for them."""
        keys = self._keys_of(arrived.content)
        return arrived.terms.union(keys) if keys else arrived.terms

    def keys_of(self, content: Content) -> list[str]:
        """The terms and the keys of a message in an order that is always the same."""
        return sorted({*content.tokens, *self._keys_of(content)})

    def _keys_of(self, content: Content) -> set[str]:
        tokens, keys = content.tokens, set()
        if self._everyone:
            keys.add(EVERYONE)
        for length in self._prefixes:
            keys.update("\0^" + term[:length] for term in tokens if len(term) >= length)
        for length in self._phrases:
            for first in range(len(tokens) - length + 1):
                keys.add("\0~" + " ".join(tokens[first : first + length]))
        if content.properties and self._names:
            keys.update(self._keys_in(content.properties))
        return keys

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
                yield f"\0={name}\0{fold(value)}"
                if (number := _number(value)) is not None:
                    yield f"\0#{name}\0{number}"
            elif value is not None:
                yield f"\0#{name}\0{_number(value)}"

    def decided_for(self, content: Content, numbers: Int32s) -> npt.NDArray[np.bool_]:
        """Which predicates one message satisfies."""
        holds = self.conditions.holds
        return np.array([holds(number, content) for number in numbers.tolist()], np.bool_)


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
        case Phrase(terms):
            if len(terms) <= _LONGEST:
                return ["\0~" + " ".join(terms)]
            return ["\0~" + " ".join(some) for some in (terms[:_LONGEST], terms[-_LONGEST:])]
    return []


def _residual(conjunct: Conjunct) -> Residual | None:
    """What its keys do not say of a conjunct."""
    having = tuple(one for one in conjunct.having if not _is_exact(one))
    lacking = tuple(one for one in conjunct.lacking if not _is_exact(one))
    return Residual(having, lacking) if having or lacking else None


def _is_exact(operand: Operand) -> bool:
    """Whether a message that has the key of an operand satisfies it."""
    match operand:
        case Prefix() | Exists():
            return True
        case Equals(_, text, None, flag):
            return flag is not None or fold(text) not in _TRUTHS
        case Phrase(terms):
            return len(terms) <= _LONGEST
    return False


def _number(value: Any) -> str | None:
    """A number as a double, which is the same for all that are equal."""
    try:
        return repr(float(value) + 0.0)
    except ValueError:
        return None
    except OverflowError:
        return "inf"
