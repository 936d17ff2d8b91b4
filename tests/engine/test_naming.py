"""Strings that a kernel copies are those that Arrow takes."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.engine.naming import take_strings


@settings(deadline=None)  # the first call compiles
@given(
    st.lists(st.text(max_size=40), min_size=1, max_size=12),
    st.lists(st.integers(0, 11), max_size=60),
    st.integers(0, 3),
)
def test_strings_are_copied_as_they_are(
    strings: list[str], numbers: list[int], skipped: int
) -> None:
    """Short and long ones, in any order, again and again, also of a part of an array."""
    skipped = min(skipped, len(strings) - 1)
    some = pa.array([each.encode(errors="ignore").decode() for each in strings]).slice(skipped)
    which = np.array(numbers, np.int32) % np.int32(len(some))
    assert take_strings(some, which).to_pylist() == some.take(pa.array(which)).to_pylist()
