"""Every number in a range has the key of the range, and what is far from it does not."""

from __future__ import annotations

from math import inf, nextafter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.text import Content, Within, parse_query
from nearcast.text.keys import is_found_by_range, range_keys, required_strings
from nearcast.text.ranges import (
    CELLS,
    WIDEST,
    cell_at,
    edge_at,
    filed_at,
    kind_of,
    kind_of_cells,
    ordinal_of,
    range_key,
    read_kind,
)

Number = int | float

special: list[Number] = [
    0, -0.0, 0.0, 1, -1, 5e-324, -5e-324, 2.2250738585072014e-308, 1e308, -1e308, 2**53,
    2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63, 10**400, -(10**400), 100, 200, 127.99999999999999,
]  # fmt: skip
numbers: st.SearchStrategy[Number] = st.one_of(
    st.sampled_from(special),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(),
    st.integers(-(2**60), 2**60),
    st.integers(-300, 300),
    st.integers(-3000, 3000).map(lambda n: n / 10),
)
received = st.one_of(numbers, st.sampled_from([inf, -inf]))
"""What a message may have: 1e999 is a number in JSON, too."""


def has_key(number: Number, key: str) -> bool:
    """Whether a number has the key of a range, as messages have it."""
    name, where, edge = read_kind(kind_of(key))
    place = ordinal_of(number)
    if where < CELLS:
        return edge_at(where, place) >= edge
    return f"{kind_of_cells(name, edge)}{cell_at(place, edge) & (1 << 64) - 1:x}" == key


def key_of(operand: Within) -> str:
    return range_key(operand.name, operand.low, operand.high)


def near(number: Number) -> list[Number]:
    """Numbers around one, as close as they come."""
    if isinstance(number, int):
        return [number - 1, number, number + 1]
    return [nextafter(number, -inf), number, nextafter(number, inf)]


@given(st.none() | numbers, st.none() | numbers, st.booleans(), st.booleans(), received)
@example(2**53 + 1, 2**53 + 1, True, True, 2**53 + 1)
@example(2**53, 2**53 + 1, False, True, 2**53 + 1)
@example(-0.0, 0, True, True, -0.0)
@example(None, 5e-324, True, False, -0.0)
@example(10**400, None, True, True, inf)
def test_what_is_in_a_range_has_its_key(
    low: Number | None, high: Number | None, low_closed: bool, high_closed: bool, other: Number
) -> None:
    """Whichever bounds there are, on them and right beside them."""
    if low is None and high is None:
        return
    operand = Within("p", low, high, low_closed, high_closed)
    some = [other, *(one for bound in (low, high) if bound is not None for one in near(bound))]
    if low is not None and high is not None and abs(low) < 1e300 > abs(high):
        some.append((low + high) / 2)
    for number in some:
        if operand.holds(Content((), {"p": number})):
            assert has_key(number, key_of(operand)), number


@given(received, received)
def test_ordinals_keep_the_order_of_numbers(one: Number, other: Number) -> None:
    """Whole numbers beyond 2**53 may be equal, but never change places."""
    if one <= other:
        assert ordinal_of(one) <= ordinal_of(other)
    if one == other:
        assert ordinal_of(one) == ordinal_of(other)


@given(st.integers(0, 2**62), st.integers(0, 2**52), st.booleans())
def test_a_cell_is_less_than_four_times_as_long_as_its_range(
    low: int, apart: int, negative: bool
) -> None:
    high = low + apart
    if negative:
        low, high = ~high, ~low
    where, cell = filed_at(True, True, low, high)
    grid = where - CELLS
    assert 0 <= grid <= 2 * WIDEST + 1
    assert cell_at(low, grid) == cell == cell_at(high, grid)
    assert 1 << (grid >> 1) <= max(1, 4 * apart - 1)


@pytest.mark.parametrize(
    ("operand", "without"),
    [
        ("p:[100 TO 110]", [75, 140, -105, 0, 1e9]),
        ("p:[-110 TO -100]", [-75, -140, 105]),
        ("p:[100 TO 200]", [20, 1000]),
        ("p:[5 TO 5]", [4.999999999999999, 5.000000000000001]),
        ("p:[1700000000 TO 1700003600]", [1.6999e9, 1.7001e9]),
        ("p:[0 TO 100]", [113, -113, 1e9]),
        ("p:[-3 TO 5]", [5.6, -5.6]),
        ("p:[1 TO 1000]", [1100, -1100]),
        ("p:<20", [22, 100, 1e300]),
        ("p:<-20", [-17.9, 0, 20]),
        ("p:>=4.5", [4.49, 4, -5]),
        ("p:>-20", [-22.6, -100]),
    ],
)
def test_what_is_far_from_a_range_has_not_its_key(operand: str, without: list[Number]) -> None:
    """Far is an eighth of a bound, or three times the length of what has two."""
    (key,) = required_strings(parse_query(operand).conjuncts[0])
    for number in without:
        assert not has_key(number, key), number


@pytest.mark.parametrize(
    ("query", "by_range"),
    [
        ("p:<5", True),
        ("p:<5 q:*", True),
        ("p:<5 sold:false", True),
        ("p:[1 TO 2] q:>3 NOT a", True),
        ("p:<5 a", False),
        ("p:<5 ab*", False),
        ('p:<5 "a b"', False),
        ("p:<5 q:x", False),
        ('p:<5 q:"true"', False),
        ("p:<5 q:7", False),
        ("p:*", False),
        ("sold:false", False),
        ("a", False),
    ],
)
def test_which_alternatives_are_found_by_ranges(query: str, by_range: bool) -> None:
    """Beside a term, a prefix, a phrase or a value a range has the key of the name."""
    (conjunct,) = parse_query(query).conjuncts
    assert is_found_by_range(conjunct) == by_range == bool(range_keys(conjunct))
    assert (not by_range and "p:<5" in query) == ("\0?p" in required_strings(conjunct)) or (
        query == "p:*"
    )
