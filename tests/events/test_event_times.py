"""Every kind of event refuses a time that is none, however the event is made."""

import math
from typing import Any

import pytest

from nearcast import Box, Engine
from nearcast.errors import InvalidValue

HERE = Box(0, 0, 1, 1)
NO_TIMES = [math.nan, math.inf, -math.inf, "noon", True, 10**400]


@pytest.mark.parametrize("at", NO_TIMES)
def test_a_time_that_is_none_is_refused_and_leaves_the_clock_alone(at: Any) -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s1", "a", HERE, at=5)
    with pytest.raises(InvalidValue, match=r"^at: "):
        engine.subscribe("s2", "a", HERE, at=at)
    with pytest.raises(InvalidValue, match=r"^at: "):
        engine.move("s1", HERE, at=at)
    with pytest.raises(InvalidValue, match=r"^at: "):
        engine.unsubscribe("s1", at=at)
    with pytest.raises(InvalidValue, match=r"^at: "):
        engine.publish("m1", "a", (0, 0), at=at)
    assert [update.subscription for update in engine.publish("m1", "a", (0, 0), at=5)] == ["s1"]
