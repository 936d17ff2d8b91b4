"""The window of messages that top-k subscriptions choose from, oldest first, and their ids.

Messages are added one by one or as columns of a table. Those of a table stay columns: only the
id and the time of each are stored apart, until the message itself is needed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from nearcast.engine.matching import ArrivedMessage
from nearcast.events import Message
from nearcast.text import Analyser
from nearcast.topk import Window

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.arrays.types import Floats

_WORTH_TIDYING = 1 << 10


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


class PlainWindow:
    """Messages in the order of their arrival, by id; those with a `ttl` leave at their end."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._messages: OrderedDict[str, ArrivedMessage] = OrderedDict()
        self._ends: list[tuple[float, int, str]] = []  # a heap of (end, number, id)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[ArrivedMessage]:
        return iter(self._messages.values())

    def find(self, id: str) -> ArrivedMessage | None:
        """The message with an id, if it is there."""
        return self._messages.get(id)

    def append(self, arrived: ArrivedMessage) -> None:
        """Add a message whose id is unused."""
        self._messages[arrived.message.id] = arrived
        if arrived.message.ttl:
            heappush(self._ends, (arrived.end, arrived.number, arrived.message.id))

    def take_out(self, id: str) -> ArrivedMessage:
        """Remove the message with an id that is there."""
        return self._messages.pop(id)

    def ended(self, now: float) -> Iterator[ArrivedMessage]:
        """Remove and yield the messages that have ended by `now`."""
        while self._ends and self._ends[0][0] <= now:
            _, number, id = heappop(self._ends)
            if id in self._messages and self._messages[id].number == number:
                yield self._messages.pop(id)

    def displaced(self, now: float) -> Iterator[ArrivedMessage]:
        """Remove and yield the oldest messages while they are too many, or too old."""
        while self._messages:
            oldest = next(iter(self._messages.values()))
            most = self._window.count
            if self.is_recent(oldest, now) and (most is None or len(self) <= most):
                return
            yield self._messages.popitem(last=False)[1]

    def leaving(self, arrived: ArrivedMessage) -> list[ArrivedMessage]:
        """The messages that one would end, let end, or displace, if it were published now."""
        stays = [
            other
            for id, other in self._messages.items()
            if id != arrived.message.id and self.holds(other, arrived.at)
        ]
        most = len(stays) if self._window.count is None else self._window.count - 1
        kept = {other.number for other in stays[max(0, len(stays) - most) :]}
        return [other for other in self if other.number not in kept]

    def holds(self, arrived: ArrivedMessage, now: float) -> bool:
        """Whether time alone lets a message stay until `now`."""
        return self.is_recent(arrived, now) and not (arrived.message.ttl and arrived.end <= now)

    def is_recent(self, arrived: ArrivedMessage, now: float) -> bool:
        """Whether a message is young enough for a window of seconds."""
        return self._window.seconds is None or arrived.at > now - self._window.seconds


class SlidingWindow:
    """Messages in the order of their arrival, found by id, dropped from the old end."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._parts: deque[ArrivedMessage | Columns] = deque()
        self._numbers: dict[str, int] = {}  # by id, in the order of arrival
        self._times: list[float] = []  # by number, from `_base` on
        self._base = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def next(self) -> int:
        """The number that the next message gets."""
        return self._base + len(self._times)

    def latest(self, id: str) -> tuple[int, float] | None:
        """The number and the time of the message with an id, if it is there."""
        number = self._numbers.get(id)
        return None if number is None else (number, self._times[number - self._base])

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
        latest = self.latest(id)
        return latest is not None and self._still_in(latest[1], now)

    def leaving(self, now: float) -> Iterator[ArrivedMessage]:
        """Remove and yield the messages that have left the window, oldest first."""
        while self._is_over(now):
            yield self.drop_oldest()

    def slide(self, now: float) -> None:
        """Remove the messages that have left the window, without yielding them."""
        while self._is_over(now):
            self.forget(1)

    def _is_over(self, now: float) -> bool:
        most = self._window.count
        if most is not None and len(self) > most:
            return True
        return bool(self._numbers) and not self._still_in(self.oldest_time(), now)

    def _still_in(self, at: float, now: float) -> bool:
        return self._window.seconds is None or at > now - self._window.seconds

    def find(self, id: str) -> ArrivedMessage | None:
        """The message with an id, if it is there."""
        if id not in self._numbers:
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
        return not self._numbers.keys().isdisjoint(ids)

    def append(self, arrived: ArrivedMessage) -> None:
        """Append one message."""
        self._parts.append(arrived)
        self._numbers[arrived.message.id] = self.next
        self._times.append(arrived.at)

    def extend(self, columns: Columns) -> None:
        """Append the messages of a table, in their order, from `columns.row` on."""
        if columns.row < len(columns.ids):
            self._parts.append(columns)
            self._numbers.update(zip(columns.ids[columns.row :], count(self.next)))
            self._times += columns.at[columns.row :]

    @property
    def oldest(self) -> str | None:
        """The id of the oldest message; None if there is none."""
        if not self._parts:
            return None
        part = self._parts[0]
        return part.message.id if isinstance(part, ArrivedMessage) else part.ids[part.row]

    def oldest_time(self) -> float:
        """The time of the oldest message; there must be one."""
        part = self._parts[0]
        return part.at if isinstance(part, ArrivedMessage) else part.at[part.row]

    def drop_oldest(self) -> ArrivedMessage:
        """Remove and return the oldest message; there must be one."""
        part = self._parts[0]
        if isinstance(part, ArrivedMessage):
            self._parts.popleft()
            self._forget((part.message.id,))
            return part
        arrived = part.arrived(part.row)
        self._skip(part, 1)
        return arrived

    def forget(self, most: int) -> None:
        """Remove the `most` oldest messages, without returning them."""
        while most > 0:
            part = self._parts[0]
            if isinstance(part, ArrivedMessage):
                self.drop_oldest()
                most -= 1
            else:
                some = min(most, len(part.ids) - part.row)
                self._skip(part, some)
                most -= some

    def _skip(self, part: Columns, some: int) -> None:
        self._forget(part.ids[part.row : part.row + some])
        part.row += some
        if part.row == len(part.ids):
            self._parts.popleft()

    def _forget(self, ids: Sequence[str]) -> None:
        for id in ids:
            del self._numbers[id]
        if len(self._times) > 2 * len(self._numbers) + _WORTH_TIDYING:
            left = len(self._times) - len(self._numbers)
            del self._times[:left]
            self._base += left
