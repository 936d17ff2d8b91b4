"""Disjunctive normal form: its size, its order and its limits."""

import sys

import pytest

from nearcast.errors import QueryError
from nearcast.text import (
    MOST_CONJUNCTS,
    And,
    Conjunct,
    Not,
    Or,
    Term,
    parse_expression,
    parse_query,
)


def pairs(count: int) -> str:
    return " AND ".join(f"(a{number} OR b{number})" for number in range(count))


def rejection(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    return caught.value


def test_as_many_conjuncts_as_allowed_are_allowed() -> None:
    assert MOST_CONJUNCTS == 1024
    assert len(parse_query(pairs(10)).conjuncts) == 1024
    assert len(parse_query(" OR ".join(f"a{n}" for n in range(1024))).conjuncts) == 1024


@pytest.mark.parametrize("count", [11, 40])
def test_a_product_of_too_many_conjuncts_is_rejected_where_it_grows_too_large(count: int) -> None:
    text = pairs(count)
    error = rejection(text)
    assert error.problem == "more than 1,024 conjuncts"
    assert error.position == text.index("a10")


def test_a_sum_of_too_many_conjuncts_is_rejected_at_the_first_too_many() -> None:
    text = " OR ".join(f"a{number}" for number in range(2000))
    assert rejection(text).position == text.index("a1024")


def test_the_limit_holds_for_what_not_turns_into_alternatives() -> None:
    text = "x NOT (" + " OR ".join(f"(a{n} b{n})" for n in range(11)) + ")"
    assert rejection(text).problem == "more than 1,024 conjuncts"


def test_a_long_product_of_few_distinct_conjuncts_is_accepted() -> None:
    assert len(parse_query(" ".join(["(a OR b)"] * 500)).conjuncts) == 3


def test_a_product_that_is_all_duplicates_ends_too() -> None:
    """Ten terms allow 1,023 distinct conjuncts: under the limit, yet endless work."""
    ten = "(" + " OR ".join(f"a{number}" for number in range(10)) + ")"
    assert rejection(" ".join([ten] * 2000)).problem == "more than 1,024 conjuncts"


def test_a_contradiction_is_found_before_anything_is_multiplied_out() -> None:
    assert parse_query(f"{pairs(40)} AND x AND NOT x").conjuncts == ()


def test_equal_alternatives_in_any_order_give_the_same_conjuncts() -> None:
    """In the order in which each query names them."""
    first = parse_query("a (b OR c NOT d) OR e").conjuncts
    again = parse_query("e OR (NOT d AND c OR b OR b) AND a").conjuncts
    assert (again[1], again[2], again[0]) == (first[1], first[0], first[2])
    assert first == (
        Conjunct(frozenset("ab")),
        Conjunct(frozenset("ac"), frozenset("d")),
        Conjunct(frozenset("e")),
    )


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "a" + ")" * 5000,
        "NOT " * 5000 + "a",
        "NOT (" * 5000 + "a" + ")" * 5000,
        "(a AND " * 5000 + "a" + ")" * 5000,
        "(a OR " * 5000 + "a" + ")" * 5000,
        "a OR (a AND (" * 5000 + "a" + "))" * 5000,
        "(" * 5000 + "a" + " OR a)" * 5000,
    ],
)
def test_depth_is_no_danger(text: str) -> None:
    assert sys.getrecursionlimit() < 5000
    assert parse_query(text).conjuncts == (Conjunct(frozenset("a")),)
    expression = parse_expression(text)
    assert expression.evaluate({"a"})
    again = parse_expression(expression.to_text())
    assert again == expression
    assert hash(again) == hash(expression)
    assert expression.to_text() in repr(expression)


def test_a_deep_nest_of_alternatives_is_expanded() -> None:
    text = "z"
    for number in range(250):
        text = f"a{number} OR (b{number} AND ({text}))"
    query = parse_query(text)
    assert len(query.conjuncts) == 251
    assert Conjunct(frozenset(["z", *(f"b{n}" for n in range(250))])) in query.conjuncts


def test_nested_groups_of_one_kind_cost_no_more_than_one_group() -> None:
    """Multiplied out level by level, the thousand alternatives would be too much work."""
    many = " OR ".join(f"a{number}" for number in range(1000))
    query = parse_query("(b AND " * 1100 + f"({many})" + ")" * 1100)
    assert len(query.conjuncts) == 1000


def test_expressions_are_compared_by_shape_and_not_by_position() -> None:
    a, b = Term("a"), Term("b")
    assert parse_expression("  a (b)") == And((a, b)) == parse_expression("a AND b")
    assert parse_expression("NOT NOT NOT a") == Not(a)
    assert parse_expression("a OR NOT b") == Or((a, Not(b)))
    assert And((a, b)) != Or((a, b))
    assert And((a, And((a, b)))) != And((And((a, a)), b))
    assert And((a, b)) != And((b, a))
    assert a != "a"


def test_an_expression_writes_only_the_parentheses_it_needs() -> None:
    assert str(parse_expression("((a b) OR (NOT (c))) NOT (e-f)")) == (
        "(a AND b OR NOT c) AND NOT (e AND f)"
    )
