"""A process that applies events to a durable engine until it is killed, and says what it has done.

    python store_writer.py PATH SEED

Each line on standard output is the number of batches that are acknowledged. The events depend
on the seed alone (`batches`), so that whoever killed it can tell what must be in the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from random import Random

from nearcast import Box, Circle, Engine, Message, Subscription, Top
from nearcast.events import Event, Move, Publish, Retract, Subscribe, Unsubscribe

WINDOW = 40
_WORDS = ["a", "b", "c", "d", "e", "f"]


def _point(draw: Random) -> tuple[float, float]:
    return draw.randrange(8) / 2, draw.randrange(8) / 2


def _region(draw: Random) -> Box | Circle:
    lon, lat = _point(draw)
    if draw.random() < 0.3:
        return Circle((lon, lat), 100_000.0)
    return Box(lon, lat, lon + draw.randrange(4), lat + draw.randrange(4))


def _event(draw: Random, number: int, now: float) -> Event:
    name = f"s{draw.randrange(30)}"
    chance = draw.random()
    words = " ".join(draw.sample(_WORDS, draw.randint(1, 2)))
    life = draw.choice([None, None, 5.0])
    if chance < 0.25:
        query, region = draw.choice([(words, _region(draw)), (None, _region(draw)), (words, None)])
        if draw.random() < 0.2:
            query = f'{words} p:<{draw.randrange(3)} OR "{words}"'
        return Subscribe(Subscription(name, query, region, ttl=life), now)
    if chance < 0.3:
        top = Top(draw.randint(1, 4), 0.5, scale=draw.choice([None, 1e6]))
        asked = draw.choice([None, "p:1"])
        ranked = Subscription("t" + name, words, None, _point(draw), top, asked, ttl=life)
        return Subscribe(ranked, now)
    if chance < 0.4:
        return Move(name, _region(draw), at=now, ttl=life)
    if chance < 0.43:
        return Unsubscribe(draw.choice([name, "t" + name]), now)
    if chance < 0.46:
        return Retract(f"m{max(0, number - draw.randrange(20))}", now)
    text = " ".join(draw.choices(_WORDS, k=4))
    ttl = draw.choice([0.0, 0.0, 0.0, 3.0, 20.0])
    properties = draw.choice([None, None, {"p": draw.randrange(3)}])
    id = draw.choice([f"m{number}", f"m{number}", f"object{draw.randrange(4)}"])
    if chance < 0.5:
        lon, lat = _point(draw)
        area = Box(lon, lat, lon, lat)
        return Publish(Message(id, text, None, area, now, ttl, properties))
    return Publish(Message(id, text, _point(draw), None, now, ttl, properties))


def batches(seed: int) -> Iterator[list[Event]]:
    """Events without end, the same for the same seed; about one in ten will be refused."""
    draw, now, numbers = Random(seed), 0.0, count()
    while True:
        batch: list[Event] = []
        for _ in range(draw.choice([1, 1, 3, 30])):
            now += draw.choice([0.0, 0.0, 0.5])
            batch.append(_event(draw, next(numbers), now))
        yield batch


def _main(path: str, seed: int) -> None:
    with Engine(index="rarest-term", path=path, window_count=WINDOW) as engine:
        done = engine.recall("done")
        start = 0 if done is None else int(done)
        for number, batch in enumerate(batches(seed), 1):
            if number > start:
                engine.apply_all(batch, remember={"done": b"%d" % number})
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
