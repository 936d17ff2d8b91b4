"""Cutting a body into slices of whole lines, without keeping more than a slice of it."""

from __future__ import annotations

from typing import NamedTuple


class LineSlice(NamedTuple):
    """Some lines, the number of the first, and their size in bytes.

    A number stands for a line that was too long to keep: it is its length.
    """

    first: int
    lines: list[bytes | int]
    size: int


class LineSlicer:
    """Takes a body in pieces, and gives slices of at least some lines or some bytes."""

    def __init__(self, lines: int, size: int, line_bytes: int) -> None:
        self._most_lines = lines
        self._most_size = size
        self._line_bytes = line_bytes
        self._lines: list[bytes | int] = []
        self._first = 1
        self._size = 0
        self._rest = bytearray()  # of a line that is not complete
        self._dropped = 0  # bytes of it that were not kept

    def feed(self, chunk: bytes) -> LineSlice | None:
        """Take a piece, and return a slice if there is enough for one."""
        head, *others = chunk.split(b"\n")
        self._extend(head)
        if others:
            self._end_line()
            self._lines += others[:-1]
            self._extend(others[-1])
        self._size += len(chunk)
        full = len(self._lines) >= self._most_lines or self._size >= self._most_size
        return self._cut() if full and self._lines else None

    def rest(self) -> LineSlice:
        """Return what is left at the end of the body."""
        if self._rest or self._dropped:
            self._end_line()
        return self._cut()

    def _extend(self, part: bytes) -> None:
        if self._dropped or len(self._rest) + len(part) > self._line_bytes:
            self._dropped += len(self._rest) + len(part)
            self._rest.clear()
        else:
            self._rest += part

    def _end_line(self) -> None:
        self._lines.append(self._dropped or bytes(self._rest))
        self._rest.clear()
        self._dropped = 0

    def _cut(self) -> LineSlice:
        made = LineSlice(self._first, self._lines, self._size)
        self._first += len(self._lines)
        self._lines, self._size = [], 0
        return made
