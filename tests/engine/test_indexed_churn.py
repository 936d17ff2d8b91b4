"""What comes and goes leaves nothing behind, and what is refused changes nothing."""

import math

import pyarrow as pa
import pytest

from nearcast import Box, Circle, Engine, Polygon
from nearcast.engine import INDEX_NAMES
from nearcast.engine.indexed import Indexed
from nearcast.engine.subscriptions import IndexedSubscriptions
from nearcast.errors import StateError

INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "scan")]


def people_of(engine: Engine) -> IndexedSubscriptions:
    core = engine._core
    assert isinstance(core, Indexed)
    return core.boolean


def plain(ids: list[str], query: str = "a b") -> pa.Table:
    box = {"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}
    return pa.table({"id": ids, "query": [query] * len(ids), "region": [box] * len(ids)})


def crown(positions: int) -> Polygon:
    """A polygon of many positions."""
    angles = [2 * math.pi * n / positions for n in range(positions)]
    ring = [(math.cos(a) * (1 + n % 2), math.sin(a) * (1 + n % 2)) for n, a in enumerate(angles)]
    return Polygon([[*ring, ring[0]]])


@pytest.mark.parametrize("index", INDEXES)
def test_tables_of_subscriptions_that_come_and_go_leave_no_room_taken(index: str) -> None:
    engine, scan = Engine(index=index), Engine(index="scan")
    engine.subscribe("stays", "a OR b", Circle((0, 0), 1e5))
    scan.subscribe("stays", "a OR b", Circle((0, 0), 1e5))
    for start in range(0, 2000, 100):
        ids = [f"s{n}" for n in range(start, start + 100)]
        for one in (engine, scan):
            one.subscribe_table(plain(ids[:50], "a b"))
            one.subscribe_table(plain(ids[50:], "b"))
        sent = f"m{start}", "b", (0.5, 0.5)
        assert engine.publish(*sent) == scan.publish(*sent)
        for one in (engine, scan):
            for id in ids[start // 1000 :]:
                one.unsubscribe(id)
    assert sorted(map(str, engine.subscriptions())) == sorted(map(str, scan.subscriptions()))
    people = people_of(engine)
    assert len(people.owners.ids) < 200
    assert len(people.table) < 400


@pytest.mark.parametrize("index", INDEXES)
def test_large_shapes_and_long_exclusions_do_not_pile_up(index: str) -> None:
    engine = Engine(index=index)
    engine.subscribe("stays", "a NOT z", crown(8))
    large, without = crown(1000), "a " + " ".join(f"NOT w{n}" for n in range(500))
    for _ in range(100):
        engine.subscribe("s", "a", large)
        engine.subscribe("s", without, Circle((0, 0), 1e5))
        engine.move("s", Circle((180, 0), 1e5))
        engine.unsubscribe("s")
    assert people_of(engine).table.nbytes < 150_000
    assert [u.subscription for u in engine.publish("m", "a", (0.5, 0.1))] == ["stays"]
    assert engine.publish("n", "a z", (0.5, 0.1)) == []


@pytest.mark.parametrize(
    "refused",
    [
        lambda engine: engine.subscribe("old", " ".join("bcdefgh"), Box(0, 0, 2, 2)),
        lambda engine: engine.subscribe("new", " ".join("bcdefgh"), Box(0, 0, 2, 2)),
        lambda engine: engine.subscribe("new", "a", crown(40)),
        lambda engine: engine.move("old", crown(40)),
        lambda engine: engine.subscribe_table(plain(["new1", "new2", "new3"], "a b c d")),
    ],
)
def test_what_no_longer_fits_is_refused_and_changes_nothing(
    refused: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("old", "a", Box(0, 0, 1, 1))
    before = engine.subscriptions()
    monkeypatch.setattr("nearcast.index.table._MOST", 8)
    with pytest.raises(StateError, match="use several engines"):
        refused(engine)  # type: ignore[operator]
    monkeypatch.undo()
    assert engine.subscriptions() == before
    assert [u.subscription for u in engine.publish("m", "a b c d e f g h", (1, 1))] == ["old"]
    engine.subscribe_table(plain(["new1", "new2"], "b"))
    assert len(engine.publish("n", "a b", (1, 1))) == 3
