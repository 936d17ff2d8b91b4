"""More terms than one pass, or one table of them, has room for."""

from __future__ import annotations

import pyarrow as pa

from nearcast import Box, Engine, Message, Subscription, Top
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.events import Publish, Subscribe
from nearcast.topk import Window

WORDS = 90


def _text(number: int) -> str:
    """Words that no other message has, and one that some others have."""
    return f"w{number % 50} " + " ".join(f"n{number * WORDS + n}" for n in range(1, WORDS))


def test_a_table_of_more_new_terms_than_one_pass_can_number() -> None:
    """65,536 new terms are numbered at once; here come 72,000 in one table."""
    count = 800
    settings = Settings(window=Window(count=count))
    engine, scan = Engine(index="rarest-term", window_count=count), Scan(settings)
    for number in (0, 3, 777):  # of the first pass, of both, of the second alone
        subscription = Subscription(
            f"s{number}", f"w{number % 50} n{number * WORDS + 5}", point=(0, 0), top=Top(3, 0.5)
        )
        engine.apply(Subscribe(subscription))
        scan.apply(Subscribe(subscription))
    ids, texts = [f"m{n}" for n in range(count)], [_text(n) for n in range(count)]
    points = [(n % 90, n % 45) for n in range(count)]
    table = pa.table({"id": ids, "text": texts, "point": points})
    found = engine.publish_table(table)
    wanted = [
        (position, each.op, each.subscription, each.message, each.score)
        for position, row in enumerate(zip(ids, texts, points, strict=True))
        for each in scan.apply(Publish(Message(row[0], row[1], row[2])))
    ]
    columns = ("event", "op", "subscription", "message", "score")
    assert wanted
    assert sorted(zip(*(found[name].to_pylist() for name in columns), strict=True)) == sorted(
        wanted
    )


def test_terms_are_swept_while_lasting_messages_and_rankings_need_some_of_them() -> None:
    """A small window of ever new terms: numbers are freed, and none that is in use."""
    settings = Settings(window=Window(count=5))
    engine, scan = Engine(index="rarest-term", window_count=5), Scan(settings)
    everywhere = Box(-180, -90, 180, 90)
    changes: set[tuple[str, str]] = set()
    for n in range(1500):
        events: list[Publish | Subscribe] = [
            Publish(Message(f"m{n}", _text(n), (n % 90, 0), at=float(n), ttl=700.0 * (n % 3 == 0)))
        ]
        if n % 100 == 0:
            recent = max(0, n - 300)
            place = (float(n % 7), 0.0)
            query = f"w{recent % 50} n{recent * WORDS + 1}"
            top = Subscription(f"t{n % 500}", query, point=place, top=Top(2, 0.5))
            events += [
                Subscribe(top), Subscribe(Subscription(f"s{n % 500}", query, everywhere)),
            ]  # fmt: skip
        for event in events:
            updates = scan.apply(event)
            assert sorted(engine.apply(event), key=str) == sorted(updates, key=str)
            changes.update((each.op, each.subscription[0]) for each in updates)
    assert changes == {
        ("add", "s"), ("add", "t"), ("remove", "s"), ("remove", "t"), ("change", "t"),
    }  # fmt: skip
