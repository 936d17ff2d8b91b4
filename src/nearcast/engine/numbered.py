"""The messages of a window beside the core, by the numbers that the core has for them."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np

from nearcast.arrays.types import Bytes, Floats, Int64s
from nearcast.engine.ends import MessageEnds
from nearcast.engine.leaving import LeavingMessages
from nearcast.engine.matching import ArrivedMessage
from nearcast.engine.message_ids import MessageIds, NumberedStrings
from nearcast.events import Message
from nearcast.events.carried import CarriedColumns, CarriedValues
from nearcast.text import Analyser
from nearcast.topk import Window
from nearcast.topk.core import TopK

_MANY_HOLES = 1 << 10


class NumberedMessages:
    """What the core does not keep of messages: ids, texts, ends and what they carry."""

    def __init__(self, core: TopK, analyser: Analyser) -> None:
        self._core = core
        self._analyser = analyser
        self.ids = MessageIds(0)
        self._texts = NumberedStrings(0)
        self._ttl: OrderedDict[int, float] = OrderedDict()  # of those that have one
        self.carried = CarriedValues()
        self._ends = MessageEnds()

    @property
    def nbytes(self) -> int:
        """The memory of ids and texts."""
        return self.ids.nbytes + self._texts.nbytes

    @property
    def some_end(self) -> bool:
        """Whether a message has an end of its own."""
        return bool(self._ttl)

    def next_end(self) -> float:
        """The next end of a message; infinite if there is none."""
        return self._ends.next_end(self._core.first)

    def due(self, now: float) -> list[int]:
        """The messages that have ended by `now`, each of them once."""
        return [number for number in self._ends.due(now).tolist() if number in self._ttl]

    def number(self, id: str) -> int | None:
        """The number of the message of the window with an id, if it is there."""
        number = self.ids.number(id)
        return None if number is None or number < self._core.first else number

    def end_of(self, number: int) -> float:
        """When a message ends; infinite if it does not."""
        ttl = self._ttl.get(number)
        return np.inf if ttl is None else self._core.message(number)[1] + ttl

    def message(self, number: int) -> Message:
        """A message of the window, with its time."""
        (id,) = self.ids.texts.take(np.array([number])).to_pylist()
        point, at = self._core.message(number)
        data, starts, stops = self._texts.spans(np.array([number]))
        text = bytes(data[starts[0] : stops[0]]).decode(errors="surrogatepass")
        ttl = self._ttl.get(number, 0.0)
        return Message(id, text, point, at=at, ttl=ttl, **self.carried.get(number))

    def arrived(self, number: int) -> ArrivedMessage:
        """A message of the window, as it arrived."""
        message = self.message(number)
        return ArrivedMessage(message, number, message.at or 0.0, self._analyser)

    def append(
        self,
        ids: list[str],
        texts: tuple[Bytes, Int64s],
        at: Floats,
        ttl: Floats | None,
        carried: CarriedColumns | None = None,
    ) -> None:
        """Add messages that the core is about to get, with unused ids."""
        first = self._core.next
        self.ids.extend(ids)
        self._texts.extend(*texts)
        if ttl is not None:
            rows = np.flatnonzero(ttl)
            ending = ttl[rows]
            self._ttl.update(zip((first + rows).tolist(), ending.tolist(), strict=True))
            self._ends.add(first + rows, at[rows] + ending)
        if carried is not None:
            self.carried.put_columns(range(first, first + len(ids)), carried)

    def take_out(self, numbers: Iterable[int]) -> None:
        """Let the ids of messages that were taken out of the window be unused."""
        for number in numbers:
            self.ids.take_out(number)
            self._ttl.pop(number, None)
            self.carried.drop([number])

    def leaving(self, arrived: ArrivedMessage, window: Window) -> set[int]:
        """The messages that one would end, let end, or displace, if it were published now."""
        core, now, count, seconds = self._core, arrived.at, window.count, window.seconds
        gone = {number for number in self._ttl if self.end_of(number) <= now}
        if (replaced := self.number(arrived.message.id)) is not None:
            gone.add(replaced)
        live = core.next - core.first - core.holes - len(gone)
        for number in range(core.first, core.next):
            over = count is not None and live >= count
            if not over and (seconds is None or core.message(number)[1] > now - seconds):
                break
            if number not in gone and not self.ids.is_taken_out(number):
                gone.add(number)
                live -= 1
        return gone

    def leaving_soon(self, more: int, now: float, window: Window) -> LeavingMessages:
        """Those that may leave by the time that `more` messages have come, the last at `now`."""
        core = self._core
        first, stop, seconds = core.first, core.first, window.seconds
        if seconds is not None:
            gone = range(first, core.next)
            stop += bisect_right(gone, now - seconds, key=lambda number: core.message(number)[1])
        elif core.next - first + more > (window.count or 0):
            stop = min(core.next, first + more + core.holes)
        ending = self._ends.by(now) if self._ttl else np.empty(0, np.int64)
        numbers = np.union1d(np.arange(first, stop), ending[ending >= first])
        if core.holes:
            numbers = numbers[[not self.ids.is_taken_out(one) for one in numbers.tolist()]]
        rows = list(enumerate(numbers.tolist())) if self._ttl else []
        return LeavingMessages(
            self.ids.texts.take(numbers),
            self._texts.take(numbers),
            *core.places(numbers),
            {row: self._ttl[one] for row, one in rows if one in self._ttl},
            self.carried.rows(numbers.tolist()) if self.carried else self.carried,
        )

    def forget_expired(self) -> None:
        """Drop what is kept of messages that have left the window."""
        first = self._core.first
        if first == self._texts.first:
            return
        while self._ttl and next(iter(self._ttl)) < first:
            self._ttl.popitem(last=False)
        self.carried.drop(range(self._texts.first, first))
        self.ids.drop_before(first)
        self._texts.drop_before(first)
        self._ends.tidy(first, len(self._ttl))

    @property
    def has_many_holes(self) -> bool:
        """Whether most messages since the oldest were taken out."""
        holes = self._core.holes
        return holes > _MANY_HOLES and 2 * holes > self._core.next - self._core.first

    def close_holes(self) -> Int64s:
        """Give messages numbers without gaps, up to the last; return those they had."""
        old = self._core.close_holes()
        first = self._core.first
        self.ids.keep(old, first)
        self._texts.keep(old, first)
        self._ends.renumber(old, first)
        numbers = dict(zip(old.tolist(), range(first, first + len(old)), strict=True))
        self._ttl = OrderedDict((numbers[one], ttl) for one, ttl in self._ttl.items())
        self.carried.renumber(numbers)
        return old
