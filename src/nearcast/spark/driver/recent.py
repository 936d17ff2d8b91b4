"""The ids of recent messages, kept with every step while they are in the window.

An id is kept as two hashes, the time of its message, and when that ends. A file begins with a row
of its own: how many ids there are, their checksum, the step, and how many numbers a row has. Rows
of an earlier release have three, without the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nearcast.errors import SourceError
from nearcast.spark.io.files import Files
from nearcast.topk import Window

Entries = npt.NDArray[np.uint64]

_FOLDER = "window"
_PART, _WHOLE = ".ids", ".all"
_WIDTH, _EARLIER_WIDTH = 4, 3


class RecentIds:
    """The files with the ids of recent messages: one for all up to a step, one for each since."""

    def __init__(self, files: Files, window: Window) -> None:
        self._files = files
        self._window = window
        self._spans: dict[int, tuple[int, float]] = {}  # by step: how many, and when the last came

    def keep(self, step: int, entries: Entries) -> None:
        """Write the ids of a step."""
        self._write(f"{step:09}{_PART}", step, entries)
        self._spans[step] = _span(entries)

    def keep_whole(self, step: int, entries: Entries) -> None:
        """Write all ids that are in the window after a step; the files before it can go."""
        self._write(f"{step:09}{_WHOLE}", step, entries)
        for number, name in self._names():
            if number < step or (number == step and name.endswith(_PART)):
                self._files.remove(name)
        self._spans = {step: _span(entries)}

    def damaged(self, step: int) -> bool:
        """Whether the ids of a step should be there and are not whole."""
        name = f"{_FOLDER}/{step:09}{_PART}"
        if not self._files.exists(name):
            return False
        try:
            self._read(name)
        except SourceError:
            return True
        return False

    def entries(self, step: int) -> Entries:
        """All ids that were in the window after a step, and perhaps some before them."""
        names = [(number, name) for number, name in self._names() if number <= step]
        wholes = [at for at, (_, name) in enumerate(names) if name.endswith(_WHOLE)]
        found = {number: self._read(name) for number, name in names[max(wholes, default=0) :]}
        self._spans = {number: _span(entries) for number, entries in found.items()}
        return np.concatenate([np.empty((0, _WIDTH), np.uint64), *found.values()])

    def forget(self, step: int, now: float) -> None:
        """Remove ids that had left the window after a step, when it was `now`."""
        kept = 0
        for number in sorted((each for each in self._spans if each <= step), reverse=True):
            count, last = self._spans[number]
            gone = kept >= (self._window.count or 0)
            if self._window.seconds is not None:
                gone = last <= now - self._window.seconds
            if gone:
                for each, name in self._names():
                    if each <= number:
                        self._files.remove(name)
                self._spans = {at: span for at, span in self._spans.items() if at > number}
                return
            kept += count

    def _names(self) -> Iterator[tuple[int, str]]:
        """The files there are, in order; that of all ids up to a step after that of the step."""
        stems = {_PART: 0, _WHOLE: 1}
        found = []
        for name in self._files.names(_FOLDER):
            start, ending = name[:-4], name[-4:]
            if ending in stems and start.isdigit():
                found.append((int(start), stems[ending], f"{_FOLDER}/{name}"))
        for number, _, name in sorted(found):
            yield number, name

    def _write(self, name: str, step: int, entries: Entries) -> None:
        data = np.ascontiguousarray(entries)
        head = np.array([[len(data), zlib.crc32(data.data), step, _WIDTH]], np.uint64)
        self._files.write(f"{_FOLDER}/{name}", np.concatenate([head, data]).tobytes())

    def _read(self, name: str) -> Entries:
        data = self._files.read(name)
        for width in (_WIDTH, _EARLIER_WIDTH):
            if len(data) < 8 * width or len(data) % (8 * width):
                continue
            rows = np.frombuffer(data, np.uint64).reshape(-1, width)
            if rows[0, 0] == len(rows) - 1 and rows[0, 1] == zlib.crc32(rows[1:].data):
                return rows[1:] if width == _WIDTH else _without_ends(rows[1:])
        raise SourceError(
            f"{self._files.root}/{name}: damaged; restore it, or start again with an empty folder "
            "as state"
        )


def _without_ends(entries: Entries) -> Entries:
    """Entries of an earlier release, as of messages without an end."""
    ends = np.full((len(entries), 1), np.nan)
    return np.hstack([entries, ends.view(np.uint64)])


def _span(entries: Entries) -> tuple[int, float]:
    last = entries[-1:, 2].copy().view(np.float64)
    return len(entries), float(last[0]) if len(last) else -np.inf
