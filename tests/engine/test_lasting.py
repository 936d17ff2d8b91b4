"""Lasting mode: an active message is met by subscriptions that arrive or move."""

from nearcast import Box, Circle, Engine, Result, Update

HERE, THERE = Box(0, 0, 1, 1), Box(5, 5, 6, 6)


def test_a_subscription_that_arrives_gets_the_active_messages_it_matches() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("m1", "x", (0, 0), at=0, ttl=10)
    engine.publish("m2", "y", (0, 0), ttl=10)
    engine.publish("m3", "x", (5, 5), ttl=10)
    engine.publish("m4", "x", (0, 0))
    assert engine.subscribe("s", "x", HERE, at=5) == [Update("add", "s", "m1")]
    assert engine.results("s") == [Result("m1")]


def test_a_message_is_active_until_the_exact_instant_of_its_end() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("m", "x", (0, 0), at=100, ttl=10)
    just_before = 109.99999999999999
    assert engine.subscribe("a", "x", HERE, at=just_before) == [Update("add", "a", "m")]
    assert engine.subscribe("b", "x", HERE, at=110) == []
    assert engine.results("a") == []


def test_expiry_is_silent() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", HERE)
    assert engine.publish("m", "x", (0, 0), at=0, ttl=10) == [Update("add", "s", "m")]
    assert engine.move("s", THERE, at=10) == []


def test_a_move_adds_what_comes_into_range_and_removes_what_leaves_it() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", Circle((0, 0), 150_000))
    engine.publish("left", "x", (-1, 0), at=0, ttl=10)
    engine.publish("middle", "x", (0.5, 0), ttl=10)
    engine.publish("right", "x", (2, 0), ttl=10)
    assert engine.move("s", Circle((1, 0), 150_000), at=1) == [
        Update("remove", "s", "left"),
        Update("add", "s", "right"),
    ]
    assert engine.results("s") == [Result("middle"), Result("right")]


def test_replacing_works_as_a_move_does() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("both", "x y", (0, 0), ttl=10)
    engine.publish("old", "x", (0, 0), ttl=10)
    engine.publish("new", "y", (0, 0), ttl=10)
    engine.subscribe("s", "x", HERE)
    assert engine.subscribe("s", "y", HERE) == [
        Update("add", "s", "new"),
        Update("remove", "s", "old"),
    ]


def test_a_pair_held_through_another_conjunct_is_not_removed() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("m", "a b", (0, 0), ttl=10)
    assert engine.subscribe("s", "a OR c", HERE) == [Update("add", "s", "m")]
    assert engine.subscribe("s", "b OR c", HERE) == []


def test_unsubscribing_is_silent() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("m", "x", (0, 0), ttl=10)
    engine.subscribe("s", "x", HERE)
    assert engine.unsubscribe("s") == []


def test_a_range_message_lasts_too() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("storm", "x", region=Box(0, 0, 5, 5), ttl=10)
    assert engine.subscribe("s", "x", THERE) == [Update("add", "s", "storm")]
    assert engine.move("s", Box(5.1, 5.1, 6, 6)) == [Update("remove", "s", "storm")]


def test_an_object_that_reports_again_enters_goes_on_and_leaves() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("zone", None, HERE)
    inside, outside = (0.5, 0.5), (50, 50)
    assert engine.publish("truck", "", inside, at=0, ttl=10) == [Update("add", "zone", "truck")]
    assert engine.publish("truck", "", inside, at=9, ttl=10) == [Update("change", "zone", "truck")]
    assert engine.publish("truck", "", outside, at=9, ttl=10) == [Update("remove", "zone", "truck")]
    assert engine.publish("truck", "", inside, at=9, ttl=10) == [Update("add", "zone", "truck")]
    assert engine.retract("truck") == [Update("remove", "zone", "truck")]
    assert engine.publish("truck", "", inside, at=9, ttl=10) == [Update("add", "zone", "truck")]
    # It has ended by then, silently: this is another one.
    assert engine.publish("truck", "", inside, at=19, ttl=10) == [Update("add", "zone", "truck")]


def test_without_a_time_an_event_has_the_time_of_the_one_before() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("m", "x", (0, 0), at=0, ttl=10)
    engine.publish("n", "x", (0, 0), at=9)
    assert engine.subscribe("s", "x", HERE) == [Update("add", "s", "m")]
