"""A subscription that meets a full window gets the k best of it, to the last bit of a score."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.geo import planar_distance
from nearcast.topk.core import TopK
from nearcast.topk.score import weighed
from nearcast.topk.window import Window

WINDOW, TERMS = 400, 24
DIAGONAL = 5.0


def _bags(draw: np.random.Generator, count: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = draw.integers(1, longest + 1, count)
    # Low numbers are frequent: their circles are long enough to say what is reached by many.
    rows = [np.sort(draw.choice(TERMS, n, replace=False, p=_CHANCES)) for n in lengths]
    return np.append(0, np.cumsum(lengths)), np.concatenate(rows).astype(np.int32)


_CHANCES = 1.0 / np.arange(1, TERMS + 1)
_CHANCES /= _CHANCES.sum()


@pytest.mark.parametrize("weighs", [False, True])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_best_are_found_with_a_floor_known_beforehand(weighs: bool, seed: int) -> None:
    """Long and short messages, some of them twice, in circles that have turned."""
    draw = np.random.default_rng(seed)
    idf = draw.random(TERMS) * 5 + 0.1 if weighs else np.ones(TERMS)
    core = TopK(Window(WINDOW), 0.0, 0.0, DIAGONAL)
    core.ensure_terms(TERMS)
    core.weigh(np.arange(TERMS, dtype=np.int32), idf)
    count = WINDOW + int(draw.integers(0, WINDOW))
    starts, terms = _bags(draw, count, int(draw.choice([4, 9, 20])))
    points = draw.integers(0, 12, (count, 2)) * [0.25, 1 / 3]
    counts = draw.integers(1, 3, len(terms)).astype(np.int32)
    core.publish(points, np.zeros(count), starts, terms, counts)

    queries = 12
    query_starts, query_terms = _bags(draw, queries, 6)
    places = draw.random((queries, 2)) * [3, 4]
    alphas = draw.choice([0.0, 1.0, 0.5, draw.random()], queries)
    ks = draw.choice([1, 3, 20, 150], queries).astype(np.int32)
    subs = core.subscribe(places, alphas, ks, query_starts, query_terms)
    found = core.members(subs)

    for n in range(queries):
        query = query_terms[query_starts[n] : query_starts[n + 1]]
        squared = sum(idf[term] * idf[term] for term in query)
        ranked = []
        for number in range(count - WINDOW, count):
            bag = slice(starts[number], starts[number + 1])
            tf = dict(zip(terms[bag].tolist(), counts[bag].tolist(), strict=True))
            if not tf.keys() & set(query.tolist()):
                continue
            dot = sum((idf[t] * (tf[t] * idf[t]) for t in query.tolist() if t in tf), 0.0)
            length = sum((tf[t] * idf[t]) * (tf[t] * idf[t]) for t in tf)
            distance = planar_distance(*places[n], *points[number])
            score = weighed(alphas[n], dot, squared, length, distance, DIAGONAL)
            ranked.append((score, number))
        mine = found.events == n
        given = list(zip(found.scores[mine].tolist(), found.messages[mine].tolist(), strict=True))
        assert given == sorted(ranked, reverse=True)[: ks[n]]
