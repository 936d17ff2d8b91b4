"""The ids of recent messages, kept with every step while they are in the window.

An id is kept as two hashes, the time of its message, when that ends, and its number. A row without
a time says which message left the window in the step, other than as the oldest. A file begins with
a row of its own: how many rows there are, their checksum, the step, and how many numbers a row has.
Rows of earlier releases have four, without the number, or three, without the end either; their
numbers follow each other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Int64s
from nearcast.errors import SourceError
from nearcast.spark.io.files import Files

Entries = npt.NDArray[np.uint64]

_FOLDER = "window"
_PART, _WHOLE = ".ids", ".all"
_WIDTH = 5
_WIDTHS = (5, 4, 3)
_ALWAYS, _UNKNOWN = 2**62, 2**63


class RecentIds:
    """The files with the ids of recent messages: one for all up to a step, one for each since."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._last: dict[int, int] = {}  # by step: the number of its last message

    def keep(self, step: int, entries: Entries, taken: Int64s) -> None:
        """Write the ids of a step, and the numbers of earlier messages that left before time."""
        out = np.zeros((len(taken), _WIDTH), np.uint64)
        out[:, 2:4] = np.full((len(taken), 2), np.nan).view(np.uint64)
        out[:, 4] = taken
        rows = np.concatenate([entries, out])
        self._write(f"{step:09}{_PART}", step, rows)
        self._last[step] = _last(rows)

    def keep_whole(self, step: int, entries: Entries) -> None:
        """Write all ids that are in the window after a step; the files before it can go."""
        self._write(f"{step:09}{_WHOLE}", step, entries)
        for number, name in self._names():
            if number < step or (number == step and name.endswith(_PART)):
                self._files.remove(name)
        self._last = {step: _last(entries)}

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

    def entries(self, step: int, next: int) -> Entries:
        """All ids that were in the window after a step, and perhaps some before them.

        The message after the step gets the number `next`, if numbers were counted then.
        """
        names = [(number, name) for number, name in self._names() if number <= step]
        wholes = [at for at, (_, name) in enumerate(names) if name.endswith(_WHOLE)]
        found = {number: self._read(name) for number, name in names[max(wholes, default=0) :]}
        rows = np.concatenate([np.empty((0, _WIDTH), np.uint64), *found.values()])
        out = np.isnan(np.ascontiguousarray(rows[:, 2]).view(np.float64))
        numbered = rows[:, 4] != _UNKNOWN
        earlier = np.flatnonzero(~numbered)
        if len(earlier):
            later = rows[numbered & ~out, 4]
            end = int(later[0]) if len(later) else max(next, len(earlier))
            rows[earlier, 4] = np.arange(end - len(earlier), end)
        self._last = {number: _last(entries) for number, entries in found.items()}
        kept: Entries = rows[~out & ~np.isin(rows[:, 4], rows[out, 4])]
        return kept

    def forget(self, step: int, oldest: int) -> None:
        """Remove ids that had left the window after a step, when it began with `oldest`."""
        for number in sorted((each for each in self._last if each <= step), reverse=True):
            if self._last[number] < oldest:
                for each, name in self._names():
                    if each <= number:
                        self._files.remove(name)
                self._last = {at: last for at, last in self._last.items() if at > number}
                return

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
        head = np.array([[len(data), zlib.crc32(data.data), step, _WIDTH, 0]], np.uint64)
        self._files.write(f"{_FOLDER}/{name}", np.concatenate([head, data]).tobytes())

    def _read(self, name: str) -> Entries:
        data = self._files.read(name)
        for width in _WIDTHS:
            if len(data) < 8 * width or len(data) % (8 * width):
                continue
            rows = np.frombuffer(data, np.uint64).reshape(-1, width)
            if rows[0, 0] == len(rows) - 1 and rows[0, 1] == zlib.crc32(rows[1:].data):
                return _widened(rows[1:])
        raise SourceError(
            f"{self._files.root}/{name}: damaged; restore it, or start again with an empty folder "
            "as state"
        )


def _widened(rows: Entries) -> Entries:
    """Entries of any release, with neither ends nor numbers if they had none."""
    entries = np.full((len(rows), _WIDTH), _UNKNOWN, np.uint64)
    entries[:, 3] = np.full(len(rows), np.nan).view(np.uint64)
    entries[:, : rows.shape[1]] = rows
    return entries


def _last(entries: Entries) -> int:
    """The number of the last message; beyond all others if there is none, or it is not known."""
    came = ~np.isnan(np.ascontiguousarray(entries[:, 2]).view(np.float64))
    numbers = entries[came, 4]
    return min(int(numbers[-1]), _ALWAYS) if len(numbers) else _ALWAYS
