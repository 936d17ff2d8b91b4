"""Messages of the window as they were before others displaced them, or before they ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nearcast.events import LateBody, Message

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.arrays.types import Floats


class LeavingMessages(NamedTuple):
    """Columns of messages that may leave the window, and what few of them have, by row."""

    ids: pa.LargeStringArray
    texts: pa.LargeStringArray
    points: Floats
    at: Floats
    ttl: Mapping[int, float]
    properties: Mapping[int, Any]

    def rows(self) -> dict[str, int]:
        """The row of each id."""
        return {id: row for row, id in enumerate(self.ids.to_pylist())}

    def body(self, row: int) -> LateBody:
        """The body of one of them."""
        text = self.texts.cast("large_binary")[row].as_py().decode(errors="surrogatepass")
        lon, lat = self.points[row].tolist()
        at, properties = float(self.at[row]), self.properties.get(row)
        ttl = self.ttl.get(row, 0.0)
        message = Message(self.ids[row].as_py(), text, (lon, lat), None, at, ttl, properties)
        return LateBody(message, at)
