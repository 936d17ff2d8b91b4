"""Facts of all queries, looked for in random ones."""

import random
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import QueryError
from nearcast.text import And, Expression, Not, Or, Query, Term, parse_expression, parse_query
from nearcast.text.dnf import disjunctive_normal_form

LETTERS = "abcdef"


def _joined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        several.map(And),
        several.map(Or),
        inner.map(lambda operand: operand.operand if isinstance(operand, Not) else Not(operand)),
    )


expressions = st.recursive(st.sampled_from(LETTERS).map(Term), _joined, max_leaves=12)
pieces_of_words = st.sampled_from([*"aB-é_ßﬁ😀&٣", "AND", "OR", "NOT", "\u0301"])
words = st.lists(pieces_of_words, min_size=1, max_size=4).map("".join)
blanks = st.text(st.sampled_from(" \t\n\u00a0\u3000\x1c"), min_size=1, max_size=2)


def attempt(text: str) -> Query | QueryError:
    try:
        return parse_query(text)
    except QueryError as error:
        return error


def _subsets(letters: str) -> list[frozenset[str]]:
    return [frozenset(c) for size in range(len(letters) + 1) for c in combinations(letters, size)]


@given(expressions)
@settings(deadline=None, max_examples=300)
def test_the_normal_form_means_what_the_expression_means(expression: Expression) -> None:
    """A positive term that is always there lets every expression have a normal form."""
    anchored = And((Term("z"), expression))
    query = Query("", disjunctive_normal_form(anchored, ""))
    for terms in _subsets(LETTERS):
        assert query.matches(terms | {"z"}) is expression.evaluate(terms)
        assert not query.matches(terms)
    assert len(set(query.conjuncts)) == len(query.conjuncts)
    assert all(c.required.isdisjoint(c.excluded) for c in query.conjuncts)


@given(expressions)
@settings(deadline=None, max_examples=300)
def test_a_query_is_rejected_only_if_it_can_match_without_a_required_term(
    expression: Expression,
) -> None:
    text = expression.to_text()
    outcome = attempt(text)
    assert isinstance(outcome, QueryError) is expression.evaluate(frozenset())
    if isinstance(outcome, QueryError):
        assert outcome.problem == "nothing but excluded terms"
        assert text.startswith("NOT", outcome.position)
    else:
        for terms in _subsets(LETTERS):
            assert outcome.matches(terms) is expression.evaluate(terms)


@given(expressions)
@settings(deadline=None, max_examples=300)
def test_an_expression_written_out_is_read_back_equal(expression: Expression) -> None:
    again = parse_expression(expression.to_text())
    assert again == expression
    assert again.to_text() == expression.to_text()


@given(st.lists(st.tuples(words, blanks), max_size=5))
@settings(deadline=None, max_examples=500)
def test_plain_words_mean_the_same_the_quick_way_and_the_general_way(
    pieces: list[tuple[str, str]],
) -> None:
    text = "".join(word + blank for word, blank in pieces)
    _assert_both_ways_agree(text)


@given(st.text(max_size=30))
@settings(deadline=None, max_examples=300)
def test_any_text_means_the_same_the_quick_way_and_the_general_way(text: str) -> None:
    _assert_both_ways_agree(text)


def _assert_both_ways_agree(text: str) -> None:
    quick = attempt(text)
    try:
        general = disjunctive_normal_form(parse_expression(text), text)
    except QueryError as error:
        assert str(quick) == str(error)  # noqa: PT017 - that both fail alike is the test
    else:
        assert quick == Query(text, general)


def test_random_strings_are_read_or_rejected_with_a_place_inside_them() -> None:
    pieces = ["AND", "OR", "NOT", "(", ")", "(", ")", "a", "b", "c-d", "é", "😀", "&", "_"]
    spaces = ["", " ", " ", "\t", "\n", "\u00a0", "\u2003", "\u200b", "\x1f", "\x00"]
    random_ = random.Random(20)
    outcomes = {"read": 0, "rejected": 0}
    for _ in range(4000):
        count = random_.randrange(1, 14)
        text = "".join(random_.choice(pieces) + random_.choice(spaces) for _ in range(count))
        outcome = attempt(text)
        if isinstance(outcome, QueryError):
            outcomes["rejected"] += 1
            assert 0 <= outcome.position < len(text)
        else:
            outcomes["read"] += 1
            assert all(conjunct.required for conjunct in outcome.conjuncts)
    assert min(outcomes.values()) > 200
