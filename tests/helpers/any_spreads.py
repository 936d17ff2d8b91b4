"""Any spread, made from any small sample, and the top-k subscriptions and messages it is for."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from nearcast.geo import Box
from nearcast.partition.sample import hashed
from nearcast.partition.topk.mechanisms import (
    MECHANISMS,
    TopkSample,
    keyword_first,
    prefix_any,
    prefix_sum,
    spatial_first,
)
from nearcast.partition.topk.placing import NO_THRESHOLD, TopkQueries, steepness_of
from nearcast.partition.topk.spread import Spread

SPACE = Box(-10.0, -10.0, 10.0, 10.0)
DIAGONAL = float(np.hypot(20.0, 20.0))
TERMS = hashed(np.arange(12)).tolist()
ALL_MECHANISMS = {**MECHANISMS, "prefix-any": prefix_any, "prefix-sum": prefix_sum}

coordinates = st.sampled_from([-10.0, -2.5, 0.0, 0.0, 4.0, 10.0]) | st.floats(-10, 10)
points = st.tuples(coordinates, coordinates)
term_sets = st.lists(st.sampled_from(TERMS), unique=True, max_size=6)
shares = st.sampled_from([0.0, 0.5, 0.99, 1.0]) | st.floats(0, 1)
thetas = st.sampled_from([NO_THRESHOLD, float("nan"), 0.0, 1.0, 0.9]) | st.floats(0, 1)


class Counted(NamedTuple):
    """Messages, with how often each term occurs in them."""

    points: Any
    starts: Any
    terms: Any
    counts: Any

    def steepness(self, idf: dict[int, float]) -> Any:
        weights = np.array([idf[int(term)] for term in self.terms], np.float64)
        return steepness_of(self.starts, self.counts, weights)


@st.composite
def queries(draw: st.DrawFn, idf: dict[int, float], most: int = 12) -> TopkQueries:
    rows = draw(st.lists(st.tuples(points, shares, term_sets.filter(bool), thetas), max_size=most))
    words = [term for row in rows for term in row[2]]
    return TopkQueries(
        hashed(np.arange(len(rows)) + 1000),
        np.array([row[0] for row in rows], np.float64).reshape(-1, 2),
        np.array([row[1] for row in rows], np.float64),
        np.cumsum([0, *(len(row[2]) for row in rows)]),
        np.array(words, np.uint64),
        np.array([idf[term] for term in words], np.float64),
        np.array([row[3] for row in rows], np.float64),
    )


@st.composite
def messages(draw: st.DrawFn, most: int = 12) -> Counted:
    rows = draw(st.lists(st.tuples(points, term_sets), max_size=most))
    words = [term for row in rows for term in row[1]]
    counts = draw(st.lists(st.integers(1, 3), min_size=len(words), max_size=len(words)))
    return Counted(
        np.array([row[0] for row in rows], np.float64).reshape(-1, 2),
        np.cumsum([0, *(len(row[1]) for row in rows)]),
        np.array(words, np.uint64),
        np.array(counts, np.int64),
    )


@st.composite
def weights(draw: st.DrawFn) -> dict[int, float]:
    drawn = st.sampled_from([1.0, 1.0, 0.25, 7.0])
    return {term: draw(drawn) for term in TERMS}


@st.composite
def spreads(draw: st.DrawFn, idf: dict[int, float]) -> Spread:
    seen = draw(messages(20))
    sample = TopkSample(
        draw(queries(idf)), seen.points, seen.starts, seen.terms, seen.steepness(idf)
    )
    workers = draw(st.integers(1, 7))
    name = draw(st.sampled_from(list(ALL_MECHANISMS)))
    if name in ("spatial-first", "keyword-first") and draw(st.booleans()):
        levels = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
        make = spatial_first if name == "spatial-first" else keyword_first
        return make(sample, levels[0] * levels[1], SPACE, levels)
    return ALL_MECHANISMS[name](sample, workers, SPACE)


@st.composite
def limited(draw: st.DrawFn, spread: Spread, seen: Counted, idf: dict[int, float]) -> Spread:
    """Let the steepest ordinary message be one of those seen, if prefixes are made for these."""
    limits = [each for each in seen.steepness(idf).tolist() if each > 0]
    if spread.prefix != "length" or not limits:
        return spread
    return replace(spread, steepest=draw(st.sampled_from([spread.steepest, inf, *limits])))


@st.composite
def barely_reached(
    draw: st.DrawFn, queries: TopkQueries, seen: Counted, idf: dict[int, float]
) -> tuple[TopkQueries, Counted]:
    """Let some thresholds be scores of messages that have only the last terms of the query.

    Such a message is where the subscription is, and may say more that is not in the query.
    """
    thetas, columns = queries.thetas.copy(), [list(column) for column in seen]
    points, starts, terms, counts = columns
    for s in range(queries.size):
        first, end = int(queries.starts[s]), int(queries.starts[s + 1])
        if draw(st.booleans()):
            last = draw(st.integers(first, end - 1))
            said = queries.terms[last:end].tolist()
            query = queries.terms[first:end].tolist()
            more = [term for term in draw(term_sets) if term not in query]
            points.append(queries.points[s])
            terms.extend(said + more)
            counts.extend([draw(st.integers(1, 3))] * len(said) + [1] * len(more))
            starts.append(len(terms))
            made = Counted(points, starts, terms, counts)
            reached = score(queries, s, made, len(points) - 1, idf)
            assert reached is not None
            thetas[s] = reached
    made = Counted(
        np.array(points, np.float64).reshape(-1, 2), np.array(starts), np.array(terms, np.uint64),
        np.array(counts, np.int64),
    )  # fmt: skip
    return queries._replace(thetas=thetas), made


def score(
    queries: TopkQueries, s: int, seen: Counted, m: int, idf: dict[int, float]
) -> float | None:
    """The contract's formula; None if the two have no term in common."""
    query = {
        int(term): float(weight)
        for term, weight in zip(
            queries.terms[queries.starts[s] : queries.starts[s + 1]],
            queries.weights[queries.starts[s] : queries.starts[s + 1]],
            strict=True,
        )
    }
    span = slice(seen.starts[m], seen.starts[m + 1])
    text = {
        int(term): int(count) * idf[int(term)]
        for term, count in zip(seen.terms[span], seen.counts[span], strict=True)
    }
    if not query.keys() & text.keys():
        return None
    dot = sum(query[term] * text[term] for term in query.keys() & text.keys())
    lengths = sum(w * w for w in query.values()) * sum(w * w for w in text.values())
    distance = float(np.hypot(*(queries.points[s] - seen.points[m])))
    alpha = float(queries.alphas[s])
    return alpha * (1.0 - distance / DIAGONAL) + (1.0 - alpha) * float(dot / np.sqrt(lengths))
