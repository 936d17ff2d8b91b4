"""Instant mode: a message meets the subscriptions of its moment, once."""

import pytest

from nearcast import Box, Circle, Engine, Polygon, Subscription, Update
from nearcast.errors import InvalidValue, QueryError, StateError

WORLD = Box(-180, -90, 180, 90)


def reached(engine: Engine, text: str, where: tuple[float, float] | Box = (0, 0)) -> list[str]:
    """The subscriptions that a new message reaches."""
    reached.count += 1  # type: ignore[attr-defined]
    id = f"message {reached.count}"  # type: ignore[attr-defined]
    if isinstance(where, Box):
        return [u.subscription for u in engine.publish(id, text, region=where)]
    return [u.subscription for u in engine.publish(id, text, where)]


reached.count = 0  # type: ignore[attr-defined]


def test_the_example_of_the_contract() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s1", "ipad AND (discount OR sale)", Circle((151.2, -33.87), radius=2000))
    assert engine.publish("m1", "iPad sale!", (151.21, -33.87)) == [Update("add", "s1", "m1")]
    assert engine.publish("m2", "iPad sale!", (151.31, -33.87)) == []
    assert engine.publish("m3", "iPad!", (151.21, -33.87)) == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ipad discount", "A DISCOUNT on every iPad"),
        ("fish", "a ﬁsh"),
        ("strasse", "Straße"),
        ("Straße", "STRASSE"),
        ("ｉｐａｄ", "iPad"),
        ("ipad", "ＩＰＡＤ"),
        ("café", "cafe\u0301"),
        ("東京タワー", "「東京タワー」"),
        ("e-coupon", "one coupon, type E"),
        ("and or not", "not this or that and more"),
        ("jazz OR blues", "blues"),
        ("a (b OR (c AND NOT d))", "a c"),
        ("pizza NOT pineapple", "pizza margherita"),
        ("NOT pineapple pizza", "pizza"),
        ("a OR b AND c", "a"),
        ("don't", "t, don"),
    ],
)
def test_a_query_finds_a_text(query: str, text: str) -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", query, WORLD)
    assert reached(engine, text) == ["s"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ipad discount", "ipad"),
        ("東京", "東京タワー"),
        ("pizza NOT pineapple", "Pizza with PINEAPPLE"),
        ("a OR b AND c", "b"),
        ("a (b OR (c AND NOT d))", "a c d"),
        ("and", "this"),
        ("e-coupon", "coupon"),
        ("a NOT a", "a"),
        ("a", ""),
        ("ipad", "ipads"),
    ],
)
def test_a_query_passes_over_a_text(query: str, text: str) -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", query, WORLD)
    assert reached(engine, text) == []


@pytest.mark.parametrize(
    "query",
    ["", "   ", "(a", "a)", "a AND", "OR a", "NOT a", "a OR NOT b", "()", "a OR b)",
     "NOT (a OR b)", " OR ".join(f"t{n}" for n in range(1025))],
)  # fmt: skip
def test_a_query_that_means_nothing_is_refused(query: str) -> None:
    engine = Engine(index="rarest-term")
    with pytest.raises(QueryError, match="position"):
        engine.subscribe("s", query, WORLD)
    assert engine.subscriptions() == []


def test_regions_hold_their_borders() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("box", "x", Box(0, 0, 10, 10))
    engine.subscribe("dot", "x", Box(10, 10, 10, 10))
    engine.subscribe("centre", "x", Circle((10, 10), 0))
    hole = [(2, 2), (8, 2), (8, 8), (2, 8), (2, 2)]
    engine.subscribe("ring", "x", Polygon([[(0, 0), (10, 0), (10, 10), (0, 10), (0, 0)], hole]))
    assert reached(engine, "x", (10, 10)) == ["box", "centre", "dot", "ring"]
    assert reached(engine, "x", (10, 5)) == ["box", "ring"]
    assert reached(engine, "x", (5, 5)) == ["box"]
    assert reached(engine, "x", (2, 5)) == ["box", "ring"]
    assert reached(engine, "x", (10.000001, 5)) == []


