"""What queries ask for beside terms, so that an index of terms can find it.

A conjunct may ask for phrases, prefixes and properties. It requires the keys of its operands
(`nearcast.text.keys`) as if they were terms, so that an index proposes few rows; what a key does
not say exactly is decided by a residual predicate.

A predicate is a number here, and the owner and the place of its conjunct. The conjunct is parsed
again when a message asks for it, and kept for a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.column import Column
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.matching import ArrivedMessage
from nearcast.text import Conjunct, Content, Equals, Exists, Prefix, Within, fold
from nearcast.text.keys import (
    EVERYONE,
    TRUTHS,
    has_residual,
    keys_of,
    name_key,
    number_key,
    number_text,
    prefix_key,
    required_strings,
    string_key,
)

_MOST_KEPT = 1 << 15  # conjuncts that are not parsed again


class Asked(NamedTuple):
    """What an index keeps of a conjunct: terms and keys, and the number of a residual predicate."""

    required: list[str]
    excluded: list[str]
    residual: int | None


class SavedOperands(NamedTuple):
    """What `Operands` has, to be saved: counts, and of each predicate its owner and place."""

    lengths: Mapping[int, int]
    names: Mapping[str, int]
    everyone: int
    owner: Int32s
    place: Int32s


class Operands:
    """The operands of all subscriptions: which keys messages need, and residual predicates.

    `parsed` gives the conjuncts of an owner.
    """

    def __init__(self, parsed: Callable[[int], Sequence[Conjunct]]) -> None:
        self._parsed = parsed
        self._lengths: Counter[int] = Counter()  # of prefixes
        self._names: Counter[str] = Counter()  # of properties, and of the objects they are in
        self._everyone = 0  # conjuncts with the key of every message
        self._owner, self._place = Column(np.int32), Column(np.int32)  # by predicate; -1 is unused
        self._free: list[int] = []
        self._kept: dict[int, Conjunct] = {}

    def __len__(self) -> int:
        """How many residual predicates there are."""
        return self._owner.size - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without what is kept for a while."""
        return self._owner.nbytes + self._place.nbytes

    def put(self, conjuncts: Sequence[Conjunct]) -> list[Asked]:
        """Take in the conjuncts of a subscription; `belong` says of which."""
        return [self._put(place, conjunct) for place, conjunct in enumerate(conjuncts)]

    def _put(self, place: int, conjunct: Conjunct) -> Asked:
        residual = None
        if not conjunct.is_plain:
            self._count(conjunct, 1)
        if has_residual(conjunct):
            if self._free:
                residual = self._free.pop()
                self._place.array[residual] = place
            else:
                residual = self._place.append(place)
                self._owner.append(-1)
            self._keep(residual, conjunct)
        return Asked(required_strings(conjunct), sorted(conjunct.excluded), residual)

    def belong(self, residuals: Iterable[int], owner: int) -> None:
        """Note to whom predicates belong."""
        for residual in residuals:
            self._owner.array[residual] = owner

    @property
    def next(self) -> int:
        """The number of the first predicate that `extend` adds."""
        return self._owner.size

    def extend(self, owners: Int32s, places: Int32s) -> None:
        """Add many predicates after all others."""
        self._owner.extend(owners)
        self._place.extend(places)

    def count_more(self, lengths: Int64s, names: Mapping[str, int], everyone: int) -> None:
        """Count what many conjuncts ask for: prefixes by length, properties by name."""
        for length in np.flatnonzero(lengths).tolist():
            self._lengths[length] += int(lengths[length])
        for name, times in names.items():
            self._count_name(name, times)
        self._everyone += everyone

    def drop(self, conjuncts: Sequence[Conjunct], residuals: Iterable[int]) -> None:
        """Forget the conjuncts of a subscription, and their residual predicates."""
        for conjunct in conjuncts:
            if not conjunct.is_plain:
                self._count(conjunct, -1)
        for number in residuals:
            self._kept.pop(number, None)
            self._owner.array[number] = -1
            self._free.append(number)

    def _count(self, conjunct: Conjunct, step: int) -> None:
        self._everyone += step * (not conjunct.required and not any(map(keys_of, conjunct.having)))
        for operand in conjunct.having:
            if isinstance(operand, Prefix):
                _add(self._lengths, len(operand.text), step)
            elif isinstance(operand, Equals | Within | Exists):
                self._count_name(operand.name, step)

    def _count_name(self, name: str, step: int) -> None:
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            _add(self._names, ".".join(parts[:depth]), step)

    def saved(self) -> SavedOperands:
        """All that is needed to go on with the same predicates."""
        columns = self._owner.array, self._place.array
        return SavedOperands(self._lengths, self._names, self._everyone, *columns)

    def take_over(self, saved: SavedOperands) -> None:
        """Load what was saved; this must be empty."""
        self._lengths, self._names = Counter(saved.lengths), Counter(saved.names)
        self._everyone = saved.everyone
        self._owner, self._place = Column.of(saved.owner), Column.of(saved.place)
        self._free = np.flatnonzero(saved.owner < 0).tolist()

    @property
    def reads_texts(self) -> bool:
        """Whether messages have to be read whole: for prefixes, or to decide predicates."""
        return bool(self._lengths) or len(self) > 0

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
            keys.update(prefix_key(term[:length]) for term in terms if len(term) >= length)
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
                yield name_key(name)
            if isinstance(value, dict):
                start = name + "." if name else ""
                for part, inside in value.items():
                    if "." not in part and start + part in self._names:
                        left.append((start + part, inside))
            elif isinstance(value, bool):
                yield string_key(name, TRUTHS[value])
            elif isinstance(value, str):
                text = fold(value)
                yield string_key(name, text)
                if (number := number_text(text)) is not None:  # "⁵" equals 5, as text
                    yield number_key(name, number)
            elif value is not None:
                yield number_key(name, number_text(value))

    def decide(
        self, contents: Sequence[Content], messages: Int32s, numbers: Int32s
    ) -> npt.NDArray[np.bool_]:
        """Which messages, by their places among the contents, satisfy which predicates."""
        pairs = zip(messages.tolist(), numbers.tolist(), strict=True)
        return np.array([self.holds(number, contents[place]) for place, number in pairs], np.bool_)

    def holds(self, number: int, content: Content) -> bool:
        """Whether a message satisfies a residual predicate."""
        conjunct = self._kept.get(number)
        if conjunct is None:
            owner, place = int(self._owner.array[number]), int(self._place.array[number])
            conjunct = self._parsed(owner)[place]
            self._keep(number, conjunct)
        return all(one.holds(content) for one in conjunct.having) and not any(
            one.holds(content) for one in conjunct.lacking
        )

    def _keep(self, number: int, conjunct: Conjunct) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[number] = conjunct


def _add(counts: Counter[Any], key: Any, step: int) -> None:
    counts[key] += step
    if not counts[key]:
        del counts[key]
