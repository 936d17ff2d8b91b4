"""A log whose load moves on: most messages are where few were before."""

from __future__ import annotations

from random import Random
from typing import Any

WORDS = [f"w{number}" for number in range(12)]


def uneven_log(seed: int, batches: int, rows: int) -> list[dict[str, Any]]:
    """Subscriptions all over the place, then messages at one corner after another."""
    some = Random(seed)
    log: list[dict[str, Any]] = []
    for number in range(batches * rows):
        batch = number // rows
        if batch == 0 or some.random() < 0.1:
            west, south = some.uniform(-10, 8), some.uniform(-10, 8)
            box = {"type": "Box", "bbox": [west, south, west + 2, south + 2]}
            query = " ".join(some.sample(WORDS, 2))
            id = f"s{some.randrange(2 * rows)}"
            log.append({"op": "subscribe", "id": id, "query": query, "region": box})
            continue
        corner = -9.0 if batch < batches // 2 else 3.0
        spread = some.random() < 0.15
        point = [
            some.uniform(-10, 10) if spread else some.uniform(corner, corner + 6) for _ in "xy"
        ]
        text = " ".join(some.sample(WORDS, 6))
        log.append({"op": "publish", "id": f"m{number}", "text": text, "point": point})
    return log
