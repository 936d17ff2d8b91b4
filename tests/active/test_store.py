"""The store of active messages: bursts that come and go, and the areas that a move looks at."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Box, Circle, Engine, Message, Update
from nearcast.active import ActiveStore, MessageTerms
from nearcast.engine.indexed import Indexed
from nearcast.errors import StateError


def core_of(engine: Engine) -> Indexed:
    core = engine._core
    assert isinstance(core, Indexed)
    return core


def burst(first: int, count: int, at: float, ttl: float) -> pa.Table:
    rng = np.random.default_rng(first)
    points = np.column_stack([rng.uniform(-10, 10, count), rng.uniform(-10, 10, count)])
    return pa.table(
        {
            "id": [f"m{first + n}" for n in range(count)],
            "text": [f"sale word{(first + n) % 5000} other{first + n}" for n in range(count)],
            "point": points.tolist(),
            "ttl": [ttl] * count,
            "at": [at] * count,
        }
    )


def test_memory_returns_after_a_burst_has_ended() -> None:
    """Once a burst is over, the store, the ids and the terms take what they took before it."""
    engine = Engine(index="rarest-term", window_count=1)
    engine.subscribe("s", "sale", Box(-1, -1, 1, 1))
    engine.publish_table(burst(0, 200, at=0, ttl=1e6))
    core = core_of(engine)
    before, terms = core.active.nbytes, len(core.boolean.terms)
    for turn in range(1, 3):
        engine.publish_table(burst(100_000 * turn, 40_000, at=10.0 * turn, ttl=5))
        during = core.active.nbytes
        assert during > 10 * before
        for step in range(2000):
            engine.move("s", Box(-1, -1, 1, 1 + step / 1000), at=10.0 * turn + 6)
        assert len(core.active) == 200
        assert core.active.nbytes < 2 * before + during / 10
        assert len(core.boolean.terms) == terms
    assert len(engine.results("s")) == sum(
        abs(x) <= 1 and -1 <= y <= 1 + 1999 / 1000
        for x, y in burst(0, 200, at=0, ttl=1e6)["point"].to_pylist()
    )


def test_no_event_takes_out_more_than_a_few_of_those_that_have_ended() -> None:
    """Ten thousand ends at once are spread over the events that follow, and never seen again."""
    engine = Engine(index="rarest-term", window_count=1)
    engine.publish_table(burst(0, 10_000, at=0, ttl=1))
    core = core_of(engine)
    left = len(core.active)
    engine.subscribe("s", "sale", Box(-10, -10, 10, 10), at=2)
    assert left - 100 < len(core.active) < left
    assert engine.results("s") == []
    assert engine.publish("m5", "again", (0, 0), at=2, ttl=1) == []
    assert core.active.has("m5", 2.5)


def test_an_id_that_is_used_again_survives_the_one_that_has_ended() -> None:
    """Messages are packed again while both are there; the id is that of the active one."""
    engine = Engine(index="rarest-term", window_count=1)
    engine.publish_table(burst(0, 40_000, at=0, ttl=5))
    engine.publish_table(burst(40_000, 1000, at=0, ttl=5.5))
    core = core_of(engine)
    engine.subscribe("s", "sale", Box(-1, -1, 1, 1), at=6)
    engine.publish("m40500", "again", (0, 0), ttl=100)
    engine.publish("next", "in the window", (0, 0))
    slots = core.active._store.slots
    while core.active._store.slots == slots:  # until they are packed again
        engine.move("s", Box(-1, -1, 1, 1))
    assert len(core.active) > 1001
    assert engine.message("m40500") == Message("m40500", "again", (0.0, 0.0), at=6.0, ttl=100)
    while len(core.active) > 1:
        engine.move("s", Box(-1, -1, 1, 1))
    assert engine.message("m40500") is not None
    assert engine.publish("m40500", "new", (0, 0), at=106) == []


@pytest.mark.parametrize("radius", [30_000, 300_000])
def test_a_circle_among_many_messages(radius: float) -> None:
    """Cells inside both circles are passed over; what changes is what `scan` says."""
    fast, scan = Engine(index="rarest-term", window_count=1), Engine(index="scan", window_count=1)
    for engine in (fast, scan):
        engine.publish_table(burst(0, 3000, at=0, ttl=100))
        engine.subscribe("s", "sale NOT word17", Circle((0, 0), radius))
        engine.subscribe("t", "sale OR word3", Circle((0, 0), radius))
    for step in range(12):
        for id in "st":
            where = Circle((step * 0.11, step * -0.07), radius)
            assert fast.move(id, where) == scan.move(id, where)


def test_a_message_on_both_sides_of_the_antimeridian_lasts_too() -> None:
    """It is met from either side, and moves beside it see it."""
    engine = Engine(index="rarest-term")
    engine.publish("m", "storm", region=Box(179, 0, -179, 1), ttl=10)
    assert engine.subscribe("s", "storm", Box(-180, 0, -179.5, 1)) == [Update("add", "s", "m")]
    assert engine.move("s", Box(-178, 0, -177, 1)) == [Update("remove", "s", "m")]
    assert engine.move("s", Box(179.5, 0, 180, 1)) == [Update("add", "s", "m")]


def test_a_group_with_as_many_terms_as_there_is_room_for() -> None:
    """Sixteen messages of 1024 terms each come, and end."""
    store, many, long = ActiveStore(), 16, 1024
    terms = np.tile(np.arange(long, dtype=np.int32), many)
    slots = store.add(
        MessageTerms(np.arange(0, many * long + 1, long), terms), np.zeros((many, 4)), np.ones(many)
    )
    assert sorted(slots.tolist()) == list(range(many))
    assert len(store.expire(1.0, 100).slots) == many
    assert len(store) == 0


@pytest.mark.parametrize(("limit", "most"), [("_MOST_MESSAGES", 4), ("_MOST_ENTRIES", 8)])
def test_more_messages_than_can_be_counted_are_refused(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything has changed."""
    monkeypatch.setattr(f"nearcast.active.store.{limit}", most)
    engine = Engine(index="rarest-term", window_count=1)
    for number in range(4):
        engine.publish(f"m{number}", "two terms", (0, 0), ttl=9)
    with pytest.raises(StateError, match="5 active ones with 10 terms in all given; expected"):
        engine.publish("m4", "two terms", (0, 0), ttl=9)
    assert len(core_of(engine).active) == 4
    assert len(engine.subscribe("s", "terms", Box(0, 0, 1, 1))) == 4


@pytest.mark.parametrize("room", [4, 1 << 20])
def test_an_answer_stays_what_it_is_when_the_next_one_comes(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was copied out of the work space, or got the work space itself as a large one."""
    monkeypatch.setattr("nearcast.active.store._ROOM_KEPT", room)
    engine = Engine(index="rarest-term", window_count=1)
    engine.publish_table(burst(0, 300, at=0, ttl=100))
    engine.subscribe("s", "sale", Box(-10, -10, 0, 10))
    engine.subscribe("t", "sale", Box(0, -10, 10, 10))
    core, events, times = core_of(engine), np.zeros(1, np.int32), np.zeros(1)
    answers = [core.active.wanted_by_rows(core.boolean.rows_of(id), events, times) for id in "stst"]
    found = [set(answer.slots.tolist()) for answer in answers]
    assert found[:2] == found[2:]
    assert found[0] | found[1] == set(range(300))
    assert all((answer.ops == 1).all() for answer in answers)
