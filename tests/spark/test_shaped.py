"""Subscriptions of any shape: their rows as columns, and who meets some cells."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from boolean_logs import records
from nearcast.engine.settings import Settings
from nearcast.geo import region_from_json
from nearcast.partition.adjust.versions import Meeting
from nearcast.partition.grid import Grid
from nearcast.spark.definitions import Definitions
from nearcast.spark.driver.planning import rows_in
from nearcast.spark.events import table_of
from nearcast.spark.operations import OTHER, begun_in, of_kind
from nearcast.spark.registrar import Registrar
from nearcast.spark.shaped import shaped_in

GRID = Grid(-180.0, -90.0, 180.0, 90.0, 12, 6)
QUERIES = ["a", "a b", "a OR b", "(a b) OR (c d)", "a NOT b", "a OR b NOT c"]

lon, lat = st.integers(-179, 179), st.integers(-85, 85)
boxes = st.tuples(lon, lat, lon, lat).map(
    lambda b: {"type": "Box", "bbox": [b[0], min(b[1], b[3]), b[2], max(b[1], b[3])]}
)
circles = st.tuples(lon, lat, st.integers(1, 5_000_000)).map(
    lambda c: {"type": "Circle", "center": [c[0], c[1]], "radius": c[2]}
)
triangles = st.tuples(st.integers(-170, 160), st.integers(-80, 70)).map(
    lambda p: {
        "type": "Polygon",
        "coordinates": [[[p[0], p[1]], [p[0] + 9, p[1]], [p[0], p[1] + 9], [p[0], p[1]]]],
    }
)
wishes = st.lists(
    st.tuples(st.sampled_from(QUERIES), st.one_of(boxes, circles, triangles)), max_size=12
)


def begun_with(given: list[tuple[str, Any]]) -> pa.Table:
    log = [
        {"op": "subscribe", "id": f"s{number}", "query": query, "region": region}
        for number, (query, region) in enumerate(given)
    ]
    reading = Registrar(Settings()).read(table_of(records(log)), np.arange(len(log)))
    assert not reading.refusals
    return begun_in(reading.log)


def without_hulls(begun: pa.Table) -> pa.Table:
    """As a log of an earlier version had it."""
    place = begun.schema.get_field_index("box")
    boxes = [
        None if kind == OTHER else box
        for kind, box in zip(begun["kind"].to_pylist(), begun["box"].to_pylist(), strict=True)
    ]
    return begun.set_column(place, begun.schema.field(place), pa.array(boxes, begun["box"].type))


@settings(deadline=None, max_examples=60)
@given(wishes)
def test_rows_are_those_of_regions_and_conjuncts(given: list[tuple[str, Any]]) -> None:
    """One for each conjunct and plain box, whether the log says how far they reach or not."""
    begun = begun_with(given)
    for others in (of_kind(begun, OTHER), of_kind(without_hulls(begun), OTHER)):
        shaped = shaped_in(others)
        found = sorted(
            (
                int(number),
                tuple(box.tolist()),
                tuple(shaped.terms[shaped.term_starts[at] : shaped.term_starts[at + 1]].tolist()),
            )
            for number, at, box in zip(shaped.number, shaped.conjunct, shaped.boxes, strict=True)
        )
        expected = [
            (number, box, tuple(terms))
            for number, each in enumerate(others.to_pylist())
            for terms in each["required"]
            for box in region_from_json_text(each["region"]).bounds()
        ]
        assert found == sorted(expected)
    assert rows_in(begun).size == rows_in(without_hulls(begun)).size


def region_from_json_text(text: str) -> Any:
    return region_from_json(json.loads(text))


@settings(deadline=None, max_examples=60)
@given(wishes, st.lists(st.integers(0, GRID.cells - 1), max_size=4))
def test_whoever_may_meet_cells_is_found(given: list[tuple[str, Any]], cells: list[int]) -> None:
    """None is missed; of those bounded by one box none is looked at in vain."""
    begun = begun_with(given)
    met = Meeting(GRID, np.array(cells, np.int32))
    owners = begun["owner"].to_numpy()
    definitions, older = Definitions(), Definitions()
    definitions.remember(begun)
    older.remember(without_hulls(begun))
    near = set(definitions.near(owners, met).tolist())
    assert near <= set(older.near(owners, met).tolist())
    for owner in owners.tolist():
        bounds = np.array(region_from_json(given[number_of(begun, owner)][1]).bounds())
        meets = bool(met(bounds).any())
        assert owner in near if meets else owner not in near or len(bounds) > 1


def number_of(begun: pa.Table, owner: int) -> int:
    """Which wish became an owner."""
    at = begun["owner"].to_pylist().index(owner)
    return int(begun["id"].to_pylist()[at][1:])


def test_what_was_known_can_be_put_together_later() -> None:
    """Also after numbers were given to others."""
    first = begun_with([("a", {"type": "Box", "bbox": [0, 0, 1, 1]})])
    second = begun_with([("b", {"type": "Box", "bbox": [5, 5, 6, 6]})])
    definitions = Definitions()
    definitions.remember(first)
    kept = definitions.kept(first["owner"].to_numpy())
    definitions.remember(second)
    assert kept()["query"].to_pylist() == ["a"]
    assert definitions.of(first["owner"].to_numpy())["query"].to_pylist() == ["b"]
