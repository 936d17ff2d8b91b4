"""Queries read in bulk: the same conjuncts as the parser gives, in the same order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.errors import QueryError
from nearcast.text import (
    DEFAULT,
    Analyser,
    Conjunct,
    Equals,
    Exists,
    Operand,
    Phrase,
    Prefix,
    Within,
    bulk,
    parse_query,
)
from nearcast.text.bulk import INEXACT, TERM, BulkQueries, read_queries
from nearcast.text.keys import TRUTHS, is_exact, is_key, keys_of

Read = tuple[frozenset[str], frozenset[str], tuple[int, ...], tuple[int, ...], bool]
"""A conjunct: terms and keys to have, terms to lack, the kinds of all others, if it has a rest."""

READ = [
    "ipad", "ipad discount", "ipad AND (discount OR sale)", "pizza NOT pineapple", "e-coupon",
    '"red wine"', '"wine"', "ipad*", "category:deal", 'category:"happy hour" wine', "price:<500",
    "price:<=5.5 price:>-1", "price:[100 TO 500]", "price:[ -1.5  TO 2 ]", "price:*", "price:5",
    "open:TRUE", 'open:"true"', "a.b-c:x:y", "(a OR b) AND (c OR d)", "((a))", "a OR b OR a",
    "NOT NOT a", "a NOT b NOT c", '(a NOT "b c") d', "10:30", "#IPad, don't", "and or not",
    'a "A  a" NOT "a b"', 'x:""', "a\tb\x1fc", "x:007", "x:-", "a NOT el*",
]  # fmt: skip
LEFT = [
    "", " ", '"of five terms or more"', "a AND", "OR a", "(a", "a)", "a OR ()", "-a", "!a", '"a',
    '""', "a*b", "a*", "x:", "x:<a", "x:=5", "x:[1 TO", "x:[1 TO 2]y", ":smile:", "é", "東京",
    "NOT a", "a OR NOT b", "NOT (a b)", "a NOT a", r'"a\"b"', "x:1e3", "x:>1e999",
    "a NOT e-coupon", '"a"b', 'a"b"', "*", "x:1.5", "x:>1 x:>1.0", "...",
    " OR ".join(f"a{n}" for n in range(99)), "(" * 9 + "a" + ")" * 9,
]  # fmt: skip


def operand_kind(operand: Operand) -> int:
    match operand:
        case Phrase():
            return bulk.PHRASE
        case Prefix():
            return bulk.PREFIX
        case Exists():
            return bulk.EXISTS
        case Equals(_, text, None, None):
            return bulk.TRUTH if text in TRUTHS else bulk.STRING
        case Equals(_, _, None, _):
            return bulk.FLAG
        case Equals():
            return bulk.NUMBER
        case Within(_, None, _, _, closed):
            return bulk.AT_MOST if closed else bulk.LESS
        case Within(_, _, None, closed, _):
            return bulk.AT_LEAST if closed else bulk.MORE
    return bulk.BETWEEN


def expected(conjunct: Conjunct) -> Read:
    having = tuple(sorted(map(operand_kind, conjunct.having)))
    lacking = tuple(sorted(map(operand_kind, conjunct.lacking)))
    wanted = conjunct.required.union(*map(keys_of, conjunct.having))
    rest = bool(conjunct.lacking) or not all(map(is_exact, conjunct.having))
    return wanted, conjunct.excluded, having, lacking, rest


def found(queries: BulkQueries, query: int) -> list[Read]:
    """The conjuncts of a query that was read."""
    first = int(queries.starts[query])
    letters, kinds = [], queries.kinds[first : queries.starts[query + 1]].tolist()
    for kind, span in zip(kinds, queries.spans[first:].tolist(), strict=False):
        a, b = span[:2] if kind == TERM else span[4:]
        whole = queries.data if kind == TERM else queries.keys
        text = bytes(whole[a:b]).decode()
        letters.append(text.lower() if kind == TERM else text)
    conjuncts = range(queries.conjuncts[query], queries.conjuncts[query + 1])
    return [
        _conjunct(int(queries.required[one]), int(queries.excluded[one]), kinds, letters)
        for one in conjuncts
    ]


def _conjunct(has: int, lacks: int, kinds: list[int], letters: list[str]) -> Read:
    having = [n for n in range(len(kinds)) if has >> n & 1]
    lacking = [n for n in range(len(kinds)) if lacks >> n & 1]
    rest = tuple(sorted(kinds[n] for n in lacking if kinds[n] != TERM))
    return (
        frozenset(letters[n] for n in having if letters[n]),
        frozenset(letters[n] for n in lacking if kinds[n] == TERM),
        tuple(sorted(kinds[n] for n in having if kinds[n] != TERM)),
        rest,
        bool(rest) or any(INEXACT >> kinds[n] & 1 for n in having),
    )


def check(texts: list[str]) -> int:
    """Compare what was read with what the parser reads; count what was left."""
    read = read_queries(pa.array(texts, pa.string()))
    for number, text in enumerate(texts):
        if not read.left[number]:
            wanted = [expected(conjunct) for conjunct in parse_query(text).conjuncts]
            assert found(read, number) == wanted, text
        else:
            assert read.starts[number] == read.starts[number + 1]
            assert read.conjuncts[number] == read.conjuncts[number + 1]
    return int(read.left.sum())


def test_common_queries_are_read() -> None:
    """The usual forms are read, each as the parser reads it, and in one column."""
    assert check(READ) == 0


def test_what_is_rare_or_wrong_is_left() -> None:
    """Everything else is left, and does not disturb what stands beside it."""
    texts = [each for pair in zip(LEFT, READ * 2, strict=False) for each in pair]
    assert check(texts) == len(LEFT)


def test_other_analysers_leave_all() -> None:
    """With stop words or a stemmer nothing is read: its terms would be others."""
    stopping = Analyser(stop_words=["the"])
    assert read_queries(pa.array(["the ipad"]), stopping).left.all()
    assert not read_queries(pa.array(["the ipad"]), Analyser()).left.any()


def test_many_alternatives_find_room() -> None:
    """A column of queries with as many conjuncts as are read at all leaves what does not fit."""
    wide = "(a OR b) (c OR d) (e OR f) (g OR h) (i OR j)"
    assert 0 < check([wide] * 40) < 40


words = st.sampled_from(
    ["a", "B", "b", "ipad", "IPad", "e-coupon", "7", "10:30", "and", "__", "x_y"]
)
operands = st.one_of(
    words,
    st.lists(words, min_size=0, max_size=3).map(lambda some: f'"{" ".join(some)}"'),
    st.sampled_from(["ip*", "b*", "i*", "IPAD*", "*", "x-y*"]),
    st.builds(
        lambda name, value: f"{name}:{value}",
        st.sampled_from(["price", "Price", "a.b", "_x", "9", "a..b", "a-"]),
        st.sampled_from(
            ["5", "05", "-0", "-3", "5.0", "true", "False", '"true"', '"5"', '"a B"', "*", "<5",
             "<=5", ">5.5", ">=-1", "<a", "[1 TO 2]", "[1  TO 2]", "[2 TO", "a*b", "", "x:y", "=1"]
        ),
    ),
)  # fmt: skip
queries = st.recursive(
    operands,
    lambda inner: st.one_of(
        st.builds(lambda some, by: by.join(some), st.lists(inner, min_size=1, max_size=3),
                  st.sampled_from([" ", " AND ", " OR ", " NOT ", " AND NOT ", "  OR NOT "])),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"NOT {one}"),
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(queries, min_size=1, max_size=4))
@example(["price:5 NOT price:5.0", "price:<5 OR price:<5.0"])
def test_generated_queries(texts: list[str]) -> None:
    """Generated queries are read as the parser reads them, or left."""
    left = read_queries(pa.array(texts, pa.string())).left
    for text, is_left in zip(texts, left.tolist(), strict=True):
        try:
            parse_query(text, DEFAULT)
        except QueryError:
            assert is_left, text
    check(texts)


@given(queries, st.integers(0, 60), st.sampled_from('()" *:<>=[]-!\\.~\x00\x1cAaé'), st.booleans())
def test_mutated_queries(text: str, at: int, letter: str, instead: bool) -> None:
    """A letter more, or another one, anywhere: read as the parser reads it, or left."""
    mutated = text[:at] + letter + text[at + instead :]
    (is_left,) = read_queries(pa.array([mutated], pa.string())).left.tolist()
    try:
        parse_query(mutated)
    except QueryError:
        assert is_left, mutated
        return
    check([mutated])


@pytest.mark.parametrize("text", READ)
def test_keys_are_apart_from_terms(text: str) -> None:
    """What is found beside terms are keys."""
    (some, *_) = found(read_queries(pa.array([text])), 0)
    terms = {each for each in some[0] if not is_key(each)}
    assert all(each.isalnum() for each in terms)
