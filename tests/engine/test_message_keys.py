"""The keys that kernels find in messages are those that plain code finds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast import Engine
from nearcast.engine.key_filter import KnownKeys
from nearcast.engine.matching import BooleanSubscription
from nearcast.engine.message_keys import KeyedMessages
from nearcast.engine.saved import load_population, save_population
from nearcast.engine.subscriptions import IndexedSubscriptions
from nearcast.events import Subscription
from nearcast.text import DEFAULT, Content, parse_query
from nearcast.text.keys import phrase_key, prefix_key

WORDS = ("ab", "abc", "abcd", "B", "bc", "bcd9", "Ünder", "x1")
texts = st.lists(st.sampled_from([*WORDS, "abcdefgh", "other"]), max_size=8).map(" ".join)
queries = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(WORDS).map(lambda word: word + "*" if len(word) > 1 else word),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=5).map(" ".join).map('"{}"'.format),
    st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)).map(
        lambda pair: f'{pair[0]} NOT "{pair[1]} {pair[0]}"'
    ),
)


def population(asked: list[str]) -> IndexedSubscriptions:
    made = IndexedSubscriptions("rarest-term", DEFAULT)
    for number, query in enumerate(asked):
        subscription = Subscription(f"s{number}", query)
        made.put(BooleanSubscription(subscription, parse_query(query, DEFAULT)))
    return made


def keys_by_kernel(population: IndexedSubscriptions, given: list[str]) -> list[set[int]]:
    read = population.read(pa.array(given, pa.string()))
    starts, terms = (read.terms if isinstance(read, KeyedMessages) else read)[:2]
    edges = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    return [set(terms[start:stop].tolist()) for start, stop in edges]


def keys_in_plain_code(population: IndexedSubscriptions, given: list[str]) -> list[set[int]]:
    contents = (Content(DEFAULT.tokens(text), None) for text in given)
    return [
        set(population.operands.known_in_order(population.terms, content).tolist())
        for content in contents
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(queries, max_size=12), st.lists(queries, max_size=6), st.lists(texts, max_size=8))
def test_all_keys_are_found(first: list[str], then: list[str], given: list[str]) -> None:
    """Whatever was noted before: numbers of terms and keys change hands when they are unused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearcast.engine.terms._WORTH_SWEEPING", 1)
        made = population(first)
        assert keys_by_kernel(made, given) == keys_in_plain_code(made, given)
        for number, query in enumerate(then):  # some take the place of others
            subscription = Subscription(f"s{2 * number}", query)
            made.put(BooleanSubscription(subscription, parse_query(query, DEFAULT)))
            assert keys_by_kernel(made, given) == keys_in_plain_code(made, given)


def test_what_is_noted_of_a_term_does_not_outlive_it() -> None:
    """Terms of active messages alone have numbers, too, which others get when these have ended."""
    engine, here = Engine(index="rarest-term"), (0.0, 0.0)
    engine.subscribe("s", "ab*")
    for turn, word in enumerate(["abx", "zzz", "abz"]):
        engine.publish(f"active{turn}", word, here, at=10.0 * turn, ttl=1.0)
        found = engine.publish_table(
            pa.table({"id": [f"m{turn}"], "text": [word], "point": [list(here)]})
        )
        assert len(found) == word.startswith("ab")


def test_terms_that_came_after_the_memo_was_made_are_forgotten_with_the_rest() -> None:
    """Active messages may have many more terms than there were when a prefix was last looked up."""
    engine, here = Engine(index="rarest-term"), (0.0, 0.0)
    engine.subscribe("s", "ab*")
    engine.publish_table(pa.table({"id": ["m0"], "text": ["abc"], "point": [list(here)]}))
    engine.publish("many", " ".join(f"word{n}" for n in range(100)), here, at=1.0, ttl=1.0)
    assert len(engine.publish("m1", "abc", here, at=5.0)) == 1
    found = engine.publish_table(pa.table({"id": ["m2"], "text": ["abd"], "point": [list(here)]}))
    assert len(found) == 1


def test_half_a_surrogate_pair_in_an_operand_is_in_no_message() -> None:
    """No property has one, so such an operand never holds, and does no harm."""
    engine = Engine(index="rarest-term")
    engine.subscribe("never", 'p:"\ud800" OR p:\ud800x')
    engine.subscribe("always", 'a NOT p:"\ud800"')
    for properties in (None, {"p": "x"}):
        found = engine.publish("m", "a \ud800", (0, 0), properties=properties)
        assert [update.subscription for update in found] == ["always"]


def test_keys_are_known_after_loading(tmp_path: Path) -> None:
    saved, loaded = population(["abc*", '"ab bc"']), population([])
    save_population(saved, tmp_path)
    load_population(loaded, tmp_path)
    texts = ["abcd x ab bc", "bc ab"]
    assert keys_by_kernel(loaded, texts) == keys_in_plain_code(loaded, texts)


@pytest.mark.parametrize("at_a_time", [1, 7, 5000])
def test_filters_know_all_keys_and_hardly_any_others(at_a_time: int) -> None:
    """However they came: one by one, or many at once, so that the filters grow."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefgh", k=6)) for _ in range(6000)]
    half = [prefix_key(word) for word in words[:3000]]
    half += [phrase_key(words[place : place + 2]) for place in range(0, 3000, 2)]
    known, secret = KnownKeys(), np.array([12345, 67890], np.uint64)
    for start in range(0, len(half), at_a_time):
        known.note(half[start : start + at_a_time])
        filters = known.filters(half[: start + at_a_time], secret)
    made = KnownKeys()
    made.note(half)
    at_once = made.filters(half, secret)
    for one, other in zip(filters, at_once, strict=True):
        smaller, larger = sorted((one, other), key=len)
        folded = np.bitwise_or.reduce(larger.reshape(-1, len(smaller)))
        assert (folded == smaller).all()
        assert 2000 < int(np.bitwise_count(larger).astype(int).sum()) < 0.25 * 64 * len(larger)
