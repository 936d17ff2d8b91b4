"""A column of texts has the terms that the analyser gives, and plain queries are known as such."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.arrays.slots import as_secret, term_hash
from nearcast.errors import QueryError
from nearcast.text import DEFAULT, Analyser, Conjunct, parse_bag, parse_query
from nearcast.text.columns import hash_terms, hash_texts, may_have_syntax

CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]

WORDS = st.sampled_from(
    ["ipad", "IPad", "Größe", "ﬁn", "x_y", "don't", "7", "日本", "a-b", " ", ""]
)
TEXTS = st.one_of(st.text(max_size=20), st.lists(WORDS, max_size=90).map(" ".join))


@settings(deadline=None)  # the first call compiles
@given(
    texts=st.lists(TEXTS, max_size=8),
    skip=st.integers(0, 2),
    stop=st.booleans(),
    secret=st.sampled_from([b"", b"sixteen letters."]),
)
def test_a_column_has_the_terms_of_its_texts(
    texts: list[str], skip: int, stop: bool, secret: bytes
) -> None:
    """Each term once a text, sliced columns and stop words included."""
    analyser = Analyser(stop_words=["ipad"]) if stop else Analyser()
    texts = [text.encode(errors="ignore").decode() for text in texts]
    drawn = as_secret(secret)
    hashed = hash_texts(pa.array(texts, pa.string())[skip:], analyser, drawn)
    assert len(hashed.starts) == len(texts[skip:]) + 1
    for number, text in enumerate(texts[skip:]):
        found = hashed.hashes[hashed.starts[number] : hashed.starts[number + 1]].tolist()
        terms = list(analyser.terms(text))
        assert sorted(found) == sorted(hash_terms(terms, drawn).tolist())
        assert secret or sorted(found) == sorted(map(term_hash, terms))


def test_every_character_is_read_alike_in_a_column() -> None:
    """Beside a letter, where it may go on with the term, end it, or be a term of its own."""
    words = [f"X{letter}y" for letter in CHARACTERS]
    texts = words[:128] + [" ".join(words[at : at + 64]) for at in range(128, len(words), 64)]
    hashed = hash_texts(pa.array(texts, pa.string()))
    for number, text in enumerate(texts):
        found = hashed.hashes[hashed.starts[number] : hashed.starts[number + 1]].tolist()
        assert sorted(found) == sorted(hash_terms(list(DEFAULT.terms(text))).tolist()), ascii(text)


def plain(texts: list[str]) -> list[bool]:
    return [not odd for odd in may_have_syntax(pa.array(texts, pa.string())).tolist()]


@pytest.mark.parametrize("form", ["{}", "x{}y", "x{}&", "x{}-y", "x {}", "x {}é", " {}x"])
def test_a_query_with_any_character_is_plain_only_if_it_is_plain_words(form: str) -> None:
    texts = [form.format(letter) for letter in CHARACTERS]
    for text, is_plain in zip(texts, plain(texts), strict=True):
        if is_plain:
            check_plain(text)


@given(
    st.lists(
        st.sampled_from(
            [*"aB 9-!_&():*é東\u0301", '"', " ", "\t", "\x1c", "\x85", "\u3000", "AND", "or", "हि"]
        ),
        max_size=8,
    ).map("".join)
)
@settings(deadline=None, max_examples=500)
def test_a_query_is_plain_only_if_it_is_plain_words(text: str) -> None:
    if plain([text])[0]:
        check_plain(text)


def check_plain(text: str) -> None:
    """The query means the terms of its text, for any analyser that drops none."""
    for analyser in (DEFAULT, Analyser(cjk=True)):
        terms = analyser.terms(text)
        assert parse_query(text, analyser).conjuncts == (Conjunct(terms),)
        assert parse_bag(text, analyser) == tuple(sorted(terms))


@pytest.mark.parametrize(
    "text",
    [
        "ipad",
        "iPad sale",
        " e-coupon #deal ",
        "größe ĞÜŞ",
        "Привет мир",
        "καλημέρα",
        "שלום",
        "مرحبا",
    ],
)
def test_plain_words_are_known_as_plain(text: str) -> None:
    assert plain([text]) == [True]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "&", "a &", "& a", "a - b", "-a", "a !b", '"a b"', "ab*", "*", "a:b", "10:30"),
        *(
            "a AND b",
            "a OR b",
            "a NOT b",
            "(a)",
            "a\x1c&",
            "a\u3000&\u3000b",
            "東京",
            "x東京",
            "a \u0301",
        ),
    ],
)
def test_what_has_to_be_parsed_is_not_taken_for_plain_words(text: str) -> None:
    assert plain([text]) == [False]


def test_a_column_of_pairs_has_them_as_terms() -> None:
    analyser = Analyser(cjk=True)
    hashed = hash_texts(pa.array(["東京駅", "ascii"], pa.string()), analyser)
    expected = hash_terms(["東京", "京駅"]).tolist()
    assert sorted(hashed.hashes[: hashed.starts[1]].tolist()) == sorted(expected)


def test_plain_words_and_nothing_else_save_parsing() -> None:
    """A query that is rejected is never plain."""
    for text in ["a & b", "a 😀", "jazz_ _"]:
        with pytest.raises(QueryError):
            parse_query(text)
        assert plain([text]) == [False]
