"""What queries ask for beside terms, so that an index of terms can find it.

A conjunct may ask for phrases, prefixes and properties. It requires the keys of its operands
(`nearcast.text.keys`) as if they were terms, and excludes those of operands that must not hold, so
that an index proposes few rows; what a key does not say exactly is decided by a residual predicate
(`nearcast.engine.conditions`).

A predicate is a number here, and the owner and the place of its conjunct. The conjunct is parsed
again when a message asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.slots import Slots, empty_slots, put
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.comparisons import Comparisons, read_comparisons
from nearcast.engine.conditions import Conditions, MessageNumbers, Residual
from nearcast.engine.matching import ArrivedMessage
from nearcast.engine.ranges import RangeDirectory
from nearcast.events.values import DEEPEST_OBJECT, JsonObject
from nearcast.text import Analyser, Conjunct, Content, Equals, Exists, Phrase, Prefix, Within, fold
from nearcast.text.keys import (
    EVERYONE,
    LONGEST_PHRASE,
    TRUTHS,
    excluded_strings,
    is_exact,
    keys_of,
    name_key,
    number_key,
    number_text,
    phrase_key,
    prefix_key,
    range_keys,
    required_strings,
    string_key,
)

if TYPE_CHECKING:
    from nearcast.engine.terms import TermIds, TermLookup, TextBatch


_ROOT = 0  # the path of all properties of a message

NumbersByName = dict[str, list[int | float]]


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


class AskedCounts(NamedTuple):
    """How many conjuncts ask for what beside terms, whether it is to be there or not."""

    prefixes: Mapping[int, int]  # by length
    phrases: Mapping[int, int]  # by length, LONGEST_PHRASE at most
    unwanted: int  # phrases that must not be there, whose terms need no numbers
    names: Mapping[str, int]  # of properties
    everyone: int  # conjuncts with the key of every message
    broad: int  # conjuncts whose keys are names of properties alone
    ranges: Mapping[str, int] = {}  # by kind of key, of conjuncts that are found by ranges


class SavedOperands(NamedTuple):
    """What `Operands` has, to be saved: counts, and of each predicate its owner and place."""

    counts: AskedCounts
    owner: Int32s
    place: Int32s


class Operands:
    """The operands of all subscriptions: which keys messages need, and residual predicates.

    `parsed` gives the conjuncts of an owner, `queries_of` the queries of many.
    """

    def __init__(
        self,
        parsed: Callable[[int], Sequence[Conjunct]],
        queries_of: Callable[[Int32s], pa.LargeStringArray],
        analyser: Analyser,
    ) -> None:
        self._parsed, self._queries_of, self._analyser = parsed, queries_of, analyser
        self._prefixes: Counter[int] = Counter()
        self._phrases: Counter[int] = Counter()
        self._unwanted = 0
        self._names: Counter[str] = Counter()  # of properties
        self._paths: Counter[int] = Counter()  # to them, and to the objects they are in, by hash
        self._numbers: dict[str, int] = {}  # of these names, and of earlier ones
        self._everyone = 0
        self._broad = 0
        self._ranges = RangeDirectory()
        self._owner, self._place = Column(np.int32), Column(np.int32)  # by predicate; -1 is unused
        self._free: list[int] = []
        self._slots: Slots | None = None  # the numbers by the hashes of names
        self._asked: AskedKeys | None = None  # until what is asked for changes
        self.conditions = Conditions(self._residual, self._comparisons, self._number_of)

    def __len__(self) -> int:
        """How many residual predicates there are."""
        return self._owner.size - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without what is kept for a while."""
        return self._owner.nbytes + self._place.nbytes + self.conditions.nbytes

    def put(self, conjuncts: Sequence[Conjunct]) -> list[Asked]:
        """Take in the conjuncts of a subscription; `belong` says of which."""
        return [self._put(place, conjunct) for place, conjunct in enumerate(conjuncts)]

    def _put(self, place: int, conjunct: Conjunct) -> Asked:
        if conjunct.is_plain:
            return Asked(sorted(conjunct.required), sorted(conjunct.excluded), None)
        self._count(conjunct, 1)
        number = None
        residual = _residual(conjunct)
        if residual is not None:
            if self._free:
                number = self._free.pop()
                self._place.array[number] = place
            else:
                number = self._place.append(place)
                self._owner.append(-1)
            self.conditions.put(number, residual)
        return Asked(required_strings(conjunct), excluded_strings(conjunct), number)

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

    def count_more(self, counts: AskedCounts) -> None:
        """Count what many conjuncts ask for."""
        self._asked = None
        self._prefixes.update(counts.prefixes)
        self._phrases.update(counts.phrases)
        self._unwanted += counts.unwanted
        for name, times in counts.names.items():
            self._count_name(name, times)
        self._everyone += counts.everyone
        self._broad += counts.broad
        self._ranges.count_more(counts.ranges)

    def drop(self, conjuncts: Sequence[Conjunct], residuals: Iterable[int]) -> None:
        """Forget the conjuncts of a subscription, and their residual predicates."""
        for conjunct in conjuncts:
            if not conjunct.is_plain:
                self._count(conjunct, -1)
        for number in residuals:
            self.conditions.drop(number)
            self._owner.array[number] = -1
            self._free.append(number)

    def _count(self, conjunct: Conjunct, step: int) -> None:
        self._asked = None
        self._everyone += step * (not conjunct.required and not any(map(keys_of, conjunct.having)))
        alone = not conjunct.required and bool(conjunct.having)
        self._broad += step * (alone and all(isinstance(o, Exists) for o in conjunct.having))
        self._ranges.count(range_keys(conjunct), step)
        for operand in (*conjunct.having, *conjunct.lacking):
            if isinstance(operand, Prefix):
                _add(self._prefixes, len(operand.text), step)
            elif isinstance(operand, Phrase):
                _add(self._phrases, min(len(operand.terms), LONGEST_PHRASE), step)
                self._unwanted += step * (operand in conjunct.lacking)
            elif isinstance(operand, Equals | Within | Exists):
                self._count_name(operand.name, step)

    def _count_name(self, name: str, step: int) -> None:
        _add(self._names, name, step)
        self._count_paths(name, step)
        self._number_of(name)

    def _count_paths(self, name: str, step: int) -> None:
        """Count the objects on the way to a property; no message has one that is nested deeper."""
        path = _ROOT
        for part in islice(name.split("."), DEEPEST_OBJECT):
            path = hash((path, part))
            _add(self._paths, path, step)

    def _number_of(self, name: str) -> int:
        """The number of a property's name."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            self._slots = None
        return number

    def saved(self) -> SavedOperands:
        """All that is needed to go on with the same predicates."""
        counts = AskedCounts(
            self._prefixes, self._phrases, self._unwanted, self._names, self._everyone,
            self._broad, self._ranges.counts,
        )  # fmt: skip
        return SavedOperands(counts, self._owner.array, self._place.array)

    def take_over(self, saved: SavedOperands) -> None:
        """Load what was saved; this must be empty."""
        self._asked = None
        counts = saved.counts
        self._prefixes, self._phrases = Counter(counts.prefixes), Counter(counts.phrases)
        self._unwanted, self._everyone, self._broad = counts.unwanted, counts.everyone, counts.broad
        self._ranges = RangeDirectory(counts.ranges)
        self._names, self._paths = Counter(counts.names), Counter()
        for name, times in self._names.items():
            self._count_paths(name, times)
            self._number_of(name)
        self._owner, self._place = Column.of(saved.owner), Column.of(saved.place)
        self._free = np.flatnonzero(saved.owner < 0).tolist()

    @property
    def is_plain(self) -> bool:
        """Whether messages need no keys, as all ask for terms alone."""
        asked = self._prefixes or self._phrases or self._names or self._everyone
        return not asked and not len(self)

    @property
    def asks_no_properties(self) -> bool:
        """Whether no subscription asks for a property."""
        return not self._names

    def figures(self) -> dict[str, float]:
        """How many conjuncts are looked at for every message near them, or with some property."""
        return {"found_by_place": float(self._everyone), "found_by_property": float(self._broad)}

    def asked_keys(self, ids: TermIds) -> AskedKeys:
        """What a kernel looks for in messages; the same object for as long as it stays so."""
        if self._asked is not None:
            return self._asked
        if self._slots is None:
            self._slots = empty_slots(1 << (2 * len(self._numbers) + 1).bit_length())
            hashes = ids.hashed(list(self._numbers))
            for (first, second), number in zip(hashes, self._numbers.values(), strict=True):
                put(self._slots, first, second, number)
        everyone = ids.known([EVERYONE] if self._everyone else [])
        self._asked = AskedKeys(
            np.array(sorted(self._prefixes), np.int64),
            np.array(sorted(self._phrases), np.int64),
            not self._unwanted,
            self._slots,
            int(everyone[0]) if len(everyone) else -1,
        )
        return self._asked

    def known(self, ids: TermIds, arrived: ArrivedMessage) -> Int32s:
        """The terms and keys of a message that have a number."""
        numbers: NumbersByName = {}
        keys = self._keys_of(arrived.content, numbers)
        known = ids.known(arrived.terms.union(keys) if keys else arrived.terms)
        return self._and_ranges(known, numbers, ids)

    def known_in_order(self, ids: TermIds, content: Content) -> Int32s:
        """The same of a content, in an order that is always the same."""
        numbers: NumbersByName = {}
        keys = sorted({*content.tokens, *self._keys_of(content, numbers)})
        return self._and_ranges(ids.known(keys), numbers, ids)

    def known_of_properties(self, ids: TermIds, properties: JsonObject) -> Int32s:
        """The keys of properties that have a number."""
        numbers: NumbersByName = {}
        return self._and_ranges(ids.known(set(self._keys_in(properties, numbers))), numbers, ids)

    def _and_ranges(self, known: Int32s, numbers: NumbersByName, ids: TermIds) -> Int32s:
        if not numbers:
            return known
        lookup = ids.lookup(self.asked_keys(ids).prefixes)
        found = self._ranges.terms_of(numbers, self._numbers, ids, lookup)
        return np.concatenate([known, found])

    def with_ranges(
        self, batch: TextBatch, numbers: MessageNumbers, mark: int, ids: TermIds, lookup: TermLookup
    ) -> TextBatch:
        """The terms of messages with the keys of ranges; `mark` is that of their terms."""
        if not len(self._ranges):
            return batch
        return self._ranges.added_to(batch, numbers, mark, self._numbers, ids, lookup)

    def _keys_of(self, content: Content, numbers: NumbersByName) -> set[str]:
        tokens, keys = content.tokens, set()
        if self._everyone:
            keys.add(EVERYONE)
        for length in self._prefixes:
            keys.update(prefix_key(term[:length]) for term in tokens if len(term) >= length)
        for length in self._phrases:
            for first in range(len(tokens) - length + 1):
                keys.add(phrase_key(tokens[first : first + length]))
        if content.properties and self._names:
            keys.update(self._keys_in(content.properties, numbers))
        return keys

    def _keys_in(self, properties: Any, numbers: NumbersByName) -> Iterator[str]:
        """The keys of properties, some perhaps twice; `numbers` gets what may be in a range.

        There is no recursion, as they may be nested deeply.
        """
        left: list[tuple[str, int, Any]] = [("", _ROOT, properties)]
        while left:
            name, path, value = left.pop()
            if isinstance(value, list):
                left += [(name, path, each) for each in value]
                continue
            if name and value is not None:
                yield name_key(name)
            if isinstance(value, dict):
                start = name + "." if name else ""
                for part, inside in value.items():
                    if "." not in part and (inner := hash((path, part))) in self._paths:
                        left.append((start + part, inner, inside))
            elif isinstance(value, bool):
                yield string_key(name, TRUTHS[value])
            elif isinstance(value, str):
                text = fold(value)
                yield string_key(name, text)
                if (number := number_text(text)) is not None:  # "⁵" equals 5, as text
                    yield number_key(name, number)
            elif value is not None:
                yield number_key(name, number_text(value))
                if name in self._ranges:
                    numbers.setdefault(name, []).append(value)

    def _residual(self, number: int) -> Residual:
        """A predicate, from its query; a row that was loaded with others excludes terms alone."""
        owner, place = int(self._owner.array[number]), int(self._place.array[number])
        conjunct = self._parsed(owner)[place]
        having = tuple(one for one in conjunct.having if not is_exact(one))
        return Residual(having, conjunct.lacking)

    def _comparisons(self, numbers: Int32s) -> Comparisons:
        """Many predicates, as far as they compare numbers and nothing else."""
        queries = self._queries_of(self._owner.array[numbers])
        places = self._place.array[numbers]
        return read_comparisons(queries, places, self._analyser, self._number_of)

    def decided_for(self, content: Content, numbers: Int32s) -> npt.NDArray[np.bool_]:
        """Which predicates one message satisfies."""
        holds = self.conditions.holds
        return np.array([holds(number, content) for number in numbers.tolist()], np.bool_)


def _residual(conjunct: Conjunct) -> Residual | None:
    """What its keys do not say of a conjunct."""
    having = tuple(one for one in conjunct.having if not is_exact(one))
    lacking = tuple(one for one in conjunct.lacking if not is_exact(one))
    return Residual(having, lacking) if having or lacking else None


def _add(counts: Counter[Any], key: Any, step: int) -> None:
    counts[key] += step
    if not counts[key]:
        del counts[key]
