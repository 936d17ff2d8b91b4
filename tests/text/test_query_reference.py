"""Our parser, the reference grammar and the plain reading of the contract agree."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.errors import QueryError
from nearcast.text import (
    DEFAULT,
    Analyser,
    Content,
    Expression,
    Query,
    parse_expression,
    parse_query,
)
from nearcast.text.dnf import disjunctive_normal_form
from query_reference import Rejected, reference_expression

OPERANDS = [
    *(
        "a",
        "b",
        "ab",
        "E-coupon",
        "don't",
        "#abc",
        "10:30",
        "2nd:x",
        "ﬁn",
        "é",
        "the",
        "東京",
        "東京駅",
    ),
    *('"a b"', '"b a"', '"a"', '"the"', '"A, b"', r'"a \" b"', r'"a \\"', '"東京駅"', '"a (b"'),
    *("ab*", "a1*", "ﬁ*", "*", "the*"),
    *("c:ab", "c:AB", 'c:"a b"', 'c:""', "c:5", "c:5.0", "c:-0", "c:007", "c:1e400", "c:True"),
    *("p:<5", "p:<=5.5", "p:>-1e2", "p:>=0", "p:[1 TO 5]", "p:[ 5\tTO  1 ]", "p:*", "p.q:*"),
    *("c:a:b", "_x-1.y:z", "c:ＡＢ"),
]
WRONG = [
    *('""', '"&"', '"a', 'a"', 'a"b"', '"a"b', '"a"(', "a*b", "*a", "**", "i*", "don't*", "#ab*"),
    *(
        ":smile:",
        "c:",
        "c:*a",
        "c:a*",
        "c:=5",
        "c:{1",
        "c:<",
        "c:<abc",
        "c:<1e400",
        "p:[5 TO",
        "p:[",
    ),
    *(
        "p:[1 TO 5]x",
        "p:[1 TO b]",
        "p:[* TO 5]",
        ".c:5",
        "c.:5",
        "c..d:5",
        "-a",
        "!a",
        "-",
        "&",
        "_",
    ),
    *('c:"a"b', 'c:"a', 'NOT"a"', "10:30*", "(", ")", "()", "AND", "OR", "NOT", "a:b*c", "#c:5"),
]
ANALYSERS = [DEFAULT, Analyser(stop_words=["the"]), Analyser(cjk=True)]
blanks = st.sampled_from([" ", " ", " ", "  ", "\t", "\n", "\u00a0", "\u3000", "\x1c"])
operands = st.sampled_from(OPERANDS)
PIECES = [*OPERANDS, *WRONG, *'()"*:[]<>=-!\\ \t.', " AND ", " OR ", " NOT ", " TO ", "1", "a"]


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.tuples(blanks, st.sampled_from(["", "AND", "OR", "AND NOT", "NOT"]), blanks)
    pair = st.tuples(inner, operators.map("".join), inner).map("".join)
    return st.one_of(pair, inner.map("({})".format), inner.map("NOT {}".format))


queries = st.recursive(operands, _joined, max_leaves=8)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A query of which pieces were removed, replaced or added."""
    text = draw(queries)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 2)))
        text = text[:start] + draw(st.sampled_from(["", *PIECES])) + text[end:]
    return text


def attempt(text: str, analyser: Analyser) -> Query | QueryError:
    try:
        return parse_query(text, analyser)
    except QueryError as error:
        return error


def check_against_the_reference(text: str, analyser: Analyser) -> None:
    outcome = attempt(text, analyser)
    try:
        expected = reference_expression(text, analyser)
    except Rejected:
        assert isinstance(outcome, QueryError)
        return
    assert parse_expression(text, analyser) == expected
    try:
        conjuncts = disjunctive_normal_form(expected, text)
    except QueryError as error:
        assert isinstance(outcome, QueryError)
        assert outcome.problem == error.problem  # noqa: PT017 - that both fail alike is the test
    else:
        assert outcome == Query(text, conjuncts)


@given(queries, st.sampled_from(ANALYSERS))
@settings(deadline=None, max_examples=400)
@example("a AND (b OR c)", DEFAULT)
def test_our_parser_reads_what_the_reference_reads(text: str, analyser: Analyser) -> None:
    check_against_the_reference(text, analyser)


@given(mutated(), st.sampled_from(ANALYSERS))
@settings(deadline=None, max_examples=1000)
def test_our_parser_rejects_what_the_reference_rejects(text: str, analyser: Analyser) -> None:
    check_against_the_reference(text, analyser)


@pytest.mark.parametrize("before", ["", "(", "x ", "NOT ", ")", "-", "x OR "])
def test_each_operand_is_read_alike_in_each_place(before: str) -> None:
    for text in [*OPERANDS, *WRONG]:
        for after in ["", " ", ")", "(", '"', "x", " x", "*", "]"]:
            check_against_the_reference(before + text + after, DEFAULT)


def test_ten_thousand_mutated_queries_are_read_or_rejected_with_a_place_inside_them() -> None:
    random_ = random.Random(11)
    outcomes = {"read": 0, "rejected": 0}
    for _ in range(10_000):
        text = " ".join(random_.choices([*OPERANDS, "AND", "OR", "NOT", "(", ")"], k=6))
        for _ in range(random_.randrange(3)):
            start = random_.randrange(len(text) + 1)
            piece = random_.choice([*PIECES, *string.printable, "\u0301", "½", "\ud800", "\x00"])
            text = text[:start] + piece + text[start + random_.randrange(3) :]
        outcome = attempt(text, random_.choice(ANALYSERS))
        if isinstance(outcome, QueryError):
            outcomes["rejected"] += 1
            assert 0 <= outcome.position <= len(text)
            assert outcome.caret().count("\n") == 1
        else:
            outcomes["read"] += 1
    assert min(outcomes.values()) > 1000


@given(queries, st.sampled_from(ANALYSERS))
@settings(deadline=None, max_examples=300)
def test_a_query_written_out_is_read_back_equal(text: str, analyser: Analyser) -> None:
    try:
        expression = parse_expression(text, analyser)
    except QueryError:
        return
    written = expression.to_text()
    for other in (DEFAULT, analyser):
        again = parse_expression(written, other)
        assert again == expression
        assert again.to_text() == written


values: st.SearchStrategy[object] = st.sampled_from(
    [None, True, False, 0, 1, 5, 5.0, -3, 5.5, "5", "ab", "A b", "true", "", {}, {"q": 1}, []]
)
contents = st.builds(
    lambda words, properties: (DEFAULT.tokens(" ".join(words)), properties),
    st.lists(st.sampled_from(["a", "b", "ab", "abc", "a1", "e", "coupon", "10", "30", "fin"])),
    st.none()
    | st.dictionaries(st.sampled_from("cpx"), values | st.lists(values | st.lists(values))),
)


@given(queries, st.lists(contents, min_size=1, max_size=8))
@settings(deadline=None, max_examples=500)
def test_a_query_matches_what_its_tree_is_true_of(
    text: str, messages: list[tuple[list[str], dict[str, object] | None]]
) -> None:
    query = attempt(text, DEFAULT)
    if isinstance(query, QueryError):
        return
    tree: Expression = parse_expression(text)
    for tokens, properties in messages:
        content = Content(tokens, properties)
        assert query.matches(set(tokens), content) is tree.evaluate(set(tokens), content)
