"""Terms of one subscription share workers, where that costs no worker much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.partition.sample import hashed
from nearcast.partition.topk import term_affinity
from nearcast.partition.topk.term_affinity import deal_by_affinity, units_for
from nearcast.partition.topk.words import BUCKETS, UnitLists, deal

listed = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=20)


def lists(rows: list[list[int]]) -> UnitLists:
    starts = np.cumsum([0, *map(len, rows)])
    return UnitLists(starts, np.array([unit for row in rows for unit in row], np.int32))


def copies(rows: list[list[int]], parts: np.ndarray) -> int:
    return sum(len({int(parts[unit]) for unit in row}) for row in rows)


def skewed(seed: int, rows: int, lengths: tuple[int, int], units: int) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    drawn = [draw.pareto(0.4, draw.integers(*lengths)) * 30 for _ in range(rows)]
    return [np.unique(each.astype(np.int64) % units).tolist() for each in drawn]


def test_rare_terms_go_where_other_terms_of_their_subscriptions_are() -> None:
    """Each worker has a frequent term, and the rare terms that are asked for together with it."""
    messages = lists([[0], [1], [2], [3]] * 200)
    rows = [[unit % 4, unit] for unit in range(4, 104) for _ in range(2)]
    parts = deal_by_affinity(104, lists(rows), messages, 4)
    assert sorted(parts[:4].tolist()) == [0, 1, 2, 3]
    assert (parts[4:] == parts[np.arange(4, 104) % 4]).all()
    assert copies(rows, parts) == len(rows)


def test_frequent_terms_are_kept_apart_although_they_are_asked_for_together() -> None:
    """To have both would be too much for one worker, however often they are asked for together."""
    parts = deal_by_affinity(2, lists([[0, 1]] * 50), lists([[0], [1]] * 500), 2)
    assert sorted(parts.tolist()) == [0, 1]


@pytest.mark.parametrize("workers", [2, 8, 32])
def test_there_are_fewer_copies_than_by_frequency_and_workers_are_even(workers: int) -> None:
    rows, texts = skewed(1, 3000, (2, 6), 3000), skewed(2, 3000, (6, 12), 3000)
    subscriptions, messages = lists(rows), lists(texts)
    parts = deal_by_affinity(3000, subscriptions, messages, workers)
    apart = deal(3000, subscriptions, messages, workers)
    assert copies(rows, parts) < 0.9 * copies(rows, apart)
    for some in (rows, texts):  # as held, and as sent
        holders = [worker for row in some for worker in {int(parts[unit]) for unit in row}]
        each = np.bincount(holders, minlength=workers)
        assert each.max() < 1.1 * each.mean()


@pytest.mark.parametrize("rows", [[], [[3, 4]]])
def test_before_there_are_subscriptions_terms_are_dealt_out_evenly(rows: list[list[int]]) -> None:
    """Those that are to come would otherwise all be at one worker."""
    parts = deal_by_affinity(400, lists(rows), lists([[unit] for unit in range(400)]), 4)
    assert np.bincount(parts, minlength=4).min() > 90


@settings(max_examples=60, deadline=None)
@given(rows=listed, texts=listed, workers=st.integers(1, 6))
def test_whatever_is_asked_for_every_unit_has_a_worker(
    rows: list[list[int]], texts: list[list[int]], workers: int
) -> None:
    """Also without subscriptions or messages, and always the same one."""
    parts = deal_by_affinity(10, lists(rows), lists(texts), workers)
    assert len(parts) == 10
    assert set(parts.tolist()) <= set(range(workers))
    again = deal_by_affinity(10, lists(rows), lists(texts), workers)
    assert parts.tolist() == again.tolist()


def test_terms_of_subscriptions_have_entries_beside_the_frequent_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that most subscriptions have, if there are too many; all others are in buckets."""
    frequent, asked = np.sort(hashed(np.arange(3))), hashed(np.array([2, 3, 4, 4, 5, 5, 5]))
    units = units_for((frequent, np.array([2, 7, 4])), asked)
    assert set(units.terms.tolist()) == set(hashed(np.arange(6)).tolist())
    assert units.of(frequent).tolist() == [2, 0, 1]  # by how frequent they are
    assert units.size == 6 + BUCKETS
    monkeypatch.setattr(term_affinity, "_MOST_TERMS", 2)
    fewer = units_for((frequent, np.array([2, 7, 4])), asked)
    assert set(fewer.terms.tolist()) == set(hashed(np.array([0, 1, 2, 4, 5])).tolist())
    assert (fewer.of(hashed(np.array([3]))) >= 5).all()