def test_regions_across_the_antimeridian_and_over_a_pole() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("fiji", "x", Box(177, -20, -178, -15))
    engine.subscribe("pole", "x", Circle((0, 89), 200_000))
    engine.subscribe("dateline", "x", Circle((180, 0), 1000))
    assert reached(engine, "x", (179, -17)) == ["fiji"]
    assert reached(engine, "x", (-179, -17)) == ["fiji"]
    assert reached(engine, "x", (0, -17)) == []
    assert reached(engine, "x", (180, 89.5)) == ["pole"]
    assert reached(engine, "x", (-180, 0)) == ["dateline"]


def test_a_range_message_reaches_every_region_it_touches() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("box", "storm", Box(0, 0, 10, 10))
    engine.subscribe("circle", "storm", Circle((20, 0), 111_500))
    triangle = Polygon([[(0, 20), (4, 20), (0, 24), (0, 20)]])
    engine.subscribe("triangle", "storm", triangle)
    assert reached(engine, "storm", Box(10, 10, 12, 12)) == ["box"]
    assert reached(engine, "storm", Box(21, -1, 25, 1)) == ["circle"]
    assert reached(engine, "storm", Box(2, 22, 3, 23)) == ["triangle"]
    assert reached(engine, "storm", Box(2.1, 22.1, 3, 23)) == []
    assert reached(engine, "storm", Box(170, -90, -170, 90)) == []
    assert reached(engine, "storm", Box(1, -90, 0, 90)) == ["box", "circle", "triangle"]


def test_a_message_sees_the_subscriptions_before_it_and_not_yet_removed() -> None:
    engine = Engine(index="rarest-term")
    assert reached(engine, "x") == []
    engine.subscribe("s", "x", WORLD)
    assert reached(engine, "x") == ["s"]
    engine.unsubscribe("s")
    assert reached(engine, "x") == []


def test_subscribing_again_replaces() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", WORLD)
    assert engine.subscribe("s", "y", WORLD) == []
    assert reached(engine, "x") == []
    assert reached(engine, "y") == ["s"]
    assert engine.subscriptions() == [Subscription("s", "y", WORLD)]


def test_moving_takes_the_query_along() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", Box(0, 0, 1, 1))
    engine.move("s", Box(5, 5, 6, 6))
    assert reached(engine, "x", (0, 0)) == []
    assert reached(engine, "x", (5, 5)) == ["s"]


def test_a_subscription_is_reached_once_however_many_of_its_conjuncts_match() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "a OR b OR (a b)", WORLD)
    assert reached(engine, "a b") == ["s"]


def test_unknown_ids_are_refused() -> None:
    engine = Engine(index="rarest-term")
    with pytest.raises(StateError, match="no subscription 'ghost'"):
        engine.unsubscribe("ghost")
    with pytest.raises(StateError, match="no subscription 'ghost'"):
        engine.move("ghost", WORLD)
    with pytest.raises(StateError, match="no subscription 'ghost'"):
        engine.results("ghost")
    engine.subscribe("s", "x", WORLD)
    with pytest.raises(StateError, match="move it to a region"):
        engine.move("s", point=(0, 0))


def test_a_message_in_the_window_is_replaced_by_one_with_its_id() -> None:
    engine = Engine(index="rarest-term", window_count=2)
    engine.subscribe("s", "x", WORLD)
    engine.publish("m", "x", (0, 0))
    # It is matched once, for it was not active: that is no change.
    assert engine.publish("m", "x", (1, 1)) == [Update("add", "s", "m")]
    found = engine.message("m")
    assert found is not None
    assert found.point == (1.0, 1.0)
    with pytest.raises(StateError, match="no message 'n' that is active or in the window"):
        engine.retract("n")
    assert engine.retract("m") == []
    assert engine.message("m") is None


def test_an_instant_range_message_takes_no_part_in_the_window_so_its_id_may_repeat() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", WORLD)
    for _ in range(2):
        assert engine.publish("m", "x", region=WORLD) == [Update("add", "s", "m")]


def test_time_never_decreases_and_a_refused_event_leaves_no_trace() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", WORLD, at=10)
    with pytest.raises(StateError, match=r"at: 9\.5 is before 10\.0"):
        engine.publish("m", "x", (0, 0), at=9.5)
    with pytest.raises(StateError):
        engine.unsubscribe("ghost", at=20)
    assert engine.publish("m", "x", (0, 0), at=10) == [Update("add", "s", "m")]


def test_an_unknown_index_is_refused() -> None:
    with pytest.raises(InvalidValue, match="index: 'b-tree' given; expected one of auto"):
        Engine(index="b-tree")
