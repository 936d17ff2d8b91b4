"""What the registrar refuses is what `scan` refuses, however often the ledger forgets ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolean_logs import records
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import event_from_json
from nearcast.geo import Box
from nearcast.spark import ledger
from nearcast.spark.events import table_of
from nearcast.spark.registrar import Registrar
from nearcast.topk import Window

BOX = {"type": "Box", "bbox": [0.0, 0.0, 5.0, 5.0]}
TOP = {"k": 1, "alpha": 0.5}
PLACES: list[dict[str, Any]] = [{"region": BOX}, {"point": [1.0, 1.0]}, {"point": [7.0, 1.0]}]

ids = st.sampled_from("abc---")  # a dash is an id that is never used again
events = st.tuples(
    st.sampled_from(["publish", "publish", "publish", "subscribe", "move", "unsubscribe"]),
    ids,
    st.sampled_from(["x", "x OR", "x y"]),
    st.sampled_from(PLACES),
    st.sampled_from([{}, {}, {"at": 0.0}, {"at": 1.0}, {"at": 3.0}, {"at": -1.0}]),
    st.sampled_from([{}, {"ttl": 9.0}]),
)
windows = st.sampled_from([Window(count=2), Window(count=5), Window(seconds=2.0)])


def log_of(given: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Events whose times grow, most of them."""
    now = 0.0
    for number, (op, id, query, place, later, lasting) in enumerate(given):
        event = {"op": op, "id": f"{number}" if id == "-" else id} | place
        if op == "publish":
            event |= {"text": "x"} | lasting
        elif op == "subscribe":
            event |= {"query": query} | ({"top": TOP} if "point" in place else {})
        if "at" in later:
            event["at"] = now + later["at"]
            now = max(now, event["at"])
        yield event


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_ROOM", 4)


@given(st.lists(events, max_size=60), windows, st.integers(1, 7))
def test_the_same_events_are_refused_for_the_same_reasons(
    given: list[tuple[Any, ...]], window: Window, at_once: int
) -> None:
    settings = Settings(window, Box(0.0, 0.0, 6.0, 6.0))
    log = list(log_of(given))
    scan, expected = Scan(settings), {}
    for number, fields in enumerate(log):
        try:
            scan.apply(event_from_json(fields))
        except NearcastError as error:
            expected[number] = str(error)
    registrar, entered = Registrar(settings), 0
    found: dict[int, str] = {}
    for start in range(0, len(log), at_once):
        some = log[start : start + at_once]
        reading = registrar.read(table_of(records(some)), np.arange(start, start + len(some)))
        found |= {start + refusal.row: refusal.error for refusal in reading.refusals}
        entered += reading.points
    assert found == expected
    assert registrar.ledger.next == entered
    recent = registrar.ledger.recent(100)
    assert len(recent) == registrar.ledger.next - registrar.ledger.first
    assert len(np.unique(recent[:, 0])) == len(recent)


def test_an_active_message_is_known_when_ids_of_others_are_forgotten() -> None:
    """It left the window long ago, and only that it is active keeps its id in use."""
    names = ["a", *map(str, range(20)), "a"]
    log: list[dict[str, Any]] = [
        {"op": "publish", "id": id, "text": "x", "point": [1.0, 1.0]} for id in names
    ]
    log[0]["ttl"] = 9.0
    registrar = Registrar(Settings(Window(count=2)))
    refused = []
    for start in range(0, len(log), 3):
        some = log[start : start + 3]
        reading = registrar.read(table_of(records(some)), np.arange(start, start + len(some)))
        refused += [start + refusal.row for refusal in reading.refusals]
    assert refused == [len(log) - 1]
