"""Terms, ids and keys that nobody used before, for ever: the memory of an engine stays as it is."""

from __future__ import annotations

import os
from collections import deque
from itertools import count
from pathlib import Path

import pytest

from nearcast import Box, Engine, Subscription
from nearcast.engine.journal import KEYS_FOR
from nearcast.events import Event, Message, Publish, Subscribe, Unsubscribe

pytestmark = pytest.mark.soak

LIVE = 2000
AT_A_TIME = 250
ROUNDS = 2400
KEYS = 20


def resident() -> int:
    """The memory that this process has now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def churn(path: Path, rounds: int) -> list[int]:
    """Let fresh subscriptions, messages and keys come and go; the memory after each tenth."""
    fresh, living, sizes = count(), deque[str](), list[int]()
    time = 1.7e9
    area = Box(0, 0, 1, 1)

    def opened() -> Engine:
        return Engine(
            index="rarest-term",
            path=path,
            window_count=1000,
            retain_updates=5000,
            clock=lambda: time,
        )

    engine = opened()
    try:
        for number in range(rounds):
            time += KEYS_FOR / 100  # so that keys are forgotten
            events: list[Event] = []
            for _ in range(AT_A_TIME):
                id = f"s{next(fresh)}"
                events.append(Subscribe(Subscription(id, f"common term{id}", area), at=time))
                text = f"common term{id} word{id}"
                message = Message(f"m{id}", text, (0.5, 0.5), at=time, ttl=1.0)
                events.append(Publish(message))
                living.append(id)
                if len(living) > LIVE:
                    events.append(Unsubscribe(living.popleft(), at=time))
            few = events if number % 50 == 0 else [e for e in events if not isinstance(e, Publish)]
            outcomes = engine.apply_all(few, {f"{number}-{n}": b"answer" for n in range(KEYS)})
            assert all(outcome.error is None for outcome in outcomes)
            if (number + 1) % max(1, rounds // 10) == 0:
                sizes.append(resident())
            if (number + 1) % max(1, rounds // 4) == 0:  # a restart frees nothing that it should
                engine.close()
                engine = opened()
                assert engine.count == len(living)
    finally:
        engine.close()
    return sizes


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory cannot be read here")
def test_the_memory_of_an_engine_stays_as_it_is(tmp_path: Path) -> None:
    sizes = churn(tmp_path / "e.nearcast", ROUNDS)
    assert max(sizes[-3:]) < 1.05 * max(sizes[3:6]), sizes
