"""Splits chunks of bytes into numbered lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nearcast.errors import NearcastError, SourceError

LONGEST_LINE = 1 << 26
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line that is not blank: its 1-based number, its bytes, what kept it from being whole."""

    number: int
    data: bytes
    error: NearcastError | None = None


def split_lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Split at line feeds; blank lines are counted in the numbers but not given.

    If the chunks end in an error, the bytes after the last line feed come out with that error.
    """
    number = 1
    rest = b""
    first = True
    try:
        for chunk in chunks:
            if first:
                chunk, first = chunk.removeprefix(_BYTE_ORDER_MARK), False
            *whole, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            for data in whole:
                if data and not data.isspace():
                    yield Line(number, data)
                number += 1
            if len(rest) > LONGEST_LINE:
                problem = (
                    f"the line is longer than {LONGEST_LINE} bytes; end each event with a line feed"
                )
                yield Line(number, rest[:1000], SourceError(problem))
                return
    except SourceError as error:
        yield Line(number, rest, error)
        return
    if rest and not rest.isspace():
        yield Line(number, rest)
