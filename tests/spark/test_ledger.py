"""What the registrar refuses, however often the ledger forgets ids, or is restored.

`PipelineScan` says what a pipeline refuses; what it leaves, `scan` takes with the same updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
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
from nearcast.spark.scan import PipelineScan
from nearcast.topk import Window

BOX = {"type": "Box", "bbox": [0.0, 0.0, 5.0, 5.0]}
TOP = {"k": 1, "alpha": 0.5}
PLACES: list[dict[str, Any]] = [
    {"region": BOX},
    {"point": [1.0, 1.0]},
    {"point": [1.0, 1.0]},
    {"point": [7.0, 1.0]},
]

ids = st.sampled_from("abc---")  # a dash is an id that is never used again
events = st.tuples(
    st.sampled_from(
        ["publish", "publish", "publish", "publish", "subscribe", "move", "unsubscribe", "retract"]
    ),
    ids,
    st.sampled_from(["x", "x", "x OR", "x y", "x*", "a:1 NOT x"]),
    st.sampled_from(PLACES),
    st.sampled_from([{}, {}, {"at": 0.0}, {"at": 1.0}, {"at": 3.0}, {"at": -1.0}]),
    st.sampled_from(
        [{}, {}, {"ttl": 9.0}, {"ttl": 1.0}, {"ttl": 1e-300}, {"properties": {"a": 1}}]
    ),
)
windows = st.sampled_from([Window(count=2), Window(count=5), Window(seconds=2.0)])


def log_of(given: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Events whose times grow, most of them."""
    now = 0.0
    for number, (op, id, query, place, later, more) in enumerate(given):
        event = {"op": op, "id": f"{number}" if id == "-" else id} | place
        if op == "publish":
            event |= {"text": "x"} | more
        elif op == "subscribe":
            event |= {"query": query} | ({"top": TOP} if "point" in place else {})
        if "at" in later:
            event["at"] = now + later["at"]
            now = max(now, event["at"])
        yield event


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_ROOM", 4)


def taken(log: list[dict[str, Any]], engine: Scan) -> tuple[list[tuple[int, Any]], dict[int, str]]:
    """The updates of an engine, with the places of their events, and why it refused others."""
    updates, refused = [], {}
    for number, fields in enumerate(log):
        try:
            updates += [(number, each) for each in engine.apply(event_from_json(fields))]
        except NearcastError as error:
            refused[number] = str(error)
    return updates, refused


def restored(registrar: Registrar, settings: Settings) -> ledger.Ledger:
    """The ledger as it is after a restart."""
    old = registrar.ledger
    known, now = old._known[: old._places], old.now
    owned = known["owner"] >= 0
    active = known["until"] > (-np.inf if np.isnan(now) else now)
    entries, ids = old.recent(100), old._ids[: old._places]
    state = {
        "active": ids[active].copy(),
        "until": known["until"][active].copy(),
        "now": np.array([now]),
        "next": np.array([old.next]),
        "ring": np.ascontiguousarray(entries[:, :2]),
        "ring_times": np.ascontiguousarray(entries[:, 2]).view(np.float64),
        "ring_ends": np.ascontiguousarray(entries[:, 3]).view(np.float64),
    }
    ranked = known["owner"][owned & known["ranked"]]
    return ledger.Ledger.restored(
        settings.window, state, ids[owned].copy(), known["owner"][owned].copy(), old._ended, ranked
    )


REUSED = [
    ("publish", "a", "x", PLACES[1], {"at": 0.0}, {"ttl": 1.0}),
    ("publish", "a", "x", PLACES[1], {"at": 1.0}, {}),
    ("publish", "a", "x", PLACES[1], {"at": 0.0}, {}),
    ("subscribe", "b", "x", PLACES[1], {}, {}),
    ("publish", "-", "x", PLACES[1], {}, {}),
    ("subscribe", "b", "x", PLACES[1], {}, {}),
    ("publish", "-", "x", PLACES[1], {}, {"ttl": 1.0}),
    ("move", "b", "x", PLACES[0], {}, {}),
]


@given(st.lists(events, max_size=60), windows, st.integers(1, 7), st.booleans())
@example(REUSED, Window(count=2), 1, True)
def test_the_same_events_are_refused_for_the_same_reasons(
    given: list[tuple[Any, ...]], window: Window, at_once: int, restarts: bool
) -> None:
    settings = Settings(window, Box(0.0, 0.0, 6.0, 6.0))
    log = list(log_of(given))
    updates, expected = taken(log, PipelineScan(settings))
    good = [number for number in range(len(log)) if number not in expected]
    plain, refused = taken([log[number] for number in good], Scan(settings))
    assert refused == {}
    assert [(good[number], update) for number, update in plain] == updates
    registrar, entered = Registrar(settings), 0
    found: dict[int, str] = {}
    for start in range(0, len(log), at_once):
        some = log[start : start + at_once]
        reading = registrar.read(table_of(records(some)), np.arange(start, start + len(some)))
        found |= {start + refusal.row: refusal.error for refusal in reading.refusals}
        entered += reading.points
        if restarts:
            registrar.ledger = restored(registrar, settings)
    assert found == expected
    assert registrar.ledger.next == entered
    recent = registrar.ledger.recent(100)
    assert len(recent) == registrar.ledger.next - registrar.ledger.first


def test_what_a_reused_id_does_to_top_k() -> None:
    """The id of a message that ended is free; what ended keeps top-k away while in the window."""
    settings = Settings(Window(count=2), Box(0.0, 0.0, 6.0, 6.0))
    _, refused = taken(list(log_of(REUSED)), PipelineScan(settings))
    assert {place: error.split(" is not known")[0] for place, error in refused.items()} == {
        2: "id: replacing a message",
        3: "top: a top-k subscription, while the window has messages with ttl,",
        6: "ttl: a message that ends, beside top-k subscriptions,",
        7: "region: a top-k subscription in a region",
    }


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
