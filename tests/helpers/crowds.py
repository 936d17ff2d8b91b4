"""A million subscriptions around the cities of the shipped map, 20,000 of them in Sydney."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import numpy as np
import pyarrow as pa

from nearcast.server.keys import DEFAULT
from served import Served, serving

HERE = (151.2, -33.87)
_NEAR = 20_000
_WORDS = ("rain", "jazz", "pizza", "coffee", "storm", "sale", "books", "yoga")


def crowd(count: int) -> pa.Table:
    """Circles of a few hundred metres; as many lie near a city as it is large."""
    draw = np.random.default_rng(7)
    labels = files("nearcast.server") / "web" / "basemap" / "labels.json"
    cities = json.loads(labels.read_bytes())["cities"]
    places = np.array([[lon, lat] for _, lon, lat, _ in cities])
    people = np.array([max(1.0, size) for *_, size in cities])
    where = places[draw.choice(len(places), count, p=people / people.sum())]
    where += draw.normal(0, 1, (count, 2)) * draw.exponential(0.15, (count, 1))
    near = min(_NEAR, count)
    where[:near] = HERE + draw.normal(0, 1, (near, 2)) * draw.exponential(0.04, (near, 1))
    where = np.clip(where, (-179.9, -84.9), (179.9, 84.9))
    points = pa.FixedSizeListArray.from_arrays(pa.array(where.ravel()), 2)
    circle = pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), ["Circle"]).cast(pa.string())
    radius = pa.array(draw.uniform(200, 900, count))
    region = [circle, points.cast(pa.list_(pa.float64())), radius]
    word = pa.DictionaryArray.from_arrays(draw.integers(0, len(_WORDS), count), list(_WORDS))
    return pa.table(
        {
            "id": pa.array(np.arange(count)).cast(pa.string()),
            "query": word.cast(pa.string()),
            "region": pa.StructArray.from_arrays(region, ["type", "center", "radius"]),
        }
    )


@contextmanager
def serving_crowd(count: int) -> Iterator[Served]:
    """A server in memory with so many subscriptions."""
    loops: list[asyncio.AbstractEventLoop] = []

    def keep_loop(server: object) -> None:
        server.state.on_ready = lambda: loops.append(asyncio.get_running_loop())  # type: ignore[attr-defined]

    with serving(setup=keep_loop, index="auto") as served:

        async def fill() -> int:
            tenant = await served.state.tenant(DEFAULT)
            table = crowd(count)
            return len(await tenant.backend.ask(lambda engine: engine.subscribe_table(table)))

        assert asyncio.run_coroutine_threadsafe(fill(), loops[0]).result() == 0
        yield served
