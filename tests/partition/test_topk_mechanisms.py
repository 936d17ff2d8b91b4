"""The algorithms of DSkype: cuts are where the paper says, for any number of workers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_spreads import SPACE
from nearcast.errors import InvalidValue
from nearcast.geo import Box
from nearcast.partition.sample import hashed
from nearcast.partition.topk.kd import best_line, kd_tree
from nearcast.partition.topk.mechanisms import (
    MECHANISMS,
    TopkSample,
    hashing,
    keyword,
    keyword_first,
    location,
    prefix,
    prefix_any,
    spatial_first,
)
from nearcast.partition.topk.placing import (
    NO_THRESHOLD,
    TopkQueries,
    ordered,
    place,
    route_messages,
    steepness_of,
)
from nearcast.partition.topk.words import UnitLists, best_cut, deal, units_of

numbers = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=12).map(np.array)


def made(subscriptions: int = 600, messages: int = 800, seed: int = 1) -> TopkSample:
    """Subscriptions of 1 to 4 terms with thresholds, messages of 6, all by a skewed law."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 5, subscriptions)
    words = [np.unique((draw.pareto(0.8, n) * 3).astype(np.int64) % 3000) for n in lengths]
    starts = np.cumsum([0, *map(len, words)])
    terms = np.concatenate(words)
    queries = TopkQueries(
        hashed(np.arange(subscriptions)), draw.normal(0, 3, (subscriptions, 2)).clip(-10, 10),
        draw.random(subscriptions), starts, hashed(terms), 1 + np.log1p(terms.astype(np.float64)),
        draw.uniform(0.4, 0.95, subscriptions),
    )  # fmt: skip
    texts = [np.unique((draw.pareto(0.8, 6) * 3).astype(np.int64) % 3000) for _ in range(messages)]
    return TopkSample(
        queries, draw.normal(0, 3, (messages, 2)).clip(-10, 10), np.cumsum([0, *map(len, texts)]),
        hashed(np.concatenate(texts)), steepness_of_texts(texts),
    )  # fmt: skip


def steepness_of_texts(texts: list[np.ndarray]) -> np.ndarray:
    starts, terms = np.cumsum([0, *map(len, texts)]), np.concatenate(texts)
    return steepness_of(starts, np.ones(len(terms), int), 1 + np.log1p(terms.astype(np.float64)))


@settings(max_examples=80, deadline=None)
@given(numbers, numbers, st.sampled_from([(1, 1), (2, 2), (1, 2), (2, 3)]))
def test_a_line_makes_costs_as_even_as_any(
    subscriptions: np.ndarray, messages: np.ndarray, workers: tuple[int, int]
) -> None:
    def uneven(line: float) -> float:
        sides = [(subscriptions <= line, messages <= line), (subscriptions > line, messages > line)]
        one, other = (s.sum() * m.sum() / n**2 for (s, m), n in zip(sides, workers, strict=True))
        return abs(float(one - other))

    line, found = best_line(subscriptions, messages, workers)
    lines = sorted(set(subscriptions.tolist()))[:-1]
    if not lines:
        assert found == np.inf
    else:
        assert line in lines
        assert uneven(line) == pytest.approx(min(map(uneven, lines)))
        assert found == pytest.approx(uneven(line))


lists = st.lists(st.lists(st.integers(0, 7), unique=True, max_size=4), max_size=10)


def as_lists(rows: list[list[int]]) -> UnitLists:
    units = np.array([unit for row in rows for unit in row], np.int32)
    return UnitLists(np.cumsum([0, *map(len, rows)]), units)


@settings(max_examples=80, deadline=None)
@given(lists, lists.filter(lambda rows: any(rows)), st.integers(0, 3), st.integers(5, 8))
def test_a_cut_of_the_vocabulary_makes_costs_as_even_as_any(
    subscriptions: list[list[int]], messages: list[list[int]], low: int, high: int
) -> None:
    def met(rows: list[list[int]], first: int, end: int) -> int:
        return sum(any(first <= unit < end for unit in row) for row in rows)

    def uneven(cut: int) -> int:
        one = met(subscriptions, low, cut) * met(messages, low, cut)
        return abs(one - met(subscriptions, cut, high) * met(messages, cut, high))

    if not met(messages, low, high):
        return
    cut = low + best_cut(low, high, as_lists(subscriptions), as_lists(messages), (1, 1))
    assert low < cut < high
    assert uneven(cut) == min(map(uneven, range(low + 1, high)))


def test_frequent_terms_are_dealt_out_before_buckets() -> None:
    terms = np.sort(hashed(np.arange(3)))
    units = units_of(terms, np.array([5, 9, 2]), buckets=4)
    assert units.of(terms).tolist() == [1, 0, 2]
    others = np.array([8, 13, 3], np.uint64)
    assert units.of(others).tolist() == [3, 4, 6]
    dealt = units.mapped(np.array([0, 0, 1, 1, 2, 2, 2], np.int32))
    assert dealt.workers.tolist() == [0, 0, 1]
    assert dealt.others.tolist() == [1, 2, 2, 2]


