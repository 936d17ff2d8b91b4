"""Messages of the window as they were before others displaced them, or before they ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from nearcast.events import LateBody, Message

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.arrays.types import Floats
    from nearcast.events.carried import CarriedValues


class LeavingMessages(NamedTuple):
    """Columns of messages that may leave the window, and what few of them have, by row."""

    ids: pa.LargeStringArray
    texts: pa.LargeStringArray
    points: Floats
    at: Floats
    ttl: Mapping[int, float]
    carried: CarriedValues

    def rows(self) -> dict[str, int]:
        """The row of each id."""
        return {id: row for row, id in enumerate(self.ids.to_pylist())}

    def body(self, row: int) -> LateBody:
        """The body of one of them."""
        text = self.texts.cast("large_binary")[row].as_py().decode(errors="surrogatepass")
        lon, lat = self.points[row].tolist()
        at, ttl = float(self.at[row]), self.ttl.get(row, 0.0)
        carried = self.carried.get(row)
        message = Message(self.ids[row].as_py(), text, (lon, lat), None, at, ttl, **carried)
        return LateBody(message, at)
