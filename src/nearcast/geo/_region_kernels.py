"""Regions in texts and in WKB, read by kernels that make no objects.

They read the usual forms: one JSON object with the fields of the event log, `POLYGON ((...))`, and
polygons of WKB with two axes. What is not surely right is left to others (`region_columns`).
Numbers are written as the bits of doubles.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, kernel
from nearcast.arrays.decimals import Words, read_decimal
from nearcast.arrays.types import Bools, Bytes, Floats, Int64s

UNREAD, BOX, CIRCLE, POLYGON = 1, 2, 3, 4  # as `region_columns` has them

_TYPE, _BBOX = (116, 121, 112, 101), (98, 98, 111, 120)
_CENTER, _RADIUS = (99, 101, 110, 116, 101, 114), (114, 97, 100, 105, 117, 115)
_COORDINATES = (99, 111, 111, 114, 100, 105, 110, 97, 116, 101, 115)
_A_BOX, _A_CIRCLE = (66, 111, 120), (67, 105, 114, 99, 108, 101)
_A_POLYGON = (80, 111, 108, 121, 103, 111, 110)
_IN_CAPITALS = (80, 79, 76, 89, 71, 79, 78)
_HAS_TYPE, _HAS_BBOX, _HAS_CENTER, _HAS_RADIUS, _HAS_COORDINATES = 1, 2, 4, 8, 16
_MOST_CORNERS = 40  # of a polygon that is checked here: the time grows with the square
_SLACK = 1e-14  # a relative error that is larger than that of a cross product

Kinds = npt.NDArray[np.int8]


@inner
def _blanks(data: Bytes, at: int, stop: int) -> int:
    """Return the next place that is no blank of JSON."""
    while at < stop and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@inner
def _expect(data: Bytes, at: int, stop: int, letter: int) -> int:
    """Return the place after a letter that follows blanks, -1 if another one does."""
    if at < 0:
        return -1
    at = _blanks(data, at, stop)
    return at + 1 if at < stop and data[at] == letter else -1


@inner
def _is(data: Bytes, at: int, end: int, word: tuple[int, ...]) -> bool:
    """Return whether a span is a word."""
    if end - at != len(word):
        return False
    for step in range(len(word)):  # noqa: SIM110 - kernels have no generators
        if data[at + step] != word[step]:
            return False
    return True


@inner
def _string_end(data: Bytes, at: int, stop: int) -> int:
    """Return the place of the quote that ends a string without escapes, or -1."""
    while at < stop and data[at] != 34:
        if data[at] == 92 or data[at] < 32:
            return -1
        at += 1
    return at if at < stop else -1


@inner
def _numbers(
    powers: Words, data: Bytes, at: int, stop: int, out: Words, place: int, count: int
) -> int:
    """Read an array of `count` numbers; return where it ends, or -1."""
    at = _expect(data, at, stop, 91)
    for number in range(count):
        if number > 0:
            at = _expect(data, at, stop, 44)
        if at < 0:
            return -1
        at = read_decimal(powers, data, _blanks(data, at, stop), stop, out, place + number)
    return _expect(data, at, stop, 93)


@inner
def _json_rings(
    powers: Words, data: Bytes, at: int, stop: int, out: Words, used: int, starts: Int64s,
    rings: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Read the rings of a polygon; return where they end (or -1), and positions and rings so far.

    The end of ring k is written to `starts[k + 1]`, numbers to `out`.
    """
    at = _expect(data, at, stop, 91)
    while at >= 0:
        at = _expect(data, at, stop, 91)
        while at >= 0:
            at = _numbers(powers, data, at, stop, out, 2 * used, 2)
            used += 1
            if at < 0:
                return -1, used, rings
            at = _blanks(data, at, stop)
            if at < stop and data[at] == 44:
                at += 1
                continue
            break
        at = _expect(data, at, stop, 93)
        rings += 1
        starts[rings] = used
        if at < 0:
            return -1, used, rings
        at = _blanks(data, at, stop)
        if at < stop and data[at] == 44:
            at += 1
            continue
        break
    return _expect(data, at, stop, 93), used, rings


