"""Whatever the spread: each pair that counts is answered once, by a worker that has both."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import any_spreads
from any_spreads import SPACE, TERMS, Counted
from nearcast.errors import InvalidValue, SourceError
from nearcast.partition.plan import Plan
from nearcast.partition.sample import hashed
from nearcast.partition.text_map import TextMap
from nearcast.partition.topk.mechanisms import (
    MECHANISMS,
    TopkSample,
    mechanism_named,
    prefix,
    prefix_sum,
)
from nearcast.partition.topk.placing import (
    NO_THRESHOLD,
    TopkQueries,
    answering,
    grow,
    ordered,
    place,
    prefix_lengths,
    route_messages,
    steepness_of,
)
from nearcast.partition.topk.spread import FORMAT_VERSION, KdTree, Spread, only, single_leaf

ROUNDING = 1e-12


def pairs_of(columns: Any) -> list[tuple[int, int]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def reached(queries: TopkQueries, seen: Counted, idf: dict[int, float]) -> list[tuple[int, int]]:
    """The pairs whose scores reach the thresholds, by the formula."""
    found = []
    for s in range(queries.size):
        for m in range(len(seen.points)):
            score = any_spreads.score(queries, s, seen, m, idf)
            theta = queries.thetas[s]
            if score is not None and not score < theta - ROUNDING:
                found.append((s, m))
    return found


def check_answers(
    spread: Spread,
    queries: TopkQueries,
    holders: set[tuple[int, int]],
    seen: Counted,
    steepness: Any,
    wanted: list[Any],
) -> None:
    """Every wanted pair is answered by one worker, which holds the one and sees the other."""
    sent = pairs_of(route_messages(spread, seen.starts, seen.terms, steepness))
    assert len(set(sent)) == len(sent)
    subs, numbers = (np.array(column, np.int32) for column in zip(*wanted, strict=True))
    by = answering(spread, queries, seen.starts, seen.terms, steepness, subs, numbers).tolist()
    for (s, m), worker in zip(wanted, by, strict=True):
        assert (s, worker) in holders
        assert (m, worker) in set(sent)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_pair_that_counts_is_answered_once(data: st.DataObject) -> None:
    idf = data.draw(any_spreads.weights())
    spread = data.draw(any_spreads.spreads(idf))
    queries = ordered(spread, data.draw(any_spreads.queries(idf)))
    seen = data.draw(any_spreads.messages())
    queries, seen = data.draw(any_spreads.barely_reached(queries, seen, idf))
    spread = data.draw(any_spreads.limited(spread, seen, idf))
    steepness = seen.steepness(idf)
    wanted = reached(queries, seen, idf)
    lengths = prefix_lengths(spread, queries)
    held = place(spread, queries)
    holders = pairs_of(held.holders)
    assert len(set(holders)) == len(holders)
    assert {s for s, _ in holders} == set(range(queries.size))
    if wanted:
        check_answers(spread, queries, set(holders), seen, steepness, wanted)

    # Thresholds change: only prefixes that must grow do, and what is added makes it right again.
    thetas = data.draw(
        st.lists(any_spreads.thetas, min_size=queries.size, max_size=queries.size).map(np.array)
    )
    later = queries._replace(thetas=thetas.astype(np.float64))
    longer, added = grow(spread, later, lengths)
    assert (longer == np.maximum(lengths, prefix_lengths(spread, later))).all()
    more = pairs_of(added.holders)
    assert not set(more) & set(holders)
    assert Counter(more + holders) == Counter(pairs_of(place(spread, later, longer).holders))
    wanted = reached(later, seen, idf)
    if wanted:
        check_answers(spread, later, {*holders, *more}, seen, steepness, wanted)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_spread_is_the_same_after_it_was_saved(data: st.DataObject) -> None:
    idf = data.draw(any_spreads.weights())
    spread = data.draw(any_spreads.spreads(idf))
    again = Spread.from_bytes(spread.to_bytes())
    assert again == spread
    assert hash(again) == hash(spread)
    assert again.levels == spread.levels
    assert again.by_text == spread.by_text
    queries = ordered(spread, data.draw(any_spreads.queries(idf)))
    one, other = place(spread, queries), place(again, queries)
    assert all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=True)
    )


def one_query(terms: list[int], weights: list[float], alpha: float, theta: float) -> TopkQueries:
    return TopkQueries(
        hashed(np.arange(1)), np.zeros((1, 2)), np.array([alpha]), np.array([0, len(terms)]),
        np.array(terms, np.uint64), np.array(weights), np.array([theta]),
    )  # fmt: skip


EMPTY = TopkSample(
    TopkQueries(
        np.empty(0, np.uint64), np.empty((0, 2)), np.empty(0), np.zeros(1, np.int64),
        np.empty(0, np.uint64), np.empty(0), np.empty(0),
    ),
    np.empty((0, 2)), np.zeros(1, np.int64), np.empty(0, np.uint64), np.empty(0),
)  # fmt: skip


def test_the_example_of_the_paper() -> None:
    """Example 8: weights 0.4, 0.3, 0.2, 0.1, alpha 0.6, k-th score 0.8; the prefix has two terms.

    There weights add up to 1; here vectors have length 1, and by that length one term is enough.
    """
    example = one_query(TERMS[:4], [0.4, 0.3, 0.2, 0.1], 0.6, 0.8)
    spread = prefix_sum(EMPTY, 3)
    assert prefix_lengths(spread, ordered(spread, example)).tolist() == [3]
    as_printed = example._replace(thetas=np.array([0.6 + 0.4 * 0.5 / np.sqrt(0.3)]))
    assert prefix_lengths(spread, ordered(spread, as_printed)).tolist() == [2]
    spread = prefix(EMPTY, 3)
    assert prefix_lengths(spread, ordered(spread, as_printed)).tolist() == [1]


@pytest.mark.parametrize(
    ("alpha", "theta", "length"),
    [
        (1.0, 1.0, 3),  # text does not count
        (0.0, NO_THRESHOLD, 3),
        (0.0, -2.0, 3),
        (0.0, 0.99, 1),
        (0.0, 0.6, 2),  # each of three equal terms is 0.577
        (0.0, 0.5, 3),
    ],
)
def test_prefixes_by_threshold(alpha: float, theta: float, length: int) -> None:
    spread = prefix(EMPTY, 2)
    assert prefix_lengths(spread, one_query(TERMS[:3], [1.0] * 3, alpha, theta)).tolist() == [
        length
    ]


@pytest.mark.parametrize(
    ("steepest", "length"),
    [
        (inf, 3),  # each of three equal terms is 0.577
        (0.5, 2),  # a term adds at most 0.289 now, and two of them 0.577
        (0.49, 2),
        (0.2, 1),
    ],
)
def test_prefixes_are_shorter_where_ordinary_messages_are_less_steep(
    steepest: float, length: int
) -> None:
    spread = replace(prefix(EMPTY, 2), steepest=steepest)
    assert prefix_lengths(spread, one_query(TERMS[:3], [1.0] * 3, 0.0, 0.5)).tolist() == [length]


def test_steepness_is_the_most_that_a_term_adds_by_its_weight() -> None:
    found = steepness_of(
        np.array([0, 2, 2, 3, 5]), np.array([1, 1, 3, 2, 1], np.int32),
        np.array([3.0, 4.0, 0.5, 1.5, 4.0]),
    )  # fmt: skip
    assert found.tolist() == [0.2, 0.0, 2.0, 0.4]


def test_steep_messages_go_to_all_and_the_first_term_answers() -> None:
    a, b, c = sorted(TERMS[:3])
    map_ = TextMap(np.array([a, b, c], np.uint64), np.array([0, 1, 2]), np.array([0]))
    spread = Spread("made", 3, only(0), maps=[map_], prefix="length", steepest=0.3)
    queries = ordered(spread, one_query([a, b, c], [2.0, 1.0, 3.0], 0.0, 0.35))
    assert pairs_of(place(spread, queries).holders) == [(0, 2), (0, 0)]
    starts, terms, steepness = np.array([0, 1, 2]), np.array([a, a], np.uint64), [0.3, 0.31]
    sent = pairs_of(route_messages(spread, starts, terms, np.array(steepness)))
    assert sent == [(0, 0), (1, 0), (1, 1), (1, 2)]
    pairs = np.array([0, 0], np.int32), np.array([0, 1], np.int32)
    by = answering(spread, queries, starts, terms, np.array(steepness), *pairs)
    assert by.tolist() == [0, 2]


def test_terms_stand_by_weight_then_rarity_then_hash() -> None:
    a, b, c, d, e = sorted(TERMS[:5])
    order = np.array([b, c], np.uint64), np.array([9, 4])
    spread = Spread("made", 1, only(0), order_terms=order[0], order_counts=order[1])
    mixed = one_query([b, a, c, e, d], [1.0, 1.0, 1.0, 1.0, 2.0], 0.5, 0.5)
    assert ordered(spread, mixed).terms.tolist() == [d, a, e, c, b]


def test_a_message_without_terms_goes_nowhere() -> None:
    for make in MECHANISMS.values():
        for steepest in (inf, 0.5):
            spread = replace(make(EMPTY, 3, SPACE), steepest=steepest)
            numbers, _ = route_messages(
                spread, np.array([0, 0, 1]), np.array([7], "u8"), np.ones(2)
            )
            assert set(numbers.tolist()) == {1}


def two_leaves() -> KdTree:
    return KdTree(
        *(np.array(column) for column in ([0, -1, -1], [0.0] * 3, [1, 0, 1], [2, -1, -1]))
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"workers": 0}, "workers"),
        ({"prefix": "short"}, "prefix"),
        ({"number": -1}, "number"),
        ({"levels": (1,)}, "levels"),
        ({"groups": only(1)}, "groups"),
        ({"maps": [only(3)]}, "maps"),
        ({"maps": []}, "maps"),
        ({"trees": [two_leaves()]}, "maps"),
        ({"trees": [two_leaves()._replace(low=np.array([0, 0, 1]))]}, "trees"),
        ({"trees": [single_leaf()._replace(low=np.array([4]))]}, "trees"),
        ({"order_terms": np.array([2, 1], np.uint64), "order_counts": np.ones(2)}, "order_terms"),
        ({"mechanism": 3}, "mechanism"),
        ({"steepest": 0.0}, "steepest"),
        ({"steepest": float("nan")}, "steepest"),
    ],
)
def test_a_spread_that_cannot_be_is_refused(changes: dict[str, Any], problem: str) -> None:
    facts: dict[str, Any] = {"mechanism": "made", "workers": 2, "groups": only(0)}
    with pytest.raises(InvalidValue, match=problem):
        Spread(**facts | changes)


def test_other_files_are_refused() -> None:
    spread = prefix(EMPTY, 2)
    data = spread.to_bytes()
    with pytest.raises(SourceError, match="not a plan"):
        Plan.from_bytes(data)
    with pytest.raises(SourceError, match="damaged"):
        Spread.from_bytes(data[:-9] + b"x" + data[-8:])
    later = data[:8] + bytes([FORMAT_VERSION + 1]) + data[9:]
    with pytest.raises(SourceError, match="version"):
        Spread.from_bytes(later)


@pytest.mark.parametrize(("version", "steepest"), [(1, inf), (2, 0.125)])
def test_a_file_of_each_version_is_read(version: int, steepest: float) -> None:
    """Files were written once and are never changed; a later version has a file of its own."""
    path = Path(__file__).parents[1] / "golden" / f"spread-{version}.plan"
    spread = Spread.load(path)
    assert (spread.mechanism, spread.workers, spread.levels) == ("keyword-first", 6, (3, 2))
    assert (spread.prefix, spread.number, spread.by_text) == ("length", 2, True)
    assert spread.steepest == steepest
    assert spread.about == {"made": "for the golden file"}
    assert [tree.leaves for tree in spread.trees] == [2, 2, 2]
    assert Spread.from_bytes(spread.to_bytes()) == spread
    assert (spread.to_bytes() == path.read_bytes()) == (version == FORMAT_VERSION)


def test_a_spread_changes_under_the_next_number(tmp_path: Any) -> None:
    spread = MECHANISMS["hashing"](EMPTY, 3, SPACE)
    dealt = spread.groups.others.copy()
    dealt[0] = 2
    other = spread.changed(groups=TextMap(spread.groups.terms, spread.groups.workers, dealt))
    assert (other.number, spread.number) == (2, 1)
    other.save(tmp_path / "spread")
    assert Spread.load(tmp_path / "spread") == other != spread


def test_columns_of_other_lengths_are_refused() -> None:
    short = one_query(TERMS[:2], [1.0, 1.0], 0.5, 0.5)._replace(weights=np.ones(1))
    with pytest.raises(InvalidValue, match="weights"):
        ordered(prefix(EMPTY, 2), short)


def test_an_unknown_mechanism_is_named() -> None:
    with pytest.raises(InvalidValue, match="mechanism"):
        mechanism_named("guessing")
