"""What messages carry besides text, place and time: of one message, of many, and as columns.

Engines and files keep it as it is, by the names of `fields.CARRIED`, and give it back; the only
part of it that they look at are properties. JSON is decoded when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Int64s
from nearcast.events.fields import CARRIED, JSON
from nearcast.events.properties import PropertyColumn

if TYPE_CHECKING:
    from nearcast.events.values import Message

_AS_JSON = frozenset(name for name, kind in CARRIED.items() if kind == JSON)
_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.encode


def _read(name: str, kept: Any) -> Any:
    """The value of a field that is kept as it was given: JSON as its text, or decoded before."""
    return _decode(kept) if name in _AS_JSON and isinstance(kept, str) else kept


def _written(name: str, kept: Any) -> Any:
    """The same as a column has it."""
    if kept is None or name not in _AS_JSON or isinstance(kept, str):
        return kept
    return _encode(kept).decode()


def carried_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a message carries, from values that are kept as they were given."""
    return {name: _read(name, row[name]) for name in CARRIED if row.get(name) is not None}


class CarriedColumns:
    """What messages carry: a column for each field that one of them has, with nulls."""

    def __init__(self, columns: Mapping[str, pa.StringArray]) -> None:
        self.columns = columns
        texts = columns.get("properties")
        self.properties = None if texts is None else PropertyColumn(texts)

    @classmethod
    def of(cls, values: Mapping[str, Sequence[Any]]) -> CarriedColumns | None:
        """Those of some values by field; None if no message has any."""
        columns = {
            name: pa.array([_written(name, one) for one in each], pa.string())
            for name, each in values.items()
            if any(one is not None for one in each)
        }
        return cls(columns) if columns else None

    def __getitem__(self, row: int) -> dict[str, Any]:
        """What one message carries."""
        return carried_of({name: column[row].as_py() for name, column in self.columns.items()})

    def members(self) -> pa.StringArray:
        """What each message carries as one JSON object; null where that is nothing."""
        if self.properties is not None and len(self.columns) == 1:
            return pc.binary_join_element_wise('{"properties":', self.properties.texts, "}", "")
        rows = range(len(next(iter(self.columns.values()))))
        return pa.array([_encode(self[row]).decode() if self[row] else None for row in rows])

    def part(self, start: int, stop: int) -> CarriedColumns:
        """That of some messages that follow each other."""
        some = {name: each.slice(start, stop - start) for name, each in self.columns.items()}
        return CarriedColumns(some)

    def take(self, rows: Int64s) -> CarriedColumns:
        """That of some messages."""
        where = pa.array(rows)
        return CarriedColumns({name: each.take(where) for name, each in self.columns.items()})


class CarriedValues:
    """What messages carry, by their numbers."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, Any]] = {name: {} for name in CARRIED}

    def __bool__(self) -> bool:
        """Whether any message carries something."""
        return any(self._of.values())

    def put(self, number: int, message: Message) -> None:
        """Keep what a message carries."""
        for name, kept in self._of.items():
            if (value := getattr(message, name)) is not None:
                kept[number] = value

    def put_columns(self, numbers: Iterable[int], carried: CarriedColumns) -> None:
        """Keep what many messages carry."""
        numbers = list(numbers)
        for name, column in carried.columns.items():
            given = zip(numbers, column.to_pylist(), strict=True)
            self._of[name].update((number, one) for number, one in given if one is not None)

    def get(self, number: int) -> dict[str, Any]:
        """What one message carries."""
        found = {}
        for name, kept in self._of.items():
            if number in kept:
                found[name] = kept[number] = _read(name, kept[number])
        return found

    def columns(self, numbers: Sequence[int]) -> CarriedColumns | None:
        """What some messages carry, as columns."""
        return CarriedColumns.of(
            {name: [kept.get(one) for one in numbers] for name, kept in self._of.items() if kept}
        )

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget messages."""
        for kept in self._of.values():
            if kept:
                for number in numbers:
                    kept.pop(number, None)

    def rows(self, numbers: Sequence[int]) -> CarriedValues:
        """What some messages carry, by their places among these."""
        found = CarriedValues()
        for name, kept in self._of.items():
            if kept:
                some = ((row, kept[one]) for row, one in enumerate(numbers) if one in kept)
                found._of[name].update(some)
        return found

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Give all messages other numbers, by those they had."""
        for name, kept in self._of.items():
            self._of[name] = {numbers[one]: value for one, value in kept.items()}
