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
from nearcast.events import Event, Move, Publish, Subscribe, Unsubscribe

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
    if chance < 0.25:
        return Subscribe(Subscription(name, words, _region(draw)), now)
    if chance < 0.3:
        top = Top(draw.randint(1, 4), 0.5)
        return Subscribe(Subscription("t" + name, words, point=_point(draw), top=top), now)
    if chance < 0.4:
        return Move(name, _region(draw), at=now)
    if chance < 0.45:
        return Unsubscribe(draw.choice([name, "t" + name]), now)
    text = " ".join(draw.choices(_WORDS, k=4))
    ttl = draw.choice([0.0, 0.0, 0.0, 3.0, 20.0])
    if chance < 0.5:
        lon, lat = _point(draw)
        return Publish(Message(f"m{number}", text, region=Box(lon, lat, lon, lat), at=now, ttl=ttl))
    return Publish(Message(f"m{number}", text, _point(draw), at=now, ttl=ttl))


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
