"""Any course of subscriptions, moves, lasting messages and time gives the updates of `scan`."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nearcast import Box, Circle, Engine, MultiPolygon, NearcastError, Polygon, Top
from nearcast.engine import INDEX_NAMES
from nearcast.geo import Region, region_to_json

LONS = [-180.0, -179.0, -90.0, 0.0, 0.1, 0.25, 0.5, 1.0, 1.1, 2.0, 3.0, 179.0, 180.0]
LATS = [-90.0, -10.0, 0.0, 0.1, 0.25, 0.5, 1.0, 1.1, 2.0, 3.0, 89.0]
NAMES = [f"s{n}" for n in range(6)]
RANKED = ["t0", "t1"]  # top-k subscriptions
SOME = [*NAMES, *NAMES, *NAMES, *RANKED]
QUERIES = [
    *("a", "b", "a b", "a OR b", "a NOT b", "(a OR c) AND b", "c d e", "a NOT a OR é", "new"),
]
TEXTS = ["a", "b", "a b", "a b c", "c d e", "é", "a é", "new a", "", "x y z w a b"]

lons, lats = st.sampled_from(LONS), st.sampled_from(LATS)
points = st.tuples(lons, lats)
boxes = st.builds(lambda w, s, e, n: Box(w, min(s, n), e, max(s, n)), lons, lats, lons, lats)
plain = st.builds(lambda b: Box(min(b.west, b.east), b.south, max(b.west, b.east), b.north), boxes)
circles = st.builds(Circle, points, st.sampled_from([0.0, 1e3, 3e4, 1.2e5, 5e5, 5e6, 3e7]))
triangles = st.builds(
    lambda lon, lat, size: Polygon(
        [[(lon, lat), (lon + size, lat), (lon, lat + size), (lon, lat)]]
    ),
    st.sampled_from([-90.0, 0.0, 0.5, 1.0]),
    st.sampled_from([-10.0, 0.0, 0.5]),
    st.sampled_from([0.5, 1.0, 3.0]),
)
several = st.lists(triangles, min_size=1, max_size=3).map(MultiPolygon.of_polygons)
regions: st.SearchStrategy[Region] = st.one_of(plain, boxes, circles, circles, triangles, several)
steps = st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0, 20.0])
lives = st.sampled_from([0.0, 1.0, 4.0, 4.0, 1e6])
struct = pa.struct(
    [
        ("type", pa.string()),
        ("bbox", pa.list_(pa.float64())),
        ("center", pa.list_(pa.float64())),
        ("radius", pa.float64()),
    ]
)


class Against(RuleBasedStateMachine):
    """Two engines that get the same events."""

    index = "rarest-term"

    @initialize(
        crowd=st.integers(0, 90),
        window=st.sampled_from([(1, None), (1, None), (7, None), (None, 2.0)]),
    )
    def start(self, crowd: int, window: tuple[int | None, float | None]) -> None:
        """Some start with so many messages that their list is divided into cells."""
        count, seconds = window
        self.fast = Engine(index=self.index, window_count=count, window_seconds=seconds)
        self.scan = Engine(index="scan", window_count=count, window_seconds=seconds)
        self.now, self.count = 0.0, 0
        table = pa.table(
            {
                "id": [f"c{n}" for n in range(crowd)],
                "text": ["a b" if n % 3 else "a" for n in range(crowd)],
                "point": [[LONS[n % 13], LATS[n % 11]] for n in range(crowd)],
                "ttl": [3.0 + n % 7 for n in range(crowd)],
            },
            schema=pa.schema(
                [
                    ("id", pa.string()),
                    ("text", pa.string()),
                    ("point", pa.list_(pa.float64())),
                    ("ttl", pa.float64()),
                ]
            ),
        )
        self.both(lambda engine: engine.publish_table(table).to_pylist())

    def both(self, call: object) -> None:
        answers = []
        for engine in (self.fast, self.scan):
            try:
                answers.append(call(engine))  # type: ignore[operator]
            except NearcastError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]

    @rule(id=st.sampled_from(NAMES), query=st.sampled_from(QUERIES), region=regions, step=steps)
    def subscribe(self, id: str, query: str, region: Region, step: float) -> None:
        self.now += step
        self.both(lambda engine: engine.subscribe(id, query, region, at=self.now))

    @rule(id=st.sampled_from(RANKED), point=points, alpha=st.sampled_from([0.0, 0.5]), step=steps)
    def subscribe_top(self, id: str, point: tuple[float, float], alpha: float, step: float) -> None:
        self.now += step
        top = Top(2, alpha)
        self.both(lambda engine: engine.subscribe(id, "a b", point=point, top=top, at=self.now))

    @rule(id=st.sampled_from(NAMES), region=regions, step=steps)
    def move(self, id: str, region: Region, step: float) -> None:
        self.now += step
        self.both(lambda engine: engine.move(id, region, at=self.now))

    @rule(
        who=st.lists(st.sampled_from(SOME), min_size=1, max_size=8),
        where=st.one_of(st.lists(plain, min_size=8, max_size=8), st.lists(circles, min_size=8)),
        step=steps,
    )
    def move_many(self, who: list[str], where: list[Region], step: float) -> None:
        times = [self.now + step * n for n in range(len(who))]
        self.now = times[-1]
        table = pa.table(
            {
                "id": who,
                "region": pa.array([region_to_json(r) for r in where[: len(who)]], struct),
                "at": times,
            }
        )
        self.both(lambda engine: engine.move_table(table).to_pylist())

    @rule(id=st.sampled_from([*NAMES, *RANKED]), step=steps)
    def unsubscribe(self, id: str, step: float) -> None:
        self.now += step
        self.both(lambda engine: engine.unsubscribe(id, at=self.now))

    @rule(text=st.sampled_from(TEXTS), point=points, ttl=lives, step=steps)
    def publish(self, text: str, point: tuple[float, float], ttl: float, step: float) -> None:
        self.now += step
        self.count += 1
        id = f"m{self.count % 40}"
        self.both(lambda engine: engine.publish(id, text, point, at=self.now, ttl=ttl))

    @rule(text=st.sampled_from(TEXTS), region=boxes, ttl=lives)
    def publish_range(self, text: str, region: Box, ttl: float) -> None:
        self.count += 1
        id = f"m{self.count % 40}"
        self.both(lambda engine: engine.publish(id, text, region=region, at=self.now, ttl=ttl))

    @rule(
        rows=st.lists(st.tuples(st.sampled_from(TEXTS), points, lives), min_size=1, max_size=20),
        step=steps,
    )
    def publish_many(self, rows: list[tuple[str, tuple[float, float], float]], step: float) -> None:
        self.now += step
        self.count += len(rows)
        table = pa.table(
            {
                "id": [f"n{self.count + n}" for n in range(len(rows))],
                "text": [text for text, _, _ in rows],
                "point": [list(point) for _, point, _ in rows],
                "ttl": [ttl for _, _, ttl in rows],
                "at": [self.now] * len(rows),
            }
        )
        self.both(lambda engine: engine.publish_table(table).to_pylist())

    @rule(fresh=st.integers(1, 20), query=st.sampled_from(["a", "b a"]), box=plain)
    def subscribe_many(self, fresh: int, query: str, box: Box) -> None:
        self.count += fresh
        table = pa.table(
            {
                "id": [f"t{self.count + n}" for n in range(fresh)],
                "query": [query] * fresh,
                "region": pa.array([region_to_json(box)] * fresh, struct),
            }
        )
        self.both(lambda engine: engine.subscribe_table(table).to_pylist())

    @invariant()
    def results_are_the_same(self) -> None:
        if hasattr(self, "fast"):
            for id in [*NAMES, *RANKED]:
                self.both(lambda engine, id=id: engine.results(id))
                self.both(lambda engine, id=id: engine.get(id))
            recent = range(self.count - 3, self.count + 1)
            for id in ["c0", "c1", *(f"n{n}" for n in recent), *(f"m{n % 40}" for n in recent)]:
                self.both(lambda engine, id=id: engine.message(id))


SMALL = "ap-plus-tree:leaf_capacity=2,fanout=3,most_copies=3,timestamp_s=1"
"""A tree of few rows that has nodes, rebuilds them, and holds messages above its leaves."""


@pytest.mark.parametrize(
    "index",
    [*(n for n in INDEX_NAMES if n not in ("scan", "sequential")), SMALL, f"{SMALL},cut=again"],
)
def test_the_updates_of_scan(index: str, run_machine: Callable[..., None]) -> None:
    machine = type("Machine", (Against,), {"index": index})
    run_machine(machine, examples=8 if index in INDEX_NAMES[2:] else 40, steps=30)
