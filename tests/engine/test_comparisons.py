"""Comparisons with numbers that a kernel reads from many queries: what the parser reads of each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Engine
from nearcast.engine.comparisons import COMPARISONS, LEFT, NEGATED, read_comparisons
from nearcast.engine.conditions import bounds_of
from nearcast.errors import NearcastError
from nearcast.text import DEFAULT, Equals, Within, parse_query
from nearcast.text.keys import is_exact

NUMBERS = (
    "0", "-0", "5", "-5", "007", "2.5", "-2.50", "0.1", "1e3", "12345678901234567890",
    "9007199254740992", "9007199254740993", "9007199254740993.0", "123456789012345", "1e400", "x",
)  # fmt: skip
numbers = st.sampled_from(NUMBERS) | st.integers(-(10**17), 10**17).map(str)
names = st.sampled_from(["price", "Price", "a.b", "n"])
blanks = st.sampled_from(["", " ", "\t ", "\x1c"])
ranges = st.tuples(blanks, numbers, blanks, blanks, numbers, blanks).map(
    lambda parts: f"[{parts[0]}{parts[1]} {parts[2]}TO {parts[3]}{parts[4]}{parts[5]}]"
)
values = st.one_of(
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", ""]), numbers).map("".join), ranges,
    st.sampled_from(["*", "red", '"true"']),
)  # fmt: skip
operands = st.tuples(names, values).map(":".join) | st.sampled_from(["a", "b", "ab*", '"a b"'])
queries = st.lists(
    st.tuples(st.sampled_from(["", "NOT "]), operands).map("".join), min_size=1, max_size=5
).flatmap(
    lambda members: st.lists(
        st.sampled_from([" ", " AND ", " OR "]),
        min_size=len(members) - 1,
        max_size=len(members) - 1,
    ).map(
        lambda between: members[0] + "".join(map("".join, zip(between, members[1:], strict=True)))
    )
)


def number_of(name: str) -> int:
    return ["price", "Price", "a.b", "n"].index(name)


def read(query: str, place: int) -> list[tuple[int, float, float, int]] | None:
    """The comparisons of a conjunct as the kernel reads them; None if it leaves them."""
    found = read_comparisons(
        pa.array([query], pa.large_string()), np.array([place], np.int32), DEFAULT, number_of
    )
    count = int(found.counts[0])
    assert LEFT <= count <= COMPARISONS
    if count == LEFT:
        return None
    columns = (found.names, found.lows, found.highs, found.hows)
    return sorted(zip(*(column[:count].tolist() for column in columns), strict=True))


def expected(query: str, place: int) -> list[tuple[int, float, float, int]]:
    """The same by the parser; what is no comparison with a double fails."""
    conjunct = parse_query(query).conjuncts[place]
    having = [one for one in conjunct.having if not is_exact(one)]
    made = []
    for operands, negated in ((having, 0), (conjunct.lacking, NEGATED)):
        for operand in operands:
            assert isinstance(operand, Within | Equals)
            bounds = bounds_of(operand)
            assert bounds is not None
            low, high, how = bounds
            made.append((number_of(operand.name), low, high, how | negated))
    return sorted(made)


@given(queries)
def test_the_kernel_reads_what_the_parser_reads(query: str) -> None:
    try:
        conjuncts = parse_query(query).conjuncts
    except NearcastError:
        assert read(query, 0) is None
        return
    for place in range(len(conjuncts)):
        found = read(query, place)
        if found is not None:
            assert found == expected(query, place)
    assert read(query, len(conjuncts)) is None


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("a price:<5", 0), ("a price:<=5", 0), ("a price:>0.5", 0), ("a price:>=-2.25", 0),
        ("a price:[1 TO 5]", 0), ("a price:5", 0), ("a OR b NOT price:>5", 1),
        ("a price:>1 n:<2", 0), ("a", 0),
    ],
)  # fmt: skip
def test_usual_comparisons_are_read_by_the_kernel(query: str, place: int) -> None:
    assert read(query, place) == expected(query, place)


@pytest.mark.parametrize(
    "query",
    [
        "a price:<9007199254740993", "a price:<1e3", "a n:<1 n:<2 n:<3", 'a NOT "b c"',
        'a price:"true"', "é price:<5",
    ],
)  # fmt: skip
def test_what_a_kernel_cannot_decide_is_left(query: str) -> None:
    assert read(query, 0) is None


def test_many_comparisons_at_once_give_the_updates_of_scan() -> None:
    asked = [f"price:{op}{n}" for n in range(12) for op in ("<", ">=", "")]
    asked += [f"NOT price:[{n} TO {n + 2}.5]" for n in range(12)]
    asked += ["price:<3 NOT n:>1", "n:<1e1", "price:<9007199254740993", 'NOT "a b"']
    box = {"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}
    subscriptions = {
        "id": [f"s{number:03}" for number in range(len(asked))],
        "query": [f"a {one}" for one in asked],
        "region": [json.dumps(box)] * len(asked),
    }
    given: list[dict[str, Any] | None] = [
        None, {}, {"price": 3}, {"price": 3.5, "n": 1}, {"price": [1, 7]}, {"price": "5"},
        {"price": 2**53 + 1, "n": 9}, {"n": -1}, {"price": True}, {"price": {"n": 1}},
    ]  # fmt: skip
    messages = {
        "id": [f"m{number}" for number in range(len(given))],
        "text": ["a b"] * len(given),
        "point": [[0.5, 0.5]] * len(given),
        "properties": [None if one is None else json.dumps(one) for one in given],
    }
    found = []
    for index in ("rarest-term", "scan"):
        with Engine(index=index) as engine:
            engine.subscribe_table(pa.table(subscriptions))
            found.append(engine.publish_table(pa.table(messages)).to_pylist())
    assert found[0] == found[1]
    assert len(found[1]) > 100
