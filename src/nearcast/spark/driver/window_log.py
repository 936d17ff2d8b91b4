"""The messages of the window, kept with every step while they are in it.

A file has the messages that a step brought into the window and, while there are top-k
subscriptions, all other events that made the window slide: so it records which messages are in the
window after each event. Its name has the number of the step and the message numbers. Without top-k
subscriptions, only messages that are still in the window at the end of the step are kept.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats, Int64s
from nearcast.errors import SourceError
from nearcast.events.fields import CARRIED
from nearcast.spark.deciding import FINE
from nearcast.spark.io.files import Files
from nearcast.spark.ledger import Ledger
from nearcast.spark.registrar import Reading
from nearcast.spark.topk.window import MESSAGES, is_sound, window_messages, write_messages
from nearcast.spark.workers.ranked_work import ENDING, FOLDER, MessageFile

_MOST_FILES = 256


class LivingMessages(NamedTuple):
    """The messages of a window, oldest first: their numbers, and when they end, or NaN."""

    numbers: Int64s
    ends: Floats

    @classmethod
    def of(cls, ledger: Ledger) -> LivingMessages:
        """Those of the window as it is."""
        entries = ledger.recent()
        ends = np.ascontiguousarray(entries[:, 3]).view(np.float64)
        return cls(entries[:, 4].astype(np.int64), ends)

    @property
    def some_end(self) -> bool:
        """Whether any of them leaves the window before it is the oldest."""
        return not bool(np.isnan(self.ends).all())


class WindowLog:
    """The files with the messages of the window, as the driver writes and forgets them."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.spans: list[MessageFile] = []

    def keep(
        self, step: int, reading: Reading, first: int, next: int, ranking: bool, uneven: bool
    ) -> None:
        """Write the messages of a step; `first` is the oldest in the window after it.

        `uneven` says whether messages may leave the window other than as the oldest.
        """
        table = arrivals(reading, 0 if ranking else first, slides=ranking, uneven=uneven)
        numbers = table["number"].to_numpy()
        start = next - int((numbers >= 0).sum())
        self.spans = [each for each in self.spans if each.step < step]
        if ranking or start < next:
            span = MessageFile(step, start, next, ranking)
            # Without top-k subscriptions it need not survive a power failure.
            write_messages(self._files, span.name, table, durable=ranking)
            self.spans.append(span)

    def damaged(self, step: int) -> bool:
        """Whether a file with messages of a step is damaged."""
        return any(not is_sound(self._files, each) for each in self._found() if each.step == step)

    def skip(self, step: int, next: int) -> None:
        """Do without the messages before a number: an earlier release kept only their ids."""
        span = MessageFile(step, 0, next, False)
        write_messages(self._files, span.name, MESSAGES.empty_table(), durable=True)

    def recover(self, step: int, first: int, next: int, ranking: bool) -> None:
        """Find the files up to a step, and remove later ones, which were never committed.

        The window has the messages from `first` to before `next`.
        """
        found = self._found()
        for each in [each for each in found if each.step > step]:
            self._files.remove(each.name)
        spans: list[MessageFile] = []
        for each in sorted((each for each in found if each.step <= step), key=_by_extent):
            if spans and each.next <= spans[-1].next and each.first < each.next:
                self._files.remove(each.name)  # it was merged with others
            elif is_sound(self._files, each):
                spans.append(each)
            elif ranking:
                raise SourceError(
                    f"{self._files.root}/{each.name}: damaged; restore it, or start again with an "
                    "empty folder as state"
                )
            else:
                logger = logging.getLogger("nearcast.spark")
                logger.warning("%s: damaged; its messages will not be ranked", each.name)
        self.spans = sorted(spans)
        reached = first
        for each in self.covering(first, next):
            if each.first <= reached:
                reached = each.next
        if ranking and reached < next:
            raise SourceError(
                f"{self._files.root}/{FOLDER}: the file with message {reached} of the window is "
                "gone; restore it, or start again with an empty folder as state"
            )

    def forget(self, first: int, living: Int64s | None = None) -> None:
        """Remove messages before a number; merge the other files if there are many.

        With `living`, no others need be kept of those that are merged.
        """
        kept = [each for each in self.spans if each.next > first or each == self.spans[-1]]
        gone, self.spans = [each for each in self.spans if each not in kept], kept
        for each in gone:
            self._files.remove(each.name)
        if len(self.spans) > _MOST_FILES:
            some = self.spans[: -_MOST_FILES // 4]
            # A large file is left alone until the others are as large, so that it is copied seldom.
            while len(some) > 2 and 2 * _size(some[0]) > sum(map(_size, some)):
                some = some[1:]
            self._put_together(some, first, living)

    def covering(self, first: int, next: int) -> list[MessageFile]:
        """The files that have the messages with numbers from `first` to before `next`."""
        return [each for each in self.spans if each.first < next and each.next > first]

    def following(self, step: int) -> list[MessageFile]:
        """The files of the last steps up to one, as far back as they are whole and consecutive."""
        whole = {each.step: each for each in self.spans if each.whole}
        found: list[MessageFile] = []
        while step in whole:
            found.append(whole[step])
            step -= 1
        return found[::-1]

    def _put_together(self, spans: list[MessageFile], first: int, living: Int64s | None) -> None:
        first, next = max(first, spans[0].first), spans[-1].next
        table = window_messages(self._files, spans, first, next, living)
        span = MessageFile(spans[-1].step, first, next, False)
        write_messages(self._files, span.name, table, durable=True)
        at = self.spans.index(spans[0])
        self.spans[at : at + len(spans)] = [span]
        for each in spans:
            if each.name != span.name:
                self._files.remove(each.name)

    def _found(self) -> list[MessageFile]:
        found = []
        for name in self._files.names(FOLDER):
            parts = name.removesuffix(ENDING).split("-")
            if name.endswith(ENDING) and len(parts) == 4 and all(p.isdigit() for p in parts[:3]):
                step, first, next = map(int, parts[:3])
                found.append(MessageFile(step, first, next, parts[3] == "whole"))
        return found


def _size(span: MessageFile) -> int:
    return span.next - span.first


def _by_extent(span: MessageFile) -> tuple[int, int, int]:
    return span.first, -span.next, span.step


def arrivals(reading: Reading, first: int, slides: bool, uneven: bool = False) -> pa.Table:
    """The messages of a step from number `first` on and, with `slides`, what else moved the window.

    That is any event at whose time a message expired; in an `uneven` window, any event at another
    time than the one before, or that takes a message out.
    """
    wanted = reading.number >= max(first, 0)
    if slides and len(wanted):
        moved = np.zeros(len(wanted), np.bool_)
        moved[1:] = reading.first[1:] != reading.first[:-1]
        moved[0] = reading.first[0] != reading.before
        if uneven:
            moved[1:] |= reading.times[1:] != reading.times[:-1]
            moved[0] = True
            moved |= reading.taken >= 0
            moved &= reading.verdict == FINE
        wanted |= moved
    rows = np.flatnonzero(wanted)
    some = reading.texts(rows)
    columns = [
        reading.number[rows], reading.seq[rows], reading.times[rows], reading.first[rows],
        reading.again[rows], some["id"], some["text"], some["lon"], some["lat"],
        reading.ttl[rows], *(some[name] for name in CARRIED), reading.taken[rows],
    ]  # fmt: skip
    return pa.table(columns, schema=MESSAGES)
