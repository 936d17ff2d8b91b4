"""An engine refuses arguments that it would otherwise pass over or stumble on later."""

import math
from typing import Any

import pytest

from nearcast import Box, Engine, Message, Subscription
from nearcast.errors import InvalidValue

HERE = Box(0, 0, 1, 1)


@pytest.mark.parametrize("more", [{"at": 5.0}, {"ttl": 600}, {"text": "b"}, {"region": HERE}])
def test_a_ready_made_message_stands_alone(more: dict[str, Any]) -> None:
    message = Message("m1", "a", (0, 0))
    engine = Engine()
    with pytest.raises(InvalidValue, match="nothing beside a ready-made Message"):
        engine.publish(message, **more)
    engine.subscribe("s1", "a", HERE)
    assert [update.message for update in engine.publish(message)] == ["m1"]


def test_a_ready_made_subscription_takes_a_time_and_nothing_else() -> None:
    subscription = Subscription("s1", "a", HERE)
    engine = Engine()
    with pytest.raises(InvalidValue, match="nothing beside a ready-made Subscription"):
        engine.subscribe(subscription, "b")
    assert engine.subscribe(subscription, at=5) == []
    assert engine.subscriptions() == [subscription]


def test_a_message_without_an_id_gets_one() -> None:
    engine = Engine()
    engine.subscribe("s1", "a", HERE)
    first, second = (engine.publish(text="a", point=(0, 0))[0].message for _ in range(2))
    assert first != second
    assert engine.publish(None, "a", (0, 0))[0].message not in (first, second)


@pytest.mark.parametrize("window", [0, -1, 2.5, "5", True])
def test_a_window_of_messages_is_a_whole_number(window: Any) -> None:
    with pytest.raises(InvalidValue, match="whole number of at least 1"):
        Engine(window_count=window)


@pytest.mark.parametrize("window", [0, -1.0, math.nan, math.inf, "5", True])
def test_a_window_of_seconds_is_a_finite_number_above_zero(window: Any) -> None:
    with pytest.raises(InvalidValue, match="finite number above 0"):
        Engine(window_seconds=window)
