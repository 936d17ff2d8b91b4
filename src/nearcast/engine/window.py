"""The window of messages that top-k subscriptions choose from, oldest first, and their ids.

Messages are added one by one or as columns of a table. Those of a table stay columns: only the
id and the time of each are stored apart, until the message itself is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearcast.engine.matching import ArrivedMessage
from nearcast.events import Message
from nearcast.text import Analyser
from nearcast.topk import Window

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.arrays.types import Floats


@dataclass
class Columns:
    """Messages of a table from row `row` on; `number` is the number of its first row."""

    ids: list[str]
    texts: pa.StringArray
    points: Floats
    at: list[float]
    analyser: Analyser
    ttl: Floats | None = None  # None if none of them is active
    number: int = 0
    row: int = 0

    def arrived(self, row: int) -> ArrivedMessage:
        """Create the object of one message."""
        text, at = self.texts[row].as_py(), self.at[row]
        lon, lat = self.points[row].tolist()
        ttl = 0.0 if self.ttl is None else float(self.ttl[row])
        message = Message(self.ids[row], text, (lon, lat), at=at, ttl=ttl)
        return ArrivedMessage(message, self.number + row, at, self.analyser.tokens(text))


class SlidingWindow:
    """Messages in the order of their arrival, found by id, dropped from the old end."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._parts: deque[ArrivedMessage | Columns] = deque()
        self._times: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[ArrivedMessage]:
        for part in self._parts:
            if isinstance(part, ArrivedMessage):
                yield part
            else:
                yield from (part.arrived(row) for row in range(part.row, len(part.ids)))

    def parts(self) -> Iterator[ArrivedMessage | Columns]:
        """All messages, oldest first, those of a table together."""
        return iter(self._parts)

    def uses(self, id: str, now: float) -> bool:
        """Whether a message that is still in the window at that time has this id."""
        at = self._times.get(id)
        return at is not None and self._still_in(at, now)

    def leaving(self, now: float) -> Iterator[ArrivedMessage]:
        """Remove and yield the messages that have left the window, oldest first."""
        while self._is_over(now):
            yield self.drop_oldest()

    def slide(self, now: float) -> None:
        """Remove the messages that have left the window, without yielding them."""
        while self._is_over(now):
            self.forget(1)

    def _is_over(self, now: float) -> bool:
        count = self._window.count
        if count is not None and len(self) > count:
            return True
        return bool(self._times) and not self._still_in(self.oldest_time(), now)

    def _still_in(self, at: float, now: float) -> bool:
        return self._window.seconds is None or at > now - self._window.seconds

    def find(self, id: str) -> ArrivedMessage | None:
        """The message with an id, if it is there."""
        if id not in self._times:
            return None
        for part in reversed(self._parts):
            if isinstance(part, ArrivedMessage):
                if part.message.id == id:
                    return part
            elif id in part.ids:
                return part.arrived(part.ids.index(id, part.row))
        return None

    def has_any(self, ids: list[str]) -> bool:
        """Whether a message with one of these ids is there."""
        return not self._times.keys().isdisjoint(ids)

    def append(self, arrived: ArrivedMessage) -> None:
        """Append one message."""
        self._parts.append(arrived)
        self._times[arrived.message.id] = arrived.at

    def extend(self, columns: Columns) -> None:
        """Append the messages of a table, in their order, from `columns.row` on."""
        if columns.row < len(columns.ids):
            self._parts.append(columns)
            self._times.update(
                zip(columns.ids[columns.row :], columns.at[columns.row :], strict=True)
            )

    def oldest_time(self) -> float:
        """The time of the oldest message; there must be one."""
        part = self._parts[0]
        return part.at if isinstance(part, ArrivedMessage) else part.at[part.row]

    def drop_oldest(self) -> ArrivedMessage:
        """Remove and return the oldest message; there must be one."""
        part = self._parts[0]
        if isinstance(part, ArrivedMessage):
            self._parts.popleft()
            del self._times[part.message.id]
            return part
        arrived = part.arrived(part.row)
        self._skip(part, 1)
        return arrived

    def forget(self, count: int) -> None:
        """Remove the `count` oldest messages, without returning them."""
        while count > 0:
            part = self._parts[0]
            if isinstance(part, ArrivedMessage):
                self.drop_oldest()
                count -= 1
            else:
                some = min(count, len(part.ids) - part.row)
                self._skip(part, some)
                count -= some

    def _skip(self, part: Columns, count: int) -> None:
        for id in part.ids[part.row : part.row + count]:
            del self._times[id]
        part.row += count
        if part.row == len(part.ids):
            self._parts.popleft()
