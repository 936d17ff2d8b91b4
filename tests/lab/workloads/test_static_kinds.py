"""The workloads whose subscriptions stay: tweets, small, topk, range."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nearcast_lab.workloads import generate

Event = dict[str, Any]
WORLD = 360.0 * 180.0


def parts(kind: str, **options: Any) -> tuple[list[Event], list[Event]]:
    """Give the subscriptions and the messages of a log of 4,000 each."""
    defaults: dict[str, Any] = {"vocabulary": 50_000}
    log = generate(kind, subscriptions=4000, messages=4000, seed=5, **defaults | options)
    events = list(log)
    return (
        [event for event in events if event["op"] == "subscribe"],
        [event for event in events if event["op"] == "publish"],
    )


def sides(events: list[Event]) -> NDArray[np.float64]:
    """Give width and height of the boxes that the world's edge does not cut."""
    boxes = np.array([event["region"]["bbox"] for event in events if "region" in event])
    whole = (np.abs(boxes[:, ::2]) < 180).all(axis=1) & (np.abs(boxes[:, 1::2]) < 90).all(axis=1)
    assert whole.mean() > 0.5
    size: NDArray[np.float64] = boxes[whole, 2:] - boxes[whole, :2]
    return size


@pytest.mark.parametrize("kind", ["tweets", "small", "topk"])
def test_messages_have_nine_distinct_terms(kind: str) -> None:
    """Messages have 5 to 13 different terms, 9 on average; subscriptions 1 to 5 of them, 3."""
    subscriptions, messages = parts(kind)
    lengths = [len(set(event["text"].split())) for event in messages]
    assert (min(lengths), max(lengths)) == (5, 13)
    assert np.mean(lengths) == pytest.approx(9, abs=0.2)
    wanted = [event["query"].split() for event in subscriptions]
    assert all(len(set(terms)) == len(terms) for terms in wanted)
    assert {len(terms) for terms in wanted} == {1, 2, 3, 4, 5}
    assert np.mean([len(terms) for terms in wanted]) == pytest.approx(3, abs=0.15)


@pytest.mark.parametrize("kind", ["tweets", "small", "range"])
def test_terms_are_not_repeated_in_a_message(kind: str) -> None:
    """A message names each of its terms once."""
    _, messages = parts(kind, vocabulary=2000)
    for event in messages:
        terms = event["text"].split()
        assert len(set(terms)) == len(terms)


def test_tweets_regions_are_a_share_of_the_space() -> None:
    """Areas are uniform between 0.01 % and 1 % of the space, in the space's own proportions."""
    subscriptions, _ = parts("tweets")
    size = sides(subscriptions)
    areas = size.prod(axis=1) / WORLD
    assert areas.min() >= 0.0001 * 0.999
    assert areas.max() <= 0.01 * 1.001
    assert areas.min() < 0.0003
    assert np.allclose(size[:, 0], 2 * size[:, 1], atol=1e-5)


def test_tweets_areas_fill_a_small_space_evenly() -> None:
    """Where the world's edge is far, the areas average the middle of their range."""
    subscriptions, _ = parts("tweets", space="-10,-10,10,10")
    areas = sides(subscriptions).prod(axis=1) / 400
    assert len(areas) == 4000
    assert areas.mean() == pytest.approx(0.00505, rel=0.03)


def test_tweets_subscriptions_come_from_messages() -> None:
    """With a corpus as large as the stream, each subscription's own message is published."""
    subscriptions, messages = parts("tweets", corpus=4000, space="-10,-10,10,10")
    places: dict[tuple[float, float], list[set[str]]] = {}
    for event in messages:
        lon, lat = event["point"]
        places.setdefault((round(lon, 4), round(lat, 4)), []).append(set(event["text"].split()))
    found = 0
    for event in subscriptions:
        west, south, east, north = event["region"]["bbox"]
        centre = round((west + east) / 2, 4), round((south + north) / 2, 4)
        terms = set(event["query"].split())
        found += any(terms <= message for message in places.get(centre, []))
    assert found > 0.9 * len(subscriptions)  # rounding hides some centres


