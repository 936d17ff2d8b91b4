"""The workloads whose subscriptions come and go."""

from __future__ import annotations

from math import cos, radians
from typing import Any

import numpy as np
import pytest

from nearcast_lab.workloads import generate
from nearcast_lab.workloads.space import SPACES
from nearcast_lab.workloads.words import word

Event = dict[str, Any]
VOCABULARY = 10_000
FREQUENT = {word(term) for term in range(VOCABULARY // 100)}


def log(
    kind: str, subscriptions: int = 2000, messages: int = 20_000, **options: Any
) -> list[Event]:
    options = {"vocabulary": VOCABULARY} | options
    return list(generate(kind, subscriptions=subscriptions, messages=messages, seed=8, **options))


def keywords(query: str) -> set[str]:
    return set(query.split()) - {"AND", "OR"}


def ground_sides(event: Event) -> tuple[float, float]:
    """Give width and height of a box in km."""
    west, south, east, north = event["region"]["bbox"]
    height = (north - south) * 111.195
    return (east - west) * 111.195 * cos(radians((south + north) / 2)), height


def test_five_messages_to_one_change() -> None:
    """The stream has 5 messages to 1 insertion or deletion, spread over it, half of each."""
    stream = log("sts-q1")[2000:]
    changes = np.array([event["op"] != "publish" for event in stream])
    assert changes.sum() == 4000
    assert (~changes).sum() == 20_000
    for quarter in np.array_split(changes, 4):
        assert quarter.mean() == pytest.approx(1 / 6, abs=0.005)
    inserted = sum(event["op"] == "subscribe" for event in stream)
    assert inserted == pytest.approx(2000, abs=150)


def test_population_stays_around_its_target() -> None:
    """Over several lifetimes the population stays within a tenth of the target."""
    alive, sizes = 0, []
    for event in log("sts-q1", subscriptions=1000, messages=50_000, vocabulary=1000)[1000:]:
        alive += {"subscribe": 1, "unsubscribe": -1, "publish": 0}[event["op"]]
        sizes.append(1000 + alive)
    assert min(sizes) > 900
    assert max(sizes) < 1100
    assert np.mean(sizes) == pytest.approx(1000, abs=50)


def test_lifetimes_have_mean_mu_and_deviation_a_fifth_of_it() -> None:
    """A newcomer leaves after as many insertions as there are subscriptions, give or take 20 %."""
    born: dict[str, int] = {}
    lives = []
    inserted = 0
    for event in log("sts-q1", subscriptions=500, messages=60_000, vocabulary=1000)[500:]:
        if event["op"] == "subscribe":
            inserted += 1
            born[event["id"]] = inserted
        elif event["op"] == "unsubscribe" and born.get(event["id"], 5000) < 4000:
            lives.append(inserted - born[event["id"]])
    assert np.mean(lives) == pytest.approx(500, rel=0.03)
    assert np.std(lives) == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize(("kind", "longest"), [("sts-q1", 50), ("sts-q2", 100)])
def test_regions_are_squares_on_the_ground(kind: str, longest: int) -> None:
    """Sides are uniform from 1 km to 50 km for Q1, to 100 km for Q2."""
    events = [event for event in log(kind) if event["op"] == "subscribe"]
    sides = np.array([ground_sides(event) for event in events])
    assert np.allclose(sides[:, 0], sides[:, 1], rtol=0.001)
    assert sides.min() >= 0.99
    assert sides.max() <= longest * 1.001
    assert sides.mean() == pytest.approx((1 + longest) / 2, rel=0.05)


@pytest.mark.parametrize("kind", ["sts-q1", "sts-q2", "sts-q3"])
def test_keywords_are_joined_by_one_operator(kind: str) -> None:
    """A query has 1 to 3 different keywords, joined by AND in one half and by OR in the other."""
    queries = [event["query"] for event in log(kind) if event["op"] == "subscribe"]
    assert {len(keywords(query)) for query in queries} == {1, 2, 3}
    assert all(len(keywords(query)) == len(query.split()) // 2 + 1 for query in queries)
    joints = [{"AND", "OR"} & set(query.split()) for query in queries if " " in query]
    assert all(len(joint) == 1 for joint in joints)
    assert np.mean([joint == {"AND"} for joint in joints]) == pytest.approx(0.5, abs=0.05)


def test_q2_has_a_rare_keyword_and_q1_need_not() -> None:
    """Every Q2 query has a keyword outside the 1 % most frequent terms; many of Q1 have none."""
    only_frequent = {
        kind: np.mean(
            [
                keywords(event["query"]) <= FREQUENT
                for event in log(kind)
                if event["op"] == "subscribe"
            ]
        )
        for kind in ("sts-q1", "sts-q2")
    }
    assert only_frequent["sts-q1"] > 0.2
    assert only_frequent["sts-q2"] == 0


def cell_of(event: Event) -> int:
    """Give which of the 100 regions the centre of a box lies in."""
    space = SPACES["us"]
    west, south, east, north = event["region"]["bbox"]
    column = int(((west + east) / 2 - space.west) / space.width * 10)
    row = int(((south + north) / 2 - space.south) / space.height * 10)
    return min(row, 9) * 10 + min(column, 9)


def second_cells(events: list[Event]) -> set[int]:
    """Give the regions with a side above Q1's limit."""
    return {cell_of(event) for event in events if ground_sides(event)[1] > 50.01}


def test_q3_follows_q1_or_q2_by_region() -> None:
    """Regions with a Q2 side have no query of frequent keywords only; both groups are common."""
    events = [event for event in log("sts-q3", 6000, 10) if event["op"] == "subscribe"]
    second = second_cells(events)
    assert 25 < len(second) < 75
    for event in events:
        if cell_of(event) in second:
            assert not keywords(event["query"]) <= FREQUENT
    first = [event for event in events if cell_of(event) not in second]
    assert any(keywords(event["query"]) <= FREQUENT for event in first)


def test_q3_regions_switch() -> None:
    """After `switch_every` subscriptions a tenth of the regions changes sides, and no more."""
    events = log("sts-q3", 20_000, 0, switch_every=10_000, countryside=1.0)
    before, after = second_cells(events[:10_000]), second_cells(events[10_000:])
    assert len(before ^ after) == 10
    steady = log("sts-q3", 20_000, 0, countryside=1.0)
    assert second_cells(steady[:10_000]) == second_cells(steady[10_000:])
