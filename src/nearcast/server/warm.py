"""Everything done once before the first request, so that none waits for a compiler."""

from __future__ import annotations

import pyarrow as pa

from nearcast.engine import Engine
from nearcast.geo import Box, Circle, Polygon
from nearcast.model import Event, Message, Move, Publish, Subscribe, Subscription, Top, Unsubscribe

_warm: set[str] = set()


def warm_up(index: str) -> None:
    """Let an engine in memory meet every kind of event, alone and among others."""
    if index in _warm:
        return
    _warm.add(index)
    box = Box(0, 0, 1, 1)
    triangle = Polygon([[(0, 0), (1, 0), (0, 1), (0, 0)]])
    events: list[Event] = [
        Subscribe(Subscription("box", "a b", box)),
        Subscribe(Subscription("circle", "a OR (b NOT c)", Circle((0, 0), 1000))),
        Subscribe(Subscription("polygon", "a", triangle)),
        Publish(Message("range", "a b", region=box)),
        Publish(Message("lasting", "a b", (0.0, 0.0), ttl=1.0)),
        Move("box", Box(0, 0, 2, 2)),
        *(Publish(Message(f"m{number}", "a b c", (0.0, 0.0), at=10.0)) for number in range(16)),
        Unsubscribe("box"),
        Subscribe(Subscription("top", "a b", point=(0, 0), top=Top(2, 0.5))),
        Publish(Message("ranked", "a b", (0.0, 0.0))),
    ]
    engine = Engine(index=index)
    for each in (events[:3], *([event] for event in events[3:6]), events[6:22], events[22:]):
        engine.apply_all(each)
    columns = {
        "id": ["x", "y"],
        "query": ["a", "b c"],
        "region": [{"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}] * 2,
    }
    Engine(index=index).subscribe_table(pa.table(columns))
    engine.page(None, 1, box)
