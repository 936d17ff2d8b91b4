"""Definitions that are made as columns are those that are made one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from boolean_logs import records
from nearcast.arrays.slots import as_secret
from nearcast.engine.settings import Settings
from nearcast.geo import region_from_json
from nearcast.spark.batch import EventBatch
from nearcast.spark.entries import definition_of
from nearcast.spark.events import table_of
from nearcast.spark.operations import EVERYONE, OTHER
from nearcast.spark.reading import pack_events
from nearcast.spark.registrar import Registrar
from nearcast.text import Analyser, parse_query
from nearcast.text.columns import hash_terms

WORDS = ["tea", "Tea", "coffee", "red-wine", "x1", "don't", "É"]
ATOMS = [
    *WORDS, '"red wine"', '"green tea cup"', "te*", "price:<5", "price:[1 TO 2.5]", "kind:deal",
    'kind:"happy hour"', "open:true", "n:7", "price:*", '"say \\"so\\""', "*",
]  # fmt: skip
queries = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" ", " AND ", " OR ", " NOT "]), inner).map("".join),
        inner.map(lambda query: f"({query})"),
    ),
    max_leaves=5,
)
lon, lat = st.integers(-1790, 1700).map(lambda n: n / 10), st.integers(-89, 80)
regions: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.tuples(lon, lat, lon).map(
        lambda b: {"type": "Box", "bbox": [b[0], b[1], b[2], b[1] + 5]}
    ),  # perhaps across the antimeridian
    st.tuples(lon, lat, st.sampled_from([0, 5, 1e6, 9e6])).map(
        lambda c: {"type": "Circle", "center": [c[0], c[1]], "radius": c[2]}
    ),
    st.tuples(lon, lat, st.booleans(), st.booleans()).map(lambda p: shaped(*p)),
)


def shaped(west: float, south: float, hole: bool, several: bool) -> dict[str, Any]:
    def ring(size: float) -> list[list[float]]:
        return [[west, south], [west + size, south], [west, south + size], [west, south]]

    inner = [[west + 1, south + 1], [west + 1, south + 2], [west + 2, south + 1]]
    rings = [ring(9.125), [*inner, inner[0]]] if hole else [ring(1 / 3)]
    if several:
        return {"type": "MultiPolygon", "coordinates": [rings]}
    return {"type": "Polygon", "coordinates": rings}


BOX: dict[str, Any] = {"type": "Box", "bbox": [0, 0, 1, 1]}
CIRCLE: dict[str, Any] = {"type": "Circle", "center": [0, 0], "radius": 9}
TRIANGLE = shaped(0.0, 0.0, False, False)
USUAL = ["tea NOT coffee", "tea", '"red wine"', "tea NOT te*", "tea OR x1", "price:<5", "*"]
KINDS = [(query, region) for query in USUAL for region in (BOX, CIRCLE, TRIANGLE)]
MOVES = [(*kind, region) for kind in KINDS for region in (BOX, CIRCLE, TRIANGLE)]
QUICK = settings(
    deadline=None, max_examples=60, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)


SECRET = b"sixteen letters."


def one_by_one(query: str, region: dict[str, Any], chosen: Settings) -> dict[str, Any]:
    """As a subscription with `meta` is read."""
    conjuncts, secret = parse_query(query, chosen.analyser).conjuncts, as_secret(chosen.secret)
    required = [
        hash_terms(sorted(c.required), secret).tolist() or [int(EVERYONE)] for c in conjuncts
    ]
    excluded = [hash_terms(sorted(c.excluded), secret).tolist() for c in conjuncts]
    asks = any(one.having or one.lacking for one in conjuncts)
    known = {"id": "s", "query": query, "required": required, "excluded": excluded, "asks": asks}
    return definition_of(known, region_from_json(region))


def comparable(definition: dict[str, Any]) -> dict[str, Any]:
    """The order of terms says nothing, nor does the way in which numbers are written."""
    found = {name: value for name, value in definition.items() if value is not None}
    for name in ("region", "asks"):
        if name in found:
            found[name] = json.loads(found[name])
    for name in ("required", "excluded"):
        if name in found:
            found[name] = [sorted(terms) for terms in found[name]]
    if "terms" in found:
        found["terms"] = sorted(found["terms"])
    found["box"] = [*found["box"]]
    return found


def are_refused(query: str, analyser: Analyser) -> bool:
    try:
        parse_query(query, analyser)
    except ValueError:
        return True
    return False


@QUICK
@given(
    st.lists(st.tuples(queries, regions), min_size=1, max_size=8),
    st.sampled_from([Analyser(), Analyser(stop_words=frozenset({"tea"}))]),
    st.sampled_from([b"", SECRET]),
)
@example(KINDS, Analyser(), b"")
@example(KINDS, Analyser(), SECRET)
def test_definitions_of_subscriptions(
    some: list[tuple[str, dict[str, Any]]], analyser: Analyser, secret: bytes
) -> None:
    chosen = Settings(analyser=analyser, secret=secret)
    good = [(query, region) for query, region in some if not are_refused(query, analyser)]
    log = [
        {"op": "subscribe", "id": "s", "query": query, "region": region} for query, region in some
    ]
    table = table_of(records(log))
    packed = pack_events(table, np.arange(len(table)), chosen)
    found = packed.begun.drop_columns(["row", "top", "definition"]).to_pylist()
    expected = [one_by_one(query, region, chosen) for query, region in good]
    assert list(map(comparable, found)) == list(map(comparable, expected))
    assert packed.errors["row"].to_pylist() == [
        row for row, (query, _) in enumerate(some) if are_refused(query, analyser)
    ]


@QUICK
@given(st.lists(st.tuples(queries, regions, regions), min_size=1, max_size=6))
@example(MOVES)
def test_definitions_of_subscriptions_that_moved(
    some: list[tuple[str, dict[str, Any], dict[str, Any]]],
) -> None:
    """They are those of new subscriptions with the old query in the new region."""
    some = [each for each in some if not are_refused(each[0], Analyser())]
    registrar = Registrar(Settings())
    events = [
        {"op": "subscribe", "id": f"s{at}", "query": query, "region": region}
        for at, (query, region, _) in enumerate(some)
    ]
    moves = [
        {"op": "move", "id": f"s{at}", "region": region} for at, (_, _, region) in enumerate(some)
    ]
    table = table_of(records([*events, *moves]))
    half = len(some)
    registrar.read(table[:half], np.arange(half))
    log = registrar.read(table[half:], np.arange(half, 2 * half)).log
    rows = {row["id"]: row for row in log.to_pylist() if row["id"] is not None}
    for at, (query, _, region) in enumerate(some):
        row = rows[f"s{at}"]
        found = {name: row[name] for name in row if name not in ("owner", "seq")}
        expected = one_by_one(query, region, Settings()) | {"id": f"s{at}"}
        assert comparable(found) == comparable(expected)


def test_usual_queries_and_polygons_are_read_as_columns() -> None:
    """Else all of this would be as slow as one by one."""
    texts = ["tea AND (x OR y)", '"red wine"', "te*", "tea NOT coffee", "price:<5"]
    log = [
        {"op": "subscribe", "id": "s", "query": text, "region": where}
        for text in texts for where in (TRIANGLE, BOX)
    ]  # fmt: skip
    batch = EventBatch(table_of(records(log)), Settings())
    assert batch.bulk.tolist() == list(range(len(log)))
    assert batch.queries == {}
    kinds = pack_events(table_of(records(log)), np.arange(len(log)), Settings()).begun["kind"]
    assert kinds.to_pylist().count(OTHER) == 7
    assert pa.types.is_int8(kinds.type)
