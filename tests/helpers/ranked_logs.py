"""Seeded event logs of top-k and boolean subscriptions in one stream."""

from __future__ import annotations

import random
from typing import Any

from small_pipeline import WORDS, churn

_BAD: list[dict[str, Any]] = [
    {"op": "subscribe", "id": "t1", "query": "jazz OR pizza", "point": [0, 0],
     "top": {"k": 2, "alpha": 0.5}},
    {"op": "subscribe", "id": "s1", "query": "jazz", "point": [0, 0],
     "top": {"k": 2, "alpha": 0.5}},
    {"op": "move", "id": "t2", "region": {"type": "Box", "bbox": [0, 0, 1, 1]}},
    {"op": "move", "id": "nobody", "point": [0, 0]},
]  # fmt: skip


def ranked_log(count: int, seed: int = 1, names: int = 10) -> list[dict[str, Any]]:
    """A log in which half of the events are those of `churn`, and times go on.

    Messages at points end only while somebody is ranked: a pipeline refuses those, and without them
    it would rank nobody for as long as they are in the window.
    """
    some = random.Random(seed)
    log, now = [], 0.0
    ranked: set[str] = set()
    for event in churn(count, seed):
        chance = some.random()
        now += some.choice([0, 0.1, 0.5])
        at = {"at": now} if some.random() < 0.7 else {}
        if event["op"] != "publish" and chance < 0.6:
            event = _ranked(some, f"t{some.randrange(names)}")
            if "top" in event and event not in _BAD:
                ranked.add(event["id"])
            elif event["op"] == "unsubscribe":
                ranked.discard(event["id"])
        if "point" in event and "ttl" in event and (not ranked or some.random() < 0.8):
            event["ttl"] = 0
        log.append({name: value for name, value in event.items() if name != "at"} | at)
    return log


def _ranked(some: random.Random, id: str) -> dict[str, Any]:
    chance = some.random()
    point = [some.uniform(-10, 10), some.uniform(-10, 10)]
    if chance < 0.15:
        return {"op": "unsubscribe", "id": id}
    if chance < 0.35:
        return {"op": "move", "id": id, "point": point}
    if chance < 0.4:
        return dict(some.choice(_BAD))
    return {
        "op": "subscribe",
        "id": id,
        "query": " ".join(some.sample(WORDS, some.randint(1, 3))),
        "point": point,
        "top": {"k": some.choice([1, 2, 5]), "alpha": some.choice([0, 0.3, 1])},
    }
