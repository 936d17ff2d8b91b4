"""Queries: what they mean, and what is said of those that mean nothing."""

import pickle

import pytest

from nearcast.errors import InvalidValue, QueryError
from nearcast.text import (
    Analyser,
    Conjunct,
    Query,
    parse_bag,
    parse_expression,
    parse_query,
)
from nearcast.text import query as module


def conjuncts(text: str, analyser: Analyser | None = None) -> set[tuple[str, str]]:
    """Write each conjunct as its required and its excluded terms."""
    query = parse_query(text, analyser) if analyser else parse_query(text)
    return {(" ".join(sorted(c.required)), " ".join(sorted(c.excluded))) for c in query.conjuncts}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ipad discount", {("discount ipad", "")}),
        ("ipad AND (discount OR sale)", {("discount ipad", ""), ("ipad sale", "")}),
        ("pizza NOT pineapple", {("pizza", "pineapple")}),
        ("pizza AND NOT pineapple", {("pizza", "pineapple")}),
        ("a OR b c", {("a", ""), ("b c", "")}),
        ("a b OR c AND d", {("a b", ""), ("c d", "")}),
        ("NOT a b OR c", {("b", "a"), ("c", "")}),
        ("x NOT (a OR b)", {("x", "a b")}),
        ("x NOT (a b)", {("x", "a"), ("x", "b")}),
        ("x NOT (a OR NOT b)", {("b x", "a")}),
        ("NOT (NOT a OR NOT b)", {("a b", "")}),
        ("NOT NOT a", {("a", "")}),
        ("x NOT NOT NOT a", {("x", "a")}),
        ("x (a OR NOT b)", {("a x", ""), ("x", "b")}),
        ("a OR a OR (a a)", {("a", "")}),
        # Only whole words in capitals are operators.
        ("ANDROID NOTE ORE", {("android note ore", "")}),
        ("and or not And", {("and not or", "")}),
        ("R-AND-D #NOT", {("and d not r", "")}),
        ("ＡＮＤ x", {("and x", "")}),
        ("(a)AND(b)OR(c)NOT(d)", {("a b", ""), ("c", "d")}),
        ("a\tAND\n(b\u00a0OR\u3000c)", {("a b", ""), ("a c", "")}),
        # An operand that splits means all its parts.
        ("e-coupon", {("coupon e", "")}),
        ("x NOT e-coupon", {("x", "coupon"), ("x", "e")}),
        ("a OR e-coupon", {("a", ""), ("coupon e", "")}),
        ("10:30 2nd:x", {("10 2nd 30 x", "")}),
        # A character that stands for letters is a term.
        ("a ™ ⑴", {("1 a tm", "")}),
        # A contradiction is valid and has no conjunct.
        ("a NOT a", set()),
        ("(a OR b) NOT a", {("b", "a")}),
        ("a NOT a OR b", {("b", "")}),
    ],
)
def test_a_query_means_its_conjuncts(text: str, expected: set[tuple[str, str]]) -> None:
    assert conjuncts(text) == expected
    assert parse_query(text).text == text


def test_operands_of_stop_words_only_are_passed_over() -> None:
    analyser = Analyser(stop_words=["the", "of"])
    assert conjuncts("the AND king (of the) NOT of", analyser) == {("king", "")}
    assert conjuncts("the king", analyser) == {("king", "")}


