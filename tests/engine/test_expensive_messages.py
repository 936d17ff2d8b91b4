"""The largest messages that are allowed take bounded time and memory, whatever is asked for."""

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from string import ascii_lowercase
from typing import Any

import pytest

from nearcast import Engine
from nearcast.errors import InvalidValue

HERE = (0.0, 0.0)
PREFIXES = ["".join(letters) for letters in product(ascii_lowercase, repeat=3)][:10_000]
MOST_SECONDS, MOST_BYTES = 10.0, 64 << 20  # several times what is needed


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if what is done inside takes too long, or too much memory at once."""
    tracemalloc.start()
    before = time.process_time()
    yield
    took, peak = time.process_time() - before, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took < MOST_SECONDS
    assert peak < MOST_BYTES


def engines() -> list[Engine]:
    return [Engine(index="scan"), Engine(index="rarest-term")]


def nested(depth: int, array: bool) -> Any:
    inner: Any = 1
    for _ in range(depth):
        inner = [inner] if array else {"p": inner}
    return inner


@pytest.mark.parametrize(
    "properties",
    [
        {"p": "x" * 65_000},
        {"p": list(range(11_000))},
        {"p": [f"{number:x}" for number in range(8_000)]},
        {"p": [{"q": {"r": number}} for number in range(3_000)]},
        {f"n{number}": number for number in range(4_000)},
        {"p": nested(490, array=True)},
        {"p": nested(490, array=False)},
    ],
    ids=["string", "numbers", "strings", "objects", "names", "arrays in arrays", "deep objects"],
)
def test_64_kib_of_properties(properties: dict[str, Any]) -> None:
    """With thousands of subscriptions that ask for them in every way."""
    asked = ["p:<{0}", "p:[{0} TO 9000] NOT p.q:{0}", "p:{0}", 'p:"{0}"', "p.q.r:>{0}", "n{0}:{0}"]
    deep = ".".join(["p"] * 400)
    counts = []
    for engine in engines():
        for number in range(500):
            for place, query in enumerate(asked):
                engine.subscribe(f"{place}-{number}", query.format(number))
        engine.subscribe("deep", f"{deep}:* OR {deep}:<5")
        engine.publish("m", point=HERE, properties={"p": 1})  # kernels are there from now on
        with bounded():
            found = engine.publish("m", point=HERE, properties=properties, ttl=5)
        counts.append(found)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("array", [True, False])
def test_1_000_levels_are_refused(array: bool) -> None:
    for engine in engines():
        with bounded(), pytest.raises(InvalidValue, match="500 objects and arrays deep"):
            engine.publish("m", point=HERE, properties={"p": nested(900, array)})


@pytest.mark.parametrize("ttl", [None, 5.0])
def test_10_000_prefixes_of_one_message(ttl: float | None) -> None:
    text = " ".join(prefix + "zz" for prefix in PREFIXES)
    for engine in engines():
        for number, prefix in enumerate(PREFIXES):
            engine.subscribe(f"s{number}", f"{prefix}*")
        engine.publish("m", "aaazz", HERE, ttl=ttl)
        with bounded():
            found = engine.publish("m", text, HERE, ttl=ttl)
        assert len(found) == len(PREFIXES)


def test_every_length_of_a_prefix_of_one_long_word() -> None:
    counts = []
    for engine in engines():
        for length in range(2, 1_000):
            engine.subscribe(f"s{length}", "x" * length + "*")
        engine.publish("m", "xxx", HERE)
        with bounded():
            counts.append(len(engine.publish("m", "x" * 60_000, HERE)))
    assert counts == [998, 998]
