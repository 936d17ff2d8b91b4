"""Counters that forget, and an alarm that does not flicker."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nearcast.errors import InvalidValue
from nearcast.partition.adjust.meter import BalanceWatch, Meter
from nearcast.partition.load import WorkCosts


def test_counts_fade() -> None:
    """What was counted a half-life ago counts half, and goes on being counted."""
    meter = Meter(2, half_life_s=10.0)
    meter.add(100.0, messages=np.array([8.0, 0.0]))
    meter.add(110.0, messages=np.array([0.0, 2.0]), operations=np.array([1.0, 0.0]))
    assert meter.counted("messages").tolist() == [4.0, 2.0]
    meter.add(130.0)
    assert meter.counted("messages").tolist() == [1.0, 0.5]
    assert meter.counted("operations").tolist() == [0.25, 0.0]


def test_loads_are_counted_work() -> None:
    """By what was done, whatever the CPU that took; which is kept beside it."""
    meter = Meter(2)
    costs = WorkCosts(check_ns=2.0, message_ns=10.0, operation_ns=100.0, update_ns=3.0)
    meter.add(0.0, messages=np.array([1.0, 0.0]), candidates=np.array([3.0, 4.0]))
    assert meter.loads(costs).tolist() == [16.0, 8.0]
    meter.add(0.0, busy_ns=np.array([5.0, 7.0]), updates=np.array([0.0, 2.0]))
    assert meter.loads(costs).tolist() == [16.0, 14.0]
    assert meter.counted("busy_ns").tolist() == [5.0, 7.0]
    again = Meter.from_json(json.loads(json.dumps(meter.to_json())))
    assert again.loads(costs).tolist() == [16.0, 14.0]
    assert again.to_json() == meter.to_json()
    assert meter.merged(again).loads(costs).tolist() == [32.0, 28.0]
    endless = Meter(1, np.inf)
    for at in (0.0, 1e9):
        endless.add(at, messages=np.ones(1))
    assert endless.counted("messages").tolist() == [2.0]


def test_wrong_counts_are_refused() -> None:
    """Time that goes back, counters without a name, and the wrong number of them."""
    meter = Meter(2)
    meter.add(5.0)
    with pytest.raises(InvalidValue, match="at: 4.0 given; expected a time not before 5.0"):
        meter.add(4.0)
    with pytest.raises(InvalidValue, match="counter: 'rows' given; expected one of messages"):
        meter.add(5.0, rows=np.zeros(2))
    with pytest.raises(InvalidValue, match="messages: .* given; expected 2 numbers"):
        meter.add(5.0, messages=np.zeros(3))
    with pytest.raises(InvalidValue, match="half_life_s"):
        Meter(1, half_life_s=0.0)


def test_the_alarm_waits_and_stays() -> None:
    """It goes off after some looks, and is quiet only when things are well below."""
    watch = BalanceWatch(above=1.2, below=1.1, patience=2)
    even, uneven, between = np.array([1.0, 1.0]), np.array([2.0, 1.0]), np.array([1.3, 1.0])
    seen = [watch.look(loads) for loads in (uneven, even, uneven, between, uneven, uneven)]
    assert seen == [False, False, False, False, False, True]
    assert [watch.look(loads) for loads in (between, even, between)] == [True, False, False]
    assert not BalanceWatch().look(np.zeros(3))
    watch.look(uneven), watch.look(uneven)
    assert watch.uneven
    watch.calm()
    assert [watch.look(loads) for loads in (between, uneven, uneven)] == [False, False, True]
    with pytest.raises(InvalidValue, match="below"):
        BalanceWatch(above=1.1, below=1.2)
    with pytest.raises(InvalidValue, match="patience"):
        BalanceWatch(patience=0)
