"""An engine begins on plain code and goes over to an index: nobody can tell when."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import nearcast.engine.plain as plain_module
from event_logs import logs, worlds
from naive import Fields, Given
from nearcast import Box, Engine, NearcastError, Polygon
from nearcast.engine import Scan, Settings
from nearcast.engine.indexed import Indexed
from nearcast.engine.plain import CountingScan
from nearcast.events import Event, event_from_json
from nearcast.geo import WORLD
from nearcast.text import DEFAULT, Vocabulary
from nearcast.topk import Window

HERE = Box(0, 0, 1, 1)


class Growing(RuleBasedStateMachine):
    """An engine that may go over at any moment, beside the reference."""

    @initialize(world=worlds)
    def begin(self, world: Given) -> None:
        history = None
        if world.history is not None:
            history = Vocabulary.from_documents(DEFAULT.terms(text) for text in world.history)
        space = WORLD if world.space is None else Box(*world.space)
        self.reference = Scan(Settings(Window(world.count, world.seconds), space, history))
        self.engine = Engine(
            window_count=world.count, window_seconds=world.seconds, space=space, history=history
        )

    @rule(log=logs(), together=st.booleans())
    def apply(self, log: list[Fields], together: bool) -> None:
        now = self.reference.now or 0.0
        events: list[Event] = []
        for fields in log:
            if fields.get("at") is not None:
                fields["at"] += now
            try:
                events.append(event_from_json(fields))
            except NearcastError:
                continue
        outcomes = self.engine.apply_all(events) if together else None
        for number, event in enumerate(events):
            outcome = outcomes[number] if outcomes else self.engine.apply_all([event])[0]
            error, expected = None, []
            try:
                expected = self.reference.apply(event)
            except NearcastError as refused:
                error = str(refused)
            assert (outcome.error and str(outcome.error)) == error
            assert list(outcome.updates) == expected

    @rule()
    def go_over(self) -> None:
        self.engine.go_over()

    @invariant()
    def everything_is_as_it_should_be(self) -> None:
        if not hasattr(self, "engine"):
            return
        expected = self.reference.subscriptions()
        assert {s.id: s for s in self.engine.subscriptions()} == {s.id: s for s in expected}
        assert self.engine.now == self.reference.now
        for subscription in expected:
            found = self.engine.results(subscription.id)
            assert found == self.reference.results(subscription.id)


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(
    max_examples=40, stateful_step_count=8, suppress_health_check=list(HealthCheck)
)


def core_of(engine: Engine) -> Any:
    return engine._ready()


@pytest.fixture
def kernels_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are not, the test compiles them; nobody waits for a process beside it."""
    monkeypatch.setattr("nearcast._kernel_builder.prepared", lambda _: True)


def test_a_few_subscriptions_need_no_kernels() -> None:
    """README's lines neither load nor compile: numba, numpy and Arrow stay where they are."""
    program = (
        "import sys\n"
        "from nearcast import Circle, Engine\n"
        "engine = Engine()\n"
        "engine.subscribe('ada', 'ipad AND (discount OR sale)', Circle((151.2, -33.87), 2000))\n"
        "print(len(engine.publish('m1', 'iPad sale!', (151.21, -33.87))))\n"
        "print([name for name in ('numba', 'numpy', 'pyarrow') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n[]\n", "")


@pytest.mark.usefixtures("kernels_at_hand")
def test_traffic_lets_an_engine_go_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as messages and subscriptions were compared often enough, in the middle of a call."""
    monkeypatch.setattr(plain_module, "COMPARISONS", 2000)
    engine = Engine()
    for number in range(10):
        engine.subscribe(f"s{number}", "a", HERE)
    events = [
        event_from_json({"op": "publish", "id": f"m{n}", "text": "a", "point": [0.5, 0.5]})
        for n in range(600)
    ]
    before = core_of(engine)
    assert isinstance(before, CountingScan)
    outcomes = engine.apply_all(events)
    assert isinstance(core_of(engine), Indexed)
    assert before.comparisons < 3000
    assert [len(outcome.updates) for outcome in outcomes] == [10] * 600


@pytest.mark.usefixtures("kernels_at_hand")
def test_a_population_lets_an_engine_go_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a single message."""
    monkeypatch.setattr(plain_module, "SUBSCRIPTIONS", 20)
    engine = Engine()
    for number in range(25):
        engine.subscribe(f"s{number}", "a", HERE)
    assert isinstance(core_of(engine), Indexed)
    assert [s.id for s in engine.subscriptions()] == [f"s{number}" for number in range(25)]


def test_what_no_term_narrows_down_is_counted_before_and_after() -> None:
    engine = Engine()

    def broad() -> tuple[float, float]:
        figures = engine.figures()
        return figures["found_by_place"], figures["found_by_property"]

    steps: list[tuple[Callable[[], object], tuple[int, int]]] = [
        (lambda: engine.subscribe("fence", region=HERE), (1, 0)),
        (lambda: engine.subscribe("cheap", "price:<5 OR age:* OR pizza OR *"), (2, 1)),
        (lambda: engine.subscribe("words", "pizza price:<5"), (2, 1)),
        (lambda: engine.subscribe("fence", "here", HERE), (1, 1)),  # replaced
        (lambda: engine.move("cheap", HERE), (1, 1)),
        (lambda: engine.subscribe("soon", ttl=5, region=HERE, at=0), (2, 1)),
        (lambda: engine.publish("m", "", (0, 0), at=5), (1, 1)),  # it has ended
        (engine.go_over, (1, 1)),
        (lambda: engine.unsubscribe("cheap"), (0, 0)),
    ]
    for step, expected in steps:
        step()
        assert broad() == expected


def test_large_tables_go_to_an_index_at_once_and_small_ones_do_not() -> None:
    """Row by row a large table would take longer than loading kernels does."""
    region = {"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}
    for rows, kind in ((3, CountingScan), (plain_module.ROWS, Indexed)):
        engine = Engine()
        ids = [f"s{row}" for row in range(rows)]
        table = pa.table({"id": ids, "query": ["a"] * rows, "region": [region] * rows})
        engine.subscribe_table(table)
        assert isinstance(core_of(engine), kind)
        assert len(engine.publish("m", "a", (0.5, 0.5))) == rows


def test_an_index_by_name_is_there_from_the_start() -> None:
    """Only `auto` leaves it to the engine."""
    assert isinstance(core_of(Engine(index="rarest-term")), Indexed)
    assert type(core_of(Engine(index="scan"))) is Scan


def test_kernels_that_are_not_at_hand_are_waited_for_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plain code goes on answering until a process beside it has built them."""
    monkeypatch.setattr(plain_module, "COMPARISONS", 1)
    there: list[bool] = []
    monkeypatch.setattr("nearcast._kernel_builder.prepared", lambda _: bool(there))
    engine = Engine()
    engine.subscribe("s", "a", Polygon([[(0, 0), (1, 0), (1, 1), (0, 0)]]))
    for number in range(5):
        assert len(engine.publish(f"m{number}", "a", (0.5, 0.25))) == 1
    assert isinstance(core_of(engine), CountingScan)
    there.append(True)
    assert len(engine.publish("m", "a", (0.5, 0.25))) == 1
    assert isinstance(core_of(engine), Indexed)
