"""Decimal numbers read by kernels: the doubles that Python reads, or left."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast._jit import kernel
from nearcast.arrays.decimals import POWERS, Words, read_decimal
from nearcast.arrays.types import Bytes


@kernel
def _read(powers: Words, data: Bytes, out: Words) -> int:
    return read_decimal(powers, data, 0, len(data), out, 0)


def read(text: str) -> tuple[int, float]:
    out = np.zeros(1, np.uint64)
    end = _read(POWERS, np.frombuffer(text.encode(), np.uint8), out)
    return end, struct.unpack("<d", out.tobytes())[0]


@pytest.mark.parametrize("text", ["0", "5", "-33.87", "151.2", "0.1", "180.0", "-0.000001"])
def test_usual_numbers(text: str) -> None:
    """Usual numbers are read, up to what follows them."""
    assert read(text) == (len(text), float(text))
    assert read(f"{text}, 7") == (len(text), float(text))


@pytest.mark.parametrize("text", ["", "-", ".5", "5.", "007", "+1", "1e5", "-0", "-0.0", "9" * 20])
def test_what_is_left(text: str) -> None:
    """What is no number of JSON, or needs more care, is left."""
    assert read(text)[0] == -1


@given(st.floats(-360.0, 360.0).filter(lambda value: abs(value) >= 0.01))
@example(38.244628441007855)
@example(-0.010000000000000002)
def test_coordinates_come_back(value: float) -> None:
    """A coordinate that is written with all its digits is read back, bit for bit."""
    text = json.dumps(value)
    assert read(text) == (len(text), value)


@given(st.integers(0, 10**19 - 1), st.integers(0, 27))
@example(9007199254740993, 0)
@example(90071992547409925, 1)
@example(4503599627370497500, 3)
@example(9223372036854775807, 18)
def test_any_digits(digits: int, places: int) -> None:
    """Any digits with a point anywhere give the nearest double, the even one of two."""
    text = str(digits).rjust(places + 1, "0")
    text = text if not places else f"{text[:-places]}.{text[-places:]}"
    assert read(text) == (len(text), float(text))