@inner
def _wkt_rings(
    powers: Words, data: Bytes, at: int, stop: int, out: Words, used: int, starts: Int64s,
    rings: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Read the rings of a polygon in WKT, from its bracket on; see `_json_rings`."""
    at = _expect(data, at, stop, 40)
    while at >= 0:
        at = _expect(data, at, stop, 40)
        while at >= 0:
            at = read_decimal(powers, data, _blanks(data, at, stop), stop, out, 2 * used)
            if at < 0 or at == stop or data[at] != 32:
                return -1, used, rings
            at = read_decimal(powers, data, _blanks(data, at, stop), stop, out, 2 * used + 1)
            used += 1
            if at < 0:
                return -1, used, rings
            at = _blanks(data, at, stop)
            if at < stop and data[at] == 44:
                at += 1
                continue
            break
        at = _expect(data, at, stop, 41)
        rings += 1
        starts[rings] = used
        if at < 0:
            return -1, used, rings
        at = _blanks(data, at, stop)
        if at < stop and data[at] == 44:
            at += 1
            continue
        break
    return _expect(data, at, stop, 41), used, rings


@kernel
def read_texts(
    powers: Words, data: Bytes, offsets: Int64s, kinds: Kinds, values: Words, rows: Int64s,
    ring_starts: Int64s, starts: Int64s, positions: Words,
) -> int:  # fmt: skip
    """Read regions in texts; return how many polygons there are.

    A row of kind UNREAD gets its kind, if it is read. `values` (n, 4) get the numbers of boxes and
    circles. Polygon j is that of row `rows[j]`, with the rings `ring_starts[j]` to
    `ring_starts[j + 1]`; `starts` and `positions` are those of rings.
    """
    polygons = rings = used = 0
    numbers = np.empty(7, np.uint64)  # of a box, and of a circle
    for row in range(len(offsets) - 1):
        if kinds[row] != UNREAD:
            continue
        at, stop = offsets[row], offsets[row + 1]
        at = _blanks(data, at, stop)
        while stop > at and (data[stop - 1] == 32 or 9 <= data[stop - 1] <= 13):
            stop -= 1
        if at == stop:
            continue
        found, new_used, new_rings = 0, used, rings
        if data[at] == 80:
            if _is(data, at, min(at + 7, stop), _IN_CAPITALS) or _is(
                data, at, min(at + 7, stop), _A_POLYGON
            ):
                at, new_used, new_rings = _wkt_rings(
                    powers, data, at + 7, stop, positions, used, starts, rings
                )
                found = POLYGON if at == stop else 0
        elif data[at] == 123:
            seen, at = 0, at + 1
            while at >= 0:
                # A name and a colon, then the value that belongs to it.
                at = _expect(data, at, stop, 34)
                end = _string_end(data, at, stop) if at >= 0 else -1
                if end < 0:
                    at = -1
                    break
                field = 0
                if _is(data, at, end, _TYPE):
                    field = _HAS_TYPE
                elif _is(data, at, end, _BBOX):
                    field = _HAS_BBOX
                elif _is(data, at, end, _CENTER):
                    field = _HAS_CENTER
                elif _is(data, at, end, _RADIUS):
                    field = _HAS_RADIUS
                elif _is(data, at, end, _COORDINATES):
                    field = _HAS_COORDINATES
                at = _expect(data, end + 1, stop, 58)
                if field == 0 or seen & field != 0 or at < 0:
                    at = -1
                    break
                seen |= field
                if field == _HAS_TYPE:
                    at = _expect(data, at, stop, 34)
                    end = _string_end(data, at, stop) if at >= 0 else -1
                    if end < 0:
                        at = -1
                        break
                    if _is(data, at, end, _A_BOX):
                        found = BOX
                    elif _is(data, at, end, _A_CIRCLE):
                        found = CIRCLE
                    elif _is(data, at, end, _A_POLYGON):
                        found = POLYGON
                    at = end + 1
                elif field == _HAS_BBOX:
                    at = _numbers(powers, data, at, stop, numbers, 0, 4)
                elif field == _HAS_CENTER:
                    at = _numbers(powers, data, at, stop, numbers, 4, 2)
                elif field == _HAS_RADIUS:
                    at = read_decimal(powers, data, _blanks(data, at, stop), stop, numbers, 6)
                else:
                    at, new_used, new_rings = _json_rings(
                        powers, data, at, stop, positions, used, starts, rings
                    )
                if at < 0:
                    break
                at = _blanks(data, at, stop)
                if at < stop and data[at] == 44:
                    at += 1
                    continue
                break
            at = _expect(data, at, stop, 125)
            needed = _HAS_TYPE | _HAS_COORDINATES
            if found == BOX:
                needed = _HAS_TYPE | _HAS_BBOX
            elif found == CIRCLE:
                needed = _HAS_TYPE | _HAS_CENTER | _HAS_RADIUS
            if at != stop or seen & needed != needed:
                found = 0
        if found == 0:
            continue
        kinds[row] = found
        if found == BOX:
            for side in range(4):
                values[row, side] = numbers[side]
        elif found == CIRCLE:
            for side in range(3):
                values[row, side] = numbers[4 + side]
        else:
            used, rings = new_used, new_rings
            rows[polygons] = row
            polygons += 1
            ring_starts[polygons] = rings
    return polygons


@inner
def _word(data: Bytes, at: int, size: int) -> np.uint64:
    """Return a number of some bytes, the lowest first."""
    value = np.uint64(0)
    for step in range(size):
        value |= np.uint64(data[at + step]) << np.uint64(8 * step)
    return value


@kernel
def read_wkb(
    data: Bytes, offsets: Int64s, kinds: Kinds, rows: Int64s, ring_starts: Int64s, starts: Int64s,
    positions: Words,
) -> int:  # fmt: skip
    """Read polygons in WKB, the lowest byte first; see `read_texts`."""
    polygons = rings = used = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        if kinds[row] != UNREAD or stop - at < 13 or data[at] != 1:
            continue
        if _word(data, at + 1, 4) != np.uint64(3):
            continue
        count, at = int(_word(data, at + 5, 4)), at + 9
        new_used, new_rings, good = used, rings, count > 0
        for _ in range(min(count, stop - at)):
            if stop - at < 4:
                good = False
                break
            size, at = int(_word(data, at, 4)), at + 4
            if 16 * size > stop - at:
                good = False
                break
            for place in range(2 * size):
                positions[2 * new_used + place] = _word(data, at + 8 * place, 8)
            at += 16 * size
            new_used += size
            new_rings += 1
            starts[new_rings] = new_used
        if good and at == stop:
            used, rings = new_used, new_rings
            kinds[row] = POLYGON
            rows[polygons] = row
            polygons += 1
            ring_starts[polygons] = rings
    return polygons


@inner
def _side(ax: float, ay: float, bx: float, by: float, px: float, py: float) -> int:
    """Return on which side of a line a point is: 1 or -1; 0 if rounding leaves doubt."""
    left, right = (bx - ax) * (py - ay), (by - ay) * (px - ax)
    slack = _SLACK * (abs(left) + abs(right)) + 1e-300
    if left - right > slack:
        return 1
    return -1 if right - left > slack else 0


@inner
def _apart(positions: Floats, a: int, b: int) -> bool:
    """Return whether two edges, which begin at these positions, surely share no point."""
    ax, ay, a_x, a_y = positions[a, 0], positions[a, 1], positions[a + 1, 0], positions[a + 1, 1]
    bx, by, b_x, b_y = positions[b, 0], positions[b, 1], positions[b + 1, 0], positions[b + 1, 1]
    if max(ax, a_x) < min(bx, b_x) or max(bx, b_x) < min(ax, a_x):
        return True
    if max(ay, a_y) < min(by, b_y) or max(by, b_y) < min(ay, a_y):
        return True
    one = _side(ax, ay, a_x, a_y, bx, by)
    if one != 0 and one == _side(ax, ay, a_x, a_y, b_x, b_y):
        return True
    one = _side(bx, by, b_x, b_y, ax, ay)
    return bool(one != 0 and one == _side(bx, by, b_x, b_y, a_x, a_y))


@kernel
def surely_valid(ring_starts: Int64s, starts: Int64s, positions: Floats) -> Bools:
    """Which polygons surely are valid: on earth, and of one closed ring that meets itself nowhere.

    A ring whose edges share no point, but for neighbours, which share one corner, is simple.
    """
    sure = np.zeros(len(ring_starts) - 1, np.bool_)
    for polygon in range(len(sure)):
        ring = ring_starts[polygon]
        first, last = starts[ring], starts[ring + 1] - 1
        edges = last - first
        good = ring_starts[polygon + 1] == ring + 1 and 3 <= edges <= _MOST_CORNERS
        if not good:
            continue
        good = (
            positions[first, 0] == positions[last, 0] and positions[first, 1] == positions[last, 1]
        )
        for place in range(first, last):
            lon, lat = positions[place, 0], positions[place, 1]
            good = good and -180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0
        for edge in range(edges):
            if not good:
                break
            # The neighbour turns off, so that it shares this edge's end alone.
            here, after = first + edge, first + (edge + 1) % edges
            good = _side(
                positions[here, 0], positions[here, 1], positions[here + 1, 0],
                positions[here + 1, 1], positions[after + 1, 0], positions[after + 1, 1],
            ) != 0  # fmt: skip
            for other in range(edge + 2, edges - (edge == 0)):
                good = good and _apart(positions, here, first + other)
        sure[polygon] = good
    return sure