def test_terms_of_a_query_are_stemmed_like_those_of_a_text() -> None:
    analyser = Analyser("english")
    assert conjuncts("runs OR discounted", analyser) == {("run", ""), ("discount", "")}


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "empty query"),
        (" \t\u3000", 0, "empty query"),
        ("&", 0, "no term"),
        ("  😀 &", 2, "no term"),
        ("(&)", 1, "no term"),
        (" NOT &", 5, "no term"),
        ("a & b", 2, "no term"),
        ("a 😀", 2, "no term"),
        ("a \u0301", 2, "no term"),
        ("a NOT (_)", 7, "no term"),
        ("& OR a", 0, "no term"),
        ("a OR b OR & OR c", 10, "no term"),
        ("-a", 0, "'-' before a word"),
        ("a --b", 2, "'-' before a word"),
        ("a - b", 2, "'-' before a word"),
        ('a -"b c"', 2, "'-' before a word"),
        ("a -(b)", 2, "'-' before a word"),
        ("a -price:5", 2, "'-' before a word"),
        ("!a", 0, "'!' before a word"),
        ("(a", 0, "'(' without a ')'"),
        ("a (b (c)", 2, "'(' without a ')'"),
        ("a ((b) AND", 2, "'(' without a ')'"),
        ("(a (b", 0, "'(' without a ')'"),
        ("(", 0, "'(' without a ')'"),
        ("a)", 1, "')' without a '('"),
        (")", 0, "')' without a '('"),
        ("(a)) (b", 3, "')' without a '('"),
        ("a AND )", 6, "')' without a '('"),
        ("()", 0, "empty parentheses"),
        ("a (( )) b", 3, "empty parentheses"),
        ("a AND", 2, "AND without a term after it"),
        ("a OR ", 2, "OR without a term after it"),
        ("a NOT", 2, "NOT without a term after it"),
        ("NOT", 0, "NOT without a term after it"),
        ("(a AND) b", 3, "AND without a term after it"),
        ("a AND OR b", 2, "AND without a term after it"),
        ("a NOT AND b", 2, "NOT without a term after it"),
        ("OR a", 0, "OR without a term before it"),
        ("AND", 0, "AND without a term before it"),
        ("x (OR a)", 3, "OR without a term before it"),
        ("NOT a", 0, "nothing but excluded terms"),
        ("x OR NOT b OR NOT a", 5, "nothing but excluded terms"),
        ("a OR NOT b", 5, "nothing but excluded terms"),
        ("a OR b NOT c OR NOT d", 16, "nothing but excluded terms"),
        ("NOT (NOT a AND b)", 0, "nothing but excluded terms"),
        ("(x OR NOT a) (y OR NOT b)", 6, "nothing but excluded terms"),
        ("x OR NOT (NOT y OR z) OR NOT w", 25, "nothing but excluded terms"),
    ],
)
def test_a_wrong_query_is_rejected_with_the_place(text: str, position: int, problem: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert (caught.value.position, caught.value.problem) == (position, problem)
    assert caught.value.query == text


def test_positions_count_characters_of_the_text_as_given() -> None:
    with pytest.raises(QueryError) as caught:
        parse_query("ﬁ 😀x ß) x")
    assert caught.value.position == 6


def test_the_message_says_what_is_wrong_where_and_what_would_be_right() -> None:
    with pytest.raises(QueryError) as caught:
        parse_query("ipad AND")
    assert str(caught.value) == (
        "query: AND without a term after it at position 5 of 'ipad AND'; "
        "write one there, or 'and' in small letters to look for that word"
    )


@pytest.mark.parametrize("given", [None, 5, b"ipad", ["ipad"]])
def test_only_strings_are_queries(given: object) -> None:
    for read in (parse_query, parse_expression, parse_bag):
        with pytest.raises(InvalidValue, match=r"^query: .* expected a string") as caught:
            read(given)  # type: ignore[arg-type] # the wrong type is the test
        assert not isinstance(caught.value, QueryError)


def test_errors_are_raised_afresh() -> None:
    caught = []
    for _ in range(2):
        with pytest.raises(QueryError) as error:
            parse_query("a AND")
        caught.append(error.value)
    assert caught[0] is not caught[1]


def test_a_long_query_is_kept_for_its_analyser() -> None:
    text = "runs OR " + "x" * 100
    plain, stemming = parse_query(text), parse_query(text, Analyser("english"))
    assert parse_query(text) is plain
    assert parse_query(text, Analyser("english")) is stemming
    assert plain != stemming


def test_a_query_matches_a_set_of_terms() -> None:
    query = parse_query("ipad AND (discount OR sale) NOT broken")
    assert query.matches({"ipad", "sale", "today"})
    assert query.matches(dict.fromkeys(["ipad", "discount"]).keys())
    assert not query.matches({"ipad", "sale", "broken"})
    assert not query.matches({"ipad"})
    assert not query.matches(frozenset())
    assert not parse_query("a NOT a").matches({"a"})


def test_plain_words_do_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "parse_expression", None)
    assert parse_query("FORD ANDROID").conjuncts == (Conjunct(frozenset({"ford", "android"})),)


def test_a_query_survives_pickling_and_cannot_be_changed() -> None:
    query = parse_query("a OR b NOT c")
    assert pickle.loads(pickle.dumps(query)) == query  # noqa: S301 - our own bytes
    with pytest.raises(AttributeError):
        query.text = "b"  # type: ignore[misc] # that it must fail is the test
    assert len({query, parse_query("a OR b NOT c"), Query("a OR b NOT c", ())}) == 2


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("jazz blues", ("blues", "jazz")),
        ("Jazz, JAZZ and e-jazz ANDROID", ("and", "android", "e", "jazz")),
        ("10:30 #2nd", ("10", "2nd", "30")),
        ("#NOT R-AND-D jazz", ("and", "d", "jazz", "not", "r")),
    ],
)
def test_a_bag_is_the_sorted_distinct_terms(text: str, terms: tuple[str, ...]) -> None:
    assert parse_bag(text) == terms


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("jazz OR blues", 5, "'OR' in a top-k query"),
        ("NOT jazz", 0, "'NOT' in a top-k query"),
        ("jazz AND", 5, "'AND' in a top-k query"),
        ("jazz (blues)", 5, "'(' in a top-k query"),
        ("jazz) OR", 4, "')' in a top-k query"),
        ("", 0, "empty query"),
        (" & 😀", 1, "no term"),
        ("jazz & blues", 5, "no term"),
        ('jazz "blues"', 5, "'\"' in a top-k query"),
        ("jazz:blues", 4, "':' in a top-k query"),
        ("jazz* blues", 4, "'*' in a top-k query"),
        ("10:30* blues", 5, "'*' in a top-k query"),
        ("* blues", 0, "'*' in a top-k query"),
        ("jazz -blues", 5, "'-' in a top-k query"),
        ("jazz !blues", 5, "'!' in a top-k query"),
        (":smile:", 0, "':' in a top-k query"),
    ],
)
def test_a_bag_takes_plain_words_only(text: str, position: int, problem: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_bag(text)
    assert (caught.value.position, caught.value.problem) == (position, problem)


def test_a_bag_of_stop_words_only_is_rejected() -> None:
    with pytest.raises(QueryError, match="no term"):
        parse_bag("the the", Analyser(stop_words=["the"]))


def test_a_long_query_is_parsed_once_until_all_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who comes second is spared it; after forgetting nobody is."""
    parsed = list[str]()

    def counted(text: str, analyser: Analyser) -> object:
        parsed.append(text)
        return parse_expression(text, analyser)

    monkeypatch.setattr(module, "parse_expression", counted)
    text = "forgotten OR NOT (remembered NOT parsed) AND " + "long " * 100
    first = parse_query(text)
    assert parse_query(text) == first
    assert parsed == [text]
    module.forget_parsed()
    assert parse_query(text) == first
    assert parsed == [text, text]
