"""Decimal numbers in texts as doubles, for kernels.

The method is that of D. Lemire, "Number parsing at a gigabyte per second" (2021), section 5: the
digits as a whole number of 64 bits times a power of five of 128 bits gives the nearest double. What
has more than 19 digits, or is very large or small, is left to others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, read_only
from nearcast.arrays.types import Bytes

Words = npt.NDArray[np.uint64]

_LEAST, _MOST = -27, 23  # powers of ten; between these the method decides every number
_MOST_DIGITS = 19
_LOW = np.uint64(0xFFFFFFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)


def _powers() -> Words:
    """The powers of five from the least to the most, as 128 bits, the highest of which is set."""
    rows = []
    for power in range(_LEAST, _MOST + 1):
        five = 5 ** abs(power)
        if power < 0:
            value = (1 << ((five - 1).bit_length() + 127)) // five + 1
        else:
            value = five << (128 - five.bit_length())
        rows.append((value >> 64, value & (1 << 64) - 1))
    return read_only(np.array(rows, np.uint64))


POWERS = _powers()
"""What `read_decimal` needs."""


@inner
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the upper and the lower half of a product of 128 bits."""
    half = np.uint64(32)
    a_high, a_low, b_high, b_low = a >> half, a & _LOW, b >> half, b & _LOW
    low = a_low * b_low
    middle = a_high * b_low + (low >> half)
    other = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> half) + (other >> half)
    return high, (other << half) | (low & _LOW)


@inner
def _double(powers: Words, digits: np.uint64, power: int) -> np.uint64:
    """Return the bits of the double nearest to `digits` times ten to a power; `digits` is not 0."""
    shift = 0
    for step in (32, 16, 8, 4, 2, 1):
        if digits >> np.uint64(64 - step) == _ZERO:
            digits <<= np.uint64(step)
            shift += step
    high, low = _product(digits, powers[power - _LEAST, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _product(digits, powers[power - _LEAST, 1])
        low += more
        if low < more:
            high += _ONE
    upper = high >> np.uint64(63)
    cut = upper + np.uint64(9)
    mantissa = high >> cut
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - shift + 1023
    # Exactly between two doubles: to the even one.
    if low <= _ONE and power >= -4 and mantissa & np.uint64(3) == _ONE and mantissa << cut == high:
        mantissa &= ~_ONE
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >> np.uint64(53) != _ZERO:
        mantissa = _ONE << np.uint64(52)
        exponent += 1
    return (mantissa & ~(_ONE << np.uint64(52))) | (np.uint64(exponent) << np.uint64(52))


@inner
def read_decimal(powers: Words, data: Bytes, at: int, stop: int, out: Words, place: int) -> int:
    """Read a number as JSON writes it; return where it ends, -1 if it is left.

    `out[place]` gets the bits of the double, which is exactly the nearest.
    """
    negative = at < stop and data[at] == 45
    if negative:
        at += 1
    begin, digits, count, power = at, _ZERO, 0, 0
    while at < stop and 48 <= data[at] <= 57:
        digits = digits * np.uint64(10) + np.uint64(data[at] - 48)
        count += count > 0 or data[at] != 48
        at += 1
    if at == begin or (data[begin] == 48 and at - begin > 1):
        return -1
    if at < stop and data[at] == 46:
        at += 1
        begin = at
        while at < stop and 48 <= data[at] <= 57:
            digits = digits * np.uint64(10) + np.uint64(data[at] - 48)
            count += count > 0 or data[at] != 48
            power -= 1
            at += 1
        if at == begin:
            return -1
    if at < stop and (data[at] == 101 or data[at] == 69):
        return -1  # an exponent
    if count > _MOST_DIGITS or power < _LEAST:
        return -1
    if digits == _ZERO:
        if negative:
            return -1  # zero has a sign as a double, and none as a whole number
        out[place] = _ZERO
        return at
    bits = _double(powers, digits, power)
    out[place] = bits | (_ONE << np.uint64(63)) if negative else bits
    return at
