"""Letters, numbers and spans of ASCII texts, as kernels read them."""

from __future__ import annotations

from nearcast._jit import inner
from nearcast.arrays.types import Bytes


@inner
def is_blank(letter: int) -> bool:
    """Return whether a letter is one of the blanks of ASCII."""
    return bool(9 <= letter <= 13 or 28 <= letter <= 32)


@inner
def is_digit(letter: int) -> bool:
    """Return whether a letter is a digit."""
    return bool(48 <= letter <= 57)


@inner
def is_alpha(letter: int) -> bool:
    """Return whether a letter is one of the alphabet."""
    return bool(65 <= letter <= 90 or 97 <= letter <= 122)


@inner
def is_alnum(letter: int) -> bool:
    """Return whether a letter may be in a term."""
    return bool(48 <= letter <= 57 or 65 <= letter <= 90 or 97 <= letter <= 122)


@inner
def small(letter: int) -> int:
    """Return a letter, as a small one if it is a capital."""
    return int(letter) + 32 if 65 <= letter <= 90 else int(letter)


@inner
def is_same(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Return whether two spans are the same but for capital letters."""
    if a_end - a != b_end - b:
        return False
    for step in range(a_end - a):  # noqa: SIM110 - kernels have no generators
        if small(data[a + step]) != small(data[b + step]):
            return False
    return True


@inner
def has_same_tokens(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Return whether two spans have the same tokens in the same order."""
    while True:
        while a < a_end and not is_alnum(data[a]):
            a += 1
        while b < b_end and not is_alnum(data[b]):
            b += 1
        if a == a_end or b == b_end:
            return bool(a == a_end and b == b_end)
        while a < a_end and b < b_end and is_alnum(data[a]) and is_alnum(data[b]):
            if small(data[a]) != small(data[b]):
                return False
            a += 1
            b += 1
        # Both tokens must end here.
        if (a < a_end and is_alnum(data[a])) or (b < b_end and is_alnum(data[b])):
            return False


@inner
def number_end(data: Bytes, at: int, stop: int) -> int:
    """Return where a number of JSON without an exponent ends, or -1 if there is none."""
    if at < stop and data[at] == 45:
        at += 1
    if at == stop or not is_digit(data[at]):
        return -1
    first = at
    while at < stop and is_digit(data[at]):
        at += 1
    if data[first] == 48 and at - first > 1:
        return -1
    if at < stop and data[at] == 46:
        first = at + 1
        at += 1
        while at < stop and is_digit(data[at]):
            at += 1
        if at == first:
            return -1
    return at


@inner
def name_end(data: Bytes, at: int, stop: int) -> int:
    """Return where the name of a property ends, which is its colon, or -1 if it is none."""
    if not (is_alpha(data[at]) or data[at] == 95):
        return -1
    after_dot = True
    while at < stop and data[at] != 58:
        letter = data[at]
        if letter == 46:
            if after_dot:
                return -1
            after_dot = True
        elif is_alnum(letter) or letter == 95 or letter == 45:
            after_dot = False
        else:
            return -1
        at += 1
    return -1 if after_dot else at
