"""Messages that stay take memory like their texts, not like the terms of these."""

import tracemalloc
from typing import Any

import pytest

from nearcast import Box, Engine, Polygon

TEXTS = ["\ufdfa" * 3000, "".join(f" {chr(0x4E00 + n)}" for n in range(3000))]
TRIANGLE = Polygon([[(0, 0), (1, 0), (0, 1), (0, 0)]])
PLACES: list[dict[str, Any]] = [{"point": (0.5, 0.5)}, {"region": TRIANGLE, "ttl": 60}]


@pytest.mark.parametrize("index", ["scan", "rarest-term"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("place", PLACES)
def test_messages_that_stay_are_as_large_as_their_texts(
    index: str, text: str, place: dict[str, Any]
) -> None:
    """Those of the window, and those that are active in a region."""
    with Engine(index=index) as engine:
        engine.subscribe("s", "x OR word", Box(0, 0, 1, 1))

        def publish(first: int, count: int) -> None:
            for number in range(first, first + count):
                engine.publish(f"m{number}", f"{text} {number}", **place)

        publish(0, 10)
        tracemalloc.start()
        try:
            publish(10, 50)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken / 50 < 5 * len(text.encode("utf-16"))
