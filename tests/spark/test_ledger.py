"""What the registrar refuses, however often the ledger forgets ids, or is restored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from boolean_logs import records
from nearcast.engine.rankings import PlainRankings
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
            event |= {"ttl": more["ttl"]} if "ttl" in more else {}
        elif op == "move" and more.get("ttl", 0) > 1:
            event["ttl"] = more["ttl"]
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
    ids = old._ids[: old._places]
    state = {
        "active": ids[active].copy(),
        "until": known["until"][active].copy(),
        "active_seq": known["seq"][active].copy(),
        "now": np.array([now]),
        "next": np.array([old.next]),
        "ring": old.recent(),
    }
    some = known[owned]
    standing = ledger.StandingIds(
        ids[owned].copy(), some["owner"].copy(), some["lapse"].copy(), some["ranked"].copy()
    )
    return ledger.Ledger.restored(settings.window, state, standing, old._ended)


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
    scan = Scan(settings)
    _, expected = taken(log, scan)
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
    assert isinstance(scan.rankings, PlainRankings)
    last = list(scan.rankings.window)
    assert registrar.ledger.size == len(last)
    known = [[each.at, each.end if each.message.ttl else np.nan] for each in last]
    times = registrar.ledger.recent()[:, 2:4].copy().view(np.float64)
    assert np.array_equal(times, np.array(known).reshape(-1, 2), equal_nan=True)


def test_an_active_message_is_known_when_ids_of_others_are_forgotten() -> None:
    """It left the window long ago, and only that it is active keeps its id known."""
    names = ["a", *map(str, range(20)), "a"]
    log: list[dict[str, Any]] = [
        {"op": "publish", "id": id, "text": "x", "point": [1.0, 1.0]} for id in names
    ]
    log[0]["ttl"] = 9.0
    registrar = Registrar(Settings(Window(count=2)))
    replaced = []
    for start in range(0, len(log), 3):
        some = log[start : start + 3]
        reading = registrar.read(table_of(records(some)), np.arange(start, start + len(some)))
        replaced += reading.old.tolist()
    assert replaced == [-1] * (len(log) - 1) + [0]
