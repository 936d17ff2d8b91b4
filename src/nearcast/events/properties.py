"""The properties of many messages as a column of JSON texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from nearcast.events.values import JsonObject

if TYPE_CHECKING:
    from nearcast.events.flat_json import FlatValues

_decode = msgspec.json.Decoder().decode


class PropertyColumn:
    """Properties of messages as JSON texts, null where there are none."""

    def __init__(self, texts: pa.StringArray) -> None:
        self.texts = texts
        self._values: FlatValues | None = None

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
