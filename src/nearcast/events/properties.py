"""The properties of many messages as a column of JSON texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Int64s
from nearcast.events.values import JsonObject

if TYPE_CHECKING:
    from nearcast.events.flat_json import FlatValues

_decode = msgspec.json.Decoder().decode


class PropertyColumn:
    """Properties of messages as JSON texts, null where there are none."""

    def __init__(self, texts: pa.StringArray) -> None:
        self.texts = texts
        self._values: FlatValues | None = None

    @classmethod
    def of(cls, objects: list[JsonObject | None]) -> PropertyColumn:
        """Those of messages that have been read."""
        encode = msgspec.json.encode
        texts = [None if each is None else encode(each).decode() for each in objects]
        return cls(pa.array(texts, pa.string()))

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def values(self) -> FlatValues:
        """What a kernel reads of them, on first use."""
        if self._values is None:
            from nearcast.events.flat_json import flat_values  # which loads kernels

            self._values = flat_values(self.texts)
        return self._values

    def __getitem__(self, row: int) -> JsonObject | None:
        """Decode those of one message."""
        text = self.texts[row].as_py()
        decoded: JsonObject | None = None if text is None else _decode(text)
        return decoded

    def objects(self) -> list[JsonObject | None]:
        """Decode those of all messages."""
        return [None if text is None else _decode(text) for text in self.texts.to_pylist()]

    def members(self) -> pa.StringArray:
        """Each as the one member of an object, as JSON text; null where there are none."""
        return pc.binary_join_element_wise('{"properties":', self.texts, "}", "")

    def part(self, start: int, stop: int) -> PropertyColumn:
        """Those of some messages that follow each other."""
        return PropertyColumn(self.texts.slice(start, stop - start))

    def take(self, rows: Int64s) -> PropertyColumn:
        """Those of some messages."""
        return PropertyColumn(self.texts.take(pa.array(rows)))
