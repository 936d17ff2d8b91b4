"""Whatever comes and whenever it ends: a durable engine goes on where it was acknowledged.

The reference is `Scan`, which lives through everything. The engine under test is closed, killed
(its files are copied as they are and opened elsewhere) and denied its commits on the way.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import nearcast.store.chunks as chunks_module
import nearcast.store.log as log_module
import nearcast.store.messages as messages_module
import nearcast.store.snapshot as snapshot_module
from event_logs import logs, worlds
from naive import Fields, Given
from nearcast import Box, Engine, NearcastError, Subscription, Update
from nearcast.engine import Entry, Scan, Settings
from nearcast.engine.tables import TableError
from nearcast.errors import StoreError
from nearcast.events import Event, Publish, event_from_json
from nearcast.geo import WORLD
from nearcast.store.export import export_events
from nearcast.text import DEFAULT, Vocabulary
from nearcast.topk import Window

any_logs = st.one_of(logs(), logs(rich=True), logs(rich=True))
DENIED = sqlite3.OperationalError("disk I/O error")


def settings_of(world: Given) -> Settings:
    history = None
    if world.history is not None:
        history = Vocabulary.from_documents(DEFAULT.terms(text) for text in world.history)
    space = WORLD if world.space is None else Box(*world.space)
    return Settings(Window(world.count, world.seconds), space, history)


def events_of(log: list[Fields]) -> list[Event]:
    found = []
    for fields in log:
        try:
            found.append(event_from_json(fields))
        except NearcastError:
            continue
    return found


class Durable(RuleBasedStateMachine):
    """An engine with a file, beside a plain one that is never interrupted."""

    @initialize(
        world=worlds,
        index=st.sampled_from(["auto", "rarest-term", "scan", "ap-tree", "ap-plus-tree", "gi2"]),
        start=st.sampled_from([0.0, 0.0, -100.0]),
    )
    def begin(self, world: Given, index: str, start: float) -> None:
        self.root = TemporaryDirectory()
        self.folders = count()
        self.index = index
        self.settings = settings_of(world)
        self.reference = Scan(self.settings)
        self.expected: list[Entry] = []
        self.seq = 0
        self.start = start
        self.path = self.fresh_folder() / "e.nearcast"
        window, space, history = self.settings.window, self.settings.space, self.settings.history
        self.engine = Engine(
            path=self.path,
            index=index,
            window_count=None if window.seconds else window.count,
            window_seconds=window.seconds,
            space=space,
            history=history,
        )

    def fresh_folder(self) -> Path:
        folder = Path(self.root.name) / str(next(self.folders))
        folder.mkdir()
        return folder

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.root.cleanup()

    def expect(self, event: Event) -> tuple[str | None, list[Update]]:
        try:
            updates = self.reference.apply(event)
        except NearcastError as error:
            return str(error), []
        self.seq += 1
        for update in updates:
            entry = Entry(
                len(self.expected) + 1,
                self.seq,
                self.reference.now or 0.0,
                update.op,
                update.subscription,
                update.message,
                update.score,
            )
            self.expected.append(entry)
        return None, updates

    def later(self, log: list[Fields]) -> list[Event]:
        """Logs begin at 0: let each begin where the one before ended."""
        start = self.start if self.reference.now is None else self.reference.now
        for fields in log:
            if fields.get("at") is not None:
                fields["at"] += start
        return events_of(log)

    @rule(log=any_logs)
    def apply_together(self, log: list[Fields]) -> None:
        events = self.later(log)
        outcomes = self.engine.apply_all(events)
        for event, outcome in zip(events, outcomes, strict=True):
            first = len(self.expected) + 1
            error, updates = self.expect(event)
            assert (None if outcome.error is None else str(outcome.error)) == error
            assert list(outcome.updates) == updates
            if error is None:
                assert (outcome.seq, outcome.first_id) == (self.seq, first)
            else:
                assert outcome.seq is None

    @rule(log=any_logs)
    def apply_one_by_one(self, log: list[Fields]) -> None:
        for event in self.later(log)[:5]:
            error, updates = self.expect(event)
            if error is None:
                assert self.engine.apply(event) == updates
            else:
                with pytest.raises(NearcastError) as caught:
                    self.engine.apply(event)
                assert str(caught.value) == error

    @rule(
        texts=st.lists(st.sampled_from(["a", "b a", "É", "fi", "c x"]), min_size=1, max_size=12),
        lives=st.sampled_from([[0.0], [4.0], [0.0, 2.0, 1e6]]),
    )
    def publish_a_table(self, texts: list[str], lives: list[float]) -> None:
        ids = [f"table-{self.seq}-{row}" for row in range(len(texts))]
        points = [[float(row % 3), 0.5] for row in range(len(texts))]
        space = self.settings.space
        if not all(space.contains(*point) for point in points):
            return
        ttl = [lives[row % len(lives)] for row in range(len(texts))]
        table = pa.table({"id": ids, "text": texts, "point": points, "ttl": ttl})
        found = self.engine.publish_table(table)
        self.expect_table("publish", table, found)

    def expect_table(self, op: str, table: pa.Table, found: pa.Table) -> None:
        wanted = []
        for row, fields in enumerate(table.to_pylist()):
            updates = self.expect(event_from_json(fields | {"op": op}))[1]
            wanted += [(row, u.op, u.subscription, u.message, u.score) for u in updates]
        assert [tuple(row.values()) for row in found.to_pylist()] == wanted

    @rule(queries=st.lists(st.sampled_from(["a", "b a", "É", "a OR c"]), min_size=1, max_size=4))
    def subscribe_a_table(self, queries: list[str]) -> None:
        ids = [f"bulk-{self.seq}-{row}" for row in range(len(queries))]
        region = {"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}
        table = pa.table({"id": ids, "query": queries, "region": [region] * len(ids)})
        self.expect_table("subscribe", table, self.engine.subscribe_table(table))

    @rule(
        picks=st.lists(st.integers(0, 100), min_size=1, max_size=6),
        place=st.sampled_from([0.0, 0.5, 1.0, 179.5]),
        circles=st.booleans(),
        step=st.sampled_from([0.0, 1.0]),
    )
    def move_a_table(self, picks: list[int], place: float, circles: bool, step: float) -> None:
        ids = sorted(s.id for s in self.reference.subscriptions() if s.top is None)
        if not ids:
            return
        now = self.start if self.reference.now is None else self.reference.now
        region: dict[str, Any] = {"type": "Box", "bbox": [place, 0.0, place + 0.5, 1.0]}
        if circles:
            region = {"type": "Circle", "center": [place, 0.5], "radius": 60_000.0}
        table = pa.table(
            {
                "id": [ids[pick % len(ids)] for pick in picks],
                "region": [region] * len(picks),
                "at": [now + step * row for row in range(len(picks))],
            }
        )
        try:
            found = self.engine.move_table(table)
        except TableError as error:  # it had ended by then
            table, ended, found = table.slice(0, error.row), table.slice(error.row), error.updates
            self.expect_table("move", table, found)
            refused = event_from_json(ended.to_pylist()[0] | {"op": "move"})
            assert self.expect(refused)[0] is not None
        else:
            self.expect_table("move", table, found)

    @rule()
    def go_over_to_an_index(self) -> None:
        """Only what began on plain code changes; whatever comes next, it is the same engine."""
        self.engine.go_over()

    @rule()
    def close(self) -> None:
        self.engine.close()
        self.engine = Engine(path=self.path, index=self.index)

    @rule(index=st.sampled_from(["auto", "rarest-term", "scan", "gi2"]))
    def close_and_open_with_another_index(self, index: str) -> None:
        self.engine.close()
        self.index = index
        self.engine = Engine(path=self.path, index=self.index)

    @rule()
    def kill(self) -> None:
        """What a crash leaves is what the files hold: open a copy of them, made without closing."""
        folder = self.fresh_folder()
        shutil.copytree(self.path.parent, folder, dirs_exist_ok=True)
        self.engine.close()
        self.path = folder / self.path.name
        self.engine = Engine(path=self.path, index=self.index)

    @rule()
    def go_on_with_a_backup(self) -> None:
        target = self.fresh_folder() / "e.nearcast"
        self.engine.backup(target)
        self.engine.close()
        self.path = target
        self.engine = Engine(path=self.path, index=self.index)

    @rule()
    def take_a_snapshot(self) -> None:
        store: Any = self.engine._journal
        store._save_snapshot(self.engine._ready())

    @rule(log=any_logs)
    def deny_a_commit(self, log: list[Fields]) -> None:
        """A commit that fails leaves the state as it was, and the engine goes on from there."""
        events = self.later(log)
        if not any(isinstance(event, Publish) for event in events):
            return
        store: Any = self.engine._journal
        write = store._write

        def denied(*arguments: Any) -> None:
            write(*arguments)
            raise DENIED

        store._write = denied
        try:
            outcomes = []
            with suppress(StoreError):
                outcomes = self.engine.apply_all(events)
            assert all(outcome.error for outcome in outcomes)
        finally:
            del store._write

    def names(self) -> set[str]:
        """Ids of messages, of most of those that were ever there."""
        named = {entry.message for entry in self.expected}
        return named | {"o1", "o2", *(f"m{number}" for number in range(6))}

    @rule()
    def export(self) -> None:
        """What is exported gives the same state, with the same ends."""
        copy, reference = Scan(self.settings), self.reference
        for event in export_events(self.path):
            copy.apply(event)
        if reference.now is None:
            return
        copy.advance(reference.now)
        expected = {s.id: replace(s, ttl=None) for s in reference.subscriptions()}
        assert {s.id: replace(s, ttl=None) for s in copy.subscriptions()} == expected
        for id in expected:
            assert copy.results(id) == reference.results(id)
            assert copy.attributes.end_of(id) == reference.attributes.end_of(id)
        for name in self.names():
            assert copy.message(name) == reference.message(name)
        assert copy.oldest == reference.oldest

    @invariant()
    def everything_is_as_it_should_be(self) -> None:
        if not hasattr(self, "engine"):
            return
        engine, reference = self.engine, self.reference
        expected = {s.id: s for s in reference.subscriptions()}
        assert engine.count == len(expected)
        assert engine.page(limit=1000) == [expected[id] for id in sorted(expected)]
        for id in expected:
            assert engine.results(id) == reference.results(id)
            assert engine._ready().attributes.end_of(id) == reference.attributes.end_of(id)
        for name in self.names():
            assert engine.message(name) == reference.message(name)
        assert engine._ready().now == reference.now
        assert engine._journal.seq == self.seq
        assert (engine.log.first, engine.log.last) == (1, len(self.expected)) or not self.expected
        assert engine.log.read(0, 1_000_000) == self.expected

    @rule(box=st.sampled_from([Box(0, 0, 0.5, 0.5), Box(179, -90, -179, 90), Box(5, 5, 6, 6)]))
    def look_into_a_box(self, box: Box) -> None:
        def inside(subscription: Subscription) -> bool:
            if subscription.region is not None:
                return subscription.region.meets(box)
            return subscription.point is None or box.contains(*subscription.point)

        wanted = [s for s in self.reference.subscriptions() if inside(s)]
        assert self.engine.page(None, 1000, box) == sorted(wanted, key=lambda s: s.id)

    @rule(after=st.integers(0, 30), limit=st.integers(1, 5))
    def read_a_part_of_the_log(self, after: int, limit: int) -> None:
        rest = self.expected[after:]
        assert self.engine.log.read(after, limit) == rest[:limit]
        mine = [entry for entry in rest if entry.subscription == "s1"]
        assert self.engine.log.read(after, limit, "s1") == mine[:limit]


Durable.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestDurable = Durable.TestCase


@pytest.fixture(autouse=True)
def _everything_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "_WORTH_IT", 3)
    monkeypatch.setattr(messages_module, "_WORTH_TIDYING", 4)
    monkeypatch.setattr(chunks_module, "_TOGETHER", 3)
    monkeypatch.setattr(chunks_module, "_LARGEST", 10)
    monkeypatch.setattr(log_module, "_IN_MEMORY", 5)
