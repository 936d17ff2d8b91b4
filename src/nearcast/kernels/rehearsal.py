"""Runs an engine on every kind of event once, so that all its kernels are compiled or loaded."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearcast.engine import Engine
from nearcast.events import Event, Message, Move, Publish, Subscribe, Subscription, Top, Unsubscribe
from nearcast.geo import Box, Circle, Polygon

_BOX = Box(0, 0, 1, 1)
_TRIANGLE = Polygon([[(0, 0), (1, 0), (0, 1), (0, 0)]])
_MANY = 40  # more than one block of an index, so that blocks are split and merged
_WORDS = 3000  # more than tables of terms begin with room for
_done: set[str] = set()


def rehearse(index: str) -> None:
    """Apply every kind of event once, alone and in batches, to engines with this index."""
    if index in _done:
        return
    _done.add(index)
    _operands(Engine(index=index))
    default = index == "rarest-term"  # what follows is done alike with every index
    for seconds in (None, 5.0) if default else (None,):
        engine = Engine(index=index, window_seconds=seconds)
        for events in _events():
            engine.apply_all(events)
        _tables(engine)
        if default:
            _many_terms(engine)
        engine.page(None, 1, _BOX)
        engine.results("circle")
        engine.boxes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rehearsal.nearcast"
        with Engine(path=path, index=index) as engine:
            _tables(engine)
            # As many as make a snapshot worth it, with one commit; no active message has this term.
            some = [Subscribe(Subscription(f"n{n}", "n", _BOX)) for n in range(1000)]
            engine.apply_all(some)
        with Engine(path=path, index=index) as engine:
            engine.publish("again", "a b n", (0.0, 0.0))


def _events() -> list[list[Event]]:
    box, point = _BOX, (0.0, 0.0)
    some: list[Event] = [
        Subscribe(Subscription("box", "a b", box)),
        Subscribe(Subscription("circle", "a OR (b NOT c)", Circle(point, 1000))),
        Subscribe(Subscription("polygon", "a", _TRIANGLE)),
        Subscribe(Subscription("split", "a", Box(170, 0, -170, 1))),
    ]
    alone: list[Event] = [
        Publish(Message("range", "a b", region=box)),
        Publish(Message("across", "a", region=Box(170, 0, -170, 1), ttl=1.0)),
        Publish(Message("lasting", "a b", point, ttl=1.0)),
        Publish(Message("area", "a b", region=box, ttl=1.0)),
        Subscribe(Subscription("late", "a b", box)),
        Move("box", Box(0, 0, 2, 2)),
        Move("circle", Circle(point, 2000)),
        Subscribe(Subscription("box", "b", _TRIANGLE)),
        Unsubscribe("polygon"),
    ]
    together: list[Event] = [
        Publish(Message(f"m{number}", "a b c", point, at=10.0 + number, ttl=float(number % 2)))
        for number in range(16)
    ]
    ranked: list[Event] = [
        Subscribe(Subscription("top", "a b", point=point, top=Top(2, 0.5))),
        Publish(Message("ranked", "a b", point, at=30.0)),
        Move("top", point=(1.0, 1.0)),
        Subscribe(Subscription("top", "c", point=point, top=Top(3, 0.0))),
        Publish(Message("late", "a c", (0.5, 0.5), at=40.0, ttl=1.0)),
    ]
    more: list[Event] = [Publish(Message(f"n{n}", "a c", point, at=50.0 + n)) for n in range(16)]
    return [some, *([event] for event in alone), together, *([each] for each in ranked), more,
            [Unsubscribe("top"), Unsubscribe("box")]]  # fmt: skip


def _operands(engine: Engine) -> None:
    """Run what phrases, prefixes, properties and objects that move need."""
    from nearcast.engine.indexed import Indexed

    queries = ['"ab b"', "ab*", "a price:<5", "kind:x", "a OR b NOT price:2", None,
               "price:<5 price:[1 TO 2]"]  # fmt: skip
    for number, query in enumerate(queries):
        engine.subscribe(f"{number}o", query, Circle((0.0, 0.0), 1000))
    # Enough with comparisons to be read at once.
    prices = [f"{number}p" for number in range(16)]
    asked = {"id": prices, "query": ["price:[1 TO 2]", *(f"a price:<{n}" for n in range(15))]}
    engine.subscribe_table(
        pa.table({**asked, "region": [{"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}] * 16})
    )
    given = ['{"price": 2.5, "kind": "X", "tags": [1, true]}', None, '{"kind": {"x": 1}}'] * 8
    ids, texts = [f"o{n % 20}" for n in range(len(given))], ["ab b a", "é", ""] * 8
    points = [[0.0, 0.0]] * len(given)
    columns = {"id": ids, "text": texts, "point": points, "properties": given}
    engine.publish_table(pa.table({**columns, "ttl": np.full(len(given), 5.0)}))
    if isinstance(engine._core, Indexed):
        engine._core.boolean.single.prepare()
        engine.publish("alone", "ab b a", (0.0, 0.0))
    for id in [*(f"{number}o" for number in range(len(queries))), *prices]:
        engine.unsubscribe(id)


def _many_terms(engine: Engine) -> None:
    """Make the tables of terms grow, by subscriptions, active messages and ranked ones."""
    words = [f"w{number}" for number in range(_WORDS)]
    for number in range(0, _WORDS, 50):
        some = " ".join(words[number : number + 50])
        engine.subscribe(f"{number}w", " ".join(words[number : number + 5]), _BOX)
        engine.publish(f"{number}v", some, (0.0, 0.0), ttl=9.0)
    for number in range(0, _WORDS, 50):  # and become small again
        engine.unsubscribe(f"{number}w")
        engine.publish(f"{number}u", "a", (0.0, 0.0), at=5000.0)
    long = " ".join(words)
    engine.publish_table(pa.table({"id": ["long"], "text": [long], "point": [[0.0, 0.0]]}))


def _tables(engine: Engine) -> None:
    """Run the paths for whole columns: subscriptions, active and instant messages, moves, top-k."""
    ids = [f"t{number}" for number in range(_MANY)]
    boxes = [{"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0 + n]} for n in range(_MANY)]
    queries = ["a" if number % 2 else "a b c" for number in range(_MANY)]
    engine.subscribe_table(pa.table({"id": ids, "query": queries, "region": boxes}))
    points = [[0.0, n / _MANY] for n in range(_MANY)]
    texts = ["a b c"] * _MANY
    engine.publish_table(pa.table({"id": [f"{id}m" for id in ids], "text": texts, "point": points}))
    ttl = np.full(_MANY, 5.0)
    at = np.full(_MANY, 1000.0)
    lasting = {"id": [f"{id}l" for id in ids], "text": texts, "point": points, "ttl": ttl, "at": at}
    engine.publish_table(pa.table(lasting))
    engine.move_table(pa.table({"id": ids, "region": boxes[::-1]}))
    circles = [{"type": "Circle", "center": [0.0, 0.0], "radius": 9.0 + n} for n in range(_MANY)]
    rounds = {"id": [f"{id}c" for id in ids], "query": queries, "region": circles}
    engine.subscribe_table(pa.table(rounds))
    engine.move_table(pa.table({"id": rounds["id"], "region": circles[::-1]}))
    tops = [{"k": 2, "alpha": 0.5}] * _MANY
    ranked = {"id": [f"{id}k" for id in ids], "query": ["a c"] * _MANY, "point": points}
    engine.subscribe_table(pa.table({**ranked, "top": tops}))
    engine.publish_table(pa.table({"id": [f"{id}n" for id in ids], "text": texts, "point": points}))
    engine.move_table(pa.table({"id": ranked["id"], "point": points[::-1]}))
