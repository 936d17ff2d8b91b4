"""Single messages at points, which one kernel matches, give what plain code says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from event_logs import logs
from mixed_logs import mixed_log
from naive import Fields
from nearcast import Box, Circle, Engine, Message, NearcastError, Subscription
from nearcast.arrays.by_address import addresses_of
from nearcast.engine import Scan
from nearcast.engine.indexed import Indexed
from nearcast.events import Publish, Subscribe, event_from_json
from nearcast.index.table import Table

EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def prepared(engine: Engine) -> Indexed:
    """The core of an engine, which uses the kernel from the first message on."""
    core = engine._core
    assert isinstance(core, Indexed)
    core.boolean.single.prepare()
    return core


def follow(engine: Engine, scan: Scan, log: list[Fields]) -> None:
    for fields in log:
        try:
            event = event_from_json(fields)
        except NearcastError:
            continue
        try:
            expected = scan.apply(event)
        except NearcastError as error:
            with pytest.raises(type(error)):
                engine.apply(event)
            continue
        assert engine.apply(event) == expected


@EXAMPLES
@given(logs(rich=True))
def test_each_event_gives_the_updates_of_scan(log: list[Fields]) -> None:
    engine = Engine(index="rarest-term")
    prepared(engine)
    follow(engine, Scan(), log)


@pytest.mark.parametrize("seed", range(4))
def test_arrays_are_followed_as_they_grow(seed: int) -> None:
    """Tables, trees and tables of terms are replaced by larger ones all the time."""
    engine = Engine(index="rarest-term")
    core = prepared(engine)
    follow(engine, Scan(), mixed_log(seed, 1500))
    assert core.boolean.looked_at > 0


def reached(engine: Engine, *message: object, **more: object) -> set[str]:
    return {update.subscription for update in engine.publish(*message, **more)}  # type: ignore[arg-type]


def test_what_is_special_goes_another_way() -> None:
    engine, here = Engine(index="rarest-term"), (0.0, 0.0)
    core = prepared(engine)
    engine.subscribe("word", "ab", Circle(here, 10))
    engine.subscribe("umlaut", "äb")
    engine.subscribe("price", "ab price:<5")
    engine.subscribe("without", 'ab NOT "x ab"')
    assert reached(engine, "m1", "AB", here) == {"word", "without"}
    assert reached(engine, "m2", "ab äb", here) == {"word", "umlaut", "without"}
    assert reached(engine, "m3", "ab", here, properties={"price": 4}) == {
        "word",
        "price",
        "without",
    }
    assert reached(engine, "m4", "x ab", here) == {"word"}
    assert reached(engine, "m5", "x " * 5000 + "ab", (1.0, 0.0)) == set()
    assert reached(engine, "m6", "ab " + "x " * 5000, here) == {"word", "without"}
    assert reached(engine, "m7", "ab", here, properties={"price": 5}) == {"word", "without"}
    assert core.boolean.table.frequency[core.boolean.terms.known(["ab"])].tolist() == [7]


@pytest.mark.parametrize("count", [1, 100, 255, 300])
def test_properties_are_found_however_many_there_are(count: int) -> None:
    engine, here = Engine(index="rarest-term"), (0.0, 0.0)
    core = prepared(engine)
    for number in range(320):
        engine.subscribe(f"s{number}", f"sizes:{number}", Circle(here, 10))
    engine.subscribe("large", "ab sizes:>=99")
    engine.subscribe("other", "ab NOT sizes:0")
    found = reached(engine, "m", "ab", here, properties={"sizes": list(range(count)), "x": "0"})
    assert found == {f"s{n}" for n in range(count)} | ({"large"} if count > 99 else set())
    assert reached(engine, "n", "ab", here, properties={"x": 0}) == {"other"}
    assert core.boolean.table.frequency[core.boolean.terms.known(["ab"])].tolist() == [2]


def test_a_message_that_reaches_very_many() -> None:
    """More than there is room for, so that nothing is counted twice."""
    engine, scan = Engine(index="rarest-term"), Scan()
    core = prepared(engine)
    for number in range(5000):
        event = Subscribe(
            Subscription(f"s{number}", "ab" if number % 2 else "ab*", Box(0, 0, 1, 1))
        )
        engine.apply(event)
        scan.apply(event)
    message = Publish(Message("m", "ab abc", (0.5, 0.5)))
    assert engine.apply(message) == scan.apply(message)
    assert core.boolean.table.frequency[core.boolean.terms.known(["ab"])].tolist() == [1]


def test_only_what_is_contiguous_has_an_address() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        addresses_of([np.zeros(4)[::2]])


def test_a_kernel_that_costs_more_than_it_saves_is_not_loaded() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "a")
    assert reached(engine, "m", "a", (0.0, 0.0)) == {"s"}
    core = engine._core
    assert isinstance(core, Indexed)
    assert core.boolean.single._asked is None


@given(st.integers(0, 3))
def test_rows_are_the_same_object_until_they_change(more: int) -> None:
    """By this the kernel's addresses are known to be valid."""
    table = Table()
    table.add(0, [([0], [])], Box(0, 0, 1, 1))
    before = table.rows
    assert table.rows is before
    for number in range(more):
        table.add(1 + number, [([0], [])], Box(0, 0, 1, 1))
        assert table.rows is not before
