"""Every kind of change that a store commits, and all that a store can be asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearcast import Box, Circle, Engine, Polygon
from nearcast.store.webhooks import Webhook

Act = Callable[[Engine], object]
AREA = Box(0, 0, 1, 1)
_RING = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
_HOOK = Webhook("s0", "https://example.org/", "whsec_x", 0)


def every_kind() -> list[Act]:
    """Calls that change something, each in a commit of its own."""
    point = (0.25, 0.25)

    def term(engine: Engine) -> None:
        assert engine.lineage is not None
        engine.lineage.begin(len(engine.lineage.terms) + 1)

    return [
        lambda e: e.subscribe("s0", "a", AREA, at=1.0),
        lambda e: e.subscribe("s1", "a OR b", Circle((0.5, 0.5), 9e5), meta={"n": 1}, ttl=500.0),
        lambda e: e.subscribe("s2", 'a "b c" NOT d', Polygon([_RING]), ops=["add"]),
        lambda e: e.subscribe("t0", "a b", point=point, top={"k": 2, "alpha": 0.5}),
        lambda e: e.webhooks.put(_HOOK),
        lambda e: e.publish("m0", "a b c", point, at=2.0, properties={"price": 5}),
        lambda e: e.publish("m1", "a" + " b c" * 2000, point, ttl=900.0),
        term,
        lambda e: e.publish("m2", "b", point, ttl=5.0),
        lambda e: e.publish("m3", "a b", region=AREA, ttl=500.0),
        lambda e: e.remember("key", b"an answer", 4e9),
        lambda e: e.subscribe("s3", "b", AREA, meta={"n": 2}),
        lambda e: e.move("s0", Box(0, 0, 2, 2)),
        lambda e: e.move("t0", point=(0.75, 0.75)),
        lambda e: e.publish("m1", "a c", (0.5, 0.5), at=4.0, ttl=900.0),
        lambda e: e.retract("m3"),
        lambda e: e.publish("m4", "a b", point, at=8.0),
        lambda e: e.webhooks.reach([(_HOOK, 2)]),
        lambda e: e.webhooks.give_up(_HOOK, 3, b"{}", "answered 503", 5.0),
        lambda e: e.subscribe("s0", "c", AREA),
        term,
        lambda e: e.unsubscribe("s2"),
        lambda e: e.unsubscribe("s0"),
        lambda e: e.publish("m5", "a b c d", point, at=9.0),
    ]


def all_of(engine: Engine) -> Any:
    """All that an engine can be asked."""
    lineage, log = engine.lineage, engine.log
    assert lineage is not None
    entries = log.complete(log.read(0, 1 << 30))
    subscriptions = sorted(engine.subscriptions(), key=lambda one: one.id)
    return (
        engine.seq,
        engine.now,
        subscriptions,
        [engine.results(one.id) for one in subscriptions],
        [engine.message(f"m{n}") for n in range(6)],
        [(one.id, one.seq, one.at, one.op, one.subscription, one.message) for one in entries],
        [(one.score, one.body, one.meta) for one in entries],
        (log.first, log.last, [log.body(f"m{n}") and log.body(f"m{n}").fields for n in range(6)]),  # type: ignore[union-attr]
        (engine.webhooks.all(), engine.webhooks.letters(0, 99)),
        engine.recall("key"),
        (lineage.position, lineage.mark, lineage.terms),
        (engine.settings.window, engine.settings.space, engine.settings.analyser),
        [one.subscription for one in engine.match("a b c d", (0.5, 0.5))],
    )


def state_of(path: Path) -> Any:
    """All that the engine of a file can be asked."""
    with Engine(index="scan", path=path, clock=lambda: 4e9) as engine:
        return all_of(engine)
