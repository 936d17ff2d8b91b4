"""The window of an engine without top-k subscriptions: messages that are only stored, by id.

Messages are added one by one or as columns of a table. Those of a table stay columns: only the
id and the time of each are stored apart, until the message itself is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import inf

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats, Int64s
from nearcast.engine.ends import MessageEnds
from nearcast.engine.matching import ArrivedMessage
from nearcast.events import Message
from nearcast.events.carried import CarriedColumns
from nearcast.text import Analyser
from nearcast.topk import Window

_WORTH_TIDYING = 1 << 10


@dataclass
class Columns:
    """Messages of a table from row `row` on; `number` is the number of its first row."""

    ids: list[str]
    texts: pa.StringArray
    points: Floats
    at: list[float]
    analyser: Analyser
    ttl: Floats | None = None  # None if none of them has an end
    number: int = 0
    row: int = 0
    carried: CarriedColumns | None = None  # None if none of them carries anything

    def ends(self) -> list[float]:
        """When messages end; infinite for those that do not."""
        if self.ttl is None:
            return [inf] * len(self.at)
        ends: list[float] = np.where(self.ttl > 0, np.array(self.at) + self.ttl, inf).tolist()
        return ends

    def arrived(self, row: int) -> ArrivedMessage:
        """Create the object of one message."""
        text, at = self.texts[row].as_py(), self.at[row]
        lon, lat = self.points[row].tolist()
        ttl = 0.0 if self.ttl is None else float(self.ttl[row])
        carried = {} if self.carried is None else self.carried[row]
        message = Message(self.ids[row], text, (lon, lat), at=at, ttl=ttl, **carried)
        return ArrivedMessage(message, self.number + row, at, self.analyser)

    def take(self, rows: Int64s) -> Columns:
        """Some messages, in their order; their numbers are no longer those of their rows."""
        return Columns(
            [self.ids[row] for row in rows.tolist()],
            self.texts.take(pa.array(rows)),
            self.points[rows],
            [self.at[row] for row in rows.tolist()],
            self.analyser,
            None if self.ttl is None else self.ttl[rows],
            self.number,
            carried=None if self.carried is None else self.carried.take(rows),
        )

    def part(self, start: int, stop: int) -> Columns:
        """The messages of some rows."""
        rows = slice(start, stop)
        return Columns(
            self.ids[rows],
            self.texts.slice(start, stop - start),
            self.points[rows],
            self.at[rows],
            self.analyser,
            None if self.ttl is None else self.ttl[rows],
            self.number + start,
            carried=None if self.carried is None else self.carried.part(start, stop),
        )


class SlidingWindow:
    """Messages in the order of their arrival, found by id; most leave it at the old end.

    One that is taken out or ends before is a hole: still among the parts, but no longer known by
    its id.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        # With the number that row 0 of each has; rows before the first one left have gone.
        self._parts: deque[tuple[int, ArrivedMessage | Columns]] = deque()
        self._numbers: dict[str, int] = {}  # by id, in the order of arrival
        self._times: list[float] = []  # by number, from `_base` on
        self._base = 0
        self._holes = 0
        self._ends = MessageEnds()
        self._ending: dict[int, tuple[str, float]] = {}  # id and end of those that have one

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def is_plain(self) -> bool:
        """Whether there are no holes, and no messages that end before they are the oldest."""
        return not self._holes and not self._ending

    @property
    def next(self) -> int:
        """The number that the next message gets."""
        return self._base + len(self._times)

    def latest(self, id: str) -> tuple[int, float] | None:
        """The number and the time of the message with an id, if it is there."""
        number = self._numbers.get(id)
        return None if number is None else (number, self._times[number - self._base])

    def parts(self) -> Iterator[ArrivedMessage | Columns]:
        """All messages, oldest first, those of a table together if none of them is a hole."""
        for first, part in self._parts:
            if isinstance(part, ArrivedMessage):
                if self._is_there(part.message.id, first):
                    yield part
            else:
                yield from self._live(first, part)

    def _live(self, first: int, part: Columns) -> Iterator[Columns]:
        start = part.row
        if self._holes:
            for row in range(part.row, len(part.ids)):
                if not self._is_there(part.ids[row], first + row):
                    if start < row:
                        yield part.part(start, row)
                    start = row + 1
        if start < len(part.ids):
            yield part.part(start, len(part.ids))

    def _is_there(self, id: str, number: int) -> bool:
        return self._numbers.get(id) == number

    def uses(self, id: str, now: float) -> bool:
        """Whether a message that is still in the window at that time has this id."""
        number = self._numbers.get(id)
        if number is None or not self._is_recent(self._times[number - self._base], now):
            return False
        return number not in self._ending or self._ending[number][1] > now

    def _is_recent(self, at: float, now: float) -> bool:
        return self._window.seconds is None or at > now - self._window.seconds

    def find(self, id: str) -> ArrivedMessage | None:
        """The message with an id, if it is there."""
        return self._found(id) if id in self._numbers else None

    def _found(self, id: str) -> ArrivedMessage:
        number = self._numbers[id]
        for first, part in reversed(self._parts):
            if first <= number:
                return part if isinstance(part, ArrivedMessage) else part.arrived(number - first)
        raise AssertionError("a message that is known by its id is in one of the parts")

    def has_any(self, ids: list[str]) -> bool:
        """Whether a message with one of these ids is there."""
        return not self._numbers.keys().isdisjoint(ids)

    def append(self, arrived: ArrivedMessage) -> None:
        """Append one message whose id is unused."""
        number = self.next
        self._parts.append((number, arrived))
        self._numbers[arrived.message.id] = number
        self._times.append(arrived.at)
        if arrived.message.ttl:
            self._ends.add(np.array([number]), np.array([arrived.end]))
            self._ending[number] = arrived.message.id, arrived.end

    def extend(self, columns: Columns) -> None:
        """Append the messages of a table, in their order, from `columns.row` on."""
        row = columns.row
        if row == len(columns.ids):
            return
        first = self.next - row
        self._parts.append((first, columns))
        self._numbers.update(zip(columns.ids[row:], count(first + row)))
        self._times += columns.at[row:]
        if columns.ttl is not None:
            rows = row + np.flatnonzero(columns.ttl[row:])
            ends = np.array(columns.at, np.float64)[rows] + columns.ttl[rows]
            self._ends.add(first + rows, ends)
            named = zip(rows.tolist(), ends.tolist(), strict=True)
            self._ending.update((first + one, (columns.ids[one], end)) for one, end in named)

    @property
    def oldest(self) -> str | None:
        """The id of the oldest message; None if there is none."""
        if not self._parts:
            return None
        _, part = self._parts[0]
        return part.message.id if isinstance(part, ArrivedMessage) else part.ids[part.row]

    def enter(self, columns: Columns, most: int) -> None:
        """Append the messages of a table one after the other; the window has `most` at any time."""
        rows, last = len(columns.ids), columns.at[-1]
        if len(self) + rows <= most:  # none is displaced: it does not matter which ended when
            self.extend(columns)
            self.slide(last)
            return
        if self._first_end(columns) > last:  # none ends meanwhile
            columns.row = max(0, rows - most)  # earlier ones would leave the window at once
            self.extend(columns)
            self._forget(len(self) - most)
            return
        for row in range(rows):
            self.slide(columns.at[row])
            self.extend(columns.part(row, row + 1))
            self.slide(columns.at[row])

    def enter_again(self, columns: Columns, most: int) -> None:
        """Append messages of a table, some with ids that are there or come twice.

        One whose id comes again leaves the window. Which messages are displaced depends on how many
        ids came after theirs, and so not on when others were replaced, unless some end meanwhile.
        """
        different = set(columns.ids)
        if len(self) + len(different) > most and self._first_end(columns) <= columns.at[-1]:
            for row, id in enumerate(columns.ids):
                self.slide(columns.at[row])
                self.take_out(id)
                self.extend(columns.part(row, row + 1))
                self.slide(columns.at[row])
            return
        self._take_out(list(self._numbers.keys() & different))
        if len(different) < len(columns.ids):
            latest = {id: row for row, id in enumerate(columns.ids)}
            columns = columns.take(np.array(sorted(latest.values())))
        self.enter(columns, most)

    def _first_end(self, columns: Columns) -> float:
        """When the first message ends, of those that are there and of a table."""
        until = self._ends.next_end(self._oldest)
        if columns.ttl is not None:
            active = np.flatnonzero(columns.ttl)
            ends = np.array(columns.at, np.float64)[active] + columns.ttl[active]
            until = min(until, float(ends.min(initial=inf)))
        return until

    def take_out(self, id: str) -> bool:
        """Remove the message with an id; False if there is none."""
        if id not in self._numbers:
            return False
        self._take_out([id])
        return True

    def _take_out(self, ids: list[str]) -> None:
        """Remove the messages with these ids, which are there."""
        for id in ids:
            self._ending.pop(self._numbers.pop(id), None)
        self._holes += len(ids)
        self._pass_holes()
        if self._holes > len(self) + _WORTH_TIDYING:
            self._close_holes()

    def slide(self, now: float) -> None:
        """Remove what has ended by `now`, then the oldest while they are too many or too old."""
        most = self._window.count
        if not self._ending and most is not None and not self._ends:
            # Nothing ends, as it is for most single messages.
            if len(self._numbers) > most:
                self._forget(len(self._numbers) - most)
            return
        for number in self._ends.due(now).tolist() if self._ending else ():
            if number in self._ending:
                self.take_out(self._ending[number][0])
        while self._numbers:
            over = most is not None and len(self) > most
            if not over and self._is_recent(self._times[self._oldest - self._base], now):
                break
            self._forget(1)
        self._ends.tidy(self._oldest, len(self))

    @property
    def _oldest(self) -> int:
        """The number of the oldest message, or of the next one if there is none."""
        if not self._parts:
            return self.next
        first, part = self._parts[0]
        return first if isinstance(part, ArrivedMessage) else first + part.row

    def _forget(self, most: int) -> None:
        """Remove the `most` oldest messages."""
        while most > 0:
            first, part = self._parts[0]
            if isinstance(part, ArrivedMessage):
                self._parts.popleft()
                gone, number = [part.message.id], first
            else:
                some = 1 if self._holes else min(most, len(part.ids) - part.row)
                gone, number = part.ids[part.row : part.row + some], first + part.row
                part.row += some
                if part.row == len(part.ids):
                    self._parts.popleft()
            for id in gone:
                del self._numbers[id]
            if self._ending:
                for one in range(number, number + len(gone)):
                    self._ending.pop(one, None)
            most -= len(gone)
            self._pass_holes()
        left = self._oldest - self._base
        if left > len(self._numbers) + _WORTH_TIDYING:
            del self._times[:left]
            self._base += left

    def _pass_holes(self) -> None:
        """Let the first part begin with a message that is there."""
        while self._holes:
            first, part = self._parts[0]
            row = 0 if isinstance(part, ArrivedMessage) else part.row
            id = part.message.id if isinstance(part, ArrivedMessage) else part.ids[row]
            if self._is_there(id, first + row):
                return
            self._holes -= 1
            if isinstance(part, ArrivedMessage) or row + 1 == len(part.ids):
                self._parts.popleft()
            else:
                part.row += 1

    def _close_holes(self) -> None:
        """Give the messages that are there numbers without gaps, up to the last."""
        parts, following = list(self.parts()), self.next
        tidy = SlidingWindow(self._window)
        tidy._base = following - len(self)
        for part in parts:
            tidy.append(part) if isinstance(part, ArrivedMessage) else tidy.extend(part)
        self.__dict__ = tidy.__dict__