def test_boolean_queries_mix_both_operators() -> None:
    """With `boolean`, queries have clauses of AND and of OR, and parentheses where both meet."""
    subscriptions, _ = parts("tweets", boolean=True)
    queries = [event["query"] for event in subscriptions]
    assert all(query.count("(") == query.count(")") for query in queries)
    for operators in ({"AND"}, {"OR"}, {"AND", "OR"}):
        assert any(operators == {"AND", "OR"} & set(query.split()) for query in queries)
    assert any(") AND (" in query for query in queries)
    assert any(") OR (" in query for query in queries)


def test_small_regions_are_tiny() -> None:
    """Sides are 0.05 % to 0.5 % of the space's."""
    subscriptions, _ = parts("small")
    size = sides(subscriptions) / (360.0, 180.0)
    assert size.min() >= 0.0005 - 1e-7
    assert size.max() <= 0.005 + 1e-7
    assert size.mean() == pytest.approx(0.00275, rel=0.03)


def test_frequent_terms_follow_zipf() -> None:
    """The first term is in about twice as many messages as the third; `shift` flattens that."""
    _, messages = parts("tweets")
    counts = Counter(term for event in messages for term in event["text"].split())
    top = [count for _, count in counts.most_common(3)]
    assert 1.3 < top[0] / top[2] < 3.2
    _, messages = parts("tweets", shift=100)
    flat = Counter(term for event in messages for term in event["text"].split())
    assert flat.most_common(1)[0][1] < top[0] / 4


def test_topk_asks_for_the_twenty_best() -> None:
    """k is 20, alpha is uniform over [0, 1], and some terms of messages are repeated."""
    subscriptions, messages = parts("topk")
    assert {event["top"]["k"] for event in subscriptions} == {20}
    alphas = [event["top"]["alpha"] for event in subscriptions]
    assert np.mean(alphas) == pytest.approx(0.5, abs=0.03)
    assert min(alphas) < 0.01
    assert max(alphas) > 0.99
    most = Counter(max(Counter(event["text"].split()).values()) for event in messages)
    assert set(most) == {1, 2, 3}
    words = np.mean([len(event["text"].split()) for event in messages])
    assert words == pytest.approx(9 * 1.24, rel=0.03)


def test_topk_can_fill_the_window_first() -> None:
    """`warm` messages come before the first subscription, and the others after the last."""
    options = {"vocabulary": 1000, "warm": 6}
    log = list(generate("topk", subscriptions=3, messages=10, seed=1, **options))
    assert [event["op"][0] for event in log] == [*"pppppp", *"sss", *"pppp"]


def test_range_mixes_short_and_long_points_and_boxes() -> None:
    """Half the messages have 6-20 terms and half 100-1000; half are boxes of 1 % of the space."""
    _, messages = parts("range")
    lengths = np.array([event["text"].count(" ") + 1 for event in messages])
    long = lengths > 20
    assert lengths[~long].min() == 6
    assert lengths[long].min() >= 100
    assert 950 < lengths[long].max() <= 1000
    wide = np.array(["region" in event for event in messages])
    for share in (long.mean(), wide.mean(), wide[long].mean()):
        assert share == pytest.approx(0.5, abs=0.06)
    assert np.allclose(sides(messages), (36.0, 18.0), atol=1e-5)


def test_range_boxes_can_be_larger() -> None:
    """With `area=0.1` the boxes of messages have a tenth of the space."""
    _, messages = parts("range", area=0.1, long_share=0)
    assert np.allclose(sides(messages), (360 * sqrt(0.1), 180 * sqrt(0.1)), atol=1e-5)


def test_range_subscriptions_use_frequent_terms() -> None:
    """Terms come from the frequent share; width and height are independent."""
    subscriptions, _ = parts("range", long_share=0, frequent=0.01, vocabulary=1000)
    terms = {term for event in subscriptions for term in event["query"].split()}
    assert len(terms) == 10
    size = sides(subscriptions) / (360.0, 180.0)
    assert size.min() >= 0.001 - 1e-7
    assert size.max() <= 0.1 + 1e-7
    assert np.abs(np.corrcoef(size.T) - np.eye(2)).max() < 0.1
