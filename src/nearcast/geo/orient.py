"""On which side of a line a point lies, decided exactly.

The code is plain Python on floats and also valid numba: `kernels.py` compiles these very functions.

A rounded determinant with a proven error bound answers nearly every question. Where its sign is in
doubt, the determinant is summed without any rounding as an expansion: a list of floats whose exact
sum is the value and whose largest non-zero member carries the sign (Shewchuk, "Adaptive Precision
Floating-Point Arithmetic and Fast Robust Geometric Predicates", 1997, sections 2 and 4.2).

The answer is exact for coordinates of at most 1e5 in magnitude that are 0 or above 1e-290. Smaller
ones can make a product fall below the smallest float.
"""

from __future__ import annotations

# Four units of rounding: the proven bound of the rounded determinant is a little above three.
_ERROR_BOUND = 4.0 * 2.0**-53
# Below this, a product may have lost bits to underflow, which the bound does not account for.
_UNDERFLOW = 1e-260
# Lifts the exact products away from underflow; a power of two, so it changes no digit.
_LIFT = 2.0**500
# Splits a float of 53 bits into two halves whose products are exact.
_SPLITTER = 2.0**27 + 1.0
# Six products of two floats each.
_PARTS = 12


def orientation(ax: float, ay: float, bx: float, by: float, px: float, py: float) -> int:
    """Return the side of a -> b that p lies on: 1 for left, -1 for right, 0 on the line."""
    left = (ax - px) * (by - py)
    right = (ay - py) * (bx - px)
    difference = left - right
    bound = _ERROR_BOUND * (abs(left) + abs(right))
    if bound > _UNDERFLOW:
        if difference > bound:
            return 1
        if difference < -bound:
            return -1
    return exact_orientation(ax, ay, bx, by, px, py)


def exact_orientation(ax: float, ay: float, bx: float, by: float, px: float, py: float) -> int:
    """Return the sign of the determinant, from the exact sum of its six products."""
    ax *= _LIFT
    ay *= _LIFT
    bx *= _LIFT
    by *= _LIFT
    px *= _LIFT
    py *= _LIFT
    parts = [0.0] * _PARTS
    add_product(parts, 0, ax, by)
    add_product(parts, 2, -ay, bx)
    add_product(parts, 4, bx, py)
    add_product(parts, 6, -by, px)
    add_product(parts, 8, px, ay)
    add_product(parts, 10, -py, ax)
    for index in range(_PARTS - 1, -1, -1):
        if parts[index] > 0.0:
            return 1
        if parts[index] < 0.0:
            return -1
    return 0


def add_product(parts: list[float], used: int, a: float, b: float) -> None:
    """Add a * b, exactly, to the expansion in `parts[:used]`, which grows by two."""
    product = a * b
    a_high, a_low = halves(a)
    b_high, b_low = halves(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    add_float(parts, used, error)
    add_float(parts, used + 1, product)


def add_float(parts: list[float], used: int, value: float) -> None:
    """Add a float, exactly, to the expansion in `parts[:used]`, which grows by one."""
    carry = value
    for index in range(used):
        part = parts[index]
        total = carry + part
        part_seen = total - carry
        parts[index] = (carry - (total - part_seen)) + (part - part_seen)
        carry = total
    parts[used] = carry


def halves(value: float) -> tuple[float, float]:
    """Split a float into a high and a low half of at most 26 bits each, which sum to it."""
    spread = _SPLITTER * value
    high = spread - (spread - value)
    return high, value - high
