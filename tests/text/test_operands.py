"""Phrases, prefixes and properties: each form that is accepted, and each that is not."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from nearcast.errors import QueryError
from nearcast.text import (
    NO_CONTENT,
    Analyser,
    Conjunct,
    Content,
    Equals,
    Everything,
    Exists,
    Operand,
    Phrase,
    Prefix,
    Within,
    hints,
    parse_expression,
    parse_query,
)


def less(bound: float, *, closed: bool = False) -> Within:
    return Within("price", None, bound, True, closed)


def more(bound: float, *, closed: bool = False) -> Within:
    return Within("price", bound, None, closed, True)


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ('"red wine"', Phrase(("red", "wine"))),
        ('"Red, WINE!"', Phrase(("red", "wine"))),
        (r'"red \"wine\" \\ \x"', Phrase(("red", "wine", "x"))),
        ('"a AND (b"', Phrase(("a", "and", "b"))),
        ('"a\nb:c*"', Phrase(("a", "b", "c"))),
        ('"e-coupon"', Phrase(("e", "coupon"))),
        ("ipad*", Prefix("ipad")),
        ("IPad*", Prefix("ipad")),
        ("1o*", Prefix("1o")),
        ("हि*", Prefix("हि")),
        ("ß*", Prefix("ss")),
        ("category:deal", Equals("category", "deal")),
        ("category:Straße", Equals("category", "strasse")),
        ("category:a-b,c", Equals("category", "a-b,c")),
        ("category:&", Equals("category", "&")),
        ("url:https://x.org/?a=b", Equals("url", "https://x.org/?a=b")),
        ('category:"happy hour"', Equals("category", "happy hour")),
        (r'category:"a \"b\" \\ \c"', Equals("category", r'a "b" \ \c')),
        ('category:"("', Equals("category", "(")),
        ('name:""', Equals("name", "")),
        ('price:"5"', Equals("price", "5")),
        ('price:"true"', Equals("price", "true")),
        ("price:5", Equals("price", "5", 5)),
        ("price:-5", Equals("price", "-5", -5)),
        ("price:5.50", Equals("price", "5.50", 5.5)),
        ("price:1E3", Equals("price", "1e3", 1000.0)),
        ("price:9007199254740993", Equals("price", "9007199254740993", 2**53 + 1)),
        ("price:007", Equals("price", "007")),
        ("price:+5", Equals("price", "+5")),
        ("price:.5", Equals("price", ".5")),
        ("price:5.", Equals("price", "5.")),
        ("price:٣", Equals("price", "٣")),
        ("price:1e400", Equals("price", "1e400")),
        ("price:" + "9" * 400, Equals("price", "9" * 400, 10**400 - 1)),
        ("price:" + "9" * 5000, Equals("price", "9" * 5000)),
        ("open:true", Equals("open", "true", None, True)),
        ("open:FALSE", Equals("open", "false", None, False)),
        ("price:<500", less(500)),
        ("price:<=500", less(500, closed=True)),
        ("price:<1" + "0" * 400, less(10**400)),
        ("price:>0.5", more(0.5)),
        ("price:>=-1e2", more(-100.0, closed=True)),
        ("price:[100 TO 500]", Within("price", 100, 500)),
        ("price:[ -1.5\tTO\n1e3 ]", Within("price", -1.5, 1000.0)),
        ("price:[5 TO 1]", Within("price", 5, 1)),
        ("price:*", Exists("price")),
        ("a.b-c.0._d:*", Exists("a.b-c.0._d")),
        ("_a:*", Exists("_a")),
        ("दाम:*", Exists("दाम")),
        ("größe:1", Equals("größe", "1", 1)),
        ("*", Everything()),
    ],
)
def test_an_operand_is_read(text: str, operand: Operand) -> None:
    for query in (text, f"({text})", f" {text}\t", f"NOT NOT {text}"):
        (conjunct,) = parse_query(query).conjuncts
        terms = frozenset(operand.terms) if isinstance(operand, Phrase) else frozenset()
        assert conjunct == Conjunct(terms, frozenset(), _more_than_all(operand), ())
    lacking = [Conjunct(frozenset(["zzz"]), frozenset(), (), (operand,))]
    found = list(parse_query(f"zzz NOT {text}").conjuncts)
    assert found == ([] if operand == Everything() else lacking)
    again = parse_expression(text)
    assert parse_expression(again.to_text()) == again
    assert pickle.loads(pickle.dumps(operand)) == operand  # noqa: S301 - our own bytes
    assert operand.in_words()


def _more_than_all(operand: Operand) -> tuple[Operand, ...]:
    return () if operand == Everything() else (operand,)


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ('""', 0, "empty phrase"),
        ('a "" b', 2, "empty phrase"),
        ('"& 😀"', 0, "empty phrase"),
        ('"a', 0, "'\"' without a closing one"),
        ('a "b" "c', 6, "'\"' without a closing one"),
        (r'"a\"', 0, "'\"' without a closing one"),
        ('category:"a', 9, "'\"' without a closing one"),
        ('a"', 1, "'\"' inside a word"),
        ('a"b c"', 1, "'\"' inside a word"),
        ('NOT"a"', 3, "'\"' inside a word"),
        ('10:"a"', 3, "'\"' inside a word"),
        ('a:b"c"', 3, "'\"' inside a word"),
        ('"a b"c', 5, "'c' right after '\"'"),
        ('"a b"*', 5, "'*' right after '\"'"),
        ('"a b"(c)', 5, "'(' right after '\"'"),
        ('"a""b"', 3, "'\"' right after '\"'"),
        ('category:"a"b', 12, "'b' right after '\"'"),
        ("price:[1 TO 5]x", 14, "'x' right after ']'"),
        ("price:[1 TO 5](x)", 14, "'(' right after ']'"),
        ("a*b", 1, "'*' inside a word"),
        ("*a", 0, "'*' inside a word"),
        ("**", 0, "'*' inside a word"),
        ("x ab**", 4, "'*' inside a word"),
        ("i*", 0, "prefix too short"),
        ("a i*", 2, "prefix too short"),
        ("don't*", 0, "no single term before '*'"),
        ("#ipad*", 0, "no single term before '*'"),
        ("ipad_*", 0, "no single term before '*'"),
        ("&*", 0, "no single term before '*'"),
        ("10:30*", 0, "no single term before '*'"),
        (":smile:", 0, "':' in a word that is no property"),
        (":", 0, "':' in a word that is no property"),
        ("a ::b", 2, "':' in a word that is no property"),
        ("#a:b", 0, "':' in a word that is no property"),
        ("a..b:5", 0, "':' in a word that is no property"),
        (".a:5", 0, "':' in a word that is no property"),
        ("a.:5", 0, "':' in a word that is no property"),
        ("a/b:5", 0, "':' in a word that is no property"),
        ("*:*", 0, "':' in a word that is no property"),
        ("a*:5", 0, "':' in a word that is no property"),
        ("name:", 5, "no value of a property"),
        ("name: x", 5, "no value of a property"),
        ("name:(a OR b)", 5, "no value of a property"),
        ("name:a*", 5, "no value of a property"),
        ("name:*a", 5, "no value of a property"),
        ("name:=5", 5, "no value of a property"),
        ("name:{1 TO 5}", 5, "no value of a property"),
        ("price:<abc", 7, "no number"),
        ("price:<", 7, "no number"),
        ("price:< 5", 7, "no number"),
        ("price:<=007", 8, "no number"),
        ("price:>=1e400", 8, "no number"),
        ("price:<>5", 7, "no number"),
        ('price:<"5"', 7, "'\"' inside a word"),
        ("price:[5 TO", 6, "no range of numbers"),
        ("price:[5 TO 6", 6, "no range of numbers"),
        ("price:[", 6, "no range of numbers"),
        ("price:[5 to 6]", 6, "no range of numbers"),
        ("price:[5 TO abc]", 6, "no range of numbers"),
        ("price:[* TO 6]", 6, "no range of numbers"),
        ("price:[5TO6]", 6, "no range of numbers"),
        ("price:[1 TO 1e400]", 6, "no range of numbers"),
        ("NOT *", 0, "nothing but excluded terms"),
        ('NOT "red wine"', 0, "nothing but excluded terms"),
        ("a OR NOT price:<5", 5, "nothing but excluded terms"),
    ],
)
def test_what_looks_like_syntax_and_is_none_is_rejected_with_the_place(
    text: str, position: int, problem: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert (caught.value.position, caught.value.problem) == (position, problem)


@pytest.mark.parametrize(
    ("text", "conjuncts"),
    [
        ("* NOT x", [Conjunct(frozenset(), frozenset("x"))]),
        ("a *", [Conjunct(frozenset("a"))]),
        ("a * OR a", [Conjunct(frozenset("a"))]),
        ("* OR a", [Conjunct(frozenset()), Conjunct(frozenset("a"))]),
        ("a NOT *", []),
        ("a NOT (b OR *)", []),
        ('"a b" NOT b', []),
        ('"a b" NOT "a b"', []),
        ("ab* NOT ab*", []),
        ('"a b" a', [Conjunct(frozenset("ab"), frozenset(), (Phrase(("a", "b")),))]),
        (
            'x NOT ("a b" OR p:*)',
            [Conjunct(frozenset("x"), frozenset(), (), (Exists("p"), Phrase(("a", "b"))))],
        ),
        (
            "p:* NOT (ab* c)",
            [
                Conjunct(frozenset(), frozenset(), (Exists("p"),), (Prefix("ab"),)),
                Conjunct(frozenset(), frozenset("c"), (Exists("p"),)),
            ],
        ),
        (
            "(a)p:5(b)",
            [Conjunct(frozenset("ab"), frozenset(), (Equals("p", "5", 5),))],
        ),
    ],
)
def test_operands_become_conjuncts(text: str, conjuncts: list[Conjunct]) -> None:
    assert list(parse_query(text).conjuncts) == conjuncts


PRICED = {
    "price": 5,
    "rate": 5.5,
    "big": 2**53 + 1,
    "vast": 10**400,
    "many": [9, 2**53, 2.5, 2**53 + 1, "3", True],
    "raised": "⁵",
    "flag": True,
    "none": None,
    "text": "Happy HOUR",
    "digits": "5",
    "empty": "",
    "no": [],
    "nulls": [None, [None]],
    "tags": ["a", ["B", 7], {"k": 1}],
    "shop": {"name": "ＡＢＣ", "open": [{"from": 9}, {"from": "x"}], "deep": {"er": False}},
    "a.b": 1,
}


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("price:5", True),
        ("price:5.0", True),
        ("price:5e0", True),
        ("price:6", False),
        ('price:"5"', False),
        ("digits:5", True),
        ("digits:5.0", False),
        ('digits:"5"', True),
        ("digits:<6", False),
        ("big:9007199254740993", True),
        ("big:9007199254740992", False),
        ("big:>9007199254740992", True),
        ("big:<=9007199254740992", False),
        ("vast:1" + "0" * 400, True),
        ("vast:1" + "0" * 399 + "1", False),
        ("vast:>=1" + "0" * 400, True),
        ("vast:>1" + "0" * 400, False),
        ("vast:>1e308", True),
        ("many:2.5", True),
        ("many:[3 TO 8]", False),
        ("many:[2.5 TO 8]", True),
        ("many:>9007199254740992", True),
        ("many:>9007199254740993", False),
        ("many:<2.5", False),
        ("many:<=2.5", True),
        ("many:1", False),
        ("raised:5", True),
        ("raised:<6", False),
        ("flag:true", True),
        ("flag:TRUE", True),
        ("flag:false", False),
        ("flag:1", False),
        ("flag:>=0", False),
        ('flag:"true"', False),
        ("flag:*", True),
        ("none:*", False),
        ("none:null", False),
        ("missing:*", False),
        ("missing.deeper:*", False),
        ("price.deeper:*", False),
        ('text:"happy hour"', True),
        ("text:happy", False),
        ('empty:""', True),
        ("empty:*", True),
        ("no:*", False),
        ("nulls:*", False),
        ("tags:a", True),
        ("tags:b", True),
        ("tags:7", True),
        ("tags:>6", True),
        ("tags:c", False),
        ("tags.k:1", True),
        ("shop:*", True),
        ('shop:""', False),
        ("shop.name:abc", True),
        ("shop.open.from:9", True),
        ("shop.open.from:x", True),
        ("shop.open.from:<9", False),
        ("shop.open:*", True),
        ("shop.deep.er:false", True),
        ("shop.deep:false", False),
        ("a.b:*", False),
        ("price:<5", False),
        ("price:<=5", True),
        ("price:>5", False),
        ("price:>=5", True),
        ("price:[5 TO 5]", True),
        ("price:[5.0 TO 6]", True),
        ("price:[6 TO 4]", False),
        ("rate:[5 TO 6]", True),
        ("rate:5.5", True),
    ],
)
def test_a_property_holds_or_not(query: str, holds: bool) -> None:
    content = Content((), PRICED)
    assert parse_query(query).matches(set(), content) is holds
    negated = parse_query(f"* NOT {query}")
    assert negated.matches(set(), content) is not holds
    for without in (Content((), None), Content((), {}), NO_CONTENT):
        assert not parse_query(query).matches(set(), without)
        assert negated.matches(set(), without)


@pytest.mark.parametrize(
    ("query", "text", "holds"),
    [
        ('"red wine"', "Red Wine!", True),
        ('"red wine"', "wine, red", False),
        ('"red wine"', "red and wine", False),
        ('"red wine"', "dark red wines", False),
        ('"red red wine"', "red red red wine", True),
        ("ip*", "new iPad", True),
        ("ip*", "chip", False),
        ("ip*", "ip", True),
        ("*", "", True),
        ("* NOT ip*", "chip", True),
        ('red NOT "red wine"', "red beer and wine", True),
        ('red NOT "red wine"', "a red wine", False),
    ],
)
def test_a_phrase_or_prefix_holds_or_not(query: str, text: str, holds: bool) -> None:
    assert matches(query, text, Analyser()) is holds


@pytest.mark.parametrize(
    ("query", "text", "holds"),
    [
        ("東京", "東京駅で火事", True),
        ("京駅", "東京駅で火事", True),
        ("東京駅", "東京駅で火事", True),
        ("東京駅", "京駅、東京", False),
        ("駅前", "東京駅で火事", False),
        ("火事 東京", "東京駅で火事", True),
        ("火事 NOT 大阪城", "東京駅で火事", True),
        ("火事 NOT 東京駅", "東京駅で火事", False),
        ("東京*", "東京駅", True),
        ('"東京駅 火事"', "東京駅 火事", True),
        ("iPhone発売日", "発売日のiPhone", True),
    ],
)
def test_with_cjk_a_run_means_its_pairs_as_a_phrase(query: str, text: str, holds: bool) -> None:
    assert matches(query, text, Analyser(cjk=True)) is holds


def matches(query: str, text: str, analyser: Analyser) -> bool:
    tokens = analyser.tokens(text)
    return parse_query(query, analyser).matches(set(tokens), Content(tokens, None))


def test_stop_words_in_phrases_are_dropped_and_a_prefix_of_one_is_rejected() -> None:
    analyser = Analyser(stop_words=["of", "the"])
    assert matches('"king of france"', "the King of the France", analyser)
    (conjunct,) = parse_query('king "of the" the', analyser).conjuncts
    assert conjunct == Conjunct(frozenset(["king"]))
    for text in ('"of the"', "a OR the", 'a OR "the"'):
        with pytest.raises(QueryError, match="no term"):
            parse_query(text, analyser)
    with pytest.raises(QueryError, match="no single term before"):
        parse_query("the*", analyser)


def test_phrases_and_prefixes_are_stemmed() -> None:
    analyser = Analyser("english")
    assert matches('"running shoes"', "run shoe", analyser)
    assert matches("running*", "runs", analyser)


def test_depth_and_length_are_bounded_by_memory_alone() -> None:
    deep = "(" * 1000 + '"a b"' + " OR p:5)" * 1000
    assert len(parse_query(deep).conjuncts) == 2
    words = " ".join(f"w{number}" for number in range(100_000))
    (conjunct,) = parse_query(f"{words} p:<5").conjuncts
    assert len(conjunct.required) == 100_000
    (phrase,) = parse_query(f'"{words}"').conjuncts[0].having
    assert phrase.holds(Content(words.split(), None))
    assert not phrase.holds(Content(words.split()[1:], None))


@pytest.mark.parametrize(
    ("text", "hinted"),
    [
        ("pizza and beer", ["and"]),
        ("pizza or beer not wine", ["or", "not"]),
        ("not wine", ["not"]),
        ("(pizza) or (beer)", ["or"]),
        ("pizza AND beer", []),
        ("and pizza", []),
        ("pizza and", []),
        ('"pizza and beer" sandwich', []),
        (r'"a \" and b" c', []),
        ("rock-and-roll", []),
    ],
)
def test_operators_in_small_letters_draw_a_hint(text: str, hinted: list[str]) -> None:
    found = hints(text)
    assert [hint.split("'")[1] for hint in found] == hinted
    for hint, word in zip(found, hinted, strict=True):
        assert f"position {text.index(word)}" in hint
        assert word.upper() in hint


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("severity>=3", "severity:>=3"),
        ("hail AND (severity > 3)", "severity:>3"),
        ("shop == naschmarkt", "shop:naschmarkt"),
        ("price=5", "price:5"),
    ],
)
def test_a_comparison_without_a_colon_draws_a_hint(text: str, meant: str) -> None:
    """It is no property, and does not look like the words that it is."""
    (hint,) = hints(text)
    assert hint.endswith(f" {meant}")
    assert parse_query(meant).conjuncts[0].having


def test_comparisons_with_a_colon_in_quotes_or_of_numbers_draw_no_hint() -> None:
    assert hints('"severity>=3" price:>=3 price:[1 TO 2] 5>3 a>') == ()


def test_every_operand_is_said_in_words() -> None:
    text = '"a b" ab* c:5 c:x c:true p:<5 p:<=5 p:>5 p:>=5 p:[1 TO 5] p:*'
    (conjunct,) = parse_query(text).conjuncts
    assert [operand.in_words() for operand in conjunct.having] == [
        'c is "x"',
        "c is 5",
        "c is true",
        "p is there",
        '"a b", side by side',
        "a word that begins with ab",
        "p is less than 5",
        "p is at most 5",
        "p is more than 5",
        "p is at least 5",
        "p is from 1 to 5",
    ]
    assert Everything().in_words() == "every message"


def test_an_operand_says_what_it_needs() -> None:
    """The base class is only a shape."""
    nothing: Any = Operand()
    for ask in (lambda: nothing.holds(NO_CONTENT), nothing.to_text, nothing.in_words):
        with pytest.raises(NotImplementedError):
            ask()