def test_parts_of_the_vocabulary_are_runs() -> None:
    sample = made()
    units = units_of(*sample.order)
    whole = UnitLists(sample.queries.starts, units.of(sample.queries.terms))
    parts = deal(units.size, whole, UnitLists(sample.starts, units.of(sample.terms)), 7)
    assert (np.diff(parts) >= 0).all()
    assert set(parts.tolist()) == set(range(7))


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8, 12])
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_all_workers_get_something_and_none_gets_most(name: str, workers: int) -> None:
    sample = made()
    spread = MECHANISMS[name](sample, workers, SPACE)
    assert (spread.workers, spread.mechanism) == (workers, name)
    assert spread.levels[0] * spread.levels[1] == workers
    held = place(spread, ordered(spread, sample.queries)).holders
    counts = np.bincount(held[1], minlength=workers)
    assert len(counts) == workers
    assert counts.min() > 0
    assert counts.max() < 5 * counts.mean()


def copies(sample: TopkSample, spread: object) -> float:
    held = place(spread, ordered(spread, sample.queries))  # type: ignore[arg-type]
    return float(held.fresh.sum()) / sample.queries.size


def test_what_each_mechanism_repeats() -> None:
    """Table 2 of the paper: one copy and all workers, or some copies and some workers."""
    sample = made()
    sent = {}
    for name, make in MECHANISMS.items():
        numbers_of, _ = route_messages(
            make(sample, 12, SPACE), sample.starts, sample.terms, sample.steepness
        )
        sent[name] = len(numbers_of) / (len(sample.starts) - 1)
    assert sent["hashing"] == sent["location"] == 12
    assert sent["prefix"] < sent["spatial-first"] < 12
    assert sent["prefix"] < sent["keyword-first"] < 12
    assert sent["keyword"] < 6
    assert copies(sample, hashing(sample, 12)) == copies(sample, location(sample, 12)) == 1
    assert 1 < copies(sample, prefix(sample, 12)) < copies(sample, keyword(sample, 12)) < 4


def test_a_few_messages_go_to_all_workers_where_that_spares_copies() -> None:
    sample = made()
    one, other = prefix(sample, 12), prefix_any(sample, 12)
    assert (one.prefix, other.prefix, other.steepest) == ("length", "length", np.inf)
    assert 0 < one.is_steep(sample.steepness).mean() <= 0.2
    assert copies(sample, one) < copies(sample, other)
    # Where all messages are alike, every limit would let all of them be steep or none.
    alike = prefix(sample._replace(steepness=np.full(len(sample.steepness), 0.3)), 12)
    assert not alike.is_steep(np.array([0.3])).any()
    # Prefixes that cannot be shorter are not worth one message more.
    low = sample.queries._replace(thetas=np.full(sample.queries.size, 1e-6))
    assert prefix(sample._replace(queries=low), 12).steepest == np.inf


@pytest.mark.parametrize(("workers", "share"), [(2, 0.2), (200, 0.04)])
def test_without_thresholds_messages_go_to_few_workers_more(workers: int, share: float) -> None:
    sample = made()
    unknown = sample.queries._replace(thetas=np.full(sample.queries.size, NO_THRESHOLD))
    spread = prefix(sample._replace(queries=unknown), workers)
    assert spread.is_steep(sample.steepness).mean() == pytest.approx(share, abs=0.01)


def test_hybrids_of_one_level_are_the_plain_mechanisms() -> None:
    sample = made()
    everywhere = TopkSample(
        sample.queries._replace(thetas=np.full(sample.queries.size, -1.0)), *sample[1:]
    )
    plain = place(location(sample, 6, SPACE), ordered(location(sample, 6, SPACE), sample.queries))
    for hybrid in (
        spatial_first(sample, 6, SPACE, (6, 1)),
        keyword_first(sample, 6, SPACE, (1, 6)),
    ):
        held = place(hybrid, ordered(hybrid, everywhere.queries))
        assert (held.workers == plain.workers).all()
    text = prefix(sample, 6, SPACE)
    for hybrid in (
        spatial_first(sample, 6, SPACE, (1, 6)),
        keyword_first(sample, 6, SPACE, (6, 1)),
    ):
        one, other = (place(each, ordered(each, sample.queries)) for each in (hybrid, text))
        assert all(
            np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=True)
        )


def test_levels_must_make_up_the_workers() -> None:
    with pytest.raises(InvalidValue, match="levels"):
        spatial_first(made(20, 20), 6, SPACE, (4, 2))


def test_one_place_for_all_still_gives_every_worker_a_part_of_space() -> None:
    tree = kd_tree(np.zeros((5, 2)), np.zeros((0, 2)), 4, Box(-8.0, -8.0, 8.0, 8.0))
    assert tree.leaves == 4
    corners = np.array([[-5.0, -5.0], [-5.0, 5.0], [5.0, -5.0], [5.0, 5.0]])
    assert sorted(tree.leaves_of(corners).tolist()) == [0, 1, 2, 3]
