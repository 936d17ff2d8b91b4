"""JSON objects of many messages, read by a kernel where they are flat.

*Flat* is an object of plain ASCII whose values are strings, numbers, true, false, null, or arrays
of these. A kernel reads such texts without making an object. It is strict: what it does not know
for sure, such as a string with an escape, a number of more digits than a double keeps or a name
that comes twice, is not flat, and is decoded when it is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import inner, kernel
from nearcast.arrays.types import Bytes, Floats, Int64s
from nearcast.events.values import LARGEST_PROPERTIES
from nearcast.text.columns import buffers

STRING, NUMBER, TRUE, FALSE, NULL, NOTHING = range(6)
"""What a value is; NOTHING stands for an empty array. From NULL on there is no value."""

_MOST_DIGITS = 15  # doubles keep decimals of up to this many digits apart, as they were written
_LEAST = 1e-4  # smaller numbers are written with an exponent
_MOST_NAMES = 64
_POWERS = 10.0 ** np.arange(_MOST_DIGITS + 8)


class FlatValues(NamedTuple):
    """The values of flat objects: of row i those from `starts[i]` to `starts[i + 1]`.

    Each has the span of its name in `data`, and its own: a string without its quotes, a number
    as it is written.
    """

    data: Bytes
    flat: npt.NDArray[np.bool_]  # by row; absent properties are flat, and have no values
    starts: Int64s
    names: Int64s  # (n, 2)
    kinds: npt.NDArray[np.int8]
    spans: Int64s  # (n, 2)
    numbers: Floats
    longest: int  # bytes of the longest text


@inner
def _after_blanks(data: Bytes, at: int, stop: int) -> int:
    while at < stop and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@inner
def _string_end(data: Bytes, at: int, stop: int) -> int:
    """Give the place of the quote that ends a string, or -1 if the string is not plain."""
    while at < stop:
        letter = data[at]
        if letter == 34:
            return at
        if letter < 32 or letter == 92 or letter >= 127:
            return -1
        at += 1
    return -1


@inner
def _reads_as_number(data: Bytes, at: int, stop: int) -> bool:
    """Whether a string may be equal to a number that a query asks for."""
    if at == stop:
        return False
    while at < stop:
        letter = data[at]
        digit = 48 <= letter <= 57
        if not digit and letter != 43 and letter != 45 and letter != 46 and letter | 32 != 101:
            return False
        at += 1
    return True


@inner
def _number_end(data: Bytes, at: int, stop: int, numbers: Floats, place: int) -> int:
    """Read a number into `numbers[place]`, and give where it ends; -1 if it is not a plain one."""
    negative = data[at] == 45
    if negative:
        at += 1
    if at == stop or not 48 <= data[at] <= 57:
        return -1
    value, digits, scale = 0, 0, 0
    if data[at] == 48:
        at += 1
        if at < stop and 48 <= data[at] <= 57:
            return -1
    while at < stop and 48 <= data[at] <= 57 and digits <= _MOST_DIGITS:
        value = value * 10 + int(data[at]) - 48
        digits += 1
        at += 1
    if at < stop and data[at] == 46:
        at += 1
        if at == stop or not 48 <= data[at] <= 57:
            return -1
        while at < stop and 48 <= data[at] <= 57 and digits <= _MOST_DIGITS and scale < 20:
            value = value * 10 + int(data[at]) - 48
            scale += 1
            if value > 0:
                digits += 1
            at += 1
    if digits > _MOST_DIGITS or scale >= 20:
        return -1
    if at < stop and (48 <= data[at] <= 57 or data[at] == 46 or data[at] | 32 == 101):
        return -1
    # Both are whole numbers that doubles hold exactly, so that the quotient is rounded once.
    number = float(value) / _POWERS[scale]
    if 0.0 < number < _LEAST:
        return -1
    numbers[place] = -number if negative and value > 0 else number
    return at


@inner
def _word_kind(data: Bytes, at: int, stop: int) -> int:
    """Say which of true, false and null is at a place; NOTHING if it is none of them."""
    if at + 4 <= stop:
        one, two, three, four = data[at], data[at + 1], data[at + 2], data[at + 3]
        if one == 116 and two == 114 and three == 117 and four == 101:
            return TRUE
        if one == 110 and two == 117 and three == 108 and four == 108:
            return NULL
        if one == 102 and two == 97 and three == 108 and four == 115 and at + 5 <= stop:
            return FALSE if data[at + 4] == 101 else NOTHING
    return NOTHING


@inner
def _value_end(
    data: Bytes, at: int, stop: int, kinds: Any, spans: Int64s, numbers: Floats, place: int
) -> int:
    """Read a value that is no array, and give where it ends; -1 if it is not a plain one."""
    if at == stop:
        return -1
    spans[place, 0] = at
    if data[at] == 34:
        end = _string_end(data, at + 1, stop)
        if end < 0 or _reads_as_number(data, at + 1, end):
            return -1
        kinds[place] = STRING
        spans[place, 0], spans[place, 1] = at + 1, end
        return end + 1
    if data[at] == 45 or 48 <= data[at] <= 57:
        kinds[place] = NUMBER
        end = _number_end(data, at, stop, numbers, place)
        spans[place, 1] = end
        return end
    kind = _word_kind(data, at, stop)
    if kind == NOTHING:
        return -1
    kinds[place] = kind
    end = at + (5 if kind == FALSE else 4)
    spans[place, 1] = end
    return end


@inner
def _is_again(data: Bytes, names: Int64s, first: int, begin: int, end: int, place: int) -> bool:
    """Whether a value from `first` to `place` has this name, or there are very many names."""
    seen, last = 0, -1
    for other in range(first, place):
        start = names[other, 0]
        if start == last:
            continue  # another element of the same array
        last = start
        seen += 1
        if names[other, 1] - start == end - begin:
            same = True
            for step in range(end - begin):
                same &= data[start + step] == data[begin + step]
            if same:
                return True
    return seen >= _MOST_NAMES


@inner
def _read_object(
    data: Bytes, at: int, stop: int, names: Int64s, kinds: Any, spans: Int64s, numbers: Floats,
    first: int,
) -> int:  # fmt: skip
    """Read one object from `at` to `stop`, and give the place behind its values; -1 if not flat."""
    place = first
    at = _after_blanks(data, at, stop)
    if at == stop or data[at] != 123:
        return -1
    at = _after_blanks(data, at + 1, stop)
    if at < stop and data[at] == 125:
        return place if _after_blanks(data, at + 1, stop) == stop else -1
    while True:
        # A name and its colon.
        if at == stop or data[at] != 34:
            return -1
        begin, end = at + 1, _string_end(data, at + 1, stop)
        if end < 0 or _is_again(data, names, first, begin, end, place):
            return -1
        at = _after_blanks(data, end + 1, stop)
        if at == stop or data[at] != 58:
            return -1
        at = _after_blanks(data, at + 1, stop)
        # A value, or those of an array.
        if at < stop and data[at] == 91:
            at = _after_blanks(data, at + 1, stop)
            if at < stop and data[at] == 93:
                names[place, 0], names[place, 1] = begin, end
                kinds[place] = NOTHING
                place += 1
            else:
                while True:
                    names[place, 0], names[place, 1] = begin, end
                    at = _value_end(data, at, stop, kinds, spans, numbers, place)
                    if at < 0:
                        return -1
                    place += 1
                    at = _after_blanks(data, at, stop)
                    if at == stop or data[at] != 44:
                        break
                    at = _after_blanks(data, at + 1, stop)
                if at == stop or data[at] != 93:
                    return -1
            at += 1
        else:
            names[place, 0], names[place, 1] = begin, end
            at = _value_end(data, at, stop, kinds, spans, numbers, place)
            if at < 0:
                return -1
            place += 1
        # What comes next: another name, or the end.
        at = _after_blanks(data, at, stop)
        if at == stop:
            return -1
        if data[at] == 125:
            return place if _after_blanks(data, at + 1, stop) == stop else -1
        if data[at] != 44:
            return -1
        at = _after_blanks(data, at + 1, stop)


@kernel
def _read_objects(
    data: Bytes, offsets: Int64s, given: npt.NDArray[np.bool_], flat: npt.NDArray[np.bool_],
    starts: Int64s, names: Int64s, kinds: npt.NDArray[np.int8], spans: Int64s, numbers: Floats,
) -> None:  # fmt: skip
    """Read all objects that are given; one that is not flat gets no values."""
    place = 0
    for row in range(len(offsets) - 1):
        starts[row] = place
        flat[row] = True
        if given[row]:
            at, stop = offsets[row], offsets[row + 1]
            after = -1
            if stop - at <= LARGEST_PROPERTIES:
                after = _read_object(data, at, stop, names, kinds, spans, numbers, place)
            if after < 0:
                flat[row] = False
            else:
                place = after
    starts[len(offsets) - 1] = place


def flat_values(texts: pa.StringArray) -> FlatValues:
    """Read the values of those objects that are flat."""
    given = texts.is_valid().to_numpy(zero_copy_only=False)
    data, offsets = buffers(texts)
    count = len(texts)
    # A value takes two bytes at least: itself, and what comes before it.
    room = int(offsets[-1] - offsets[0]) // 2 + 1 if count else 1
    flat, starts = np.empty(count, np.bool_), np.zeros(count + 1, np.int64)
    names, spans = np.empty((room, 2), np.int64), np.empty((room, 2), np.int64)
    kinds, numbers = np.empty(room, np.int8), np.empty(room, np.float64)
    _read_objects(data, offsets, given, flat, starts, names, kinds, spans, numbers)
    longest = int(np.diff(offsets).max(initial=0))
    return FlatValues(data, flat, starts, names, kinds, spans, numbers, longest)


def no_values(count: int) -> FlatValues:
    """Those of messages without properties."""
    return flat_values(pa.nulls(count, pa.string()))
